package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The traces of a store of millions.
const (
	listBudget = 60 * time.Millisecond

	millionsDays    = 30
	millionsKeys    = 50
	millionsUsers   = 1_000_000
	millionsTenants = 2_000
	millionsRare    = 20 // of the rare key
)

var (
	millionsPlans     = []string{"free", "starter", "pro", "business", "enterprise"}
	millionsProviders = []string{"openai", "anthropic", "groq"}
	millionsAPIKeys   = []string{"web", "web", "web", "web", "web", "mobile", "mobile", "mobile", "batch", "batch", "partner", "internal"}
)

// millions makes the traces of a store as users have them: keys with skew, of all
// kinds, 2 % errors, metadata of 3 to 5 members, reports on 5 %, decisions that
// share them, splits.
type millions struct {
	authority *trace.Authority
	random    *rand.Rand
	pool      []*trace.Record
	metadata  []byte
}

func newMillions(t testing.TB) *millions {
	m := &millions{authority: mustAuthority(t), random: rand.New(rand.NewPCG(1, 2))}
	for range 4096 {
		m.pool = append(m.pool, new(trace.Record))
	}
	return m
}

// fill stores count traces of the days before now.
func (m *millions) fill(t testing.TB, s *Store, count int, now time.Time) {
	t.Helper()
	const length = millionsDays * 24 * time.Hour
	for n := 0; n < count; {
		batch := m.batch(min(len(m.pool), count-n), func(i int) time.Time {
			return now.Add(-length + time.Duration(float64(n+i)/float64(count)*float64(length)))
		})
		if rare := count / millionsRare; (n+len(batch.Records))/rare > n/rare {
			r := batch.Records[0]
			r.Key, r.APIKey = "rare", "rare"
			batch.Metrics = append(batch.Metrics, m.report(r, r.Time))
		}
		n += len(batch.Records)
		mustCommit(t, s, *batch)
	}
}

// batch makes count records, the ith of the time at(i), and reports on them.
func (m *millions) batch(count int, at func(int) time.Time) *recorder.Batch {
	batch := &recorder.Batch{Records: m.pool[:0]}
	for i := 0; i < count; {
		now, together := at(i), 1
		if m.random.IntN(8) == 0 {
			together = min(3, count-i)
		}
		decision := m.authority.Decide(now, together)
		var shared *trace.Shared
		own := m.newMetadata()
		if together > 1 {
			shared = &trace.Shared{Metadata: append([]byte(nil), own...)}
		}
		for j := range together {
			r := m.pool[i+j]
			m.fillRecord(r, decision, j, now, shared)
			if shared == nil {
				r.Metadata = append(r.Metadata[:0], own...)
			}
			batch.Records = append(batch.Records, r)
			if m.random.IntN(20) == 0 {
				batch.Metrics = append(batch.Metrics, m.report(r, now))
			}
		}
		i += together
	}
	return batch
}

// newMetadata makes an object of 3 to 5 members.
func (m *millions) newMetadata() []byte {
	user := m.random.IntN(millionsUsers)
	b := append(m.metadata[:0], `{"user":"u`...)
	b = strconv.AppendInt(b, int64(user), 10)
	b = append(b, `","tenant":"t`...)
	b = strconv.AppendInt(b, int64(user%millionsTenants), 10)
	b = append(append(append(b, `","plan":"`...), millionsPlans[user%len(millionsPlans)]...), '"')
	if m.random.IntN(2) == 0 {
		b = append(strconv.AppendInt(append(b, `,"conversation_id":"c`...), m.random.Int64N(2_000_000), 10), '"')
	}
	if m.random.IntN(2) == 0 {
		b = strconv.AppendInt(append(b, `,"turn":`...), m.random.Int64N(20), 10)
	}
	m.metadata = append(b, '}')
	return m.metadata
}

func (m *millions) fillRecord(r *trace.Record, d trace.Decision, i int, now time.Time, shared *trace.Shared) {
	key := int(math.Pow(float64(millionsKeys), m.random.Float64())) - 1 // the first has 18 %, the last 0.5 %
	kind := []trace.Kind{trace.KindPrompt, trace.KindRemoteConfig, trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig}[key%5]
	*r = trace.Record{
		ID: d.Trace(kind, i), Decision: d.ID(), Time: now, Workspace: "default", Kind: kind, Key: "key_" + strconv.Itoa(key),
		APIKey:  millionsAPIKeys[m.random.IntN(len(millionsAPIKeys))],
		Version: fmt.Sprintf("%012x", key*7+int(now.Unix()/86400/30)), Revision: fmt.Sprintf("%012x", now.Unix()/86400/3),
		Reason: "match", Row: "row_" + strconv.Itoa(m.random.IntN(4)), Status: 200,
		Latency:  time.Duration(20+m.random.IntN(200)) * time.Microsecond,
		Metadata: r.Metadata, Attempts: r.Attempts[:0], Shared: shared,
	}
	if kind != trace.KindRemoteConfig {
		r.Variant = []string{"en", "nl", "de"}[m.random.IntN(3)]
		r.Arm = r.Variant
	}
	if m.random.IntN(10) == 0 {
		r.Reason, r.Arm = "split", "b"
		r.Splits = []byte(`[{"bucket":7,"share":0.2}]`)
	}
	if kind != trace.KindEndpoint {
		return
	}
	r.Provider = millionsProviders[m.random.IntN(len(millionsProviders))]
	r.Model, r.Latency, r.FirstToken = r.Provider+"-large", time.Duration(m.random.IntN(5000))*time.Millisecond, 200*time.Millisecond
	r.EndpointVariant, r.FinishReason = []string{"cheap", "best"}[m.random.IntN(2)], "stop"
	r.HasUsage, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost = true, 100, 50, 150, 0.001
	r.Attempts = append(r.Attempts, trace.Attempt{Provider: r.Provider, Model: r.Model, Status: 200, Latency: r.Latency})
	switch m.random.IntN(100) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: // 2 % of all traces
		r.Status, r.Code, r.FinishReason = 502, "upstream_error", ""
		r.Attempts[0].Status, r.Attempts[0].Code = 500, "server"
	case 10, 11, 12:
		r.FinishReason = "length"
	case 13, 14, 15, 16, 17:
		r.Attempts = append([]trace.Attempt{{Provider: "first", Model: "m", Status: 500, Code: "server"}}, r.Attempts...)
	}
}

func (m *millions) report(r *trace.Record, now time.Time) *trace.Metrics {
	report := &trace.Metrics{
		TraceID: r.ID, Workspace: r.Workspace, APIKey: r.APIKey, Time: now,
		Score: new(float64(m.random.IntN(101))), ChainID: new("frequent"), Latency: new(float64(m.random.IntN(3000))), Metadata: []byte(`{"source":"client"}`),
	}
	if m.random.IntN(2) == 0 {
		report.ConversationID = new("c" + strconv.Itoa(m.random.IntN(2_000_000)))
	}
	return report
}

// TestMustHoldMillions bounds every read of a store of 10 million traces to 200 ms while
// others are written: with the file in the page cache and, on Linux, without. On a busy
// machine the processor time counts. A list's page must also be complete, unless no index
// has the filter's member. The first rows of an export may take a second. The file that
// CADENZA_MILLIONS names is made if it is missing, and kept. Without CADENZA_FULL=1 the
// store has a hundredth, in which a read of all traces still shows.
func TestMustHoldMillions(t *testing.T) {
	if testing.Short() {
		t.Skip("storing 100,000 traces takes seconds")
	}
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("the race detector, or what counts coverage, makes everything slower")
	}
	count, times := 10_000_000, 5
	full := os.Getenv("CADENZA_FULL") != ""
	if !full {
		count, times = count/100, 3
	}
	path := os.Getenv("CADENZA_MILLIONS")
	if path == "" {
		path = filepath.Join(t.TempDir(), "a.db")
	}
	_, err := os.Stat(path)
	fresh := err != nil
	made := newMillions(t)
	began := time.Now()
	s := mustOpen(t, Config{Path: path})
	t.Logf("opened in %v", time.Since(began))
	if fresh {
		made.fill(t, s, count, time.Now())
		t.Logf("%d traces stored in %v", count, time.Since(began))
	}
	countStats(t, s)
	t.Logf("counted after %v", time.Since(began))
	logTables(t, s)

	r := millionsReads{Reader: s.Reader, now: newestOf(t, s)}
	if fresh {
		r.findRare(t, count)
	}
	stop := made.keepWriting(t, s)
	r.measure(t, "warm", times, nil)
	if !full {
		stop()
		return
	}
	r.measure(t, "cold", 1, func() {
		dropFromCache(t, path)
		fresh, err := OpenReader(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if r.Reader != s.Reader {
			_ = r.Reader.Close()
		}
		r.Reader = fresh
	})
	_ = r.Reader.Close()
	stop()
}

// newestOf returns the time of the newest trace.
func newestOf(t testing.TB, s *Store) time.Time {
	t.Helper()
	newest, err := s.newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newest
}

// keepWriting commits 2,000 traces a second until the function that it returns is
// called.
func (m *millions) keepWriting(t testing.TB, s *Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			now := time.Now()
			if err := s.Commit(ctx, m.batch(100, func(i int) time.Time { return now.Add(time.Duration(i-100) * time.Second / 2000) })); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return func() { cancel(); writer.Wait() }
}

// logTables logs the share of each table in the file.
func logTables(t testing.TB, s *Store) {
	t.Helper()
	sizes, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (string, error) {
		var name string
		var size int64
		err := scan(&name, &size)
		return fmt.Sprintf("%s %.1f", name, float64(size)/(1<<20)), err
	}, "SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name ORDER BY 2 DESC LIMIT 12")
	t.Logf("MiB of the file: %s %v", strings.Join(sizes, ", "), err)
}

// millionsReads are the reads that are measured.
type millionsReads struct {
	*Reader
	now time.Time
}

// findRare lists the rare traces, page by page, and exports an hour.
func (r *millionsReads) findRare(t *testing.T, count int) {
	for name, f := range map[string]trace.Filter{"key": {Key: "rare"}, "API key": {APIKey: "rare"}, "key, slower": {Key: "rare", Slower: 1}} {
		f.Workspace = "default"
		found, pages := 0, 1
		for before := (trace.ID{}); ; pages++ {
			page, err := r.Traces(t.Context(), f, before, 50, time.Second) // measure checks the time
			if err != nil {
				t.Fatal(err)
			}
			found += len(page.Records)
			if before = page.Next; before.IsZero() {
				break
			}
		}
		if found != millionsRare || pages > 1 {
			t.Errorf("%d traces of the rare %s were found on %d pages, want %d", found, name, pages, millionsRare)
		}
	}
	exported := 0
	hour := trace.Filter{Workspace: "default", Since: r.now.Add(-3 * time.Hour), Until: r.now.Add(-2 * time.Hour)}
	err := r.Export(t.Context(), hour, func(*trace.Record, []trace.Metrics) error { exported++; return nil })
	if err != nil || exported < count/millionsDays/24-1 {
		t.Errorf("%d traces of an hour were exported, %v", exported, err)
	}
}

// measure runs each read times times, after prepare. It bounds it to 200 ms, and the first
// rows of an export to a second, by the clock or by the processor time of the thread that
// reads, whichever is less: what other goroutines and processes do is not the read's.
func (r *millionsReads) measure(t *testing.T, when string, times int, prepare func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measured := func(name string, run func() (string, error)) {
		t.Helper()
		var all []time.Duration
		var result string
		for range times {
			if prepare != nil {
				prepare()
			}
			began, used := time.Now(), threadTime(t)
			var err error
			if result, err = run(); err != nil {
				t.Errorf("%s, %s: %v", when, name, err)
				return
			}
			took := time.Since(began)
			if used = threadTime(t) - used; used > 0 {
				took = min(took, used)
			}
			all = append(all, took)
		}
		slices.Sort(all)
		median := all[len(all)/2]
		t.Logf("%s %-50s %9v (worst %v): %s", when, name, median.Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond), result)
		bound := 200 * time.Millisecond
		if strings.HasPrefix(name, "export") {
			bound = time.Second // if nothing matches, it reads all reports
		}
		if median > bound {
			t.Errorf("%s, %s takes %v", when, name, median)
		}
	}
	middle := trace.FirstID(r.now.Add(-millionsDays * 12 * time.Hour))
	filters := millionsFilters(r.now)
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		f := filters[name]
		if f.Workspace == "" {
			f.Workspace = "default"
		}
		for where, before := range map[string]trace.ID{"newest": {}, "deep": middle} {
			measured("list "+where+": "+name, func() (string, error) {
				budget := listBudget
				if !strings.HasPrefix(name, "~") {
					budget = time.Second // the time is checked below
				}
				page, err := r.Traces(t.Context(), f, before, 50, budget)
				if !page.Complete && !strings.HasPrefix(name, "~") && err == nil {
					err = fmt.Errorf("the page is not complete, with %d traces", len(page.Records))
				}
				return fmt.Sprintf("%d traces, complete: %t", len(page.Records), page.Complete), err
			})
		}
		if strings.HasPrefix(name, "~") {
			continue
		}
		measured("export first: "+name, func() (string, error) {
			rows := 0
			err := r.Export(t.Context(), f, func(*trace.Record, []trace.Metrics) error {
				if rows++; rows == 100 {
					return errEnough
				}
				return nil
			})
			if errors.Is(err, errEnough) {
				err = nil
			}
			return fmt.Sprintf("%d rows", rows), err
		})
	}
	for name, f := range map[string]trace.Filter{
		"all": {}, "of a day": {Since: r.now.Add(-24 * time.Hour)}, "at least 80": {Score: &trace.ScoreRange{Least: 80, Most: 100}}, "of a key": {Key: "key_20"},
		"none": {Score: &trace.ScoreRange{Least: 0.25, Most: 0.75}},
	} {
		f.Workspace = "default"
		measured("worst "+name, func() (string, error) {
			page, next, err := r.Worst(t.Context(), f, nil, 20, time.Second)
			if err == nil && !page.Complete {
				err = errors.New("the page is not complete")
			}
			return fmt.Sprintf("%d traces, more: %t", len(page.Records), next != nil), err
		})
	}
	for name, q := range map[string]StatsQuery{
		"all, 30 days":               {Interval: Overall},
		"all, by day":                {Interval: Daily},
		"all, by day and version":    {Interval: Daily, By: ByVersion},
		"all, by arm":                {Interval: Overall, By: ByArm},
		"all, by version":            {Interval: Overall, By: ByVersion},
		"all, by all":                {Interval: Overall, By: ByVersion | ByArm | ByVariant},
		"all, an hour":               {Interval: Overall, Since: r.now.Add(-time.Hour)},
		"all, a day by hour":         {Interval: Hourly, Since: r.now.Add(-24 * time.Hour)},
		"one key, 30 days by hour":   {Interval: Hourly, Key: "key_0"},
		"one key, by day and arm":    {Interval: Daily, Key: "key_0", By: ByArm},
		"one key, by version":        {Interval: Overall, Key: "key_0", By: ByVersion},
		"one key, an hour":           {Interval: Hourly, Key: "key_0", Since: r.now.Add(-time.Hour)},
		"one kind, 30 days":          {Interval: Daily, Kind: trace.KindEndpoint},
		"a key that is not there":    {Interval: Daily, Key: "none"},
		"an hour by the minute":      {Interval: Minutely, Since: r.now.Add(-time.Hour), Until: r.now},
		"a week ago by the minute":   {Interval: Minutely, Since: r.now.Add(-169 * time.Hour), Until: r.now.Add(-168 * time.Hour)},
		"29 days with parts of days": {Interval: Overall, Since: r.now.Add(-29*24*time.Hour - 5*time.Hour), Until: r.now.Add(-3 * time.Hour)},
	} {
		q.Workspace = "default"
		measured("stats "+name, func() (string, error) {
			stats, err := r.Stats(t.Context(), q)
			if errors.Is(err, ErrTooMany) {
				return "too many rows", nil
			}
			return fmt.Sprintf("%d rows, %d pending", len(stats.Rows), stats.Pending), err
		})
	}
	for by, h := range map[string]*Highest{"cost": ByCost, "latency": ByLatency} {
		for _, name := range []string{"all", "an hour", "kind", "key", "key, seldom", "metadata tenant", "metadata plan", "outcome failed", "key rare"} {
			f := filters[name]
			f.Workspace = "default"
			measured("highest "+by+": "+name, func() (string, error) {
				page, next, err := r.Highest(t.Context(), f, h, nil, 50, listBudget)
				return fmt.Sprintf("%d traces, complete: %t, more: %t", len(page.Records), page.Complete, next != nil), err
			})
		}
	}
	page, err := r.Traces(t.Context(), trace.Filter{Workspace: "default"}, middle, 1, listBudget)
	if err != nil || len(page.Records) == 0 {
		t.Fatal(err)
	}
	record := page.Records[0]
	measured("one trace", func() (string, error) {
		_, err := r.Get(t.Context(), "default", record.ID)
		return "found", err
	})
	measured("prefix of an id", func() (string, error) {
		first, last := record.ID, record.ID
		for i := 5; i < len(first); i++ {
			first[i], last[i] = 0, 0xff
		}
		found, more, err := r.Between(t.Context(), "default", first, last)
		return fmt.Sprintf("%d, more: %t", len(found), more), err
	})
	measured("prefix of a decision's id", func() (string, error) {
		first, last := record.Decision, record.Decision
		for i := 7; i < len(first); i++ {
			first[i], last[i] = 0, 0xff
		}
		found, more, err := r.DecisionsBetween(t.Context(), "default", first, last)
		return fmt.Sprintf("%d, more: %t", len(found), more), err
	})
	for name, f := range map[string]trace.Filter{"all": {}, "none": {Key: "none"}, "metadata": {Metadata: []trace.MetadataMatch{{Name: "user", Value: `"none"`}}}} {
		f.Workspace = "default"
		measured("follow "+name, func() (string, error) {
			records, last, err := r.Follow(t.Context(), f, 1_000, 100)
			return fmt.Sprintf("%d traces to %d", len(records), last), err
		})
	}
	measured("last seq", func() (string, error) {
		last, err := r.LastSeq(t.Context())
		return fmt.Sprint(last), err
	})
	measured("outbox from zero", func() (_ string, err error) {
		o, err := OpenOutbox(t.Context(), r.path, "default", "default/new")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, o.Close()) }()
		rows, oldest, err := o.Pending(t.Context())
		if err != nil {
			return "", err
		}
		d, err := o.Next(t.Context(), trace.Position{}, 500)
		return fmt.Sprintf("%d pending since %v, %d delivered", rows, oldest, d.Len()), err
	})
	measured("outbox of another workspace", func() (_ string, err error) {
		o, err := OpenOutbox(t.Context(), r.path, "other", "other/new")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, o.Close()) }()
		d, err := o.Next(t.Context(), trace.Position{}, 500)
		return fmt.Sprint(d.Position.Traces), err
	})
}

// millionsFilters are filters by name. A ~ in the name marks a filter without an index, or
// for two values which very many traces have, but none has both: a page ends when its time
// is over.
func millionsFilters(now time.Time) map[string]trace.Filter {
	member := func(name, value string) []trace.MetadataMatch {
		return []trace.MetadataMatch{{Name: name, Value: value}}
	}
	user, tenant, plan, none := member("user", `"u123456"`), member("tenant", `"t17"`), member("plan", `"pro"`), member("user", `"none"`)
	hour := trace.Filter{Since: now.Add(-100 * time.Hour), Until: now.Add(-99 * time.Hour)}
	return map[string]trace.Filter{
		"all": {}, "another workspace": {Workspace: "other"},
		"kind": {Kind: trace.KindEndpoint}, "kind, none": {Kind: trace.KindMetrics},
		"key": {Key: "key_0"}, "key, seldom": {Key: "key_48"}, "key, none": {Key: "none"},
		"api key": {APIKey: "web"}, "api key, none": {APIKey: "none"},
		"state ended": {State: new(trace.StateEnded)}, "state interrupted": {State: new(trace.StateInterrupted)}, "state started": {State: new(trace.StateStarted)},
		"status 200": {Status: 200}, "status 502": {Status: 502}, "status, none": {Status: 418}, "status, none below 400": {Status: 204},
		"outcome ok": {Outcome: trace.OK}, "outcome failed": {Outcome: trace.Failed},
		"code": {Code: "upstream_error"}, "code, none": {Code: "none"},
		"provider": {Provider: "openai"}, "provider, none": {Provider: "none"},
		"model": {Model: "openai-large"}, "model, none": {Model: "none"},
		"version, none": {Version: "none"}, "revision, none": {Revision: "none"},
		"variant": {Variant: "nl"}, "variant, none": {Variant: "none"}, "arm": {Arm: "b"}, "arm, none": {Arm: "none"},
		"finish reason length": {FinishReason: "length"}, "finish reason stop": {FinishReason: "stop"}, "finish reason, none": {FinishReason: "content_filter"},
		"slower": {Slower: 4 * time.Second}, "~slower, none": {Slower: time.Hour},
		"attempts": {Attempts: 2}, "~attempts, none": {Attempts: 5}, "fallback": {Fallback: true},
		"conversation": {ConversationID: "c77"}, "conversation, none": {ConversationID: "none"}, "chain, none": {ChainID: "none"},
		"an hour": hour, "an hour, metadata none": {Since: hour.Since, Until: hour.Until, Metadata: none},
		"metadata user": {Metadata: user}, "metadata tenant": {Metadata: tenant}, "metadata plan": {Metadata: plan}, "metadata, none": {Metadata: none},
		"metadata, no such name": {Metadata: member("no", "1")}, "metadata number": {Metadata: member("turn", "7")}, "metadata number, none": {Metadata: member("turn", "7.5")},
		"metadata user and plan": {Metadata: slices.Concat(user, plan)}, "metadata user and never his plan": {Metadata: slices.Concat(user, member("plan", `"free"`))},
		"metadata tenant, key": {Metadata: tenant, Key: "key_3"}, "metadata plan, key none": {Metadata: plan, Key: "none"},
		"metadata plan, failed": {Metadata: plan, Outcome: trace.Failed}, "metadata user, failed": {Metadata: user, Outcome: trace.Failed},
		"metadata none, failed": {Metadata: none, Outcome: trace.Failed}, "metadata plan, slower": {Metadata: plan, Slower: 4 * time.Second},
		"metadata none, kind": {Metadata: none, Kind: trace.KindEndpoint},
		"key, api key":        {Key: "key_0", APIKey: "internal"}, "key, kind": {Key: "key_43", Kind: trace.KindEndpoint}, "label, none": {Label: "none"}, "row": {Row: "row_1"}, "~row, none": {Row: "none"}, "~field, none": {Inputs: []trace.InputMatch{{MetadataMatch: trace.MetadataMatch{Name: "plan", Value: `"none"`}, Hashes: []string{"none"}}}},
		"key, status 502":   {Key: "key_43", Status: 502},
		"key, variant none": {Key: "key_0", Variant: "none"}, "key, version none": {Key: "key_0", Version: "none"}, "provider, key none": {Provider: "openai", Key: "none"},
		"provider, metadata none": {Provider: "openai", Metadata: none}, "~provider, another's model": {Provider: "openai", Model: "groq-large"},
		"score": {Score: &trace.ScoreRange{Most: 20}}, "score, few": {Score: &trace.ScoreRange{Most: 1}}, "score, none": {Score: &trace.ScoreRange{Least: 0.25, Most: 0.75}},
		"score, key rare": {Score: &trace.ScoreRange{Most: 20}, Key: "rare"}, "chain": {ChainID: "frequent"}, "chain, key rare": {ChainID: "frequent", Key: "rare"},
		"key rare": {Key: "rare"}, "key rare, status none": {Key: "rare", Status: 204}, "api key rare, failed": {APIKey: "rare", Outcome: trace.Failed},
		"failed, another's provider": {Outcome: trace.Failed, Provider: "none"}, "conversation, key": {ConversationID: "c77", Key: "key_0"},
	}
}

// countStats counts until all rows are counted, beside the store's keeper, which lets few
// rows wait.
func countStats(t testing.TB, s *Store) {
	t.Helper()
	k, err := openStatsKeeper(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	for deadline := time.Now().Add(time.Minute); ; {
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
		more, err := k.step(t.Context(), time.Now())
		if err != nil && !isBusy(err) {
			t.Fatal(err)
		}
		if !more {
			time.Sleep(50 * time.Millisecond) // reports wait until they are settled
		}
	}
}
