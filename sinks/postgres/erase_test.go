package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// testErasures erases from the store, while it is written to and copied from,
// and wants the database to forget the same.
func testErasures(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	subject := func(metadata string) trace.ID {
		r := g.answer(trace.KindPrompt)
		id := r.ID
		r.Metadata = append(r.Metadata[:0], metadata...)
		g.recorder.Evaluation(r)
		g.written.Add(1)
		return id
	}
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
	g.report(reported, "by-report")
	g.report(reported, "another")
	g.report(subject(`{}`), "kept")
	g.flush()

	d := g.drain(dsn, sinks.Config{Batch: 10})
	up(t, d)
	stop := g.load(300)
	for _, selector := range []trace.Selector{
		{ConversationID: "by-report"},
		{ConversationID: "by-metadata"},
		{ConversationID: "5"}, // that of the metadata is a number
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
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.metrics WHERE conversation_id IN ('by-report', 'another')"); n != 0 {
		t.Errorf("%d reports of a trace that was erased are left", n)
	}
}

// testErasureReachesOtherGatewaysRows erases what is in the database and not in
// the store any more, of one workspace.
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
	deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1, Erasures: 1}, Erasures: []trace.Erasure{{Selector: trace.Selector{Workspace: "default", ConversationID: "c0"}}}})
	for table, want := range map[string]int64{"traces": 1, "metrics": 2} {
		if n := count(t, dsn, "SELECT count(*) FROM cadenza."+table); n != want {
			t.Errorf("%d %s are left, want %d", n, table, want)
		}
		if n := count(t, dsn, "SELECT count(*) FROM cadenza."+table+" WHERE workspace = 'default'"); n != 0 {
			t.Errorf("%d %s of the workspace are left", n, table)
		}
	}
}
