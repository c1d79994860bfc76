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

// TestUnitReportsAreStoredOnce adds reports to a file that was made without them. An event
// id is one of its workspace, in a batch, over batches and when the file is opened again.
func TestUnitReportsAreStoredOnce(t *testing.T) {
	t.Parallel()
	path, at, authority := filepath.Join(t.TempDir(), "a.db"), time.UnixMilli(1790000000123), mustAuthority(t)
	s := mustOpen(t, Config{Path: path})
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{{TraceID: authority.New(trace.KindPrompt, at), Workspace: "default", Time: at, Score: new(1.0)}}})
	for _, change := range []string{
		"DROP VIEW unit_reports", "DROP INDEX metrics_event", "DROP INDEX metrics_unit",
		"ALTER TABLE metrics DROP COLUMN unit_field", "ALTER TABLE metrics DROP COLUMN unit",
		"ALTER TABLE metrics DROP COLUMN happened_ms", "ALTER TABLE metrics DROP COLUMN event_id",
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
