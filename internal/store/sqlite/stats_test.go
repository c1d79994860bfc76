package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// mustKeep opens the connection that counts, on a store that does not count itself.
func mustKeep(t testing.TB, s *Store) *statsKeeper {
	t.Helper()
	s.stop()
	s.background.Wait()
	k, err := openStatsKeeper(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

// BenchmarkCount shows the cost of counting a trace, by the number of keys, all as
// frequent: with more keys, more is written.
func BenchmarkCount(b *testing.B) {
	for _, keys := range []int{40, 200, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { benchmarkCount(b, keys) })
	}
}

func benchmarkCount(b *testing.B, keys int) {
	const count = 40_960
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	k := mustKeep(b, s)
	made, now := newMillions(b), time.Now()
	for n := 0; n < count; {
		batch := made.batch(min(len(made.pool), count-n), func(int) time.Time { return now })
		for _, r := range batch.Records {
			r.Key = fmt.Sprintf("key-%d", n*7919%keys)
			n++
		}
		batch.Metrics = nil
		mustCommit(b, s, *batch)
	}
	b.ReportAllocs()
	used, held := int64(0), time.Duration(0)
	for b.Loop() {
		if _, err := k.db.ExecContext(b.Context(), "UPDATE cursors SET traces = 0; DELETE FROM stats"); err != nil {
			b.Fatal(err)
		}
		before := processorTime(b)
		for {
			from, to, counted, err := k.count(b.Context(), now)
			if err != nil {
				b.Fatal(err)
			}
			if from == to {
				break
			}
			began := time.Now()
			if err := k.store(b.Context(), from, to, counted); err != nil {
				b.Fatal(err)
			}
			held = max(held, time.Since(began))
		}
		used += processorTime(b) - before
	}
	b.ReportMetric(float64(used)/float64(b.N*count), "cpu-ns/trace")
	b.ReportMetric(float64(held.Microseconds()), "us-held")
}

// naiveRow is a StatsRow in plain Go, with all the durations.
type naiveRow struct {
	StatsRow
	latency, firstToken, reported []float64
	scoreSum                      float64
	values                        map[string][]float64
}

func ofConsole(r *trace.Record) bool { return strings.HasPrefix(r.APIKey, trace.ConsoleKey) }

// naive computes statistics from the rows that a property test stored.
func (d *drawn) naive(q StatsQuery) []naiveRow {
	since, until := q.Since.Truncate(time.Hour), q.Until
	if until.Truncate(time.Hour) != until {
		until = until.Truncate(time.Hour).Add(time.Hour)
	}
	rows := map[string]*naiveRow{}
	at := func(kind, key, variant, arm, version, prompt string, at time.Time) *naiveRow {
		if !q.Since.IsZero() && at.Before(since) || !q.Until.IsZero() && !at.Before(until) || q.Kind != 0 && q.Kind.String() != kind || q.Key != "" && q.Key != key {
			return new(naiveRow)
		}
		name := StatsRow{Kind: kind, Key: key}
		if q.By == 0 || q.By&ByVariant != 0 {
			name.Variant = variant
		}
		if q.By&ByArm != 0 {
			name.Arm = arm
		}
		if q.By&ByVersion != 0 {
			name.Version, name.PromptVersion = version, prompt
		}
		switch q.Interval {
		case Hourly:
			name.Start = at.UTC().Truncate(time.Hour)
		case Daily:
			name.Start = at.UTC().Truncate(24 * time.Hour)
		}
		if rows[nameOf(name)] == nil {
			rows[nameOf(name)] = &naiveRow{StatsRow: name, values: map[string][]float64{}}
		}
		return rows[nameOf(name)]
	}
	group := func(r *trace.Record) *naiveRow {
		variant := r.Variant
		if r.Kind == trace.KindRemoteConfig {
			if variant = r.Row; variant == "" {
				variant = "default"
			}
		}
		prompt := ""
		if r.Kind == trace.KindEndpoint {
			prompt = r.PromptVersion
		}
		return at(r.Kind.String(), r.Key, variant, r.Arm, r.Version, prompt, r.Time)
	}
	records := map[trace.ID]*trace.Record{}
	for _, r := range d.records {
		records[r.ID] = r
		if r.Workspace != q.Workspace || r.State == trace.StateStarted || ofConsole(r) {
			continue
		}
		row := group(r)
		row.Traces++
		row.Errors += countIf(r.Code != "")
		row.Interrupted += countIf(r.State == trace.StateInterrupted)
		row.Cached += countIf(r.Cached)
		row.FinishReasons.Stop += countIf(r.FinishReason == "stop")
		row.FinishReasons.ToolCalls += countIf(r.FinishReason == "tool_calls")
		row.FinishReasons.Length += countIf(r.FinishReason == "length")
		row.FinishReasons.ContentFilter += countIf(r.FinishReason == "content_filter")
		row.PromptTokens += r.PromptTokens
		row.CompletionTokens += r.CompletionTokens
		row.TotalTokens += r.TotalTokens
		row.Cost += r.Cost
		if r.Latency != 0 {
			row.latency = append(row.latency, float64(r.Latency.Microseconds())/1000)
		}
		if r.FirstToken != 0 {
			row.firstToken = append(row.firstToken, float64(r.FirstToken.Microseconds())/1000)
		}
	}
	report := func(row *naiveRow, m *trace.Metrics) {
		row.Reports++
		var values map[string]float64
		_ = json.Unmarshal(m.Values, &values)
		for name, value := range values {
			if row.values != nil {
				row.values[name] = append(row.values[name], value)
			}
		}
		if m.Score != nil {
			row.Scores++
			row.scoreSum += *m.Score
		}
		if m.Latency != nil {
			row.reported = append(row.reported, *m.Latency)
			row.PromptTokens += *m.PromptTokens
			row.CompletionTokens += *m.CompletionTokens
			row.TotalTokens += *m.TotalTokens
		}
	}
	for _, m := range d.metrics {
		if m.Workspace == q.Workspace && m.Decision.IsZero() && records[m.TraceID] == nil {
			report(at("metrics", "", "", "", "", "", m.Time), m)
		}
	}
	for _, r := range d.records {
		if r.Workspace != q.Workspace || ofConsole(r) {
			continue
		}
		for _, m := range d.reportsOn(r) {
			if m.Decision.IsZero() || r.State == trace.StateEnded {
				report(group(r), &m)
			}
		}
	}
	var all []naiveRow
	for _, row := range rows {
		if row.Scores > 0 {
			row.ScoreMean = new(row.scoreSum / float64(row.Scores))
		}
		all = append(all, *row)
	}
	return all
}

func nameOf(r StatsRow) string {
	return fmt.Sprintf("%s/%s/%s/%s/%s/%s/%s", r.Start.Format(time.RFC3339), r.Kind, r.Key, r.Variant, r.Arm, r.Version, r.PromptVersion)
}

// checkQuantiles checks the promise of 5 % against the nearest rank.
func checkQuantiles(t interface{ Fatalf(string, ...any) }, name string, got Quantiles, durations []float64) {
	slices.Sort(durations)
	if got.Count != int64(len(durations)) {
		t.Fatalf("%s: %d counted, want %d", name, got.Count, len(durations))
	}
	for q, value := range map[float64]float64{0.5: got.P50, 0.9: got.P90, 0.95: got.P95, 0.99: got.P99} {
		want := 0.0
		if len(durations) > 0 {
			want = durations[int(math.Ceil(q*float64(len(durations))))-1]
		}
		// No latency is finer than a microsecond.
		if math.Abs(value-want) > max(want*0.05, 0.001) {
			t.Fatalf("%s: the quantile %v is %v, want %v", name, q, value, want)
		}
	}
}

// checkValues compares each named value with the numbers that were reported.
func checkValues(t interface{ Fatalf(string, ...any) }, label string, got map[string]Values, want map[string][]float64) {
	if len(got) != len(want) {
		t.Fatalf("%s: values of %d names, want %d", label, len(got), len(want))
	}
	for name, numbers := range want {
		slices.Sort(numbers)
		sum := 0.0
		for _, x := range numbers {
			sum += x
		}
		v, n := got[name], len(numbers)
		if v.Count != int64(n) || math.Abs(v.Mean-sum/float64(n)) > 1e-9 || v.Min != numbers[0] || v.Max != numbers[n-1] ||
			(v.Deviation == nil) != (n == 1) || math.Abs(v.P50-numbers[(n-1)/2]) > 0.05*math.Abs(v.P50) {
			t.Fatalf("%s: %s is %+v of %v", label, name, v, numbers)
		}
	}
}

// TestStatsAgreeWithTheirMeaning compares statistics with plain Go. A random part of the
// rows was counted before.
func TestStatsAgreeWithTheirMeaning(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		path := filepath.Join(dir, fmt.Sprint(files))
		var keeper *statsKeeper
		defer func() { keeper.close() }()
		var err error
		// A report that is counted long before its trace is stored has no key; one on a
		// decision waits for each trace.
		whileStored := rapid.Bool().Draw(t, "counted while stored")
		d := drawStore(t, path, !whileStored, func(s *Store) {
			if !whileStored {
				return
			}
			if keeper == nil {
				if keeper, err = openStatsKeeper(t.Context(), path); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "some are counted") {
				// As if it were the time of some of the metrics.
				if _, err := keeper.step(t.Context(), base.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "now"))*time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
		})
		defer d.store.close()
		if keeper == nil {
			if keeper, err = openStatsKeeper(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
		for _, when := range []string{"nothing", "old", "everything"} {
			switch when {
			case "old":
				// As if it were the time of some of the metrics.
				if _, err := keeper.step(t.Context(), base.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "now"))*time.Minute)); err != nil {
					t.Fatal(err)
				}
			case "everything":
				for more := true; more; {
					if more, err = keeper.step(t.Context(), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, interval := range []Interval{Hourly, Daily, Overall} {
				q := StatsQuery{Workspace: "w", Interval: interval}
				q.By = Groups(rapid.IntRange(0, 7).Draw(t, "groups"))
				if rapid.Bool().Draw(t, "since") {
					q.Since = base.Add(time.Duration(rapid.IntRange(-100, 1000).Draw(t, "since")) * time.Minute)
				}
				if rapid.Bool().Draw(t, "until") {
					q.Until = base.Add(time.Duration(rapid.IntRange(-100, 1500).Draw(t, "until")) * time.Minute)
				}
				if rapid.IntRange(0, 3).Draw(t, "by kind") == 0 {
					q.Kind = trace.KindEndpoint
				}
				if rapid.IntRange(0, 3).Draw(t, "by key") == 0 {
					q.Key = "a"
				}
				d.checkStats(t, q, when)
			}
		}
	})
}

func (d *drawn) checkStats(t *rapid.T, q StatsQuery, when string) {
	stats, err := d.store.Stats(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]naiveRow{}
	for _, row := range d.naive(q) {
		want[nameOf(row.StatsRow)] = row
	}
	if stats.Pending != 0 || len(stats.Rows) != len(want) {
		t.Fatalf("%s counted: %d rows and %d pending, want %d rows of %+v", when, len(stats.Rows), stats.Pending, len(want), q)
	}
	if !slices.IsSortedFunc(stats.Rows, func(a, b StatsRow) int { return a.Start.Compare(b.Start) }) {
		t.Fatalf("the rows are not in order")
	}
	for _, row := range stats.Rows {
		naive := want[nameOf(row)]
		label := when + " counted, " + nameOf(row)
		checkQuantiles(t, label+" latency", row.Latency, naive.latency)
		checkQuantiles(t, label+" first token", row.FirstToken, naive.firstToken)
		checkQuantiles(t, label+" reported latency", row.ReportedLatency, naive.reported)
		row.Latency, row.FirstToken, row.ReportedLatency = Quantiles{}, Quantiles{}, Quantiles{}
		checkValues(t, label, row.Values, naive.values)
		row.Values = nil
		if diff := cmp.Diff(naive.StatsRow, row, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", label, diff)
		}
	}
}

// TestMetricsWaitForTheirTrace counts metrics that are stored before their trace, as they
// may be, under the trace.
func TestMetricsWaitForTheirTrace(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	now := time.Now()
	record := fullRecord(mustAuthority(t).New(trace.KindEndpoint, now), now)
	m := metricsOf(record.ID)
	m.Time = now
	step := func(at time.Time, want progress) {
		t.Helper()
		if _, err := k.step(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if got, err := statsProgress(t.Context(), k.db); err != nil || got != want {
			t.Errorf("after %v: %+v, %v; want %+v", at.Sub(now), got, err, want)
		}
	}
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m}})
	step(now.Add(settled-time.Millisecond), progress{})
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	step(now.Add(settled+time.Millisecond), progress{traces: 1, metrics: 1})
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
	if err != nil || len(stats.Rows) != 1 || stats.Rows[0].Key != record.Key || stats.Rows[0].Traces != 1 || stats.Rows[0].Reports != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	// A clock that went back an hour stops nothing.
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m}})
	step(now.Add(-time.Hour), progress{traces: 1, metrics: 2})
}

// TestEachTraceCountsOnce has two processes count the same rows.
func TestEachTraceCountsOnce(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	a := mustKeep(t, s)
	b, err := openStatsKeeper(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	now := time.Now()
	authority := mustAuthority(t)
	commit := func(key string, count int) {
		t.Helper()
		var batch recorder.Batch
		for range count {
			r := fullRecord(authority.New(trace.KindEndpoint, now), now)
			r.Key = key
			batch.Records = append(batch.Records, r)
		}
		mustCommit(t, s, batch)
	}
	for round := range 5 {
		commit("a", 3)
		before, after, counted, err := a.count(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := b.step(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			commit("b", 1)
		}
		if err := a.store(t.Context(), before, after, counted); err != nil {
			t.Fatal(err)
		}
		stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
		if err != nil || len(stats.Rows) != 2 || stats.Rows[0].Traces != int64(3*(round+1)) || stats.Rows[1].Traces != int64(2*(round+1)) {
			t.Fatalf("round %d: %+v, %v", round, stats, err)
		}
	}
}

// TestStatsInTheBackground only waits until the rows are counted.
func TestStatsInTheBackground(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	now := time.Now()
	var batch recorder.Batch
	authority := mustAuthority(t)
	for range worthCounting {
		batch.Records = append(batch.Records, fullRecord(authority.New(trace.KindEndpoint, now), now))
	}
	mustCommit(t, s, batch)
	k, err := openStatsKeeper(t.Context(), s.path) // it only looks
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left, err := k.waiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows are not counted", left)
		}
	}
}

// TestFewSlotsAreCountedSoon has the keeper look at rows before their time has come.
func TestFewSlotsAreCountedSoon(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority := mustAuthority(t)
	now := time.Now()
	for _, look := range []struct {
		rows, keys int
		slots      int64 // of the step before
		counted    bool
	}{
		{leastCounting - 1, 1, 0, false},
		{leastCounting, 1, 0, true},
		{leastCounting, 1, 2, true},
		{leastCounting, 100, 0, true},
		{leastCounting, 1, 200, false},
		{200 * worthSlot, 1, 200, true},
		{worthCounting, 1, statsSlots, true},
	} {
		var batch recorder.Batch
		for i := range look.rows {
			r := fullRecord(authority.New(trace.KindEndpoint, now), now)
			r.Key = fmt.Sprintf("key-%d", i%look.keys)
			batch.Records = append(batch.Records, r)
		}
		mustCommit(t, s, batch)
		k.countAt, k.slots = now.Add(time.Hour), look.slots
		if err := k.look(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		left, err := k.waiting(t.Context())
		if err != nil || (left == 0) != look.counted {
			t.Errorf("%+v: %d rows wait, %v", look, left, err)
		}
		if look.counted && k.slots < 2*int64(look.keys) {
			t.Errorf("%+v: the step filled %d slots", look, k.slots)
		}
		k.countAt = now
		if err := k.look(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStatsExpire(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	now := time.Date(2026, 3, 14, 12, 30, 0, 0, time.UTC)
	authority := mustAuthority(t)
	var batch recorder.Batch
	for _, age := range []time.Duration{100 * time.Hour, 50 * time.Hour, 30 * time.Hour, 0} {
		batch.Records = append(batch.Records, fullRecord(authority.New(trace.KindEndpoint, now.Add(-age)), now.Add(-age)))
	}
	mustCommit(t, s, batch)
	if _, err := k.step(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	expire := func(retention time.Duration, wantHours, wantDays int64) {
		t.Helper()
		if err := k.expire(t.Context(), now, retention); err != nil {
			t.Fatal(err)
		}
		for hours, want := range map[int]int64{1: wantHours, 24: wantDays} {
			if got, err := queryInt(t.Context(), k.db, "SELECT count(*) FROM stats WHERE hours = ?", hours); err != nil || got != want {
				t.Errorf("kept for %v: %d slots of %d hours, %v; want %d", retention, got, hours, err, want)
			}
		}
	}
	expire(0, 4, 4)
	expire(time.Hour, 4, 4) // the traces are still there
	if _, err := k.db.ExecContext(t.Context(), "DELETE FROM traces"); err != nil {
		t.Fatal(err)
	}
	expire(49*time.Hour, 2, 3) // the day before yesterday was not over 49 hours ago
	expire(time.Hour, 1, 1)
}

// TestSeriesWithoutStatisticsGo: each version of a definition has its own. A process that
// knew the id of a deleted series does not count under it.
func TestSeriesWithoutStatisticsGo(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	other, err := openStatsKeeper(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	now := time.Date(2026, 3, 14, 12, 30, 0, 0, time.UTC)
	authority := mustAuthority(t)
	commit := func(version string, age time.Duration) {
		t.Helper()
		r := fullRecord(authority.New(trace.KindEndpoint, now.Add(-age)), now.Add(-age))
		r.Version = version
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	}
	count := func(by *statsKeeper) {
		t.Helper()
		if _, err := by.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	commit("v1", 100*time.Hour)
	count(other)
	if _, err := k.db.ExecContext(t.Context(), "DELETE FROM traces"); err != nil {
		t.Fatal(err)
	}
	if err := k.expire(t.Context(), now, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := queryInt(t.Context(), k.db, "SELECT count(*) FROM stats_series"); err != nil || n != 0 {
		t.Errorf("%d series are left, %v", n, err)
	}
	commit("v2", 0)
	count(k) // its series has the id that the other one had
	commit("v1", 0)
	count(other)
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall, By: ByVersion})
	if err != nil || len(stats.Rows) != 2 || stats.Rows[0].Version != "v1" || stats.Rows[0].Traces != 1 || stats.Rows[1].Traces != 1 {
		t.Errorf("%+v, %v", stats.Rows, err)
	}
}

func TestTooManyStats(t *testing.T) {
	alone(t)
	if testing.Short() {
		t.Skip("it stores 10,001 traces of as many hours")
	}
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority := mustAuthority(t)
	commit := func(from, until int) {
		t.Helper()
		var batch recorder.Batch
		for n := from; n < until; n++ {
			at := base.Add(time.Duration(n) * time.Hour)
			batch.Records = append(batch.Records, fullRecord(authority.New(trace.KindEndpoint, at), at))
		}
		mustCommit(t, s, batch)
	}
	count := func() {
		t.Helper()
		for more := true; more; {
			var err error
			if more, err = k.step(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	commit(0, MaxStatsRows)
	count()
	commit(MaxStatsRows, MaxStatsRows+1)
	for range 2 { // the last not yet counted, and counted
		if _, err := s.Stats(t.Context(), StatsQuery{Workspace: "default"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("%v", err)
		}
		stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Until: base.Add(MaxStatsRows * time.Hour).Truncate(time.Hour)})
		if err != nil || len(stats.Rows) != MaxStatsRows {
			t.Errorf("%d rows, %v", len(stats.Rows), err)
		}
		count()
	}
}

// TestInterruptedCallsThatEnd are counted as interrupted, and then as ended, but never as
// both.
func TestInterruptedCallsThatEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	now := time.Now()
	call := fullRecord(mustAuthority(t).New(trace.KindEndpoint, now), now)
	start := *call
	start.State, start.Code = trace.StateInterrupted, ""
	mustCommit(t, s, recorder.Batch{Interrupted: []*trace.Record{&start}})
	k := mustKeep(t, s)
	check := func(when string, traces, interrupted int64) {
		t.Helper()
		for _, counted := range []string{"", ", counted"} {
			stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
			if err != nil || len(stats.Rows) != 1 || stats.Rows[0].Traces != traces || stats.Rows[0].Interrupted != interrupted {
				t.Errorf("%s%s: %+v, %v", when, counted, stats, err)
			}
			if _, err := k.step(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("interrupted", 1, 1)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{call}})
	check("ended after all", 1, 0)
}
