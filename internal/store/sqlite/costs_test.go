package sqlite

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// costDay is shortly before midnight, UTC.
var costDay = time.Date(2026, 11, 1, 23, 59, 50, 0, time.UTC)

// commitCalls stores records, with an id and the members that all have.
func commitCalls(t testing.TB, s *Store, records ...*trace.Record) {
	t.Helper()
	authority := mustAuthority(t)
	for i, r := range records {
		if r.Time.IsZero() {
			r.Time = costDay.Add(time.Duration(i) * time.Millisecond)
		}
		if r.Kind == 0 {
			r.Kind = trace.KindEndpoint
		}
		if r.Workspace == "" {
			r.Workspace = "default"
		}
		r.ID = authority.New(r.Kind, r.Time)
	}
	mustCommit(t, s, recorder.Batch{Records: records})
}

// costCalls are calls of each kind.
func costCalls() []*trace.Record {
	mini := func(a trace.Attempt) trace.Attempt {
		a.Provider, a.Model = "openai", "gpt-4o-mini"
		return a
	}
	return []*trace.Record{
		{ // It answered, with parts of each sort.
			Key: "chat", Variant: "en", Version: "e1", PromptVersion: "p1", APIKey: "web", Metadata: []byte(`{"customer":"acme","tier":1,"trial":true}`), Cost: 0.5,
			Attempts: []trace.Attempt{mini(trace.Attempt{PromptTokens: 1000, CompletionTokens: 100, Cost: 0.5, UsageDetails: trace.UsageDetails{
				CachedTokens: 400, CacheWriteTokens: 30, CacheWriteHourTokens: 20, ReasoningTokens: 60, WebSearches: 2,
			}})},
		},
		{ // Its first attempt failed after some tokens, its second lost to a hedge, which answered after midnight.
			Key: "chat", Variant: "nl", Version: "e1", PromptVersion: "p2", APIKey: "web", Metadata: []byte(`{"customer":"acme","tier":"1"}`), Cost: 0.175,
			Attempts: []trace.Attempt{
				mini(trace.Attempt{Code: "server", PromptTokens: 10, CompletionTokens: 5, Estimated: true, Cost: 0.05}),
				mini(trace.Attempt{Code: "superseded", PromptTokens: 20, Cost: 0.025, Started: 2 * time.Second}),
				{Provider: "openrouter", Model: "claude", PromptTokens: 20, CompletionTokens: 10, Cost: 0.1, ListCost: 0.125, Hedge: true, Started: 15 * time.Second},
			},
		},
		{ // The model has no price, and the provider of another says that it was free.
			Key: "draft", Version: "e2", APIKey: "batch", Metadata: []byte(`{"customer":null,"tier":{"a":1}}`),
			Attempts: []trace.Attempt{
				{Provider: "groq", Model: "new", PromptTokens: 7, CompletionTokens: 3},
				{Provider: "openrouter", Model: "gratis", PromptTokens: 7, CompletionTokens: 3, Free: true},
			},
		},
		{Key: "draft", APIKey: "batch", Cached: true, Model: "gpt-4o-mini"}, // a cache answered
		{Key: "draft", APIKey: "batch", State: trace.StateInterrupted},
		{ // Its attempts were at two providers, and the last of them cost nothing.
			Key: "mixed", Cost: 0.25,
			Attempts: []trace.Attempt{
				{Provider: "azure", Model: "gpt-4o", PromptTokens: 30, Cost: 0.075},
				mini(trace.Attempt{PromptTokens: 60, CompletionTokens: 10, Cost: 0.175}),
				{Provider: "azure", Model: "gpt-4o", Code: "connect"},
			},
		},
		{Kind: trace.KindPrompt, Key: "reply", Variant: "en", Cost: 9},
		{Workspace: "other", Key: "chat", APIKey: "web", Cost: 2, Attempts: []trace.Attempt{mini(trace.Attempt{PromptTokens: 1, Cost: 2})}},
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	commitCalls(t, s, costCalls()...)
	workspace := []CostSource{{s.Reader, "default"}}
	both := append(slices.Clone(workspace), CostSource{s.Reader, "other"})
	for name, test := range map[string]struct {
		sources []CostSource
		query   CostQuery
		want    string // its rows, as JSON without quotes, a line each
	}{
		"key": {workspace, CostQuery{By: []string{"key"}}, `
by{key:chat} calls:2 attempts:4 unanswered:2 prompt_tokens:1050 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:115 reasoning_tokens:60 estimated_tokens:15 web_searches:2 cost_usd:0.675 estimated_cost_usd:0.05 unanswered_cost_usd:0.075 reported_cost_usd:0.1 list_cost_usd:0.125
by{key:mixed} calls:1 attempts:3 unanswered:1 prompt_tokens:90 completion_tokens:10 cost_usd:0.25
by{key:draft} calls:3 cached_answers:1 interrupted:1 attempts:2 unpriced:1 unpriced_tokens:10 prompt_tokens:14 completion_tokens:6 cost_usd:0`},
		"model, of all workspaces": {both, CostQuery{By: []string{"provider", "model"}}, `
by{model:gpt-4o-mini provider:openai} calls:4 attempts:5 unanswered:2 prompt_tokens:1091 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:115 reasoning_tokens:60 estimated_tokens:15 web_searches:2 cost_usd:2.75 estimated_cost_usd:0.05 unanswered_cost_usd:0.075
by{model:claude provider:openrouter} calls:1 attempts:1 prompt_tokens:20 completion_tokens:10 cost_usd:0.1 reported_cost_usd:0.1 list_cost_usd:0.125
by{model:gpt-4o provider:azure} calls:1 attempts:2 unanswered:1 prompt_tokens:30 completion_tokens:0 cost_usd:0.075
by{model:new provider:groq} calls:1 attempts:1 unpriced:1 unpriced_tokens:10 prompt_tokens:7 completion_tokens:3 cost_usd:0
by{model:gratis provider:openrouter} calls:1 attempts:1 prompt_tokens:7 completion_tokens:3 cost_usd:0
by{} calls:2 cached_answers:1 interrupted:1 attempts:0 prompt_tokens:0 completion_tokens:0 cost_usd:0`},
		"workspace": {both, CostQuery{By: []string{"workspace", "endpoint_variant"}, Filter: trace.Filter{APIKey: "web"}}, `
by{workspace:other} calls:1 attempts:1 prompt_tokens:1 completion_tokens:0 cost_usd:2
by{workspace:default} calls:2 attempts:4 unanswered:2 prompt_tokens:1050 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:115 reasoning_tokens:60 estimated_tokens:15 web_searches:2 cost_usd:0.675 estimated_cost_usd:0.05 unanswered_cost_usd:0.075 reported_cost_usd:0.1 list_cost_usd:0.125`},
		"version, with the prompt's": {workspace, CostQuery{By: []string{"version"}, Filter: trace.Filter{Provider: "openrouter"}}, `
by{version:e1/p2} calls:1 attempts:1 prompt_tokens:20 completion_tokens:10 cost_usd:0.1 reported_cost_usd:0.1 list_cost_usd:0.125
by{version:e2} calls:1 attempts:1 prompt_tokens:7 completion_tokens:3 cost_usd:0`},
		"version of a prompt": {workspace, CostQuery{By: []string{"version", "key"}, Filter: trace.Filter{Version: "p1"}}, `
by{key:chat version:e1/p1} calls:1 attempts:1 prompt_tokens:1000 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:100 reasoning_tokens:60 web_searches:2 cost_usd:0.5`},
		"day of the attempt": {workspace, CostQuery{By: []string{"day", "api_key"}, Filter: trace.Filter{Provider: "openrouter"}}, `
by{api_key:batch day:2026-11-01} calls:1 attempts:1 prompt_tokens:7 completion_tokens:3 cost_usd:0
by{api_key:web day:2026-11-02} calls:1 attempts:1 prompt_tokens:20 completion_tokens:10 cost_usd:0.1 reported_cost_usd:0.1 list_cost_usd:0.125`},
		"metadata": {workspace, CostQuery{By: []string{"metadata.tier", "variant", "metadata.customer"}, Filter: trace.Filter{Model: "gpt-4o-mini"}}, `
by{metadata.customer:acme metadata.tier:1 variant:en} calls:1 attempts:1 prompt_tokens:1000 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:100 reasoning_tokens:60 web_searches:2 cost_usd:0.5
by{} calls:1 attempts:1 prompt_tokens:60 completion_tokens:10 cost_usd:0.175
by{metadata.customer:acme metadata.tier:1 variant:nl} calls:1 attempts:2 unanswered:2 prompt_tokens:30 completion_tokens:5 estimated_tokens:15 cost_usd:0.075 estimated_cost_usd:0.05 unanswered_cost_usd:0.075`},
		"metadata, other types": {workspace, CostQuery{By: []string{"metadata.tier"}, Filter: trace.Filter{Key: "draft", Provider: "groq"}}, `
by{metadata.tier:{a:1}} calls:1 attempts:1 unpriced:1 unpriced_tokens:10 prompt_tokens:7 completion_tokens:3 cost_usd:0`},
		"a customer": {workspace, CostQuery{By: []string{"metadata.trial"}, Filter: trace.Filter{Variant: "en", Metadata: []trace.MetadataMatch{{Name: "customer", Value: `"acme"`}}}}, `
by{metadata.trial:true} calls:1 attempts:1 prompt_tokens:1000 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:100 reasoning_tokens:60 web_searches:2 cost_usd:0.5`},
		"the top": {workspace, CostQuery{By: []string{"model"}, Top: 1}, `
by{model:gpt-4o-mini} calls:3 attempts:4 unanswered:2 prompt_tokens:1090 cached_tokens:400 cache_write_tokens:30 cache_write_hour_tokens:20 completion_tokens:115 reasoning_tokens:60 estimated_tokens:15 web_searches:2 cost_usd:0.75 estimated_cost_usd:0.05 unanswered_cost_usd:0.075
others(5) calls:6 cached_answers:1 interrupted:1 attempts:5 unanswered:1 unpriced:1 unpriced_tokens:10 prompt_tokens:64 completion_tokens:16 cost_usd:0.175 reported_cost_usd:0.1 list_cost_usd:0.125`},
		"a time": {workspace, CostQuery{By: []string{"key"}, Filter: trace.Filter{Since: costDay.Add(time.Hour)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			costs, err := SumCosts(t.Context(), test.sources, test.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(test.want), costLines(t, &costs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	costs, err := SumCosts(t.Context(), workspace, CostQuery{By: []string{"model"}})
	if err != nil || costs.Total.Calls != 6 || costs.Total.Attempts != 9 || !costs.Total.Unknown() {
		t.Errorf("%+v, %v", costs.Total, err)
	}
	for _, query := range []CostQuery{{By: []string{"colour"}}, {By: []string{"metadata."}}, {By: []string{"key", "key"}}, {By: []string{"key"}, Top: MaxCostRows + 1}} {
		if _, err := SumCosts(t.Context(), workspace, query); err == nil {
			t.Errorf("%+v is taken", query)
		}
	}
}

// costLines returns the rows and the others, a line each.
func costLines(t *testing.T, c *Costs) string {
	t.Helper()
	var lines []string
	add := func(of string, sums CostSums) {
		sums.Cost, sums.ListCost = round(sums.Cost), round(sums.ListCost)
		sums.EstimatedCost, sums.UnansweredCost, sums.ReportedCost = round(sums.EstimatedCost), round(sums.UnansweredCost), round(sums.ReportedCost)
		text, err := json.Marshal(sums)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, of+" "+strings.NewReplacer(`"`, "", ",", " ", "{", "", "}", "").Replace(string(text)))
	}
	for _, row := range c.Rows {
		var by []string
		for _, part := range slices.Sorted(maps.Keys(row.By)) {
			by = append(by, part+":"+strings.ReplaceAll(row.By[part], `"`, ""))
		}
		add("by{"+strings.Join(by, " ")+"}", row.CostSums)
	}
	if c.Others != nil {
		add(fmt.Sprintf("others(%d)", c.OtherRows), *c.Others)
	}
	return strings.Join(lines, "\n")
}

func round(dollars float64) float64 { return float64(int64(dollars*1e9+0.5)) / 1e9 }

// TestCostsOfManyValues has more values of a member than are counted at once: the rows are
// still the most expensive ones, and no cost is lost.
func TestCostsOfManyValues(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	const values, limit = 2000, 40
	var records []*trace.Record
	for n := range 2 * values {
		cost := 0.001
		if n%values >= values-5 {
			cost = float64(n % values)
		}
		records = append(records, &trace.Record{
			Metadata: fmt.Appendf(nil, `{"user":"u%04d"}`, n%values),
			Attempts: []trace.Attempt{{Provider: "openai", Model: "m", PromptTokens: 10, Cost: cost}},
		})
	}
	commitCalls(t, s, records...)
	query := CostQuery{By: []string{"metadata.user"}, Top: 5}
	summer := newCostSummer(&query, limit)
	costs, err := summer.run(t.Context(), []CostSource{{s.Reader, "default"}})
	if err != nil {
		t.Fatal(err)
	}
	if summer.buckets == nil || len(summer.groups) > limit {
		t.Fatalf("%d groups, and no second pass", len(summer.groups))
	}
	var users []string
	for _, row := range costs.Rows {
		users = append(users, row.By["metadata.user"])
		if row.Calls != 2 || row.PromptTokens != 20 {
			t.Errorf("%+v", row)
		}
	}
	if diff := cmp.Diff([]string{"u1999", "u1998", "u1997", "u1996", "u1995"}, users); diff != "" {
		t.Error(diff)
	}
	if costs.Others == nil || costs.OtherRows != 0 || costs.Others.Calls != 2*values-10 || costs.Others.PromptTokens != 10*(2*values-10) || costs.Total.Calls != 2*values {
		t.Errorf("others %+v of %+v", costs.Others, costs.Total)
	}
	everything, err := SumCosts(t.Context(), []CostSource{{s.Reader, "default"}}, query)
	if err != nil || everything.OtherRows != values-5 || everything.Others.Calls != costs.Others.Calls {
		t.Errorf("%+v, %v", everything.Others, err)
	}
}

// TestCostsOfAConversation sums calls of a conversation that only reports name, on the
// calls or on their decisions.
func TestCostsOfAConversation(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	var calls []*trace.Record
	authority := mustAuthority(t)
	for n := range 6 {
		decision := authority.Decide(costDay.Add(time.Duration(n)*time.Minute), 1)
		calls = append(calls, &trace.Record{
			ID: decision.Trace(trace.KindEndpoint, 0), Decision: decision.ID(), Time: costDay, Workspace: "default", Kind: trace.KindEndpoint,
			Attempts: []trace.Attempt{{Provider: "openai", Model: "m", Cost: float64(int(1) << n)}},
		})
	}
	calls[5].Metadata = []byte(`{"conversation_id":"c"}`)
	report := func(m trace.Metrics) *trace.Metrics {
		m.Workspace, m.Time, m.ConversationID = "default", costDay, new("c")
		return &m
	}
	mustCommit(t, s, recorder.Batch{Records: calls, Metrics: []*trace.Metrics{
		report(trace.Metrics{TraceID: calls[0].ID}), report(trace.Metrics{Decision: calls[2].Decision}), report(trace.Metrics{TraceID: calls[3].ID}),
	}})
	costs, err := SumCosts(t.Context(), []CostSource{{s.Reader, "default"}}, CostQuery{By: []string{"key"}, Filter: trace.Filter{ConversationID: "c"}})
	if err != nil || costs.Total.Cost != 1+4+8+32 {
		t.Errorf("%+v, %v", costs.Total, err)
	}
}

// TestCostsOfAMillisecond has more calls in one millisecond than are read at once.
func TestCostsOfAMillisecond(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	const count = costWindow + 100
	var calls []*trace.Record
	for range count {
		calls = append(calls, &trace.Record{Time: costDay, Key: "k"})
	}
	commitCalls(t, s, calls...)
	other := make([]*trace.Record, denseRows*costWindow)
	for n := range other {
		other[n] = &trace.Record{Time: costDay.Add(time.Hour), Kind: trace.KindPrompt, Key: "other"}
	}
	commitCalls(t, s, other...)
	costs, err := SumCosts(t.Context(), []CostSource{{s.Reader, "default"}}, CostQuery{Filter: trace.Filter{Key: "k"}})
	if err != nil || costs.Total.Calls != count {
		t.Errorf("%d calls of %d, %v", costs.Total.Calls, count, err)
	}
}

func TestNamesOfCosts(t *testing.T) {
	long := strings.Repeat("é", maxCostName)
	for name, want := range map[string]string{
		"": "", "a\x1fb": "a b", long: strings.Repeat("é", maxCostName/2) + "…", "x" + long: "x" + strings.Repeat("é", (maxCostName-2)/2) + "…",
	} {
		if got := cutName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// TestCostsOfAFile reads the workspaces and the oldest time of a file.
func TestCostsOfAFile(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	if oldest, err := s.Reader.Oldest(t.Context()); err != nil || !oldest.IsZero() {
		t.Errorf("%v, %v", oldest, err)
	}
	commitCalls(t, s, costCalls()...)
	oldest, err := s.Reader.Oldest(t.Context())
	if err != nil || !oldest.Equal(costDay) {
		t.Errorf("%v, %v", oldest, err)
	}
	for range 2 { // before they are counted for the statistics, and after
		if names, err := s.Reader.Workspaces(t.Context()); err != nil || !slices.Equal(names, []string{"default", "other"}) {
			t.Errorf("%q, %v", names, err)
		}
		countStats(t, s)
	}
}
