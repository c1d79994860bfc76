package bill

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

const day = "2026-11-01"

// ourRow is what was counted of a model of OpenAI on a day.
func ourRow(day, model string, sums sqlite.CostSums) sqlite.CostRow {
	return sqlite.CostRow{By: map[string]string{"provider": "openai", "model": model, "day": day}, CostSums: sums}
}

// has gives the export a line.
func (e *Export) has(l Line) {
	if err := errors.Join(e.covers(l.Day), e.sums.add(&l)); err != nil {
		panic(err)
	}
}

// theirExports are exports of usage and of costs with one line each.
func theirExports(usage, costs []Line) (all []*Export) {
	for shape, lines := range map[string][]Line{"usage of completions": usage, "costs": costs} {
		e := &Export{Vendor: OpenAI, Shape: shape}
		for _, l := range lines {
			l.HasTokens, l.HasCost = shape != "costs", shape == "costs"
			e.has(l)
		}
		if len(lines) > 0 {
			all = append(all, e)
		}
	}
	return all
}

func TestCompare(t *testing.T) {
	t.Parallel()
	usage := func(day, model string, requests, input, cached, output int64) Line {
		return Line{Day: day, Model: model, Requests: requests, Tokens: [Kinds]int64{Input: input, Cached: cached, Output: output}}
	}
	cost := func(day, model string, input, cached, output float64) Line {
		return Line{Day: day, Model: model, Cost: [Kinds]float64{Input: input, Cached: cached, Output: output}}
	}
	known := Known{Oldest: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Now: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Tolerance: 0.01}
	million := sqlite.CostSums{Attempts: 10, PromptTokens: 1_000_000, CachedTokens: 400_000, CompletionTokens: 100_000, Cost: 0.18}
	for name, test := range map[string]struct {
		usage, costs []Line
		ours         []sqlite.CostRow
		change       func(*Known)
		differ       string   // the rows beyond the tolerance: DAY MODEL, with commas between
		reasons      []string // parts of the reasons of the first of them, all in order
		notes        string
	}{
		"equal": {
			usage: []Line{usage(day, "gpt-4o-mini-2024-07-18", 10, 600_000, 400_000, 100_000)},
			costs: []Line{cost(day, "gpt-4o-mini-2024-07-18", 0.09, 0.03, 0.06)},
			ours:  []sqlite.CostRow{ourRow(day, "gpt-4o-mini", million)},
		},
		"within the tolerance, in two versions": {
			usage: []Line{usage(day, "gpt-4o-mini-2024-07-18", 4, 300_000, 200_000, 50_000), usage(day, "gpt-4o-mini", 6, 301_000, 200_000, 50_400)},
			ours:  []sqlite.CostRow{ourRow(day, "gpt-4o-mini", million)},
		},
		"of another provider": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []sqlite.CostRow{
				{By: map[string]string{"provider": "azure", "model": "gpt-4o", "day": day}, CostSums: sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}},
			},
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
			notes: "--provider says which of azure is",
		},
		"of the provider that is named": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []sqlite.CostRow{
				{By: map[string]string{"provider": "azure", "model": "gpt-4o", "day": day}, CostSums: sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}},
			},
			change: func(k *Known) { k.Providers = []string{"azure"} },
		},
		"of a provider that is named and was not asked": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []sqlite.CostRow{
				{By: map[string]string{"provider": "azure", "model": "gpt-4o", "day": day}, CostSums: sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}},
			},
			change: func(k *Known) { k.Providers = []string{"azur", "openai"} },
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
			notes: "no attempt was at azur, openai, as --provider says: there were attempts at azure",
		},
		"outside of the retention": {
			usage:  []Line{usage("2026-09-30", "gpt-4o", 1, 10, 0, 5), usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5})},
			differ: "2026-09-30 gpt-4o", reasons: []string{"the oldest trace that is stored is of 2026-10-01: those of this day went with the retention"},
		},
		"partly outside of the retention": {
			usage:  []Line{usage("2026-10-01", "gpt-4o", 1, 10, 0, 5)},
			change: func(k *Known) { k.Oldest = k.Oldest.Add(time.Hour) },
			differ: "2026-10-01 gpt-4o", reasons: []string{"a part of this day may have gone", "recorded no attempt with this model"},
		},
		"no traces": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5)}, change: func(k *Known) { k.Oldest = time.Time{} },
			differ: day + " gpt-4o", reasons: []string{"no traces are stored"},
		},
		"without a trace": {
			usage:  []Line{usage(day, "gpt-4o", 12, 1200, 0, 600)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 10, PromptTokens: 1000, CompletionTokens: 500})},
			change: func(k *Known) { k.Unlogged = []string{"secret"} },
			differ: day + " gpt-4o", reasons: []string{"more requests (12) than there are attempts (10)"},
			notes: "calls of secret leave no trace (log: none)",
		},
		"of today": {
			usage:  []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 2, PromptTokens: 20, CompletionTokens: 10})},
			change: func(k *Known) { k.Now = time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC) },
			differ: day + " gpt-4o", reasons: []string{"exports are behind"},
		},
		"not on the bill": {
			usage:  []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}), ourRow(day, "o3", sqlite.CostSums{Attempts: 1, PromptTokens: 1})},
			differ: day + " o3", reasons: []string{"nothing of this model on this day"},
		},
		"a day that the export lacks": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5), usage("2026-11-03", "gpt-4o", 1, 10, 0, 5)},
			ours: []sqlite.CostRow{
				ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}),
				ourRow("2026-11-02", "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}),
				ourRow("2026-11-03", "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}),
			},
			differ: "2026-11-02 gpt-4o", reasons: []string{"nothing at all of this day"},
		},
		"on a day that the export is not about": {
			usage: []Line{usage(day, "gpt-4o", 1, 10, 0, 5)},
			ours:  []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5}), ourRow("2026-11-02", "o3", sqlite.CostSums{Attempts: 1, PromptTokens: 1})},
		},
		"interrupted attempts": {
			usage:  []Line{usage(day, "gpt-4o", 2, 1100, 0, 560)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 2, Unanswered: 1, PromptTokens: 1000, CompletionTokens: 500, EstimatedTokens: 300})},
			differ: day + " gpt-4o", reasons: []string{"300 of our tokens are estimated, because their calls were interrupted or no usage was given: that is enough", "lost to a hedge (1)"},
		},
		"more than is estimated": {
			usage:  []Line{usage(day, "gpt-4o", 2, 100, 0, 60)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 2, Unanswered: 1, PromptTokens: 1000, CompletionTokens: 500, EstimatedTokens: 300})},
			differ: day + " gpt-4o", reasons: []string{"that is not enough"},
		},
		"a batch": {
			usage:  []Line{usage(day, "gpt-4o", 1, 10, 0, 5), {Day: day, Model: "gpt-4o", Batch: true, Tokens: [Kinds]int64{Input: 900}}},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 5})},
			differ: day + " gpt-4o", reasons: []string{"900 tokens of theirs are of batches"},
		},
		"cached tokens that ours does not know": {
			usage:  []Line{usage(day, "gpt-4o", 1, 600, 400, 100)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 1000, CompletionTokens: 100})},
			differ: day + " gpt-4o", reasons: []string{"ours does not know which tokens were cached"},
		},
		"another price": {
			usage:  []Line{usage(day, "gpt-4o-mini", 10, 600_000, 400_000, 100_000)},
			costs:  []Line{cost(day, "gpt-4o-mini", 0.18, 0.06, 0.12)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o-mini", million)},
			differ: day + " gpt-4o-mini", reasons: []string{"theirs is $0.3273 for a million tokens of all kinds, ours $0.1636", "a million tokens: input $0.3, cached $0.15, output $1.2", "of " + price.Date() + ": input $0.15, cached $0.075, output $0.6"},
		},
		"cached tokens at the full price": {
			usage:  []Line{usage(day, "gpt-4o-mini", 10, 600_000, 400_000, 100_000)},
			costs:  []Line{cost(day, "gpt-4o-mini", 0.09, 0.03, 0.06)},
			ours:   []sqlite.CostRow{ourRow(day, "gpt-4o-mini", sqlite.CostSums{Attempts: 10, PromptTokens: 1_000_000, CachedTokens: 400_000, CompletionTokens: 100_000, Cost: 0.21})},
			differ: day + " gpt-4o-mini", reasons: []string{"prices do not", "a million tokens", "ours has the cached tokens at the price of the others: that is the difference"},
		},
		"no price": {
			costs:  []Line{cost(day, "new", 1, 0, 0)},
			ours:   []sqlite.CostRow{ourRow(day, "new", sqlite.CostSums{Attempts: 1, PromptTokens: 10, Unpriced: 1, UnpricedTokens: 10})},
			differ: day + " new", reasons: []string{"without a price here (1, with 10 tokens)"},
		},
		"what the provider said": {
			costs:  []Line{cost(day, "new", 1, 0, 0)},
			ours:   []sqlite.CostRow{ourRow(day, "new", sqlite.CostSums{Attempts: 1, PromptTokens: 10, Cost: 2, ReportedCost: 2, ListCost: 1})},
			differ: day + " new", reasons: []string{"$2 that the provider said itself, which is $1 by the price list"},
		},
		"an item beside the models": {
			costs:  []Line{{Day: day, Model: "web search tool calls", Cost: [Kinds]float64{Other: 2}}},
			differ: day + " web search tool calls", reasons: []string{"is here in the cost of the model that used them"},
		},
		"a model with an item of its own": {
			costs:  []Line{{Day: day, Model: "gpt-4o", Cost: [Kinds]float64{Output: 1, Other: 2}}},
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
		},
		"less than a cent": {
			costs: []Line{cost(day, "new", 0.019, 0, 0)},
			ours:  []sqlite.CostRow{ourRow(day, "new", sqlite.CostSums{Attempts: 1, Cost: 0.0101})},
		},
		"around midnight": {
			usage: []Line{usage(day, "gpt-4o", 9, 900, 0, 90), usage("2026-11-02", "gpt-4o", 11, 1100, 0, 110)},
			ours: []sqlite.CostRow{
				ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 10, PromptTokens: 1000, CompletionTokens: 100}),
				ourRow("2026-11-02", "gpt-4o", sqlite.CostSums{Attempts: 10, PromptTokens: 1000, CompletionTokens: 100}),
			},
			differ: day + " gpt-4o,2026-11-02 gpt-4o", reasons: []string{"2026-11-02 has the opposite difference"},
		},
		"a model that the export tells apart, and others that it does not": {
			usage: []Line{usage(day, "", 2, 20, 0, 2), usage(day, "gpt-4o", 1, 10, 0, 1)},
			ours: []sqlite.CostRow{
				ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 1}),
				ourRow(day, "o3", sqlite.CostSums{Attempts: 2, PromptTokens: 20, CompletionTokens: 2}),
			},
		},
		"models that the export does not tell apart": {
			usage: []Line{usage(day, "", 3, 30, 0, 3)},
			costs: []Line{cost(day, "gpt-4o", 1, 0, 0), cost(day, "o3", 2, 0, 0)},
			ours: []sqlite.CostRow{
				ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 1, PromptTokens: 10, CompletionTokens: 1, Cost: 1}),
				ourRow(day, "o3", sqlite.CostSums{Attempts: 2, PromptTokens: 20, CompletionTokens: 2, Cost: 3}),
			},
			differ: day + " o3", reasons: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := known
			if test.change != nil {
				test.change(&k)
			}
			report := Compare(theirExports(test.usage, test.costs), test.ours, &k)
			var differ []string
			var reasons []string
			for i := range report.Rows {
				if r := &report.Rows[i]; !r.Matches {
					if differ = append(differ, r.Day+" "+r.Model); len(differ) == 1 {
						reasons = r.Reasons
					}
				} else if len(r.Reasons) > 0 {
					t.Errorf("%s matches, and has reasons: %q", r.Model, r.Reasons)
				}
			}
			if got := strings.Join(differ, ","); got != test.differ || report.Matches != (test.differ == "") {
				t.Fatalf("beyond the tolerance: %q, want %q; %t", got, test.differ, report.Matches)
			}
			at := 0
			for _, reason := range reasons {
				if at < len(test.reasons) && strings.Contains(reason, test.reasons[at]) {
					at++
				}
			}
			if at < len(test.reasons) {
				t.Errorf("%q lack %q", reasons, test.reasons[at:])
			}
			if notes := strings.Join(report.Notes, "\n"); !strings.Contains(notes, test.notes) || (notes == "") != (test.notes == "") {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}

// TestCompareAQuietDay is about an export without results, which does not say whether it
// is of usage or of costs.
func TestCompareAQuietDay(t *testing.T) {
	t.Parallel()
	e, err := Parse(strings.NewReader(quietOpenAI))
	if err != nil {
		t.Fatal(err)
	}
	if report := Compare([]*Export{e}, nil, &Known{}); !report.Matches || len(report.Rows) != 0 {
		t.Errorf("nothing was used: %+v", report)
	}
	const next = "2026-11-02"
	ours := []sqlite.CostRow{ourRow(day, "a", sqlite.CostSums{Attempts: 1, PromptTokens: 10, Cost: 2}), ourRow(next, "a", sqlite.CostSums{Attempts: 1, PromptTokens: 10, Cost: 2})}
	usage, costs := []Line{{Day: next, Model: "a", Requests: 1, Tokens: [Kinds]int64{Input: 10}}}, []Line{{Day: next, Model: "a", Cost: [Kinds]float64{Input: 2}}}
	tokens, cost := Counts{Requests: -1, Input: -10}, Counts{Cost: -2}
	for name, test := range map[string]struct {
		others []*Export
		want   Counts // the difference of the quiet day, as far as it is compared
	}{
		"alone":               {nil, tokens},
		"with usage":          {theirExports(usage, nil), tokens},
		"with costs":          {theirExports(nil, costs), cost},
		"with usage and cost": {theirExports(usage, costs), tokens},
	} {
		report := Compare(append(test.others, e), ours, &Known{})
		var got Counts
		for i := range report.Rows {
			r := &report.Rows[i]
			if r.Matches != (r.Day == next) {
				t.Errorf("%s: %+v", name, r)
			}
			if r.HasTokens {
				got.addTokens(&r.Difference)
			}
			if r.HasCost {
				got.Cost += r.Difference.Cost
			}
		}
		if got != test.want || report.Matches {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestCompareRepeatedFiles is about files that say the same.
func TestCompareRepeatedFiles(t *testing.T) {
	t.Parallel()
	const next = "2026-11-02"
	export := func(name, shape string, lines ...Line) *Export {
		e := &Export{Name: name, Vendor: OpenAI, Shape: shape}
		for _, l := range lines {
			e.has(l)
		}
		return e
	}
	none := Line{Day: next, Model: "z", HasTokens: true}
	one, two := Line{Day: day, Model: "a", HasTokens: true, Requests: 1}, Line{Day: next, Model: "a", HasTokens: true, Requests: 2}
	report := Compare([]*Export{
		export("week", "usage", none, one, two), export("day", "usage", two), export("other", "usage", none, Line{Day: next, Model: "b", HasTokens: true, Requests: 2}),
		export("csv", "usage (CSV)", two), export("before", "usage", Line{Day: "2026-10-01", Model: "a"}),
	}, nil, &Known{})
	want := []string{"week and day have the same numbers for a on 2026-11-02: where one repeats the other, its usage counts twice"}
	if diff := cmp.Diff(want, report.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompareRepeatedPages is about a file to which a page was appended twice.
func TestCompareRepeatedPages(t *testing.T) {
	t.Parallel()
	nextDay := strings.NewReplacer("1793491200", "1793577600", "1793577600", "1793664000", "1793664000", "1793750400").Replace(openAIUsageJSON)
	hour := func(start string) string {
		return `{"data":[{"starting_at":"` + start + `","results":[{"uncached_input_tokens":1,"model":"a"}]}]}`
	}
	for name, test := range map[string]struct{ text, want string }{
		"twice":                    {openAIUsageJSON + "\n" + openAIUsageJSON, "file has a page of 2026-11-01 twice: its usage counts twice"},
		"twice, and one between":   {"[" + openAIUsageJSON + "," + quietOpenAI + "]" + openAIUsageJSON, "file has a page of 2026-11-01 twice: its usage counts twice"},
		"the same of other days":   {openAIUsageJSON + nextDay, ""},
		"the same of other hours":  {hour("2026-11-01T00:00:00Z") + hour("2026-11-01T01:00:00Z"), ""},
		"other numbers of the day": {openAIUsageJSON + strings.Replace(openAIUsageJSON, `"output_tokens":30`, `"output_tokens":31`, 1), ""},
		"days without usage":       {quietOpenAI + quietOpenAI, ""},
	} {
		e, err := Parse(strings.NewReader(test.text))
		if err != nil {
			t.Fatal(name, err)
		}
		e.Name = "file"
		if notes := strings.Join(Compare([]*Export{e}, nil, &Known{}).Notes, "\n"); notes != test.want {
			t.Errorf("%s: %q, want %q", name, notes, test.want)
		}
	}
}

// TestCompareRequestsOfAnthropic is about exports that do not say how many requests there
// were: in the sum with one that does, only that one's are compared.
func TestCompareRequestsOfAnthropic(t *testing.T) {
	t.Parallel()
	exports := theirExports([]Line{{Day: day, Model: "gpt-4o", Requests: 3, Tokens: [Kinds]int64{Input: 30}}}, nil)
	anthropic := &Export{Vendor: Anthropic, Shape: "usage of messages"}
	anthropic.has(Line{Day: day, Model: "claude-opus-5", HasTokens: true, Tokens: [Kinds]int64{Input: 40}})
	report := Compare(append(exports, anthropic), []sqlite.CostRow{
		ourRow(day, "gpt-4o", sqlite.CostSums{Attempts: 3, PromptTokens: 30}),
		{By: map[string]string{"provider": "anthropic", "model": "claude-opus-5", "day": day}, CostSums: sqlite.CostSums{Attempts: 4, PromptTokens: 40}},
	}, &Known{})
	if report.Ours != report.Theirs || report.Ours != (Counts{Requests: 3, Input: 70}) {
		t.Errorf("ours %+v, theirs %+v", report.Ours, report.Theirs)
	}
	if r := &report.Rows[0]; r.Model != "claude-opus-5" || r.Ours.Requests != 4 || r.Difference != (Counts{}) {
		t.Errorf("%+v", r)
	}
}

// TestCompareRepeatedHours is about files of very many lines, of which a part is in both.
func TestCompareRepeatedHours(t *testing.T) {
	t.Parallel()
	// export has a line for each of some hours, the first from an hour on.
	export := func(name string, from, hours int) *Export {
		e := &Export{Name: name, Vendor: OpenAI, Shape: "usage"}
		for i := range hours {
			e.has(Line{Day: day, Model: "a", HasTokens: true, Requests: int64(from + i + 1)})
		}
		return e
	}
	for name, test := range map[string]struct {
		other *Export
		want  bool
	}{
		"the same in another order": {export("other", 0, 1000), true},
		"most of it":                {export("other", 100, 1000), true},
		"nothing of it":             {export("other", 1000, 1000), false},
	} {
		one := export("one", 0, 0)
		for i := range 1000 {
			one.has(Line{Day: day, Model: "a", HasTokens: true, Requests: int64(1000 - i)})
		}
		if notes := Compare([]*Export{one, test.other}, nil, &Known{}).Notes; (len(notes) > 0) != test.want {
			t.Errorf("%s: %q", name, notes)
		}
		if n := len(one.sums.list); n != 1 || len(one.sums.list[0].sample) != sampleSize {
			t.Errorf("%d sums, the first with %d lines in its sample", n, len(one.sums.list[0].sample))
		}
	}
}

// TestMoney is about amounts for people.
func TestMoney(t *testing.T) {
	t.Parallel()
	for amount, want := range map[float64]string{0: "$0", 10_000: "$10000", 12_345.67: "$12350", 0.30000000000000004: "$0.3", 0.00001234567: "$0.00001235"} {
		if got := money(amount); got != want {
			t.Errorf("%v: %s, want %s", amount, got, want)
		}
	}
}

// TestCompareTotals adds up what is compared.
func TestCompareTotals(t *testing.T) {
	t.Parallel()
	exports := theirExports(
		[]Line{{Day: day, Model: "a", Requests: 2, Tokens: [Kinds]int64{1, 2, 3, 4, 5}}, {Day: day, Model: "b", Requests: 1, Tokens: [Kinds]int64{10, 20, 30, 40, 50}}},
		[]Line{{Day: day, Model: "a", Cost: [Kinds]float64{Input: 1, Other: 0.5}}})
	report := Compare(exports, []sqlite.CostRow{
		ourRow(day, "a", sqlite.CostSums{Attempts: 2, PromptTokens: 10, CachedTokens: 2, CacheWriteTokens: 3, CacheWriteHourTokens: 4, CompletionTokens: 5, Cost: 1.5}),
	}, &Known{Tolerance: 0.01})
	want := [2]Counts{{Requests: 2, Input: 1, Cached: 2, Written: 3, WrittenHour: 4, Output: 5, Cost: 1.5}, {Requests: 3, Input: 11, Cached: 22, Written: 33, WrittenHour: 44, Output: 55, Cost: 1.5}}
	if diff := cmp.Diff(want, [2]Counts{report.Ours, report.Theirs}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(report.Rows) != 2 || !report.Rows[0].Matches || report.Rows[1].Difference != (Counts{1, 10, 20, 30, 40, 50, 0}) {
		t.Errorf("%+v", report.Rows)
	}
}
