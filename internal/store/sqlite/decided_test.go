package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// decidedBatch is a request with a prompt, an endpoint and a configuration, and another
// prompt without a decision.
func decidedBatch(authority *trace.Authority, at time.Time) (decision trace.ID, traces []*trace.Record, batch recorder.Batch) {
	ids := authority.Decide(at, 3)
	for i, kind := range []trace.Kind{trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig} {
		r := fullRecord(ids.Trace(kind, i), at)
		r.Kind, r.Key, r.Decision, r.Arm = kind, kind.String(), ids.ID(), "b"
		traces = append(traces, r)
	}
	alone := fullRecord(authority.New(trace.KindPrompt, at), at)
	alone.Kind, alone.Key = trace.KindPrompt, "alone"
	return ids.ID(), traces, recorder.Batch{Records: append(slices.Clone(traces), alone)}
}

// onDecision is a report with members that not every kind of trace takes.
func onDecision(decision trace.ID, at time.Time) *trace.Metrics {
	return &trace.Metrics{
		Decision: decision, Workspace: "default", APIKey: "app", Time: at,
		Score: new(90.0), Latency: new(12.0), LLMResponse: new("text"), ConversationID: new("c1"),
		Values: []byte(`{"resolved":1}`), Metadata: []byte(`{"by":"ada"}`),
	}
}

// TestReportsOnADecision stores them once. Each of its traces shows the members that its
// kind takes, together with the reports on the trace itself.
func TestReportsOnADecision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	decision, traces, batch := decidedBatch(authority, at)
	batch.Metrics = []*trace.Metrics{
		onDecision(decision, at), {TraceID: traces[2].ID, Workspace: "default", Time: at, Values: []byte(`{"n":2}`)}, onDecision(decision, at.Add(time.Second)),
		{Decision: decision, Workspace: "default", Time: at, Score: new(1.0)}, // a configuration takes none of its members
		{Decision: decision, Workspace: "other", Time: at, Score: new(1.0)},
	}
	mustCommit(t, s, batch)

	want := map[trace.ID][]trace.Metrics{}
	for _, r := range traces {
		for _, m := range batch.Metrics {
			shown := *m
			if m.Workspace != "default" || m.Decision.IsZero() && m.TraceID != r.ID {
				continue
			}
			if !m.Decision.IsZero() {
				if shown.Reduce(r.Kind); shown.Score == nil && shown.Values == nil {
					continue
				}
			}
			want[r.ID] = append(want[r.ID], shown)
		}
	}
	if n := len(want[traces[2].ID]); n != 3 {
		t.Fatalf("%d reports on the configuration", n)
	}
	check := func(name string, id trace.ID, got []trace.Metrics) {
		t.Helper()
		if diff := cmp.Diff(want[id], got, cmpopts.IgnoreFields(trace.Metrics{}, "UUID"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, r := range batch.Records {
		details, err := s.Get(t.Context(), "default", r.ID)
		if err != nil {
			t.Fatal(err)
		}
		check("getting "+r.Key, r.ID, details.Metrics)
		if details.MetricsTotal != int64(len(want[r.ID])) {
			t.Errorf("%s: %d in all", r.Key, details.MetricsTotal)
		}
		metrics, err := s.MetricsFor(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		check("those of "+r.Key, r.ID, metrics)
	}
	exported := 0
	if err := s.Export(t.Context(), trace.Filter{Workspace: "default"}, func(r *trace.Record, metrics []trace.Metrics) error {
		if r == nil {
			return fmt.Errorf("%d reports without a trace", len(metrics))
		}
		exported++
		check("exporting "+r.Key, r.ID, metrics)
		return nil
	}); err != nil || exported != 4 {
		t.Errorf("%d were exported, %v", exported, err)
	}
	d, err := mustOutbox(t, path).Next(t.Context(), trace.Position{}, 100)
	if err != nil || len(d.Metrics) != 4 || !d.Metrics[0].TraceID.IsZero() || d.Metrics[0].Decision != decision {
		t.Errorf("the sinks get %+v, %v", d, err)
	}
	first, _ := trace.TracesOf(decision, trace.KindPrompt)
	found, _, err := s.Between(t.Context(), "default", first, lastID)
	if err != nil || len(found) != 4 {
		t.Errorf("%+v by their prefix, %v", found, err)
	}
}

// TestManyReportsOnADecision checks that they are bounded as those on a trace are.
func TestManyReportsOnADecision(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	decision, traces, batch := decidedBatch(mustAuthority(t), time.UnixMilli(1790000000123))
	for range getMetrics {
		batch.Metrics = append(batch.Metrics, &trace.Metrics{Decision: decision, Workspace: "default", Time: traces[0].Time, Values: []byte(`{"n":1}`)})
	}
	batch.Metrics = append(batch.Metrics, metricsOf(traces[0].ID))
	mustCommit(t, s, batch)
	details, err := s.Get(t.Context(), "default", traces[0].ID)
	if err != nil || len(details.Metrics) != getMetrics || details.MetricsTotal != getMetrics+1 {
		t.Errorf("%d of %d, %v", len(details.Metrics), details.MetricsTotal, err)
	}
}

// TestExportsOfLargeDecisions come in parts, each with all reports of its traces.
func TestExportsOfLargeDecisions(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	text := string(bytes.Repeat([]byte("x"), 1<<20))
	for range 6 { // of one millisecond
		decision, _, batch := decidedBatch(authority, at)
		for range 2 {
			m := onDecision(decision, at)
			m.LLMResponse = &text
			batch.Metrics = append(batch.Metrics, m)
		}
		mustCommit(t, s, batch)
	}
	exported := map[int]int{}
	if err := s.Export(t.Context(), trace.Filter{Workspace: "default"}, func(_ *trace.Record, metrics []trace.Metrics) error {
		exported[len(metrics)]++
		return nil
	}); err != nil || exported[2] != 18 || exported[0] != 6 {
		t.Errorf("traces by the number of their reports: %v, %v", exported, err)
	}
}

// TestErasingDecisions: a chosen report on a decision chooses all traces of it. A trace
// that is chosen otherwise takes the reports on its decision with it, and no other trace.
func TestErasingDecisions(t *testing.T) {
	ada := trace.Selector{Workspace: "default", MetadataName: "by", MetadataValue: `"ada"`}
	byID := trace.Selector{Workspace: "default", Decision: trace.ID{1}} // or the selector of the decision
	for name, test := range map[string]struct {
		selector trace.Selector
		change   func(batch *recorder.Batch, traces []*trace.Record)
		traces   int64
		metrics  int64
	}{
		"a report's conversation":         {trace.Selector{Workspace: "default", ConversationID: "c1"}, func(*recorder.Batch, []*trace.Record) {}, 3, 2},
		"a report's metadata":             {ada, func(*recorder.Batch, []*trace.Record) {}, 3, 2},
		"the metadata of one trace":       {trace.Selector{Workspace: "default", MetadataName: "x", MetadataValue: "1"}, func(_ *recorder.Batch, traces []*trace.Record) { traces[1].Metadata = []byte(`{"x":1}`) }, 1, 1},
		"a report on one trace":           {trace.Selector{Workspace: "default", ConversationID: "c2"}, func(b *recorder.Batch, traces []*trace.Record) { b.Metrics[1].ConversationID = new("c2") }, 1, 2},
		"the decision":                    {byID, func(*recorder.Batch, []*trace.Record) {}, 3, 2},
		"a decision without traces":       {byID, func(b *recorder.Batch, _ []*trace.Record) { b.Records = nil }, 0, 1},
		"a decision of another workspace": {trace.Selector{Workspace: "other", Decision: byID.Decision}, func(*recorder.Batch, []*trace.Record) {}, 0, 0},
		"another conversation":            {trace.Selector{Workspace: "default", ConversationID: "c3"}, func(*recorder.Batch, []*trace.Record) {}, 0, 0},
		"traces that are not stored":      {ada, func(b *recorder.Batch, _ []*trace.Record) { b.Records = nil }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, Config{Path: path})
			authority, at := mustAuthority(t), time.Now()
			decision, traces, batch := decidedBatch(authority, at)
			batch.Metrics = []*trace.Metrics{onDecision(decision, at), metricsOf(traces[0].ID)}
			reply := replyOf("key", 1, at) // to the report on the decision
			reply.TraceID, reply.Decision = trace.ID{}, decision
			batch.Replies = append(batch.Replies, reply)
			otherDecision, _, others := decidedBatch(authority, at)
			others.Metrics = []*trace.Metrics{{Decision: otherDecision, Workspace: "default", Time: at, Score: new(1.0)}}
			test.change(&batch, traces)
			mustCommit(t, s, batch)
			mustCommit(t, s, others)
			before, err := s.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !test.selector.Decision.IsZero() {
				test.selector.Decision = decision
			}
			erased, err := Erase(t.Context(), path, test.selector)
			if err != nil || erased.Traces != test.traces || erased.Metrics != test.metrics {
				t.Errorf("erased %+v, %v; want %d traces and %d reports", erased, err, test.traces, test.metrics)
			}
			if _, err := s.Reader.Reply(t.Context(), reply.ReplyKey); errors.Is(err, ErrNotFound) != (erased.Replies == 1) || (erased.Replies == 1) != (test.metrics > 0) {
				t.Errorf("the reply: %v, erased %d", err, erased.Replies)
			}
			after, err := s.Counts(t.Context())
			if err != nil || after.Traces != before.Traces-test.traces || after.Metrics != before.Metrics-test.metrics {
				t.Errorf("%+v are left of %+v, %v", after, before, err)
			}
			if test.traces == 0 && test.metrics == 0 {
				return
			}
			for suffix := range map[string]bool{"": true, "-wal": true} {
				content, err := os.ReadFile(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(content, []byte("resolved")) {
					t.Errorf("the report is still in the file%s", suffix)
				}
			}
		})
	}
}

// TestRetentionOfReportsOnDecisions checks that the age of the decision counts.
func TestRetentionOfReportsOnDecisions(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentRetention: always(48 * time.Hour)})
	authority, now := mustAuthority(t), time.Now()
	for _, age := range []time.Duration{50 * time.Hour, 47 * time.Hour, 0} {
		decision, _, batch := decidedBatch(authority, now.Add(-age))
		batch.Metrics = []*trace.Metrics{onDecision(decision, now)}
		mustCommit(t, s, batch)
	}
	for more := true; more; {
		var err error
		if more, err = s.Maintain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if counts, err := s.Counts(t.Context()); err != nil || counts != (Counts{Traces: 8, Metrics: 2}) {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestReportsCountOnce stores reports and traces in several orders. A step counts after
// each of the first batches, and the reader counts the others. A report counts under each
// ended trace, with the members that its kind takes.
func TestReportsCountOnce(t *testing.T) {
	authority, at := mustAuthority(t), time.Now().Add(-time.Minute)
	decision, traces, _ := decidedBatch(authority, at)
	prompt, endpoint, config := traces[0], traces[1], traces[2]
	_, others, _ := decidedBatch(authority, at) // of the same millisecond
	report := onDecision(decision, at)
	start := *endpoint
	start.State, start.Code = trace.StateInterrupted, ""
	const promptFirst, reportFirst, startFirst = "a trace, the report, the others", "the report first", "an interrupted call, the report, its end"
	for name, steps := range map[string][]recorder.Batch{
		promptFirst: {{Records: []*trace.Record{prompt}}, {Metrics: []*trace.Metrics{report}}, {Records: []*trace.Record{endpoint, config}}},
		reportFirst: {{Metrics: []*trace.Metrics{report}}, {Records: []*trace.Record{prompt}}, {Records: []*trace.Record{endpoint}}, {Records: []*trace.Record{config}}},
		startFirst:  {{Interrupted: []*trace.Record{&start}, Records: []*trace.Record{prompt, config}}, {Metrics: []*trace.Metrics{report}}, {Records: []*trace.Record{endpoint}}},
	} {
		for counted := range len(steps) + 1 { // by steps, the others by the reader
			t.Run(fmt.Sprintf("%s, %d counted", name, counted), func(t *testing.T) {
				s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
				k := mustKeep(t, s)
				mustCommit(t, s, recorder.Batch{Records: others})
				for i, batch := range steps {
					mustCommit(t, s, batch)
					if i < counted {
						if _, err := k.step(t.Context(), time.Now()); err != nil {
							t.Fatal(err)
						}
					}
				}
				stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall, By: ByArm})
				if err != nil || len(stats.Rows) != 3 {
					t.Fatalf("%+v, %v", stats.Rows, err)
				}
				for _, row := range stats.Rows {
					scores, latencies := int64(1), int64(0)
					switch row.Kind {
					case "prompt":
						latencies = 1
					case "remoteconfig":
						scores = 0
					}
					if row.Traces != 2 || row.Reports != 1 || row.Scores != scores || row.ReportedLatency.Count != latencies || row.Values["resolved"].Count != 1 || row.Arm != "b" {
						t.Errorf("%+v", row)
					}
				}
			})
		}
	}
}

// TestReportsCountOnceWhereverStepsEnd counts by steps that end anywhere between the
// rows of each table.
func TestReportsCountOnceWhereverStepsEnd(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	decision, traces, _ := decidedBatch(mustAuthority(t), time.Now())
	mustCommit(t, s, recorder.Batch{Records: traces, Metrics: []*trace.Metrics{onDecision(decision, time.Now())}})
	all := clauses{text: []string{"t.workspace = 'default'"}}
	for split := range int64(len(traces) + 1) {
		for reportFirst := range int64(2) {
			steps := []progress{{}, {traces: split, metrics: reportFirst}, {traces: int64(len(traces)), metrics: 1}}
			counted := map[string]int64{}
			for i, to := range steps[1:] {
				from, step := steps[i], tallies{}
				if _, err := step.countTraces(t.Context(), s.conn, from.traces, to.traces, 100, all); err != nil {
					t.Fatal(err)
				}
				if err := step.countLate(t.Context(), s.conn, from.traces, to.traces, from.metrics, all); err != nil {
					t.Fatal(err)
				}
				if _, err := step.countMetrics(t.Context(), s.conn, from.metrics, to.metrics, to.traces, 100, clauses{}); err != nil {
					t.Fatal(err)
				}
				for at, c := range step {
					if at.hours == 0 {
						continue
					}
					counted[at.kind] += c.reports
				}
			}
			if diff := cmp.Diff(map[string]int64{"prompt": 1, "endpoint": 1, "remoteconfig": 1}, counted); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", steps, diff)
			}
		}
	}
}

// TestTracesByConversation finds traces by the conversation and the chain that their own
// metadata names, or a report on them or on their decision, with and without terms, page by
// page. Pages end within a request.
func TestTracesByConversation(t *testing.T) {
	for _, byTerms := range []bool{false, true} {
		t.Run(fmt.Sprintf("byTerms=%t", byTerms), func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
			var batch recorder.Batch
			var want []trace.ID
			for range 3 { // of one millisecond
				decision, traces, more := decidedBatch(authority, at)
				_, others, bystanders := decidedBatch(authority, at)
				shared := &trace.Shared{Metadata: []byte(`{"conversation_id":"c1"}`)}
				others[0].Shared, others[0].Metadata = shared, nil
				others[1].Metadata = []byte(`{"conversation_id":"c1","chain_id":"h"}`)
				others[2].Metadata = []byte(`{"conversation_id":"c2"}`)
				lone := bystanders.Records[3]
				batch.Records = append(batch.Records, append(more.Records, bystanders.Records...)...)
				batch.Metrics = append(batch.Metrics, onDecision(decision, at), &trace.Metrics{TraceID: lone.ID, Workspace: "default", Time: at, ConversationID: new("c1")})
				want = append(want, traces[0].ID, traces[1].ID, others[0].ID, others[1].ID, lone.ID)
				at = at.Add(time.Duration(len(want)%2) * time.Millisecond)
			}
			mustCommit(t, s, batch)
			s.termsFirst = byTerms
			slices.SortFunc(want, compareIDs)
			slices.Reverse(want)
			f := trace.Filter{Workspace: "default", ConversationID: "c1"}
			for _, limit := range []int{1, 2, 100} {
				got, _ := listAll(t, s, f, limit, time.Minute)
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d: %v, want %v", limit, got, want)
				}
			}
			chained, _ := listAll(t, s, trace.Filter{Workspace: "default", ConversationID: "c1", ChainID: "h"}, 1, time.Minute)
			if len(chained) != 3 {
				t.Errorf("%d of the chain", len(chained))
			}
			var exported []trace.ID
			if err := s.Export(t.Context(), f, func(r *trace.Record, _ []trace.Metrics) error {
				exported = append(exported, r.ID)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if slices.Reverse(want); !slices.Equal(exported, want) {
				t.Errorf("exported %v, want %v", exported, want)
			}
		})
	}
}
