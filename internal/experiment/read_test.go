package experiment_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

var (
	start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	now   = start.Add(10*24*time.Hour + 9*time.Hour)
)

// plan returns one of two arms with these metrics.
func plan(metrics ...experiment.Metric) experiment.Plan {
	return experiment.Plan{
		Name: "buttons", On: "remoteconfigs/button", Rule: "colours", Arms: []string{"green", "blue"}, Control: "blue", Unit: "customer_id",
		Start: start, End: start.Add(30 * 24 * time.Hour), Metrics: metrics,
	}
}

var (
	resolved = experiment.Metric{Name: "resolved", Role: experiment.Primary, Value: "resolved", As: experiment.Rate, Up: true, Smallest: 0.02}
	failed   = experiment.Metric{Name: "error", Role: experiment.Guardrail, Measure: experiment.Error, As: experiment.Rate, Smallest: 0.2, Relative: true}
)

// events returns the sums of n units, of which some have an event.
func events(n, some int64) experiment.Sums {
	y := float64(some)
	return experiment.Sums{Sums: sequential.Sums{N: n, Positive: some, Partial: some, Y: y, YY: y}, Reported: n}
}

// spread returns the sums of n units whose numbers are half of each of two.
func spread(n int64, a, b float64) experiment.Sums {
	half := float64(n) / 2
	return experiment.Sums{Sums: sequential.Sums{N: n, Positive: n, Partial: n, Y: half * (a + b), YY: half * (a*a + b*b)}, Reported: n}
}

// data returns the numbers of a plan with one stratum of equal shares.
func data(p experiment.Plan, blue, green []experiment.Sums) *experiment.Data {
	arm := func(sums []experiment.Sums) *experiment.Arm {
		return &experiment.Arm{Units: sums[0].N, Decided: sums, Served: sums}
	}
	return &experiment.Data{
		Plans: []experiment.DatedPlan{{Since: start.Add(-time.Hour), Plan: p}}, Anew: []time.Time{start}, Through: now,
		Strata: []experiment.Stratum{{Begin: start, Shares: map[string]float64{"blue": 0.5, "green": 0.5}, Arms: map[string]*experiment.Arm{"blue": arm(blue), "green": arm(green)}}},
	}
}

func TestReadStates(t *testing.T) {
	t.Parallel()
	with := func(m experiment.Metric, change func(*experiment.Metric)) experiment.Metric {
		change(&m)
		return m
	}
	cost := experiment.Metric{Name: "cost", Role: experiment.Primary, Measure: experiment.Cost, As: experiment.Total, Smallest: 0.1, Relative: true}
	for name, test := range map[string]struct {
		metric      experiment.Metric
		blue, green experiment.Sums
		want        experiment.State
		why         string // contains
	}{
		"nobody":           {resolved, experiment.Sums{}, experiment.Sums{}, experiment.NoData, "no unit of blue and green has a number for resolved"},
		"no report":        {resolved, experiment.Sums{Sums: sequential.Sums{N: 500}}, experiment.Sums{Sums: sequential.Sums{N: 500}}, experiment.NoData, "no unit of"},
		"few units":        {resolved, events(299, 100), events(299, 110), experiment.Collecting, "each arm needs 300 units, 10 of them with an event and 10 without"},
		"few by counts":    {resolved, events(250, 4), events(250, 60), experiment.Better, "by counts"},
		"fewer by counts":  {resolved, events(250, 60), events(250, 4), experiment.Worse, "by counts"},
		"counts, down":     {with(resolved, func(m *experiment.Metric) { m.Up = false }), events(250, 4), events(250, 60), experiment.Worse, "by counts"},
		"open":             {resolved, events(2000, 1000), events(2000, 1040), experiment.Collecting, "units are needed, 4000 are there"},
		"better":           {resolved, events(20_000, 10_000), events(20_000, 11_000), experiment.Better, ""},
		"worse":            {resolved, events(20_000, 11_000), events(20_000, 10_000), experiment.Worse, ""},
		"down":             {with(resolved, func(m *experiment.Metric) { m.Up = false }), events(20_000, 10_000), events(20_000, 11_000), experiment.Worse, ""},
		"no effect":        {resolved, events(200_000, 100_000), events(200_000, 100_100), experiment.NoEffect, ""},
		"a little better":  {resolved, events(400_000, 200_000), events(400_000, 203_200), experiment.NoEffect, ""},
		"a little worse":   {resolved, events(400_000, 203_200), events(400_000, 200_000), experiment.NoEffect, ""},
		"relative":         {with(resolved, func(m *experiment.Metric) { m.Relative = true; m.Smallest = 0.02 }), events(200_000, 100_000), events(200_000, 100_100), experiment.NoEffect, ""},
		"relative, open":   {with(resolved, func(m *experiment.Metric) { m.Relative = true; m.Smallest = 0.004 }), events(200_000, 100_000), events(200_000, 100_100), experiment.Collecting, ""},
		"dearer":           {cost, spread(5000, 1, 3), spread(5000, 2, 4), experiment.Worse, ""},
		"cheaper":          {cost, spread(5000, 2, 4), spread(5000, 1, 3), experiment.Better, ""},
		"few costs":        {cost, spread(298, 2, 4), spread(298, 1, 3), experiment.Collecting, "each arm needs 300 units, 10 of them with a number other than 0"},
		"no threshold":     {experiment.Metric{Name: "slow", Role: experiment.Primary, Measure: experiment.Latency, As: experiment.Rate, Smallest: 0.01}, events(900, 100), events(900, 100), experiment.NoData, "give over"},
		"with a threshold": {experiment.Metric{Name: "slow", Role: experiment.Primary, Measure: experiment.Latency, Over: time.Second, As: experiment.Rate, Smallest: 0.01}, events(900, 100), events(900, 100), experiment.Collecting, "needed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experiment.Read(data(plan(test.metric), []experiment.Sums{test.blue}, []experiment.Sums{test.green}), now)
			c := &r.Metrics[0].Comparisons[0]
			if r.State != test.want || c.State != test.want || !strings.Contains(c.Why, test.why) || test.why == "" && test.want != experiment.Collecting && c.Why != "" {
				t.Errorf("%s, comparison %s (%s), want %s (%s)", r.State, c.State, c.Why, test.want, test.why)
			}
			if verdict := c.State == experiment.Better || c.State == experiment.Worse || c.State == experiment.NoEffect; verdict != c.Since.Equal(now) || len(r.Verdicts()) > 0 != verdict {
				t.Errorf("%s since %s, verdicts %v", c.State, c.Since, r.Verdicts())
			}
			if r.Says == "" || strings.Contains(r.Says, "!") {
				t.Errorf("it says %q", r.Says)
			}
		})
	}
}

// TestReadGuardrail has arms that fail more, against a guardrail that tolerates a fifth.
func TestReadGuardrail(t *testing.T) {
	t.Parallel()
	primary := events(20_000, 10_000)
	tolerant := failed
	tolerant.Smallest = 3
	kept := failed
	kept.Up, kept.Smallest = true, 0.9
	for name, test := range map[string]struct {
		metric      experiment.Metric
		blue, green experiment.Sums
		want        experiment.State
	}{
		"much worse":         {failed, events(20_000, 1000), events(20_000, 1600), experiment.Worse},
		"worse, tolerated":   {failed, events(200_000, 10_000), events(200_000, 11_000), experiment.NoEffect},
		"open":               {failed, events(20_000, 1000), events(20_000, 1150), experiment.Collecting},
		"fewer":              {failed, events(20_000, 1600), events(20_000, 1000), experiment.Better},
		"counts":             {failed, events(290, 4), events(290, 90), experiment.Worse},
		"counts of fewer":    {failed, events(290, 90), events(290, 4), experiment.Collecting},
		"counts, slightly":   {failed, events(290, 100), events(290, 118), experiment.Collecting},
		"counts, alike":      {tolerant, events(290, 15), events(290, 60), experiment.Collecting},
		"counts, up":         {kept, events(290, 90), events(290, 30), experiment.Collecting},
		"counts, up, worse":  {kept, events(290, 250), events(290, 1), experiment.Worse},
		"counts, intolerant": {failed, events(290, 15), events(290, 60), experiment.Worse},
	} {
		t.Run(name, func(t *testing.T) {
			d := data(plan(resolved, test.metric), []experiment.Sums{primary, test.blue}, []experiment.Sums{primary, test.green})
			if c := experiment.Read(d, now).Metrics[1].Comparisons[0]; c.State != test.want {
				t.Errorf("%+v, want %s", c, test.want)
			}
		})
	}
	d := data(plan(resolved, failed), []experiment.Sums{primary, events(20_000, 1000)}, []experiment.Sums{events(20_000, 11_000), events(20_000, 1600)})
	if says := experiment.Read(d, now).Says; !strings.HasPrefix(says, "green is better than blue in resolved: +0.05 (") || !strings.Contains(says, " But the guardrail error is worse in green: +60 % (") {
		t.Error(says)
	}
}

// TestReadLevels holds which part of the error each metric has. Rates have nine
// tenths of theirs for intervals, and one for counts.
func TestReadLevels(t *testing.T) {
	t.Parallel()
	other := experiment.Metric{Name: "cost", Role: experiment.Other, Measure: experiment.Cost, As: experiment.Total, Smallest: 0.1, Relative: true}
	second, third := failed, failed
	second.Name, third.Name = "late", "later"
	p := plan(resolved, other, failed, second, third)
	p.Arms = []string{"blue", "green", "red"}
	r := experiment.Read(&experiment.Data{Plans: []experiment.DatedPlan{{Plan: p}}}, now)
	primary, others := sequential.Levels(2, 2)
	for i, alpha := range []float64{primary * 0.9, others, 0.05 / 6 * 0.9, 0.05 / 6 * 0.9, 0.05 / 6 * 0.9} {
		for _, c := range r.Metrics[i].Comparisons {
			if math.Abs(c.Level-(1-alpha)) > 1e-12 {
				t.Errorf("%s in %s holds with %v, want 1 - %v", r.Metrics[i].Name, c.Arm, c.Level, alpha)
			}
		}
	}
	if r.State != experiment.NoData || len(r.Metrics[0].Comparisons) != 2 || r.Split.Mismatch || r.Split.Factor != 1 {
		t.Errorf("%+v", r)
	}
}

// TestReadMismatch has a split of halves whose units are divided as 60 to 40.
func TestReadMismatch(t *testing.T) {
	t.Parallel()
	sums := func(n, some int64) []experiment.Sums { return []experiment.Sums{events(n, some)} }
	d := data(plan(resolved), sums(6000, 1000), sums(4000, 3000))
	d.Verdicts = []experiment.Verdict{{Metric: "resolved", Arm: "green", State: experiment.Better, Time: start.Add(time.Hour)}}
	r := experiment.Read(d, now)
	c := r.Metrics[0].Comparisons[0]
	if !r.Split.Mismatch || r.State != experiment.Mismatch || c.State != experiment.Mismatch || c.Absolute != nil || c.Relative != nil || c.Served != nil || !c.Since.IsZero() {
		t.Errorf("%+v, %+v", r.Split, c)
	}
	if want := "The units are not divided as the split says: blue has 6000 for 50 %, green has 4000 for 50 %. Nothing is said"; !strings.HasPrefix(r.Says, want) {
		t.Error(r.Says)
	}
	if !strings.Contains(c.Why, "better was said at 2026-11-01T01:00:00Z") || len(r.Verdicts()) > 0 || r.Today(now)[0].Low != nil {
		t.Errorf("%s, %v", c.Why, r.Verdicts())
	}
	// However large, it is a number for JSON.
	if _, err := json.Marshal(experiment.Read(data(plan(resolved), sums(1_000_000, 1), sums(10, 1)), now)); err != nil {
		t.Error(err)
	}
	// The units that moved later were divided as the others, but nothing counts of them.
	d.Strata[0].Arms["green"].Moved = 2000
	if r := experiment.Read(d, now); !strings.HasPrefix(r.Says, "Units that were seen in several arms are missing from some arms more than from others: blue has 6000 for 50 %, green has 4000") || r.Arms[1].Units != 4000 {
		t.Errorf("%+v", r)
	}
	d.Strata[0].Arms["blue"].Units, d.Strata[0].Arms["blue"].Moved = 4000, 2000
	if r := experiment.Read(d, now); r.Split.Mismatch {
		t.Errorf("%+v", r)
	}
	// The shares of one stratum are not those of another.
	d = data(plan(resolved), sums(5000, 1000), sums(5000, 3000))
	second := d.Strata[0]
	second.Shares = map[string]float64{"blue": 0.1, "green": 0.1} // the rest is passed on
	second.Begin = start.Add(48 * time.Hour)
	d.Strata = append(d.Strata, second)
	if r := experiment.Read(d, now); r.Split.Mismatch || r.Arms[0].Expected != 0.5 || r.Arms[0].Units != 10_000 {
		t.Errorf("%+v", r)
	}
	d.Strata[1].Shares = map[string]float64{"blue": 0.1, "green": 0.3}
	if r := experiment.Read(d, now); !r.Split.Mismatch || r.Arms[0].Expected != 0.375 {
		t.Errorf("%+v", r)
	}
}

// TestReadPassedOn has the units that the split leaves to other rows as the control.
func TestReadPassedOn(t *testing.T) {
	t.Parallel()
	p := plan(resolved)
	p.Arms, p.Control = []string{"green"}, experiment.PassedOn
	d := data(p, []experiment.Sums{events(20_000, 10_000)}, []experiment.Sums{events(5000, 3000)})
	s := &d.Strata[0]
	s.Arms[experiment.PassedOn] = s.Arms["blue"]
	s.Shares = map[string]float64{"green": 0.2, experiment.PassedOn: 0.8}
	if r := experiment.Read(d, now); r.Split.Mismatch || r.State != experiment.Better || r.Arms[0].Arm != experiment.PassedOn || r.Arms[0].Expected != 0.8 || r.Control != experiment.PassedOn {
		t.Errorf("%+v", r)
	}
}

// TestReadKept has verdicts that were reached before.
func TestReadKept(t *testing.T) {
	t.Parallel()
	sums := func(n, some int64) []experiment.Sums { return []experiment.Sums{events(n, some)} }
	reached := start.Add(30 * time.Hour)
	verdict := func(state experiment.State, at time.Time) []experiment.Verdict {
		return []experiment.Verdict{{Metric: "resolved", Arm: "red", State: experiment.Worse, Time: at}, {Metric: "resolved", Arm: "green", State: state, Time: at}, {Metric: "resolved", Arm: "green", State: experiment.Worse, Time: at.Add(time.Hour)}}
	}
	d := data(plan(resolved), sums(20_000, 10_000), sums(20_000, 11_000))
	d.Verdicts = verdict(experiment.Better, reached)
	r := experiment.Read(d, now)
	if c := r.Metrics[0].Comparisons[0]; c.State != experiment.Better || !c.Since.Equal(reached) || c.Why != "" {
		t.Errorf("%+v", c)
	}
	if v := r.Verdicts(); len(v) != 1 || v[0].State != experiment.Better || !v[0].Time.Equal(reached) || v[0].Units != 40_000 {
		t.Errorf("%+v", v)
	}
	d = data(plan(resolved), sums(2000, 1000), sums(2000, 1010))
	d.Verdicts = verdict(experiment.Better, reached)
	if r := experiment.Read(d, now); r.State != experiment.Better || r.Metrics[0].Comparisons[0].Why != "the interval now leaves it open" || !strings.Contains(r.Says, "since 2026-11-02T06:00:00Z; the interval now leaves it open") {
		t.Errorf("%+v: %s", r.Metrics[0].Comparisons[0], r.Says)
	}
	d = data(plan(resolved), sums(20_000, 11_000), sums(20_000, 10_000))
	d.Verdicts = verdict(experiment.NoEffect, reached)
	if c := experiment.Read(d, now).Metrics[0].Comparisons[0]; c.State != experiment.NoEffect || c.Why != "now it is worse" {
		t.Errorf("%+v", c)
	}
	// Verdicts end with the numbers that they were about, and with the metric.
	d.Anew = append(d.Anew, reached.Add(2*time.Hour))
	if r := experiment.Read(d, now); r.State != experiment.Worse || !r.Begun.Equal(reached.Add(2*time.Hour)) || !r.Metrics[0].Comparisons[0].Since.Equal(now) {
		t.Errorf("%+v", r)
	}
	d.Anew = d.Anew[:1]
	before := d.Plans[0]
	before.Plan.Metrics = []experiment.Metric{resolved}
	before.Plan.Metrics[0].Value = "solved"
	d.Plans = []experiment.DatedPlan{before, {Since: reached.Add(2 * time.Hour), Plan: plan(resolved)}}
	if r := experiment.Read(d, now); r.State != experiment.Worse {
		t.Errorf("%+v", r)
	}
	// What another split divided was judged apart.
	for _, change := range []func(*experiment.Plan){
		func(p *experiment.Plan) { p.On = "remoteconfigs/other" }, func(p *experiment.Plan) { p.Rule = "other" }, func(p *experiment.Plan) { p.Salt = "other" },
		func(p *experiment.Plan) { p.Unit = "other" }, func(p *experiment.Plan) { p.Start = start.Add(-time.Hour) },
	} {
		d.Plans[0].Plan = plan(resolved)
		change(&d.Plans[0].Plan)
		if r := experiment.Read(d, now); r.State != experiment.Worse {
			t.Errorf("%+v", r)
		}
	}
	// Another end is no other metric.
	d.Plans[0].Plan = plan(resolved)
	d.Plans[0].Plan.End = now
	if r := experiment.Read(d, now); r.State != experiment.NoEffect || len(r.Changes) != 1 || r.Changes[0].What != "end: 2026-11-11T09:00:00Z -> 2026-12-01T00:00:00Z" {
		t.Errorf("%+v", r)
	}
}

// TestReadNeeded holds how many units a comparison is said to need.
func TestReadNeeded(t *testing.T) {
	t.Parallel()
	sums := func(n, some int64) []experiment.Sums { return []experiment.Sums{events(n, some)} }
	d := data(plan(resolved), sums(2000, 1000), sums(2000, 1040))
	first := experiment.Read(d, now)
	primary, _ := sequential.Levels(1, 1)
	control := events(2000, 1000)
	mean, variance := control.Mean()
	if want := sequential.Needed(mean, variance, 0.02, 0.5, primary*0.9); first.Metrics[0].Needed != want {
		t.Errorf("%d, want %d", first.Metrics[0].Needed, want)
	}
	relative := plan(resolved)
	relative.Metrics[0].Relative = true
	if r := experiment.Read(data(relative, sums(2000, 1000), sums(2000, 1040)), now); r.Metrics[0].Needed != sequential.Needed(mean, variance, 0.01, 0.5, primary*0.9) {
		t.Errorf("%d units for a relative difference", r.Metrics[0].Needed)
	}
	enough := experiment.Read(data(plan(resolved), sums(19_000, 9_500), sums(19_000, 9_690)), now)
	if why := enough.Metrics[0].Comparisons[0].Why; why != "about 36429 units are needed, 38000 are there, and the difference may still be none" {
		t.Error(why)
	}
	for _, few := range [][]experiment.Sums{sums(299, 100), sums(3000, 9)} {
		if r := experiment.Read(data(plan(resolved), few, sums(3000, 100)), now); r.Metrics[0].Needed != 0 {
			t.Errorf("%d units needed by %+v", r.Metrics[0].Needed, few)
		}
	}
}

// TestReadNumbers holds what is shown of each arm, and the intervals of those whom no
// fallback answered.
func TestReadNumbers(t *testing.T) {
	t.Parallel()
	ratio := experiment.Metric{Name: "tokens", Role: experiment.Other, Measure: experiment.Tokens, As: experiment.Ratio, Smallest: 10}
	calls := func(n int64, y, d float64) experiment.Sums {
		units := float64(n)
		return experiment.Sums{Sums: sequential.Sums{N: n, Positive: n, Partial: n, Y: units * y, YY: units * y * y * 1.5, D: units * d, DD: units * d * d * 1.2, YD: units * y * d}, Reported: n - 10}
	}
	d := data(plan(resolved, ratio), []experiment.Sums{events(1000, 400), calls(1000, 300, 3)}, []experiment.Sums{events(1000, 450), calls(1000, 440, 4)})
	d.Strata[0].Arms["green"].FellBack = 12
	d.Strata[0].Arms["green"].Served = []experiment.Sums{events(900, 360), calls(900, 300, 3)}
	r := experiment.Read(d, now)
	value := func(m, arm int) float64 { return *r.Metrics[m].Arms[arm].Value }
	if value(0, 0) != 0.4 || value(0, 1) != 0.45 || value(1, 0) != 100 || value(1, 1) != 110 || r.Metrics[1].Arms[1].Reported != 990 || r.Arms[1].FellBack != 12 {
		t.Errorf("%+v", r.Metrics)
	}
	primary, _ := sequential.Levels(1, 2)
	both := []sequential.Pair{{Control: events(1000, 400).Sums, Arm: events(1000, 450).Sums}}
	want, _ := sequential.Means(both, sequential.Planned, primary*(1-sequential.Early))
	if c := r.Metrics[0].Comparisons[0]; *c.Absolute != experiment.Interval(*want) {
		t.Errorf("%+v, want %+v", c.Absolute, want)
	}
	if c := r.Metrics[1].Comparisons[0]; c.Absolute.Difference != 10 || c.Served.Difference != 0 {
		t.Errorf("%+v", c)
	}
	if c := r.Metrics[0].Comparisons[0]; math.Abs(c.Served.Difference) > 1e-9 || math.Abs(c.Relative.Difference-0.125) > 1e-9 {
		t.Errorf("%+v", c)
	}
	// A second stratum, of other shares and another base: both arms are weighed alike.
	d.Strata = append(d.Strata, experiment.Stratum{Begin: start.Add(time.Hour), Shares: map[string]float64{"blue": 0.75, "green": 0.25}, Arms: map[string]*experiment.Arm{
		"blue": {Units: 3000, Decided: []experiment.Sums{events(3000, 600), calls(3000, 300, 3)}}, "green": {Units: 1000, Decided: []experiment.Sums{events(1000, 250), calls(1000, 440, 4)}},
	}})
	r = experiment.Read(d, now)
	if got, want := value(0, 0), (0.4*500+0.2*750)/1250; math.Abs(got-want) > 1e-12 {
		t.Errorf("blue has %v, want %v", got, want)
	}
	if len(r.Warnings) != 1 || r.Warnings[0] != "the shares changed at 2026-11-01T01:00:00Z: blue 50 % -> 75 %, green 50 % -> 25 %; units that came before and after are compared apart, and then together" {
		t.Error(r.Warnings)
	}
	third := d.Strata[0]
	third.Begin = start.Add(2 * time.Hour)
	d.Strata = append(d.Strata, third)
	if r := experiment.Read(d, now); len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "the shares changed 2 times, the last time at 2026-11-01T02:00:00Z: blue 75 % -> 50 %, ") {
		t.Error(r.Warnings)
	}
}

// TestReadArms has three arms, of which the best one is the state of the whole.
func TestReadArms(t *testing.T) {
	t.Parallel()
	p := plan(resolved)
	p.Arms = []string{"blue", "green", "red"}
	for _, test := range []struct {
		green, red int64
		want       experiment.State
		says       string
	}{
		{9000, 11_000, experiment.Better, "red is better than blue"},
		{11_000, 11_200, experiment.Better, "red is better than blue"},
		{11_200, 11_000, experiment.Better, "green is better than blue"},
		{9000, 9000, experiment.Worse, "green is worse than blue"},
		{9000, 10_150, experiment.Collecting, "Nothing can be said yet of resolved"},
	} {
		d := data(p, []experiment.Sums{events(20_000, 10_000)}, []experiment.Sums{events(20_000, test.green)})
		d.Strata[0].Shares = map[string]float64{"blue": 0.2, "green": 0.2, "red": 0.2}
		d.Strata[0].Arms["red"] = &experiment.Arm{Units: 20_000, Decided: []experiment.Sums{events(20_000, test.red)}}
		if r := experiment.Read(d, now); r.State != test.want || !strings.HasPrefix(r.Says, test.says) {
			t.Errorf("%s: %s, want %s: %s", r.State, r.Says, test.want, test.says)
		}
	}
}

// TestReadAside holds what the readout says beside the numbers.
func TestReadAside(t *testing.T) {
	t.Parallel()
	often := failed
	often.Role, often.Smallest = experiment.Other, 0.1
	d := data(plan(resolved, often), []experiment.Sums{events(1000, 400), events(1000, 310)}, []experiment.Sums{events(1000, 450), events(1000, 290)})
	d.Unitless, d.Pending = 7, 12
	d.Strata[0].Arms["green"].Moved = 30
	old := plan(resolved, often)
	old.Control, old.Attribution = "green", 7*24*time.Hour
	old.Metrics = []experiment.Metric{resolved, often}
	old.Metrics[0].Up = false
	same := d.Plans[0]
	d.Plans = []experiment.DatedPlan{{Since: start.Add(-time.Hour), Plan: plan()}, {Since: start.Add(-time.Minute), Plan: old}, {Since: start.Add(time.Minute), Plan: same.Plan}}
	d.Anew = append(d.Anew, start.Add(time.Second))
	r := experiment.Read(d, start.Add(31*24*time.Hour))
	var changes []string
	for _, c := range r.Changes {
		changes = append(changes, c.What)
	}
	if want := []string{
		"the numbers begin anew: what an arm answers with, or the salt, was edited",
		"control: green -> blue",
		"attribution: 7d -> none",
		"primary.goal: down -> up",
	}; !slices.Equal(changes, want) {
		t.Errorf("changes\n%s", strings.Join(changes, "\n"))
	}
	if want := []string{
		"the experiment is over since 2026-12-01T00:00:00Z: units that came later do not count",
		"error has an event in 31 % of the units of blue: one of many answers is enough, so that the arms differ less than their answers do; as: ratio counts answers",
		"1.48 % of the units were seen in several arms and do not count: those that come often are missed the most",
		"about 12 traces and reports are not counted yet",
	}; !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings\n%s", strings.Join(r.Warnings, "\n"))
	}
	if want := []experiment.Excluded{{Why: "units first seen in green, and later in another arm", Count: 30}, {Why: "answers without a unit: the traces have no customer_id", Count: 7}}; !slices.Equal(r.Excluded, want) {
		t.Errorf("%v", r.Excluded)
	}
}

// TestReadDays holds the rows of days: those that are kept, and today's.
func TestReadDays(t *testing.T) {
	t.Parallel()
	p := plan(resolved, failed)
	d := data(p, []experiment.Sums{events(1000, 400), events(200, 10)}, []experiment.Sums{events(1000, 450), events(200, 10)})
	row := func(day int, metric, arm string, low float64) experiment.Day {
		return experiment.Day{Day: start.AddDate(0, 0, day), Metric: metric, Arm: arm, Low: &low}
	}
	d.Days = []experiment.Day{row(-1, "resolved", "green", 1), row(8, "resolved", "green", 2), row(8, "gone", "green", 3), row(8, "resolved", "gone", 4), row(9, "resolved", "green", 5), row(10, "resolved", "green", 6)}
	r := experiment.Read(d, now)
	today := start.AddDate(0, 0, 10)
	if len(r.Days) != 4 || *r.Days[0].Low != 2 || *r.Days[1].Low != 5 || !r.Days[2].Day.Equal(today) || *r.Days[2].Low == 6 || r.Days[2].Units != 2000 || r.Days[3].Metric != "error" || r.Days[3].Low != nil {
		t.Errorf("%+v", r.Days)
	}
	if rows := r.Today(start.AddDate(0, 0, 40)); !rows[0].Day.Equal(start.AddDate(0, 0, 30)) {
		t.Errorf("after the end the day is %s", rows[0].Day)
	}
	p.Attribution = 48 * time.Hour
	d.Plans[0].Plan = p
	if rows := experiment.Read(d, now).Today(start.AddDate(0, 0, 40)); !rows[0].Day.Equal(start.AddDate(0, 0, 32)) {
		t.Errorf("with an attribution the day is %s", rows[0].Day)
	}
	d.Anew[0] = start.Add(time.Hour)
	if rows := experiment.Read(d, start).Today(start); rows != nil {
		t.Errorf("before the begin: %v", rows)
	}
	d.Strata = nil
	if r := experiment.Read(d, start.Add(-time.Hour)); r.State != experiment.NoData || r.Says != "It starts at 2026-11-01T00:00:00Z." {
		t.Errorf("%s: %s", r.State, r.Says)
	}
}

// TestReadCountsLevel holds that counts alone need the evidence of their part of the level,
// and that those of strata are multiplied.
func TestReadCountsLevel(t *testing.T) {
	t.Parallel()
	primary, _ := sequential.Levels(1, 1)
	enough := 1 / (primary * sequential.Early)
	var last float64
	for some := int64(1); some < 250; some++ {
		e := sequential.Counts(4, some, 0.5)
		want := experiment.Collecting
		if e >= enough && some > 4 {
			want = experiment.Better
		}
		if r := experiment.Read(data(plan(resolved), []experiment.Sums{events(250, 4)}, []experiment.Sums{events(250, some)}), now); r.State != want {
			t.Errorf("%d against 4, evidence %v: %s, want %s", some, e, r.State, want)
		}
		if e >= enough && last < enough && some > 4 {
			// A second stratum that is alike has evidence enough with less.
			d := data(plan(resolved), []experiment.Sums{events(100, 4)}, []experiment.Sums{events(100, some-3)})
			if r := experiment.Read(d, now); r.State != experiment.Collecting {
				t.Errorf("%d against 4: %s", some-3, r.State)
			}
			d.Strata = append(d.Strata, d.Strata[0])
			if r := experiment.Read(d, now); r.State != experiment.Better {
				t.Errorf("twice %d against 4: %s", some-3, r.State)
			}
		}
		last = e
	}
}

// TestReadCountsOfAnswers holds that a guardrail on answers sees an arm that fails where the
// control never does, of which no interval may be said.
func TestReadCountsOfAnswers(t *testing.T) {
	t.Parallel()
	answers := failed
	answers.As = experiment.Ratio
	calls := func(n, some int64) experiment.Sums {
		s := events(n, some)
		s.D, s.DD, s.YD = 3*float64(n), 9*float64(n), 3*float64(some)
		return s
	}
	for _, c := range []struct {
		green int64
		want  experiment.State
	}{{328, experiment.Worse}, {5, experiment.Collecting}} {
		d := data(plan(resolved, answers), []experiment.Sums{events(400, 100), calls(400, 0)}, []experiment.Sums{events(400, 100), calls(400, c.green)})
		if got := experiment.Read(d, now).Metrics[1].Comparisons[0]; got.State != c.want {
			t.Errorf("%d units of green saw an error: %+v", c.green, got)
		}
	}
}

// TestReadLopsided holds that the means of units that report are not compared where those of
// one arm report more often.
func TestReadLopsided(t *testing.T) {
	t.Parallel()
	minutes := experiment.Metric{Name: "minutes", Role: experiment.Primary, Value: "minutes", As: experiment.Mean, Smallest: 1}
	for green, want := range map[int64]experiment.State{2000: experiment.Better, 1900: experiment.Better, 1000: experiment.Mismatch} {
		d := data(plan(minutes), []experiment.Sums{spread(2000, 5, 7)}, []experiment.Sums{spread(green, 3, 4)})
		d.Strata[0].Arms["green"].Units = 2000
		if r := experiment.Read(d, now); r.State != want || want == experiment.Mismatch && r.Says != "minutes: units of one arm have a number more often than those of the other: 2000 of blue and 1000 of green, so that a mean is of others." {
			t.Errorf("%d: %s, %s", green, r.State, r.Says)
		}
	}
}

// TestReadWrittenLate holds that an experiment that was written when its numbers were there
// says so.
func TestReadWrittenLate(t *testing.T) {
	t.Parallel()
	d := data(plan(resolved), []experiment.Sums{events(1000, 400)}, []experiment.Sums{events(1000, 400)})
	if r := experiment.Read(d, now); len(r.Warnings) > 0 {
		t.Error(r.Warnings)
	}
	gone := *d
	gone.Gone, gone.Pending = now, 7
	if r := experiment.Read(&gone, now); !strings.HasSuffix(r.Says, " Its definition is gone since 2026-11-11T09:00:00Z: nothing is counted any more.") || len(r.Warnings) > 0 {
		t.Errorf("%s %v", r.Says, r.Warnings)
	}
	d.Plans[0].Since = start.Add(time.Hour)
	if r := experiment.Read(d, now); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "was served first at 2026-11-01T01:00:00Z") {
		t.Error(r.Warnings)
	}
}
