package sqlite

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// flagRecord returns the record of a value of a remote configuration.
func flagRecord(a *trace.Authority, key, arm string, at time.Time) *trace.Record {
	return &trace.Record{
		ID: a.New(trace.KindRemoteConfig, at), Time: at, Workspace: "default", Kind: trace.KindRemoteConfig,
		Key: key, Version: "v1", Row: "half", Arm: arm, Latency: time.Millisecond, Status: 200,
	}
}

func counted(r *trace.Record, at time.Time, answers uint32) recorder.Count {
	return recorder.Count{Count: exposure.Count{Trace: r.ID, Minute: exposure.MinuteOf(at), Answers: answers}, Workspace: r.Workspace}
}

// answersBy returns the answers by the hour or minute, key and arm.
func answersBy(t *testing.T, s *Store, interval Interval) map[string]int64 {
	t.Helper()
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: interval, By: ByArm, Since: time.Now().Add(-48 * time.Hour), Until: time.Now().Add(time.Hour)})
	if err != nil || stats.Pending > 0 {
		t.Fatal(stats.Pending, err)
	}
	answers := map[string]int64{}
	for _, row := range stats.Rows {
		answers[row.Start.UTC().Format("15:04 ")+row.Key+row.Arm] += row.Traces
	}
	return answers
}

func mustTrace(t *testing.T, s *Store, id trace.ID) *trace.Record {
	t.Helper()
	r, err := s.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCountedAnswers: answers count in the series of their trace, at their own time, once,
// before and after they are folded.
func TestCountedAnswers(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, authority := mustKeep(t, s), mustAuthority(t)
	at := time.Now().Add(-26 * time.Hour).Truncate(time.Hour).UTC()
	a, b := flagRecord(authority, "f", "a", at), flagRecord(authority, "f", "b", at.Add(time.Minute))
	other := flagRecord(authority, "g", "", at)
	want, minutes := map[string]int64{}, map[string]int64{}
	add := func(r *trace.Record, at time.Time, answers uint32) recorder.Count {
		want[at.Format("15:00 ")+r.Key+r.Arm] += int64(answers)
		minutes[at.Format("15:04 ")] += int64(answers)
		return counted(r, at, answers)
	}
	for _, r := range []*trace.Record{a, b, other} {
		add(r, r.Time, 1)
	}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, answersBy(t, s, Hourly)); diff != "" {
			t.Errorf("%s, by the hour: %s", when, diff)
		}
		if diff := cmp.Diff(minutes, answersBy(t, s, Minutely)); diff != "" {
			t.Errorf("%s, by the minute: %s", when, diff)
		}
	}
	fold := func() {
		t.Helper()
		if err := k.fold(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, s, recorder.Batch{
		Records: []*trace.Record{a, b, other},
		Counts:  []recorder.Count{add(a, at, 3), add(a, at.Add(time.Minute), 1), add(b, at.Add(2*time.Hour), 7)},
	})
	check("waiting")
	if r := mustTrace(t, s, a.ID); r.Answers != 0 {
		t.Errorf("%d answers of a trace before the fold", r.Answers)
	}
	fold()
	check("folded before the traces are counted")
	mustCommit(t, s, recorder.Batch{Counts: []recorder.Count{add(a, at, 2)}})
	if _, err := k.step(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	check("with counted traces")
	fold()
	fold()
	check("folded again")
	for r, answers := range map[*trace.Record]int{a: 7, b: 8, other: 0} {
		if got := mustTrace(t, s, r.ID); got.Answers != answers {
			t.Errorf("%s%s: %d answers, want %d", r.Key, r.Arm, got.Answers, answers)
		}
	}
	page, err := s.Traces(t.Context(), trace.Filter{Workspace: "default"}, trace.ID{}, 10, time.Minute)
	if err != nil || len(page.Records) != 3 {
		t.Fatal(page, err)
	}
	sum := 0
	for _, r := range page.Records {
		sum += r.Answers
	}
	if sum != 15 {
		t.Errorf("a list has %d answers", sum)
	}
	if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM counted"); n != 0 || err != nil {
		t.Errorf("%d rows are left: %v", n, err)
	}
}

// TestFoldsOfTwoProcesses: whichever of two processes counts or folds between what the other
// reads and writes, each answer counts once.
func TestFoldsOfTwoProcesses(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	a, authority := mustKeep(t, s), mustAuthority(t)
	b, err := openStatsKeeper(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	now := time.Now()
	r := flagRecord(authority, "f", "a", now)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	traces, answers := int64(1), int64(0)
	for round := range 4 {
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{flagRecord(authority, "f", "a", now)}, Counts: []recorder.Count{counted(r, now, 5)}})
		traces, answers = traces+1, answers+5
		before, tallied, gathered, err := a.gatherAnswers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		from, to, stepped, err := a.count(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			err = b.fold(t.Context(), s)
		} else {
			_, err = b.step(t.Context(), now)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := a.storeAnswers(t.Context(), before, tallied, &gathered); err != nil {
			t.Fatal(err)
		}
		if err := a.store(t.Context(), from, to, stepped); err != nil {
			t.Fatal(err)
		}
		for name, got := range answersBy(t, s, Overall) {
			if got != traces+answers {
				t.Fatalf("round %d: %d answers of %s, want %d", round, got, name, traces+answers)
			}
		}
	}
	if err := a.fold(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := mustTrace(t, s, r.ID).Answers; got != int(answers)+1 {
		t.Errorf("%d answers of the trace", got)
	}
}

// TestCountsOnDeletedTraces: an answer on a trace that was erased since counts under no key,
// and nothing stays of the trace.
func TestCountsOnDeletedTraces(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, authority := mustKeep(t, s), mustAuthority(t)
	now := time.Now()
	r := flagRecord(authority, "f", "a", now)
	r.Metadata = []byte(`{"customer":"c-7"}`)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}, Counts: []recorder.Count{counted(r, now, 5)}})
	if err := k.fold(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, recorder.Batch{Counts: []recorder.Count{counted(r, now, 2)}})
	if _, err := Erase(t.Context(), s.path, trace.Selector{Workspace: "default", MetadataName: "customer", MetadataValue: `"c-7"`}); err != nil {
		t.Fatal(err)
	}
	if err := k.fold(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"exposures", "counted", "traces"} {
		if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM "+table); n != 0 || err != nil {
			t.Errorf("%d rows of %s: %v", n, table, err)
		}
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, row := range stats.Rows {
		got[row.Kind+" "+row.Key] += row.Traces
	}
	if diff := cmp.Diff(map[string]int64{"remoteconfig f": 5, "remoteconfig ": 2}, got); diff != "" {
		t.Error(diff)
	}
}

// TestExposuresAreDelivered: a sink gets the answers of each trace of its workspace, and gets
// them again once they have grown.
func TestExposuresAreDelivered(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, authority := mustKeep(t, s), mustAuthority(t)
	o, err := OpenOutbox(t.Context(), s.path, "default", "default/copy")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	now := time.Now()
	a, b, other := flagRecord(authority, "f", "a", now), flagRecord(authority, "f", "b", now), flagRecord(authority, "f", "a", now)
	other.Workspace = "w"
	count := func(counts ...recorder.Count) {
		t.Helper()
		mustCommit(t, s, recorder.Batch{Counts: counts})
		if err := k.fold(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{a, b, other}})
	count(counted(a, now, 1), counted(b, now, 2), counted(other, now, 3))
	for _, want := range []map[trace.ID]int{{a.ID: 2, b.ID: 3}, {a.ID: 5}} {
		if rows, oldest, err := o.Pending(t.Context()); rows == 0 || oldest.IsZero() || err != nil {
			t.Errorf("%d rows are pending since %v: %v", rows, oldest, err)
		}
		sink := newCopySink()
		sink.drain(t, o, 2)
		if diff := cmp.Diff(want, sink.answers); diff != "" {
			t.Error(diff)
		}
		for id, r := range sink.records {
			if r.Answers != want[id] {
				t.Errorf("the record of a trace with %d answers has %d", want[id], r.Answers)
			}
		}
		if rows, _, err := o.Pending(t.Context()); rows != 0 || err != nil {
			t.Errorf("%d rows are pending: %v", rows, err)
		}
		count(counted(a, now, 3), counted(other, now, 1))
	}
}

// TestManyCounts: more than a fold takes, and more than fit into a row, of two workspaces.
func TestManyCounts(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, authority := mustKeep(t, s), mustAuthority(t)
	now := time.Now()
	var batch recorder.Batch
	for n := range 2*foldTraces + countsInRow + 10 {
		r := flagRecord(authority, "f", "a", now)
		if n%3 == 0 {
			r.Workspace = "w"
		}
		batch.Records = append(batch.Records, r)
		batch.Counts = append(batch.Counts, counted(r, now, 2))
	}
	slices.SortStableFunc(batch.Counts, func(a, b recorder.Count) int { return len(a.Workspace) - len(b.Workspace) })
	mustCommit(t, s, batch)
	if err := k.fold(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM exposures JOIN traces ON id = trace_id WHERE answers = 2 AND exposures.workspace = traces.workspace")
	if err != nil || n != int64(len(batch.Records)) {
		t.Errorf("%d traces with answers of %d: %v", n, len(batch.Records), err)
	}
}

// BenchmarkFold shows what it costs to add counts on many traces, and how long the recorder's
// writer waits meanwhile.
func BenchmarkFold(b *testing.B) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	k, authority := mustKeep(b, s), mustAuthority(b)
	now := time.Now()
	records := map[trace.ID]*trace.Record{}
	for range foldTraces {
		r := flagRecord(authority, "f", "a", now)
		records[r.ID] = r
	}
	mustCommit(b, s, recorder.Batch{Records: slices.Collect(maps.Values(records))})
	held := time.Duration(0)
	for b.Loop() {
		var batch recorder.Batch
		for _, r := range records {
			batch.Counts = append(batch.Counts, counted(r, now, 2))
		}
		mustCommit(b, s, batch)
		before, counted, answers, err := k.gatherAnswers(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := k.storeAnswers(b.Context(), before, counted, &answers); err != nil {
			b.Fatal(err)
		}
		held = max(held, time.Since(began))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*foldTraces), "ns/trace")
	b.ReportMetric(float64(held.Microseconds()), "us-held")
}
