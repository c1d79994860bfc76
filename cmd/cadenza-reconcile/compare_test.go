package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const day = "2026-11-01"

// ourRow returns the counts of a provider's model on a day.
func ourRow(provider, day, model string, sums countedSums) (r countedRow) {
	r.By.Provider, r.By.Model, r.By.Day, r.countedSums = provider, model, day, sums
	return r
}

// line is the line of an export for a model on a day.
type line struct {
	lineKey
	counts
}

// exportOf returns an export of usage or of costs.
func exportOf(vendor, shape string, lines ...line) *export {
	e := &export{Name: shape + ".json", Vendor: vendor, Shape: shape, costs: shape == "costs", lines: make(map[lineKey]*counts)}
	for i := range lines {
		e.covers(lines[i].day)
		e.lines[lines[i].lineKey] = &lines[i].counts
	}
	return e
}

// theirExports returns the exports of OpenAI that have lines.
func theirExports(usage, costs []line) (all []*export) {
	if len(usage) > 0 {
		all = append(all, exportOf(openAI, "usage", usage...))
	}
	if len(costs) > 0 {
		all = append(all, exportOf(openAI, "costs", costs...))
	}
	return all
}

func usageLine(day, model string, requests, inputs, cachedOnes, outputs int64) line {
	return line{lineKey{day, model, false}, counts{Requests: requests, Tokens: [kinds]int64{input: inputs, cached: cachedOnes, output: outputs}}}
}

func costLine(day, model string, inputs, cachedOnes, outputs float64) line {
	return line{lineKey{day, model, false}, counts{Cost: [kinds]float64{input: inputs, cached: cachedOnes, output: outputs}}}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	oldest, now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	million := countedSums{Attempts: 10, Prompt: 1_000_000, Cached: 400_000, Completion: 100_000, Cost: 0.18}
	for name, test := range map[string]struct {
		usage, costs []line
		ours         []countedRow
		change       func(*counted, *options)
		now          time.Time
		differ       string   // the rows beyond the tolerance: DAY MODEL, with commas between
		reasons      []string // parts of the reasons of the first such row, in order
		not          string   // a text in no reason
		notes        string
	}{
		"equal": {
			usage: []line{usageLine(day, "gpt-4o-mini-2024-07-18", 10, 600_000, 400_000, 100_000)},
			costs: []line{costLine(day, "gpt-4o-mini-2024-07-18", 0.09, 0.03, 0.06)},
			ours:  []countedRow{ourRow("openai", day, "gpt-4o-mini", million)},
		},
		"within the tolerance, in two versions": {
			usage: []line{usageLine(day, "gpt-4o-mini-2024-07-18", 4, 300_000, 200_000, 50_000), usageLine(day, "gpt-4o-mini", 6, 301_000, 200_000, 50_400)},
			ours:  []countedRow{ourRow("openai", day, "gpt-4o-mini", million)},
		},
		"of another provider": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []countedRow{
				ourRow("azure", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
			},
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
			notes: "--provider says which of azure is",
		},
		"of the provider that is named": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []countedRow{
				ourRow("azure", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
			},
			change: func(_ *counted, o *options) { o.providers = []string{"azure"} },
		},
		"of a provider that is named and was not asked": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours: []countedRow{
				ourRow("azure", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
			},
			change: func(_ *counted, o *options) { o.providers = []string{"azur", "openai"} },
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
			notes: "--provider says which of azure is",
		},
		"outside of the retention": {
			usage:  []line{usageLine("2026-09-30", "gpt-4o", 1, 10, 0, 5), usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5})},
			differ: "2026-09-30 gpt-4o", reasons: []string{"the oldest trace that is stored is of 2026-10-01T00:00:00Z: others of this day went with the retention"},
		},
		"partly outside of the retention": {
			usage:  []line{usageLine("2026-10-01", "gpt-4o", 1, 10, 0, 5)},
			change: func(c *counted, _ *options) { c.Oldest = c.Oldest.Add(time.Hour) },
			differ: "2026-10-01 gpt-4o", reasons: []string{"of 2026-10-01T01:00:00Z: others of this day went", "recorded no attempt with this model"},
		},
		"no traces": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)}, change: func(c *counted, _ *options) { c.Oldest = time.Time{} },
			differ: day + " gpt-4o", reasons: []string{"no traces are stored"},
		},
		"without a trace": {
			usage:  []line{usageLine(day, "gpt-4o", 12, 1200, 0, 600)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 10, Prompt: 1000, Completion: 500})},
			change: func(c *counted, _ *options) { c.Unlogged = []string{"secret"} },
			differ: day + " gpt-4o", reasons: []string{"more requests (12) than there are attempts (10)"},
			notes: "calls of secret leave no trace (log: none)",
		},
		"of today": {
			usage:  []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 2, Prompt: 20, Completion: 10})},
			now:    time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC),
			differ: day + " gpt-4o", reasons: []string{"exports are behind"},
		},
		"not on the bill": {
			usage:  []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}), ourRow("openai", day, "o3", countedSums{Attempts: 1, Prompt: 1})},
			differ: day + " o3", reasons: []string{"nothing of this model on this day"},
		},
		"a day that the export lacks": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5), usageLine("2026-11-03", "gpt-4o", 1, 10, 0, 5)},
			ours: []countedRow{
				ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
				ourRow("openai", "2026-11-02", "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
				ourRow("openai", "2026-11-03", "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}),
			},
			differ: "2026-11-02 gpt-4o", reasons: []string{"the exports have nothing of this model on this day"},
		},
		"on a day that the export is not about": {
			usage: []line{usageLine(day, "gpt-4o", 1, 10, 0, 5)},
			ours:  []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5}), ourRow("openai", "2026-11-02", "o3", countedSums{Attempts: 1, Prompt: 1})},
		},
		"interrupted attempts": {
			usage:  []line{usageLine(day, "gpt-4o", 2, 1100, 0, 560)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 2, Unanswered: 1, Prompt: 1000, Completion: 500, Estimated: 300})},
			differ: day + " gpt-4o", reasons: []string{"300 of our tokens are estimated, because their calls were interrupted or no usage was given: that is enough", "lost to a hedge (1)"},
		},
		"more than is estimated": {
			usage:  []line{usageLine(day, "gpt-4o", 2, 100, 0, 60)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 2, Unanswered: 1, Prompt: 1000, Completion: 500, Estimated: 300})},
			differ: day + " gpt-4o", reasons: []string{"that is not enough"},
		},
		"a batch": {
			usage:  []line{usageLine(day, "gpt-4o", 1, 10, 0, 5), {lineKey{day, "gpt-4o", true}, counts{Tokens: [kinds]int64{input: 900}}}},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 5})},
			differ: day + " gpt-4o", reasons: []string{"900 tokens of theirs are of batches"},
		},
		"another price": {
			usage:  []line{usageLine(day, "gpt-4o-mini", 10, 600_000, 400_000, 100_000)},
			costs:  []line{costLine(day, "gpt-4o-mini", 0.18, 0.06, 0.12)},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o-mini", million)},
			differ: day + " gpt-4o-mini", reasons: []string{"theirs is $0.3273 for a million tokens of all kinds, ours $0.1636", "of a million tokens in theirs: input $0.3, cached $0.15, output $1.2"},
		},
		"no price": {
			costs:  []line{costLine(day, "new", 1, 0, 0)},
			ours:   []countedRow{ourRow("openai", day, "new", countedSums{Attempts: 1, Prompt: 10, Unpriced: 1, UnpricedTokens: 10})},
			differ: day + " new", reasons: []string{"without a price here (1, with 10 tokens)"},
		},
		"what the provider said": {
			costs:  []line{costLine(day, "new", 1, 0, 0)},
			ours:   []countedRow{ourRow("openai", day, "new", countedSums{Attempts: 1, Prompt: 10, Cost: 2, Reported: 2, Listed: 1})},
			differ: day + " new", reasons: []string{"$2 that the provider said itself, which is $1 by the price list"},
		},
		"an item beside the models": {
			costs:  []line{{lineKey{day, "web search tool calls", false}, counts{Cost: [kinds]float64{other: 2}}}},
			differ: day + " web search tool calls", reasons: []string{"are here in the cost of the model that used them"},
		},
		"a model with an item of its own": {
			costs:  []line{{lineKey{day, "gpt-4o", false}, counts{Cost: [kinds]float64{output: 1, other: 2}}}},
			differ: day + " gpt-4o", reasons: []string{"recorded no attempt with this model"},
		},
		"a day before the oldest trace": {
			usage:  []line{usageLine("2026-09-30", "gpt-4o", 1, 10, 0, 5)},
			differ: "2026-09-30 gpt-4o", not: "recorded no attempt",
		},
		"costs of which some name a model": {
			costs: []line{costLine(day, "gpt-4o-mini", 0.10, 0, 0), costLine(day, "", 0, 0, 0.08)},
			ours:  []countedRow{ourRow("openai", day, "gpt-4o-mini", million)},
		},
		"prices of all models": {
			usage:  []line{usageLine(day, "", 10, 600_000, 400_000, 100_000)},
			costs:  []line{{lineKey{day, "", false}, counts{Cost: [kinds]float64{other: 1}}}},
			ours:   []countedRow{ourRow("openai", day, "gpt-4o-mini", million)},
			differ: day + " ", reasons: []string{"the tokens match and the prices do not"}, not: "not for tokens of a known kind",
		},
		"less than a cent": {
			costs: []line{costLine(day, "new", 0.019, 0, 0)},
			ours:  []countedRow{ourRow("openai", day, "new", countedSums{Attempts: 1, Cost: 0.0101})},
		},
		"a model that the export tells apart, and others that it does not": {
			usage: []line{usageLine(day, "", 2, 20, 0, 2), usageLine(day, "gpt-4o", 1, 10, 0, 1)},
			ours: []countedRow{
				ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 1}),
				ourRow("openai", day, "o3", countedSums{Attempts: 2, Prompt: 20, Completion: 2}),
			},
		},
		"models that the export does not tell apart": {
			usage: []line{usageLine(day, "", 3, 30, 0, 3)},
			costs: []line{costLine(day, "gpt-4o", 1, 0, 0), costLine(day, "o3", 2, 0, 0)},
			ours: []countedRow{
				ourRow("openai", day, "gpt-4o", countedSums{Attempts: 1, Prompt: 10, Completion: 1, Cost: 1}),
				ourRow("openai", day, "o3", countedSums{Attempts: 2, Prompt: 20, Completion: 2, Cost: 3}),
			},
			differ: day + " o3", reasons: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, o := &counted{Oldest: oldest, Rows: test.ours}, &options{tolerance: 0.01}
			if test.change != nil {
				test.change(ours, o)
			}
			if test.now.IsZero() {
				test.now = now
			}
			report := compare(theirExports(test.usage, test.costs), ours, o, test.now)
			var differ []string
			var reasons []string
			for i := range report.Rows {
				if r := report.Rows[i]; !r.Matches {
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
			if test.not != "" && strings.Contains(strings.Join(reasons, "\n"), test.not) {
				t.Errorf("%q", reasons)
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

// TestCompareAQuietDay has an export without results, which could be of usage or of costs.
func TestCompareAQuietDay(t *testing.T) {
	t.Parallel()
	e := new(export)
	if err := e.parse(strings.NewReader(quietOpenAI)); err != nil {
		t.Fatal(err)
	}
	if r := compare([]*export{e}, new(counted), new(options), time.Time{}); !r.Matches || len(r.Rows) != 0 {
		t.Errorf("nothing was used: %+v", r)
	}
	const next = "2026-11-02"
	ours := &counted{Rows: []countedRow{ourRow("openai", day, "a", countedSums{Attempts: 1, Prompt: 10, Cost: 2}), ourRow("openai", next, "a", countedSums{Attempts: 1, Prompt: 10, Cost: 2})}}
	usage, costs := []line{usageLine(next, "a", 1, 10, 0, 0)}, []line{costLine(next, "a", 2, 0, 0)}
	for name, test := range map[string]struct {
		others         []*export
		tokens, costly bool // the quiet day's tokens or costs are compared
	}{
		"alone":               {nil, true, false},
		"with usage":          {theirExports(usage, nil), true, false},
		"with costs":          {theirExports(nil, costs), false, true},
		"with usage and cost": {theirExports(usage, costs), true, false},
		"after an empty file": {append(theirExports(nil, costs), &export{Vendor: openAI, Shape: "costs", costs: true}), false, true},
	} {
		r := compare(append(test.others, e), ours, new(options), time.Time{})
		if r.Matches {
			t.Errorf("%s: it matches", name)
		}
		for _, row := range r.Rows {
			if row.Matches != (row.Day == next) || row.Day == day && (row.HasTokens != test.tokens || row.HasCost != test.costly) {
				t.Errorf("%s: %+v", name, row)
			}
		}
	}
}

// TestCompareRepeatedPages has a file that contains a page twice.
func TestCompareRepeatedPages(t *testing.T) {
	t.Parallel()
	nextDay := strings.NewReplacer("1793491200", "1793577600", "1793577600", "1793664000", "1793664000", "1793750400").Replace(openAIUsageJSON)
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"twice":                    {openAIUsageJSON + "\n" + openAIUsageJSON, true},
		"twice, and one between":   {"[" + openAIUsageJSON + "," + quietOpenAI + "]" + openAIUsageJSON, true},
		"the same of other days":   {openAIUsageJSON + nextDay, false},
		"other numbers of the day": {openAIUsageJSON + strings.Replace(openAIUsageJSON, `"output_tokens":30`, `"output_tokens":31`, 1), false},
		"days without usage":       {quietOpenAI + quietOpenAI, false},
	} {
		e := &export{Name: "file"}
		if err := e.parse(strings.NewReader(test.text)); err != nil {
			t.Fatal(name, err)
		}
		notes := strings.Join(compare([]*export{e}, new(counted), new(options), time.Time{}).Notes, "\n")
		if (notes == "file has a page twice: its usage counts twice") != test.want || (notes != "") != test.want {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// TestCompareTotals adds up the compared numbers. Anthropic's exports have no number of
// requests: in a sum with other vendors, only the others' requests are compared.
func TestCompareTotals(t *testing.T) {
	t.Parallel()
	exports := append(theirExports(
		[]line{{lineKey{day, "a", false}, counts{Requests: 2, Tokens: [kinds]int64{1, 2, 3, 4, 5}}}, {lineKey{day, "b", false}, counts{Requests: 1, Tokens: [kinds]int64{10, 20, 30, 40, 50}}}},
		[]line{{lineKey{day, "a", false}, counts{Cost: [kinds]float64{input: 1, other: 0.5}}}}),
		exportOf(anthropic, "usage of messages", line{lineKey{day, "claude-opus-5", false}, counts{Tokens: [kinds]int64{input: 40}}}))
	r := compare(exports, &counted{Rows: []countedRow{
		ourRow("openai", day, "a", countedSums{Attempts: 2, Prompt: 10, Cached: 2, Written: 3, WrittenHour: 4, Completion: 5, Cost: 1.5}),
		ourRow("anthropic", day, "claude-opus-5", countedSums{Attempts: 4, Prompt: 40, Cost: 9}),
	}}, &options{tolerance: 0.01}, time.Time{})
	want := [2]counts{
		{Requests: 2, Tokens: [kinds]int64{41, 2, 3, 4, 5}, Cost: [kinds]float64{other: 1.5}},
		{Requests: 3, Tokens: [kinds]int64{51, 22, 33, 44, 55}, Cost: [kinds]float64{input: 1, other: 0.5}},
	}
	if diff := cmp.Diff(want, [2]counts{r.Ours, r.Theirs}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(r.Rows) != 3 || !r.Rows[0].Matches || !r.Rows[1].Matches || r.Rows[2].Matches {
		t.Errorf("%+v", r.Rows)
	}
}

// TestMoney checks amounts for people.
func TestMoney(t *testing.T) {
	t.Parallel()
	for amount, want := range map[float64]string{0: "$0", 10_000: "$10000", 12_345.67: "$12350", 0.30000000000000004: "$0.3", 0.00001234567: "$0.00001235"} {
		if got := money(amount); got != want {
			t.Errorf("%v: %s, want %s", amount, got, want)
		}
	}
}
