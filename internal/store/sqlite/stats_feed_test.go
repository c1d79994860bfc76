package sqlite

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestWriterCountsWhatIsRead holds what the writer counted of the records of a batch
// against what the keeper reads of their rows.
func TestWriterCountsWhatIsRead(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	mustKeep(t, s) // alone: nothing else takes the runs
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	variants := []func(*trace.Record){
		func(*trace.Record) {},
		func(r *trace.Record) { r.APIKey, r.Version, r.Arm, r.Variant = "", "", "", "" },
		func(r *trace.Record) { r.Kind, r.Variant = trace.KindRemoteConfig, "" },
		func(r *trace.Record) { r.Kind, r.Variant, r.Row = trace.KindRemoteConfig, "", "" },
		func(r *trace.Record) { r.Code, r.FinishReason = "", "length" },
		func(r *trace.Record) { r.HasUsage, r.Latency, r.FirstToken, r.Cost, r.Cached = false, 0, 0, 0, false },
		func(r *trace.Record) { r.State = trace.StateInterrupted },
		func(r *trace.Record) { r.Time = at.Add(time.Hour) },
		func(r *trace.Record) { r.Workspace, r.APIKey = "other", "another" },
		func(r *trace.Record) { r.APIKey = "another" },
		func(r *trace.Record) { r.Metadata = []byte(`{"conversation_id":"c","chain_id":1}`) },
		func(r *trace.Record) { r.Metadata = []byte(`{"chain_id":{"a": 1},"conversation_id":null}`) },
		func(r *trace.Record) { r.Metadata = []byte(`{"a":"conversation_id","conversation_id":"é\n"}`) },
		func(r *trace.Record) {
			r.Metadata, r.Decision = nil, authority.New(trace.KindDecision, at)
			r.Shared = &trace.Shared{Metadata: []byte(`{"conversation_id":"shared","chain_id":"chain"}`)}
		},
	}
	var batch recorder.Batch
	for n := range 3 * len(variants) {
		r := fullRecord(authority.New(trace.KindEndpoint, at), at)
		r.Latency += time.Duration(n) * time.Millisecond
		variants[n%len(variants)](r)
		batch.Records = append(batch.Records, r)
	}
	mustCommit(t, s, batch)
	fed, _ := s.feed.next(0)
	if fed == nil || fed.until != int64(len(batch.Records)) {
		t.Fatalf("the writer counted %+v", fed)
	}
	counted, lists := tallies{}, postings{}
	if _, err := counted.countTraces(t.Context(), s.conn, 0, fed.until, math.MaxInt, clauses{}, lists); err != nil {
		t.Fatal(err)
	}
	flat := func(all tallies) map[string][]any {
		flat := map[string][]any{}
		for at, tally := range all {
			flat[fmt.Sprintf("%+v", at)] = tally.columns()
		}
		return flat
	}
	if diff := cmp.Diff(flat(counted), flat(fed.counted)); diff != "" {
		t.Errorf("statistics (-read +counted):\n%s", diff)
	}
	ordered := func(all postings) map[string][]trace.ID {
		ordered := map[string][]trace.ID{}
		for name, ids := range all {
			ordered[fmt.Sprintf("%+v", name)] = inOrder(slices.Clone(*ids))
		}
		return ordered
	}
	if diff := cmp.Diff(ordered(lists), ordered(fed.lists)); diff != "" {
		t.Errorf("lists (-read +counted):\n%s", diff)
	}
	if len(lists) < 10 {
		t.Errorf("%d lists show little", len(lists))
	}
}

// What is not in a run is read; what another keeper counted is not taken.
func TestRunsGoOnFromTheCursor(t *testing.T) {
	records := []*trace.Record{{Workspace: "w", Key: "k", Time: time.Now()}}
	var f feed
	next := func(cursor, from, until int64) {
		t.Helper()
		got, bound := f.next(cursor)
		switch {
		case got == nil && (from >= 0 || bound != until):
			t.Errorf("from %d: read until %d, want a run from %d until %d", cursor, bound, from, until)
		case got != nil && (got.from != from || got.until != until):
			t.Errorf("from %d: a run from %d until %d, want from %d until %d", cursor, got.from, got.until, from, until)
		}
	}
	next(0, -1, math.MaxInt64)
	f.add(records, 10, 20)
	f.add(records, 20, 30)
	f.add(records, 40, 50) // another process wrote those between
	next(0, -1, 10)
	next(10, 10, 30)
	next(30, -1, 40)
	next(45, -1, math.MaxInt64) // another has counted to 45
	next(40, -1, math.MaxInt64)
	f.add(records, 100, 100+statsRows)
	f.add(records, 100+statsRows, 200+statsRows) // of a run that is full
	next(100, 100, 100+statsRows)
	for n := range int64(runsKept) {
		f.add(records, 1_000_000+2*n, 1_000_001+2*n)
	}
	next(100+statsRows, -1, 1_000_000) // there is no room for it
	next(1_000_000, 1_000_000, 1_000_001)
}

// A keeper that can't store a run reads its rows later.
func TestRunThatIsNotStoredIsRead(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	k.feed = &s.feed
	authority, at := mustAuthority(t), time.Now()
	commit := func() {
		var batch recorder.Batch
		for range 3 {
			r := new(trace.Record)
			fillEvaluation(r, authority.New(trace.KindPrompt, at), at)
			batch.Records = append(batch.Records, r)
		}
		mustCommit(t, s, batch)
	}
	count := func(want int64) {
		t.Helper()
		if _, err := k.step(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		got, err := queryInt(t.Context(), k.db, "SELECT sum(traces) FROM stats WHERE hours = 1")
		if err != nil || got != want {
			t.Errorf("%d are counted (%v), want %d", got, err, want)
		}
	}
	commit()
	if _, _, _, err := k.count(t.Context(), at); err != nil { // and is not stored
		t.Fatal(err)
	}
	commit()
	count(3) // until the next run
	count(6)
	count(6)
}
