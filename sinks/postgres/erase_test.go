package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// testErasures erases from the store, while it is written to and copied from,
// and wants the database to forget the same.
func testErasures(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	subject := func(metadata string) trace.ID { return g.subject(time.Now(), metadata) }
	metadata := []string{
		`{"user":"u-1"}`, `{"user":"u-1","x":[1]}`, `{"user":"u-2"}`, `{"user":["u-1"]}`, `{"deep":{"user":"u-1"}}`, `{"user":7}`, `{"user":"7"}`, `{"user":7.0}`,
		`{"user":true}`, `{"user":null}`, `{"user":"a\"b\\c"}`, `{"Ünï.x y":"é"}`, `{"conversation_id":"by-metadata"}`, `{"conversation_id":5}`, `[{"user":"u-1"}]`,
	}
	for range 3 {
		for _, m := range metadata {
			subject(m)
		}
	}
	reported := subject(`{"user":"u-9"}`)
	g.report(trace.Metrics{TraceID: reported}, "by-report")
	g.report(trace.Metrics{TraceID: reported}, "another")
	g.report(trace.Metrics{TraceID: subject(`{}`)}, "kept")
	decision := g.authority.Decide(time.Now(), 2)
	for i := range 2 {
		r := g.answer(trace.KindPrompt)
		r.ID, r.Decision, r.Variant = decision.Trace(trace.KindPrompt, i), decision.ID(), "decided"
		g.recorder.Evaluation(r)
		g.written.Add(1)
	}
	g.report(trace.Metrics{Decision: decision.ID()}, "by-decision")
	for i, record := range [][2]string{
		{`[{"bucket":1,"unit":"UnitHashUnitHash"}]`, `{}`},
		{`[]`, `{"customer_id":{"hash":"UnitHashUnitHash"}}`},
		{`[]`, `{"customer_id":"c-7"}`},
		{`[{"bucket":1,"unit":"OtherHashOtherHa"}]`, `{"customer_id":"c-8"}`},
	} {
		decision := g.authority.Decide(time.Now(), 2)
		for j := range 2 {
			r := g.answer(trace.KindPrompt)
			r.ID, r.Decision, r.Variant = decision.Trace(trace.KindPrompt, j), decision.ID(), "unit"
			if r.Splits, r.Inputs = nil, nil; j == 0 {
				r.Splits, r.Inputs = []byte(record[0]), []byte(record[1])
			}
			g.recorder.Evaluation(r)
			g.written.Add(1)
		}
		hash := []string{"UnitHashUnitHash", "OtherHashOtherHa"}[i%2]
		g.report(trace.Metrics{TraceID: g.authority.New(trace.KindMetrics, time.Now()), UnitField: "customer_id", Unit: hash, Happened: time.Now(), EventID: fmt.Sprint(i)}, "unit")
	}
	g.flush()

	d := g.drain(dsn, sinks.Config{Batch: 10})
	begun(t, d)
	stop := g.load(300)
	for _, selector := range []trace.Selector{
		{ConversationID: "by-report"},
		{ConversationID: "by-metadata"},
		{Decision: decision.ID()},
		{UnitField: "customer_id", Unit: "UnitHashUnitHash", UnitValue: `"c-7"`},
		{ConversationID: "5"}, // in the metadata it is a number
		{MetadataName: "user", MetadataValue: `"u-1"`},
		{MetadataName: "user", MetadataValue: `7`},
		{MetadataName: "user", MetadataValue: `true`},
		{MetadataName: "user", MetadataValue: `null`},
		{MetadataName: "user", MetadataValue: `"a\"b\\c"`},
		{MetadataName: "Ünï.x y", MetadataValue: `"é"`},
		{MetadataName: "a", MetadataValue: `"nobody"`},
	} {
		selector.Workspace = "default"
		erased, err := sqlite.Erase(t.Context(), g.path, selector)
		if err != nil {
			t.Fatal(err)
		}
		g.written.Add(-erased.Traces)
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	settle(t, d)
	wantSame(t, dsn, g)
	for _, kept := range []string{`"u-2"`, `["u-1"]`, `"7"`} {
		if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE metadata -> 'user' = $1::jsonb", kept); n != 3 {
			t.Errorf("%d traces are left with user %s, want 3", n, kept)
		}
	}
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.metrics WHERE conversation_id IN ('by-report', 'another', 'by-decision')"); n != 0 {
		t.Errorf("%d reports of traces that were erased are left", n)
	}
	if n := count(t, dsn, "SELECT (SELECT count(*) FROM cadenza.traces WHERE variant = 'unit') + 10 * count(*) FROM cadenza.unit_reports"); n != 22 {
		t.Errorf("2 traces and 2 reports of the other unit became %d", n)
	}
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE variant = 'decided'"); n != 0 {
		t.Errorf("%d traces of a decision that was erased are left", n)
	}
}

// testErasureReachesOtherGatewaysRows erases rows of one workspace that are in
// the database and no longer in the store.
func testErasureReachesOtherGatewaysRows(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	d := &trace.Delivery{Position: trace.Position{Traces: 1}}
	for i, workspace := range []string{"default", "other"} {
		id := trace.ID{byte(i + 1)}
		d.Records = append(d.Records, &trace.Record{ID: id, Time: time.Now(), Workspace: workspace})
		for j := range 2 {
			d.Metrics = append(d.Metrics, &trace.Metrics{UUID: [16]byte{byte(i + 1), byte(j)}, TraceID: id, Time: time.Now(), Workspace: workspace, ConversationID: new(fmt.Sprint("c", j))})
		}
	}
	deliver(t, sink, d)
	deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1, Erasures: 1}, Erasures: []trace.Erasure{{Time: time.Now(), Selector: trace.Selector{Workspace: "default", ConversationID: "c0"}}}})
	for table, want := range map[string]int64{"traces": 1, "metrics": 2} {
		if n := count(t, dsn, "SELECT count(*) FROM cadenza."+table); n != want {
			t.Errorf("%d %s are left, want %d", n, table, want)
		}
		if n := count(t, dsn, "SELECT count(*) FROM cadenza."+table+" WHERE workspace = 'default'"); n != 0 {
			t.Errorf("%d %s of the workspace are left", n, table)
		}
	}
}

// testErasureOfWhatOnlyAReportNames erases traces that the database has, by reports
// that it has not got yet and never gets.
func testErasureOfWhatOnlyAReportNames(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	now := time.Now()
	const none = `{}`
	reported, kept := g.subject(now, none), g.subject(now, none)
	decided := g.authority.Decide(now, 2)
	for i := range 2 {
		r := g.answer(trace.KindPrompt)
		r.ID, r.Decision = decided.Trace(trace.KindPrompt, i), decided.ID()
		g.recorder.Evaluation(r)
		g.written.Add(1)
	}
	g.flush()
	d := g.drain(dsn, sinks.Config{})
	settle(t, d)
	if err := d.Stop(t.Context()); err != nil { // it is away
		t.Fatal(err)
	}
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces"); n != 4 {
		t.Fatalf("the database has %d traces, want 4", n)
	}
	g.report(trace.Metrics{TraceID: reported}, "c-1")
	g.report(trace.Metrics{Decision: decided.ID()}, "c-1")
	g.report(trace.Metrics{TraceID: kept}, "c-2")
	g.erase(time.Now(), trace.Selector{ConversationID: "c-1"})
	settle(t, g.drain(dsn, sinks.Config{}))
	wantSame(t, dsn, g)
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE id = $1", kept.String()); n != 1 {
		t.Error("the trace of another conversation is erased")
	}
}

// testErasureOfDecisions erases by the metadata of a decision and of one of its
// traces. Each decision has two traces, and a report on it and on the first trace.
func testErasureOfDecisions(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	erased := time.Now().Add(-time.Hour)
	before, after := erased.Add(-time.Minute), erased.Add(time.Minute)
	d := &trace.Delivery{Position: trace.Position{Traces: 1}}
	// add delivers a decision. The metadata is in its second trace, or in the report
	// on the decision or on the first trace.
	add := func(workspace string, n byte, inTrace, inReport, inDecisionReport bool, at time.Time) {
		decision := trace.ID{n}
		said := func(is bool) (metadata []byte, conversation *string) {
			if is {
				return []byte(`{"user":"ada","conversation_id":"c"}`), new("c")
			}
			return nil, nil
		}
		for i := range byte(2) {
			r := &trace.Record{ID: trace.ID{n, 1 + i}, Decision: decision, Time: at, Workspace: workspace}
			r.Metadata, _ = said(inTrace && i == 1)
			d.Records = append(d.Records, r)
		}
		on := &trace.Metrics{UUID: [16]byte{n, 1}, TraceID: trace.ID{n, 1}, Time: at, Workspace: workspace}
		on.Metadata, on.ConversationID = said(inReport)
		onDecision := &trace.Metrics{UUID: [16]byte{n, 2}, Decision: decision, Time: at, Workspace: workspace}
		onDecision.Metadata, onDecision.ConversationID = said(inDecisionReport)
		d.Metrics = append(d.Metrics, on, onDecision)
	}
	selectors := []trace.Selector{{ConversationID: "c"}, {MetadataName: "user", MetadataValue: `"ada"`}, {Decision: trace.ID{0x31}}}
	for i := range selectors {
		w := fmt.Sprint("w", i)
		selectors[i].Workspace = w
		n := byte(0x10 * (i + 1))
		add(w, n+1, false, false, true, before)        // both traces and both reports go
		add(w, n+2, true, false, false, before)        // the second trace and the report on the decision
		add(w, n+3, false, true, false, before)        // the first trace and both reports
		add(w, n+4, false, false, false, before)       // nothing
		add(w, n+5, true, true, true, after)           // nothing
		add("other "+w, n+6, true, true, true, before) // nothing
	}
	deliver(t, sink, d)
	for range 2 { // also when it comes again
		d.Position.Erasures++
		e := &trace.Delivery{Position: d.Position}
		for _, s := range selectors {
			e.Erasures = append(e.Erasures, trace.Erasure{Time: erased, Selector: s})
		}
		deliver(t, sink, e)
		for i := range selectors {
			left := []struct{ traces, reports string }{
				1: {"", ""}, 2: {"01", "01"}, 3: {"02", ""}, 4: {"01 02", "01 02"}, 5: {"01 02", "01 02"}, 6: {"01 02", "01 02"},
			}
			if !selectors[i].Decision.IsZero() { // nothing but the first
				left[2], left[3] = left[4], left[4]
			}
			for n, want := range left {
				for table, want := range map[string]string{"traces": want.traces, "metrics": want.reports} {
					var got string
					queryRow(t, dsn, fmt.Sprintf("SELECT coalesce(string_agg(substr(id::text, 3, 2), ' ' ORDER BY id), '') FROM cadenza.%s WHERE id::text LIKE '%02x%%'", table, 0x10*(i+1)+n), &got)
					if got != want {
						t.Errorf("%+v: of decision %d, %s %q are left, want %q", selectors[i], n, table, got, want)
					}
				}
			}
		}
	}
}

// subject records an answer of a time with its metadata.
func (g *gateway) subject(at time.Time, metadata string) trace.ID {
	r := g.answer(trace.KindPrompt)
	d := g.authority.Decide(at, 1)
	r.ID, r.Decision, r.Time = d.Trace(r.Kind, 0), d.ID(), at
	id := r.ID
	r.Metadata = append(r.Metadata[:0], metadata...)
	g.recorder.Evaluation(r)
	g.written.Add(1)
	return id
}

// erase erases from the store, as if that had been done at a time.
func (g *gateway) erase(at time.Time, selector trace.Selector) {
	g.t.Helper()
	g.flush()
	selector.Workspace = "default"
	erased, err := sqlite.Erase(g.t.Context(), g.path, selector)
	if err != nil {
		g.t.Fatal(err)
	}
	g.written.Add(-erased.Traces)
	db := g.database()
	defer db.Close()
	if _, err := db.Exec("UPDATE erasures SET time_ms = ? WHERE seq = (SELECT max(seq) FROM erasures)", at.UnixMilli()); err != nil {
		g.t.Fatal(err)
	}
}

// testErasureLeavesWhatCameLater has the database hold rows from before and after
// an erasure, on the same subjects, when that comes.
func testErasureLeavesWhatCameLater(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	erased := time.Now().Add(-time.Hour)
	type report struct {
		at    time.Duration // after the erasure
		named bool          // chosen by its own metadata
		stay  bool
	}
	type answer struct {
		at          time.Duration
		named, stay bool
		reports     []report
		alone       bool // there is no trace, only reports
	}
	for n, c := range []struct {
		selector         trace.Selector
		chosen           string // metadata
		reportsMetadata  []byte
		reportsConverses *string
	}{
		{trace.Selector{ConversationID: "c-1"}, `{"conversation_id":"c-1"}`, nil, new("c-1")},
		{trace.Selector{MetadataName: "user", MetadataValue: `"ada"`}, `{"user":"ada"}`, []byte(`{"user":"ada"}`), nil},
	} {
		c.selector.Workspace = fmt.Sprint("w", n)
		d := &trace.Delivery{Position: trace.Position{Traces: int64(n + 1), Erasures: int64(2 * n)}}
		want := map[string]bool{}
		for i, a := range []answer{
			{at: -time.Hour, named: true, reports: []report{{at: -time.Minute}, {at: -time.Minute, named: true}, {at: time.Minute, stay: true}, {at: time.Minute, named: true, stay: true}}},
			{at: -time.Hour, reports: []report{{at: -time.Minute, named: true}, {at: -time.Minute}, {at: time.Minute, stay: true}}},
			{at: -time.Hour, stay: true, reports: []report{{at: -time.Minute, stay: true}, {at: time.Minute, named: true, stay: true}}},
			{at: time.Minute, named: true, stay: true, reports: []report{{at: 2 * time.Minute, named: true, stay: true}}},
			{at: 4 * time.Second, named: true, reports: []report{{at: 4 * time.Second}}}, // another gateway's clock
			{at: 6 * time.Second, named: true, stay: true},
			{alone: true, reports: []report{{at: -time.Minute, named: true}, {at: -time.Minute}, {at: time.Minute, named: true, stay: true}}},
		} {
			id := trace.ID{byte(n + 1), byte(i + 1)}
			if !a.alone {
				r := &trace.Record{ID: id, Time: erased.Add(a.at), Workspace: c.selector.Workspace, Key: fmt.Sprintf("trace %d", i)}
				if a.named {
					r.Metadata = []byte(c.chosen)
				}
				want[r.Key] = a.stay
				d.Records = append(d.Records, r)
			}
			for j, p := range a.reports {
				m := &trace.Metrics{
					UUID: [16]byte{byte(n + 1), byte(i + 1), byte(j + 1)}, TraceID: id, Time: erased.Add(p.at), Workspace: c.selector.Workspace,
					ChainID: new(fmt.Sprintf("report %d on trace %d", j, i)),
				}
				if p.named {
					m.Metadata, m.ConversationID = c.reportsMetadata, c.reportsConverses
				}
				want[*m.ChainID] = p.stay
				d.Metrics = append(d.Metrics, m)
			}
		}
		deliver(t, sink, d)
		for range 2 { // also when it comes again
			d.Position.Erasures++
			deliver(t, sink, &trace.Delivery{Position: d.Position, Erasures: []trace.Erasure{{Time: erased, Selector: c.selector}}})
		}
		for name, stay := range want {
			is := count(t, dsn, `SELECT (SELECT count(*) FROM cadenza.traces WHERE workspace = $1 AND key = $2) +
				(SELECT count(*) FROM cadenza.metrics WHERE workspace = $1 AND chain_id = $2)`, c.selector.Workspace, name)
			if (is == 1) != stay {
				t.Errorf("%+v: %s: %d are left, want it to stay: %t", c.selector, name, is, stay)
			}
		}
	}
}

// testErasureDeliveredAgain renames a sink: all rows of the store are delivered
// once more, including an erasure. Rows that the store no longer has must stay.
func testErasureDeliveredAgain(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	now := time.Now()
	g.subject(now.Add(-time.Hour), `{"user":"ada"}`)
	g.flush()
	d := g.drain(dsn, sinks.Config{})
	begun(t, d)
	g.erase(now.Add(-time.Minute), trace.Selector{MetadataName: "user", MetadataValue: `"ada"`})
	g.subject(now, `{"user":"ada"}`) // she is back
	g.flush()
	settle(t, d)
	wantSame(t, dsn, g)
	db := g.database()
	defer db.Close()
	if _, err := db.Exec("DELETE FROM traces"); err != nil { // as the retention does
		t.Fatal(err)
	}
	settle(t, g.drain(dsn, sinks.Config{Name: "renamed"}))
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces"); n != 1 {
		t.Errorf("%d traces are left, want the one of after the erasure", n)
	}
}

// testErasureDeliveredLate has a gateway that was away deliver an erasure when
// another gateway has delivered what came after it.
func testErasureDeliveredLate(t *testing.T, dsn string) {
	key := []byte("0123456789abcdef0123456789abcdef")
	away, other := newGateway(t, key), newGateway(t, key)
	now := time.Now()
	for _, g := range []*gateway{away, other} {
		g.subject(now.Add(-time.Hour), `{"user":"ada"}`)
	}
	away.erase(now.Add(-time.Minute), trace.Selector{MetadataName: "user", MetadataValue: `"ada"`})
	later := other.subject(now, `{"user":"ada"}`)
	other.flush()
	settle(t, other.drain(dsn, sinks.Config{}))
	settle(t, away.drain(dsn, sinks.Config{}))
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces"); n != 1 {
		t.Errorf("%d traces are left, want 1", n)
	}
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE id = $1", later.String()); n != 1 {
		t.Error("what another gateway recorded after the erasure is erased")
	}
}
