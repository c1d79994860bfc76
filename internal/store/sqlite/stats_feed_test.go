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
	counted, read := tallies{}, posting{blocks: map[int64]*postedBlock{}}
	if _, err := counted.countTraces(t.Context(), s.conn, 0, fed.until, math.MaxInt, clauses{}, &read); err != nil {
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
	for _, p := range []*posting{&read, &fed.posting} {
		for _, b := range p.blocks {
			for _, rows := range b.names {
				slices.Sort(*rows)
			}
			for _, members := range b.members {
				slices.Sort(members)
			}
		}
	}
	if diff := cmp.Diff(read.blocks, fed.posting.blocks, cmp.AllowUnexported(postedBlock{})); diff != "" {
		t.Errorf("postings (-read +counted):\n%s", diff)
	}
	if len(read.blocks) != 1 || len(read.blocks[0].names) < 20 {
		t.Errorf("%d blocks show little", len(read.blocks))
	}
}

// Runs are put together as if one had all rows.
func TestPostingsOfRunsAreMerged(t *testing.T) {
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	whole, first, second := posting{blocks: map[int64]*postedBlock{}}, posting{blocks: map[int64]*postedBlock{}}, posting{blocks: map[int64]*postedBlock{}}
	for n := range int64(40) {
		id := authority.New(trace.KindPrompt, at.Add(time.Duration(n*7%40)*time.Second))
		names := namesOfValues("w", seriesFields, "w", "prompt", fmt.Sprint("k", n%3), "", "", "", "")
		part := &first
		if n >= 15 {
			part = &second
		}
		metadata := fmt.Sprintf(`{"user":"u%d"}`, n)
		if n == 30 {
			metadata = `{"user":1e400}`
		}
		for _, p := range []*posting{&whole, part} {
			p.add(blockRows-20+n, id, "w", metadata, &postedNames{terms: names.terms, torn: n == 35})
		}
	}
	merged := posting{blocks: map[int64]*postedBlock{}}
	merged.merge(&first)
	merged.merge(&second)
	if diff := cmp.Diff(whole.blocks, merged.blocks, cmp.AllowUnexported(postedBlock{})); diff != "" {
		t.Errorf("(-whole +merged):\n%s", diff)
	}
	if b := whole.blocks[1]; len(whole.blocks) != 2 || !b.torn || !b.odd || whole.blocks[0].odd {
		t.Error("the blocks show little")
	}
}

// What an erasure may have deleted is not posted from memory.
func TestRunFromBeforeAnErasureIsRead(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	k.feed = &s.feed
	authority, at := mustAuthority(t), time.Now().Add(-time.Minute)
	var batch recorder.Batch
	for n := range 3 {
		r := new(trace.Record)
		fillEvaluation(r, authority.New(trace.KindPrompt, at), at)
		r.Metadata = fmt.Appendf(nil, `{"user":"u%d"}`, n)
		batch.Records = append(batch.Records, r)
	}
	mustCommit(t, s, batch)
	if _, err := Erase(t.Context(), s.path, trace.Selector{Workspace: batch.Records[1].Workspace, MetadataName: "user", MetadataValue: `"u1"`}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.step(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	members := 0
	for _, b := range k.posting.blocks {
		for _, of := range b.members {
			members += len(of)
		}
	}
	if members != 2 {
		t.Errorf("%d members are posted, want those of the 2 traces that are left", members)
	}
}

// What is not in a run is read; what another keeper counted is not taken.
func TestRunsGoOnFromTheCursor(t *testing.T) {
	record := &trace.Record{Workspace: "w", Key: "k", Time: time.Now()}
	var f feed
	add := func(from, until int64) {
		f.add(slices.Repeat([]*trace.Record{record}, int(until-from)), from, until, 0)
	}
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
	add(10, 20)
	add(20, 30)
	add(40, 50) // another process wrote those between
	next(0, -1, 10)
	next(10, 10, 30)
	next(30, -1, 40)
	next(45, -1, math.MaxInt64) // another has counted to 45
	next(40, -1, math.MaxInt64)
	add(100, 100+statsRows)
	add(100+statsRows, 200+statsRows) // of a run that is full
	next(100, 100, 100+statsRows)
	for n := range int64(runsKept) {
		add(1_000_000+2*n, 1_000_001+2*n)
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
