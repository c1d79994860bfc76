package console

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// found returns an interval.
func found(difference, low, high float64) *experiment.Interval {
	return &experiment.Interval{Difference: difference, Low: low, High: high}
}

// dayOf returns a day's interval of resolved in green.
func dayOf(day int, interval *experiment.Interval) experiment.Day {
	d := experiment.Day{Day: time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC), Metric: "resolved", Arm: "green", Units: int64(100 * day)}
	if interval != nil {
		d.Difference, d.Low, d.High = &interval.Difference, &interval.Low, &interval.High
	}
	return d
}

// readOut returns a page of an experiment with two metrics.
func readOut() *experimentPage {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	zero, value := 0.0, 0.45
	p := &experimentPage{Readout: experiment.Readout{
		Name: "colours", On: "remoteconfigs/shop/button", Rule: "colours", Unit: "customer_id", Control: "blue", Hypothesis: "Green <b>wins</b>.",
		Start: start, End: start.AddDate(0, 1, 0), Begun: start, State: experiment.Better, Says: "green is better than blue.",
		Arms: []experiment.Seen{{Arm: "blue", Expected: 0.75, Units: 1500}, {Arm: "green", Expected: 0.25, Units: 500, FellBack: 12}},
		Metrics: []experiment.MetricReadout{{
			Metric: experiment.Metric{Name: "resolved", Role: experiment.Primary, Value: "resolved", As: experiment.Rate, Up: true, Smallest: 0.02}, Needed: 14120,
			Arms:        []experiment.ArmReadout{{Arm: "blue", Units: 1500, Reported: 1400, Value: &zero}, {Arm: "green", Units: 500, Reported: 450, Value: &value}},
			Comparisons: []experiment.Comparison{{Arm: "green", State: experiment.Better, Since: start.AddDate(0, 0, 3), Level: 0.955, Absolute: found(0.05, 0.03, 0.07), Relative: found(0.125, -0.081, 0.17), Served: found(0.049, 0.028, 0.0702)}},
		}, {
			Metric:      experiment.Metric{Name: "slow", Role: experiment.Guardrail, Measure: experiment.Latency, As: experiment.Ratio, Smallest: 0.2, Relative: true},
			Arms:        []experiment.ArmReadout{{Arm: "blue"}, {Arm: "green"}},
			Comparisons: []experiment.Comparison{{Arm: "green", State: experiment.Collecting, Why: "each arm needs 300 units", Level: 0.995}},
		}},
		Days:     []experiment.Day{dayOf(1, nil), dayOf(2, found(0.05, 0.03, 0.07))},
		Changes:  []experiment.Change{{Time: start, What: "end: a -> b"}},
		Excluded: []experiment.Excluded{{Why: "moved", Count: 30}},
		Warnings: []string{"few <i>units</i>"},
	}}
	return p
}

// shown returns what a template makes of a page.
func shown(t *testing.T, name string, page any) string {
	t.Helper()
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, page); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExperimentPage has the sentence first, and all that a readout has.
func TestExperimentPage(t *testing.T) {
	p := readOut()
	p.Rollout = &gateway.RolloutStatus{Name: "remoteconfigs/shop/button/colours"}
	p.fill(p.End.Add(-time.Hour))
	text := shown(t, "experiment.main", p)
	rest := text
	for _, want := range []string{
		"green is better than blue.", `<a href="/console/definitions/remoteconfig/shop/button">remoteconfigs/shop/button</a>, row colours`, "by customer_id", `<a href="/console/rollouts/remoteconfigs/shop/button/colours">rollout</a>`, "Green &lt;b&gt;wins",
		"divided as the split says", `<data value="1500">1,500</data>`, "75.0 %", "75 %", `<data value="12">12</data>`,
		"primary: rate of resolved, more is better", "smallest that matters: 2 points", `needs about <data value="14120">14,120</data> units`,
		`<data value="0">0 %</data>`, `<data value="0.45">45 %</data>`, "better since", "2026-11-04",
		"green against blue", `<data value="0.05">+5 points</data>`, "+3 points", "+7 points", "95.5 %", "+12.5 %", "−8.1 %", "no fallback answered", "+7.02 points",
		`class="good"`, "<details>", "2026-11-01", "2026-11-02",
		"guardrail: ratio of latency over the control&#39;s 95th percentile of the week before, less is better", "20 % of the control&#39;s", "collecting: each arm needs 300 units",
		"end: a -&gt; b", "moved", "few &lt;i&gt;units",
	} {
		at := strings.Index(rest, want)
		if at < 0 {
			t.Fatalf("lacks %s, or has it too early: %s", want, rest)
		}
		rest = rest[at:]
	}
	for _, not := range []string{"banner", "it has ended", "numbers since", "<no value>"} {
		if strings.Contains(text, not) {
			t.Errorf("has %s", not)
		}
	}
	if strings.Count(text, "<svg class=\"intervals\"") != 1 || strings.Count(text, "differences\"") != 1 {
		t.Errorf("a picture or a table of the metric without intervals: %s", text)
	}
}

// TestExperimentAsServed has the units that no fallback answered where that differs.
func TestExperimentAsServed(t *testing.T) {
	p := readOut()
	p.Readout.Metrics[0].Comparisons[0].Served = found(0.05, 0.03, 0.07)
	p.fill(p.Start)
	if text := shown(t, "experiment.main", p); strings.Contains(text, "no fallback answered") {
		t.Errorf("the same again: %s", text)
	}
}

// TestExperimentMismatch has a mismatch before all else, and no word of a split that is right.
func TestExperimentMismatch(t *testing.T) {
	p := readOut()
	p.Split.Mismatch, p.State, p.Says = true, experiment.Mismatch, "The units are not divided as the split says."
	p.Begun = p.Start.Add(time.Hour)
	p.fill(p.End.Add(time.Second))
	text := strings.TrimSpace(shown(t, "experiment.main", p))
	if !strings.HasPrefix(text, `<div class="banner bad" role="alert">`) || strings.Count(text, p.Says) != 1 || strings.Contains(text, "divided as the split says<") {
		t.Errorf("%s", text)
	}
	if strings.Contains(text, "/console/rollouts/") {
		t.Errorf("a split without a rollout: %s", text)
	}
	for _, want := range []string{"it has ended", "numbers since"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

// TestExperimentList has each experiment with its state, sentence and links.
func TestExperimentList(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	text := shown(t, "experiments.main", &adminapi.Experiments{Experiments: []adminapi.ListedExperiment{
		{Name: "colours", On: "prompts/reply", Rule: "dutch", State: experiment.NoEffect, Says: "nl is <b>alike</b>.", Start: start, End: start.AddDate(0, 1, 0)},
		{Name: "other", On: "endpoints/chat", Rule: "half", State: experiment.Worse, Says: "It is worse.", Start: start, End: start},
	}})
	for _, want := range []string{
		`<tr><th scope="row"><a href="/console/experiments/colours">`, `<a href="/console/definitions/prompt/reply">prompts/reply</a>, dutch`, "no effect", "nl is &lt;b&gt;alike", "2026-12-01",
		`<tr class="bad"><th scope="row"><a href="/console/experiments/other">`, "/console/definitions/endpoint/chat",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s: %s", want, text)
		}
	}
	if text := shown(t, "experiments.main", new(adminapi.Experiments)); !strings.Contains(text, "There are no experiments") || strings.Contains(text, "<table") {
		t.Errorf("none: %s", text)
	}
}

// TestIntervalChart places intervals between the edges that the last one gives, by its half
// on both sides.
func TestIntervalChart(t *testing.T) {
	m := &experiment.Metric{Name: "resolved", As: experiment.Rate, Up: true, Smallest: 0.04}
	other := dayOf(3, found(9, 8, 10))
	other.Arm = "red"
	days := []experiment.Day{dayOf(1, nil), dayOf(2, found(-0.5, -0.9, -0.1)), other, dayOf(3, found(0.1, -3, 3)), dayOf(4, found(0.06, 0.02, 0.1))}
	c := chartOf(m, "green", days)
	// The edges are -0.04 and 0.14: 120 for 0.18.
	if c.Top != "+14 points" || c.Bottom != "−4 points" || c.Zero != 93 || len(c.Matter) != 1 || c.Matter[0] != 67 || len(c.Days) != 4 || c.Width() != 10*dayWidth {
		t.Errorf("%+v", c)
	}
	want := []intervalBar{
		{},
		{X: 24, Width: 20, Y: 120, Height: 1, Difference: 118, Class: "bad"},
		{X: 48, Width: 20, Y: 0, Height: 120, Difference: 27},
		{X: 72, Width: 20, Y: 27, Height: 53, Difference: 53, Class: "good"},
	}
	for i, bar := range c.Bars {
		if bar != want[i] {
			t.Errorf("day %d: %+v, want %+v", i, bar, want[i])
		}
	}
	m.Up, m.Relative = false, true
	if c = chartOf(m, "green", days); c.Bars[1].Class != "good" || c.Bars[3].Class != "bad" || c.Matter != nil {
		t.Errorf("less is better: %+v", c)
	}
	if c = chartOf(m, "blue", days); c != nil {
		t.Errorf("an arm without intervals: %+v", c)
	}
	var many []experiment.Day
	for day := range 130 {
		many = append(many, dayOf(day, found(0, 0, 0)))
	}
	if c = chartOf(m, "green", many); len(c.Bars) != mostDays || !c.Days[mostDays-1].Day.Equal(many[129].Day) || c.Zero != chartHeight/2 {
		t.Errorf("%d days, zero at %d", len(c.Bars), c.Zero)
	}
}

// TestMetricNumbers has the numbers of metrics as people read them.
func TestMetricNumbers(t *testing.T) {
	for _, test := range []struct {
		metric             experiment.Metric
		value              float64
		number, difference string
	}{
		{experiment.Metric{Value: "resolved", As: experiment.Rate}, 0.12345, "12.3 %", "+12.3 points"},
		{experiment.Metric{Measure: experiment.Error, As: experiment.Ratio}, -0.002, "-0.2 %", "−0.2 points"},
		{experiment.Metric{Measure: experiment.Error, As: experiment.Total}, 3, "3", "+3"},
		{experiment.Metric{Measure: experiment.Cost, As: experiment.Mean}, 0.00123, "$0.00123", "+$0.00123"},
		{experiment.Metric{Measure: experiment.Tokens, As: experiment.Ratio}, -12345.6, "-12,346", "−12,346"},
		{experiment.Metric{Value: "amount", As: experiment.Mean}, 0.000012345, "0.0000123", "+0.0000123"},
	} {
		m := metricView{MetricReadout: experiment.MetricReadout{Metric: test.metric}}
		if m.Number(test.value) != data(test.value, test.number) || m.Difference(test.value) != data(test.value, test.difference) {
			t.Errorf("%+v: %s, %s", test, m.Number(test.value), m.Difference(test.value))
		}
	}
}
