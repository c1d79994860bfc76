package sqlite

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func unitReport(authority *trace.Authority, workspace, unit, event string, at time.Time) *trace.Metrics {
	return &trace.Metrics{
		TraceID: authority.New(trace.KindMetrics, at), Workspace: workspace, Time: at, Values: []byte(`{"n":1}`),
		UnitField: "customer_id", Unit: unit, Happened: at.Add(-time.Hour), EventID: event,
	}
}

// TestUnitReportsAreStoredOnce adds reports to a file that was made without them, and without
// exposures. An event id is one of its workspace, in a batch, over batches and when the file
// is opened again.
func TestUnitReportsAreStoredOnce(t *testing.T) {
	t.Parallel()
	path, at, authority := filepath.Join(t.TempDir(), "a.db"), time.UnixMilli(1790000000123), mustAuthority(t)
	s := mustOpen(t, Config{Path: path})
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{{TraceID: authority.New(trace.KindPrompt, at), Workspace: "default", Time: at, Score: new(1.0)}}})
	for _, change := range []string{
		"DROP VIEW unit_reports", "DROP INDEX metrics_event", "DROP INDEX metrics_unit",
		"ALTER TABLE metrics DROP COLUMN unit_field", "ALTER TABLE metrics DROP COLUMN unit",
		"ALTER TABLE metrics DROP COLUMN happened_ms", "ALTER TABLE metrics DROP COLUMN event_id",
		"DROP TRIGGER traces_exposure_deleted", "DROP TABLE exposures", "DROP TABLE counted", "ALTER TABLE cursors DROP COLUMN exposures",
		"ALTER TABLE erasures DROP COLUMN unit_field", "ALTER TABLE erasures DROP COLUMN unit", "ALTER TABLE erasures DROP COLUMN unit_value",
	} {
		if err := s.writer.execute(change); err != nil {
			t.Fatal(change, err)
		}
	}
	for opened := range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, Config{Path: path})
		for committed := range 2 {
			all := []*trace.Metrics{
				unitReport(authority, "default", "a", "e-1", at), unitReport(authority, "default", "b", "e-1", at),
				unitReport(authority, "other", "a", "e-1", at), unitReport(authority, "default", "a", "e-2", at),
			}
			mustCommit(t, s, recorder.Batch{Metrics: all})
			want := []bool{true, true, true, true}
			if opened == 0 && committed == 0 {
				want = []bool{false, true, false, false}
			}
			for i, m := range all {
				if m.Repeated != want[i] {
					t.Errorf("%s of %s: repeated %t, opened %d times", m.EventID, m.Workspace, m.Repeated, opened+1)
				}
			}
		}
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{unitReport(authority, "default", "a", "", at), unitReport(authority, "default", "a", "", at)}})
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "other", Interval: Overall})
	if err != nil || len(stats.Rows) != 0 {
		t.Errorf("statistics count reports on units: %+v, %v", stats, err)
	}
	stored, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (r string, err error) { return r, scan(&r) },
		"SELECT concat_ws(' ', workspace, field, unit, event_id, received_ms - time_ms) FROM unit_reports ORDER BY seq")
	want := []string{
		"default customer_id a e-1 3600000", "other customer_id a e-1 3600000", "default customer_id a e-2 3600000",
		"default customer_id a 3600000", "default customer_id a 3600000", "default customer_id a 3600000", "default customer_id a 3600000",
	}
	if err != nil || !slices.Equal(stored, want) {
		t.Errorf("stored %q, %v", stored, err)
	}
}

// TestEraseByUnit erases a unit: the reports on it, the traces that have its hash or its
// value, with all of their decisions and what was reported on them. Others stay.
func TestEraseByUnit(t *testing.T) {
	t.Parallel()
	const unit, other = "AbCdEfGhIjKlMnOp", "AbCdEfGhIjKlMnOq"
	path, now, authority := filepath.Join(t.TempDir(), "a.db"), time.Now(), mustAuthority(t)
	s := mustOpen(t, Config{Path: path})
	var batch recorder.Batch
	gone := make(map[trace.ID]bool)
	add := func(workspace, splits, inputs string, chosen bool) {
		decision := authority.Decide(now, 2)
		for i := range 2 { // the second has nothing of the unit
			r := fullRecord(decision.Trace(trace.KindRemoteConfig, i), now)
			r.Workspace, r.Kind, r.Decision = workspace, trace.KindRemoteConfig, decision.ID()
			if r.Splits, r.Inputs = nil, []byte(`{"plan":"pro"}`); i == 0 {
				r.Splits, r.Inputs = []byte(splits), []byte(inputs)
			}
			batch.Records, gone[r.ID] = append(batch.Records, r), chosen
			report := &trace.Metrics{TraceID: r.ID, Workspace: workspace, Time: now, Score: new(1.0)}
			if i == 1 {
				report.TraceID, report.Decision = trace.ID{}, decision.ID()
			}
			batch.Metrics = append(batch.Metrics, report)
		}
	}
	add("default", `[{"bucket":5,"arm":"a","share":0.5,"unit":"`+unit+`"}]`, ``, true)
	add("default", ``, `{"plan":"pro","customer_id":{"hash":"`+unit+`"}}`, true)
	add("default", ``, `{"customer_id":"c-7"}`, true)
	add("default", `[{"bucket":5,"unit":"`+other+`"}]`, `{"customer_id":{"hash":"`+other+`"}}`, false)
	add("default", ``, `{"customer_id":"c-8","plan":"c-7"}`, false)
	add("other", `[{"bucket":5,"unit":"`+unit+`"}]`, `{"customer_id":"c-7"}`, false)
	reports := []*trace.Metrics{
		unitReport(authority, "default", unit, "e-1", now), unitReport(authority, "default", unit, "", now),
		unitReport(authority, "default", other, "e-2", now), unitReport(authority, "other", unit, "e-3", now),
	}
	reports = append(reports, unitReport(authority, "default", unit, "", now))
	reports[4].UnitField = "account"
	batch.Metrics = append(batch.Metrics, reports...)
	mustCommit(t, s, batch)

	selector := trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: unit, UnitValue: `"c-7"`, UnitHashed: true}
	want := trace.Erased{Traces: 6, Metrics: 8}
	if found, err := CountErasure(t.Context(), path, selector); err != nil || found != want {
		t.Errorf("counted %+v, %v; want %+v", found, err, want)
	}
	if erased, err := Erase(t.Context(), path, selector); err != nil || erased != want {
		t.Errorf("erased %+v, %v; want %+v", erased, err, want)
	}
	for id, chosen := range gone {
		if _, err := s.Trace(t.Context(), id); (err != nil) != chosen {
			t.Errorf("trace %s: %v, chosen %t", id, err, chosen)
		}
	}
	left, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (r string, err error) { return r, scan(&r) },
		"SELECT concat_ws(' ', workspace, field, unit) FROM unit_reports ORDER BY 1")
	if want := []string{"default account " + unit, "default customer_id " + other, "other customer_id " + unit}; err != nil || !slices.Equal(left, want) {
		t.Errorf("reports on units are left: %q, %v", left, err)
	}
	// The sinks learn the hash, and the value where traces may have it.
	for _, hashed := range []bool{true, false} {
		o := mustOutbox(t, path)
		selector.UnitHashed = hashed
		if _, err := Erase(t.Context(), path, selector); err != nil {
			t.Fatal(err)
		}
		var last trace.Erasure
		for from := (trace.Position{}); ; {
			d, err := o.Next(t.Context(), from, 100)
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				break
			}
			from = d.Position
			for _, last = range d.Erasures {
				if len(last.ReportedOn) > 0 {
					t.Errorf("%d ids are named", len(last.ReportedOn))
				}
			}
		}
		want := trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: unit}
		if !hashed {
			want.UnitValue = `"c-7"`
		}
		if last.Selector != want {
			t.Errorf("the sinks get %+v", last.Selector)
		}
	}
}

// TestEraseByUnitThatBreaksOff stops an erasure of a decision with more traces than a
// transaction deletes, of which the first has the unit. Another try finds the others.
func TestEraseByUnitThatBreaksOff(t *testing.T) {
	t.Parallel()
	path, now := filepath.Join(t.TempDir(), "a.db"), time.Now()
	s := mustOpen(t, Config{Path: path})
	var batch recorder.Batch
	const traces = eraseRows + 200
	decision := mustAuthority(t).Decide(now, traces)
	for i := range traces {
		r := &trace.Record{ID: decision.Trace(trace.KindRemoteConfig, i), Decision: decision.ID(), Time: now, Workspace: "default", Kind: trace.KindRemoteConfig, Key: "k"}
		if i == 0 {
			r.Splits = []byte(`[{"unit":"AbCdEfGhIjKlMnOp"}]`)
		}
		batch.Records = append(batch.Records, r)
	}
	mustCommit(t, s, batch)
	selector := trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: "AbCdEfGhIjKlMnOp", UnitValue: `"c-7"`, UnitHashed: true}
	broken := watchErasure(t, path, selector, 3) // the first is the selector's
	if err := broken.run(t.Context()); err == nil {
		t.Fatal("the erasure did not break off")
	}
	left, err := queryInt(t.Context(), s.Reader.db, "SELECT count(*) FROM traces")
	if err != nil || left == 0 || left == traces {
		t.Fatalf("%d traces are left, %v", left, err)
	}
	if erased, err := Erase(t.Context(), path, selector); err != nil || erased.Traces != left {
		t.Errorf("erased %+v of %d, %v", erased, left, err)
	}
}
