package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	manyDays   = 30
	rareCount  = 20 // of each thing that is rare
	listBudget = 60 * time.Millisecond
)

// fillMany stores count traces of the last 30 days: mostly prompts of 40 keys, 1 %
// endpoints of which a tenth failed, metadata on a fifth, metrics on 5 %, and a
// few of everything that is rare.
func fillMany(t testing.TB, s *Store, count int, now time.Time) {
	t.Helper()
	authority := mustAuthority(t)
	begin, step := now.Add(-manyDays*24*time.Hour), manyDays*24*time.Hour/time.Duration(count)
	pool := make([]*trace.Record, 1024)
	for i := range pool {
		pool[i] = new(trace.Record)
	}
	for n := 0; n < count; {
		batch := recorder.Batch{Records: pool[:0]}
		for range min(len(pool), count-n) {
			at := begin.Add(time.Duration(n) * step)
			batch.Records = append(batch.Records, manyRecord(pool[len(batch.Records)], authority, n, count, at, &batch))
			n++
		}
		if err := s.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
	}
}

// manyRecord fills the n-th of count records, and adds its metrics to batch.
func manyRecord(r *trace.Record, authority *trace.Authority, n, count int, at time.Time, batch *recorder.Batch) *trace.Record {
	*r = trace.Record{}
	kind := trace.KindPrompt
	rare := n%(count/rareCount) == count/rareCount/2
	switch {
	case rare, n%100 == 7:
		kind = trace.KindEndpoint
	case n%10 == 3:
		kind = trace.KindRemoteConfig
	}
	fillEvaluation(r, authority.New(kind, at), at)
	r.Kind, r.Key, r.Variant, r.Metadata = kind, fmt.Sprint("key_", n%40), []string{"", "nl"}[n%2], nil
	r.APIKey, r.Latency = fmt.Sprint("app_", n%4), time.Duration(20+n%200)*time.Microsecond
	if n%5 == 0 {
		r.Metadata = fmt.Appendf(nil, `{"session":"%d","plan":"pro","n":%d,"conversation_id":"own_%d"}`, n/50, n%1000, n/50)
	}
	switch kind {
	case trace.KindRemoteConfig:
		r.Variant = ""
	case trace.KindEndpoint:
		r.Provider, r.Model, r.Status, r.Latency, r.FirstToken = "openai", "gpt", 200, time.Duration(n%3000)*time.Millisecond, 300*time.Millisecond
		r.HasUsage, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost = true, 100, 50, 150, 0.001
		r.Attempts = []trace.Attempt{{Provider: "openai", Model: "gpt", Status: 200, Latency: r.Latency}}
		if n%1000 == 7 {
			r.Status, r.Code = 502, "upstream_error"
		}
	}
	if rare {
		r.Key, r.APIKey, r.Provider, r.Model, r.Code, r.Status = "rare", "rare", "rare", "rare", "rare", 418
		r.Metadata = []byte(`{"session":"rare"}`)
	}
	if n%20 == 0 || rare {
		m := &trace.Metrics{TraceID: r.ID, Workspace: r.Workspace, Time: at, Score: new(float64(n % 101)), Latency: new(float64(n % 3000))}
		m.ConversationID, m.ChainID = new(fmt.Sprint("conversation_", n/100)), new("frequent")
		if rare {
			m.ConversationID = new("rare")
		}
		batch.Metrics = append(batch.Metrics, m)
	}
	return r
}

// TestMillionTraces holds every query to 100 ms, on a million traces, while
// others are written.
func TestMillionTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("storing a million traces takes half a minute")
	}
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("the race detector, or what counts coverage, makes everything slower")
	}
	const count, bound = 1_000_000, 100 * time.Millisecond
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	began, now := time.Now(), time.Now()
	fillMany(t, s, count, now)
	filled := time.Since(began)
	waitForStats(t, s)
	size, err := queryInt(t.Context(), s.Reader.db, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d traces stored in %v, counted %v later, %d MiB", count, filled.Round(time.Millisecond), (time.Since(began) - filled).Round(time.Millisecond), size>>20)

	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() {
		authority := mustAuthority(t)
		for n := 0; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			var batch recorder.Batch
			for range 100 {
				batch.Records = append(batch.Records, manyRecord(new(trace.Record), authority, n%1000*2+1, 1<<40, time.Now(), &batch))
				n++
			}
			if err := s.Commit(ctx, &batch); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})

	measure := func(name string, run func() (string, error)) {
		t.Helper()
		var times []time.Duration
		var result string
		for range 5 {
			began := time.Now()
			var err error
			if result, err = run(); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		t.Logf("%-40s %8v (worst %v): %s", name, times[2].Round(10*time.Microsecond), times[4].Round(10*time.Microsecond), result)
		if times[2] > bound {
			t.Errorf("%s takes %v, more than %v", name, times[2], bound)
		}
	}

	// These no index answers: their page ends when its time is over, which says
	// nothing of the time that reading all would take.
	unanswered := []string{
		"kind, none", "model, rare", "metadata, rare", "metadata, number", "key and metadata, rare", "provider, chain, metadata",
		"key, never of the API key", "another workspace",
	}
	middle := trace.FirstID(now.Add(-manyDays * 12 * time.Hour))
	for name, f := range map[string]trace.Filter{
		"all":                       {},
		"kind, frequent":            {Kind: trace.KindPrompt},
		"kind, 1 %":                 {Kind: trace.KindEndpoint},
		"kind, none":                {Kind: trace.KindMetrics},
		"key, frequent":             {Key: "key_12"},
		"key, rare":                 {Key: "rare"},
		"key, none":                 {Key: "none"},
		"api key, frequent":         {APIKey: "app_1"},
		"api key, rare":             {APIKey: "rare"},
		"api key, none":             {APIKey: "none"},
		"key, API key":              {Key: "key_12", APIKey: "app_0"},
		"key, never of the API key": {Key: "key_12", APIKey: "app_1"},
		"rare key, status":          {Key: "rare", Status: 418},
		"rare key, never ok":        {Key: "rare", Outcome: trace.OK},
		"key, status, rare":         {Key: "key_7", Status: 502},
		"key, kind":                 {Key: "key_13", Kind: trace.KindRemoteConfig},
		"key, kind, none":           {Key: "key_12", Kind: trace.KindRemoteConfig},
		"key, state started":        {Key: "key_12", State: new(trace.StateStarted)},
		"key, provider":             {Key: "key_7", Provider: "openai"},
		"rare key, provider":        {Key: "rare", Provider: "rare"},
		"rare key, chain":           {Key: "rare", ChainID: "frequent"},
		"rare API key, failed":      {APIKey: "rare", Outcome: trace.Failed},
		"status 200":                {Status: 200},
		"status 502":                {Status: 502},
		"status, rare":              {Status: 418},
		"outcome ok":                {Outcome: trace.OK},
		"outcome error":             {Outcome: trace.Failed},
		"state ended":               {State: new(trace.StateEnded)},
		"state started":             {State: new(trace.StateStarted)},
		"state interrupted":         {State: new(trace.StateInterrupted)},
		"provider, frequent":        {Provider: "openai"},
		"provider, rare":            {Provider: "rare"},
		"model, frequent":           {Model: "gpt"},
		"model, rare":               {Model: "rare"},
		"code, frequent":            {Code: "upstream_error"},
		"code, rare":                {Code: "rare"},
		"conversation":              {ConversationID: "conversation_77"},
		"conversation, rare":        {ConversationID: "rare"},
		"conversation of requests":  {ConversationID: "own_77"},
		"conversation, none":        {ConversationID: "none"},
		"decision, none":            {Decision: mustAuthority(t).Decide(now, 1).ID()},
		"chain, frequent":           {ChainID: "frequent"},
		"chain, none":               {ChainID: "none"},
		"score, a fifth":            {Score: &trace.ScoreRange{Least: 0, Most: 20}},
		"score, few":                {Score: &trace.ScoreRange{Least: 0, Most: 1}},
		"score, none":               {Score: &trace.ScoreRange{Least: 0.25, Most: 0.75}},
		"score, key, rare":          {Score: &trace.ScoreRange{Least: 0, Most: 20}, Key: "rare"},
		"metadata, frequent":        {Metadata: []trace.MetadataMatch{{Name: "plan", Value: `"pro"`}}},
		"metadata, rare":            {Metadata: []trace.MetadataMatch{{Name: "session", Value: `"rare"`}}},
		"metadata, number":          {Metadata: []trace.MetadataMatch{{Name: "n", Value: "5"}}},
		"an hour":                   {Since: now.Add(-10 * time.Hour), Until: now.Add(-9 * time.Hour)},
		"an hour, key, none":        {Since: now.Add(-10 * time.Hour), Until: now.Add(-9 * time.Hour), Key: "none"},
		"another workspace":         {Workspace: "other"},
		"key and metadata, rare":    {Key: "key_1", Metadata: []trace.MetadataMatch{{Name: "session", Value: `"rare"`}}},
		"provider, chain, metadata": {Provider: "rare", ChainID: "frequent", Metadata: []trace.MetadataMatch{{Name: "session", Value: `"rare"`}}},
	} {
		if f.Workspace == "" {
			f.Workspace = "default"
		}
		for where, before := range map[string]trace.ID{"newest": {}, "deep": middle} {
			measure("list "+where+": "+name, func() (string, error) {
				page, err := s.Traces(t.Context(), f, before, 50, listBudget)
				if !page.Complete && !slices.Contains(unanswered, name) && err == nil {
					err = errors.New("the page is not complete: nearly all was read, where an index answers")
				}
				return fmt.Sprintf("%d traces, complete: %t", len(page.Records), page.Complete), err
			})
		}
	}
	for name, f := range map[string]trace.Filter{"all": {}, "key, rare": {Key: "rare"}, "chain": {ChainID: "frequent"}} {
		f.Workspace = "default"
		measure("follow "+name, func() (string, error) {
			records, last, err := s.Follow(t.Context(), f, int64(count/2), 100)
			return fmt.Sprintf("%d traces to %d", len(records), last), err
		})
	}
	for name, f := range map[string]trace.Filter{
		"all": {}, "of a day": {Since: now.Add(-24 * time.Hour)}, "at least 80": {Score: &trace.ScoreRange{Least: 80, Most: 100}}, "of a key": {Key: "key_20"},
		"none": {Score: &trace.ScoreRange{Least: 0.25, Most: 0.75}},
	} {
		f.Workspace = "default"
		measure("worst "+name, func() (string, error) {
			page, next, err := s.Worst(t.Context(), f, nil, 20, listBudget)
			if err == nil && !page.Complete {
				err = errors.New("the page is not complete")
			}
			return fmt.Sprintf("%d traces, more: %t", len(page.Records), next != nil), err
		})
	}
	measure("get", func() (string, error) {
		page, err := s.Traces(t.Context(), trace.Filter{Workspace: "default"}, middle, 1, listBudget)
		if err != nil {
			return "", err
		}
		_, err = s.Get(t.Context(), "default", page.Records[0].ID)
		return "found", err
	})
	for name, q := range map[string]StatsQuery{
		"everything, overall":    {Interval: Overall},
		"everything, by day":     {Interval: Daily},
		"everything, by hour":    {Interval: Hourly},
		"one key, overall":       {Interval: Overall, Key: "key_12"},
		"one key, by day":        {Interval: Daily, Key: "key_12"},
		"one key, by hour":       {Interval: Hourly, Key: "key_12"},
		"one kind, by hour":      {Interval: Hourly, Kind: trace.KindEndpoint},
		"29 days, overall":       {Interval: Overall, Since: now.Add(-29*24*time.Hour - 5*time.Hour), Until: now.Add(-3 * time.Hour)},
		"a day of all, by hour":  {Interval: Hourly, Since: now.Add(-24 * time.Hour)},
		"rare key, over 30 days": {Interval: Daily, Key: "rare"},
	} {
		q.Workspace = "default"
		measure("stats "+name, func() (string, error) {
			stats, err := s.Stats(t.Context(), q)
			if errors.Is(err, ErrTooMany) && q.Interval == Hourly && q.Key == "" {
				return "too many rows", nil
			}
			return fmt.Sprintf("%d rows, %d pending", len(stats.Rows), stats.Pending), err
		})
	}
	measure("export an hour", func() (string, error) {
		n := 0
		err := s.Export(t.Context(), trace.Filter{Workspace: "default", Since: now.Add(-3 * time.Hour), Until: now.Add(-2 * time.Hour)},
			func(*trace.Record, []trace.Metrics) error { n++; return nil })
		if n < count/manyDays/24-1 {
			err = errors.Join(err, fmt.Errorf("%d traces were exported", n))
		}
		return fmt.Sprintf("%d traces", n), err
	})

	// Page by page, what no index serves is found too.
	for name, f := range map[string]trace.Filter{"key": {Key: "rare"}, "API key": {APIKey: "rare"}, "model": {Model: "rare"}} {
		f.Workspace = "default"
		found, pages := 0, 1
		for before := (trace.ID{}); ; pages++ {
			page, err := s.Traces(t.Context(), f, before, 50, listBudget)
			if err != nil {
				t.Fatal(err)
			}
			found += len(page.Records)
			if before = page.Next; before.IsZero() {
				break
			}
		}
		if found != rareCount || name != "model" && pages > 1 {
			t.Errorf("%d traces of the rare %s were found on %d pages, want %d", found, name, pages, rareCount)
		}
		t.Logf("all of a rare %s took %d pages", name, pages)
	}
}

// waitForStats waits until everything is counted, and posted but for what is too
// little.
func waitForStats(t testing.TB, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left, err := queryInt(t.Context(), s.Reader.db, `
SELECT (SELECT coalesce(max(seq), 0) FROM traces) - c.traces + (SELECT coalesce(max(seq), 0) FROM metrics) - c.metrics + max(c.traces - p.traces - ?, 0)
FROM cursors AS c, cursors AS p WHERE c.sink = 'stats' AND p.sink = 'postings'`, blockRows)
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
