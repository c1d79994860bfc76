package rollout

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

func TestExperiment(t *testing.T) {
	p := ramp()
	p.Salt = "s"
	p.Stops = []Stop{
		{Measure: experiment.Latency, As: experiment.Ratio, Over: 2 * time.Second, Ratio: 1.2},
		{Value: "resolved", As: experiment.Rate, Ratio: 0.9},
		{Measure: experiment.Error, As: experiment.Rate, Ratio: 1.5},
		{Measure: experiment.Cost, As: experiment.Ratio, Ratio: 1.2},
		{Measure: experiment.Score, As: experiment.Mean, Ratio: 0.75},
	}
	metric := func(name string, as experiment.As, smallest float64) experiment.Metric {
		return experiment.Metric{Name: name, Role: experiment.Guardrail, As: as, Smallest: smallest, Relative: true}
	}
	latency, byUnit, resolved := metric("latency", experiment.Ratio, 0.2), metric("latency by unit", experiment.Rate, 0.2), metric("resolved", experiment.Rate, 0.1)
	failed, cost, score := metric("error", experiment.Rate, 0.5), metric("cost", experiment.Ratio, 0.2), metric("score", experiment.Mean, 0.25)
	latency.Measure, latency.Over, byUnit.Measure, byUnit.Over = experiment.Latency, 2*time.Second, experiment.Latency, 2*time.Second
	resolved.Value, resolved.Up, failed.Measure, cost.Measure, score.Measure, score.Up = "resolved", true, experiment.Error, experiment.Cost, experiment.Score, true
	want := experiment.Plan{
		Name: "rollout remoteconfigs/button/colours", On: "remoteconfigs/button", Rule: "colours", Salt: "s", Arms: []string{New, Control}, Control: Control, Unit: "customer_id",
		Start: began, End: time.Date(2027, 11, 1, 9, 0, 0, 0, time.UTC), Rollout: true,
		Metrics: []experiment.Metric{latency, byUnit, resolved, failed, cost, score},
	}
	got := p.Experiment(began)
	for i := range got.Metrics {
		got.Metrics[i].Smallest = math.Round(got.Metrics[i].Smallest*1e9) / 1e9
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// events returns the sums of n units, of which some have an event in one of their requests.
func events(n, some int64) experiment.Sums {
	y, d := float64(some), float64(n)
	return experiment.Sums{Sums: sequential.Sums{N: n, Positive: some, Partial: n, Y: y, YY: y, D: 2 * d, DD: 4 * d, YD: 2 * y}, Reported: n}
}

// spread returns the sums of n units whose numbers are half of each of two.
func spread(n int64, a, b float64) experiment.Sums {
	half := float64(n) / 2
	return experiment.Sums{Sums: sequential.Sums{N: n, Positive: n, Partial: n, Y: half * (a + b), YY: half * (a*a + b*b)}, Reported: n}
}

// weighed returns the evidence of stops in one stratum of as many units in both arms, whose
// sums are those of New and of the control by turns.
func weighed(stops []Stop, units int64, sums ...experiment.Sums) *Evidence {
	p := ramp()
	p.Stops = stops
	n := numbers{metrics: len(p.Experiment(began).Metrics)}
	n.Plans, n.Through = []experiment.DatedPlan{{Since: began, Plan: p.Experiment(began)}}, began.Add(time.Hour)
	for i, s := range sums {
		arm := n.of(1_000, []string{New, Control}[i%2])
		arm.Units, arm.Decided[i/2] = units, s
	}
	return p.Weigh(&n.Data)
}

func TestWeigh(t *testing.T) {
	errors := []Stop{{Measure: experiment.Error, As: experiment.Rate, Ratio: 1.2}}
	requests := []Stop{{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2}}
	resolved := []Stop{{Value: "resolved", As: experiment.Rate, Ratio: 0.9}}
	cost := []Stop{{Measure: experiment.Cost, As: experiment.Total, Ratio: 1.2}}
	perRequest := []Stop{{Measure: experiment.Cost, As: experiment.Ratio, Ratio: 1.2}}
	// twice are the sums of units that do so many times the requests of others at the same cost.
	twice := func(times float64) experiment.Sums {
		s := spread(1000, times, 2*times)
		s.D, s.DD, s.YD = 1000*times, 1000*times*times, s.Y*times
		return s
	}
	score := []Stop{{Measure: experiment.Score, As: experiment.Mean, Ratio: 0.9}}
	// least returns how many events of New, beside 10 of the control's, have an evidence.
	least := func(evidence float64) (n int64) {
		for sequential.RateExceeds([]sequential.Events{{Control: 10, Arm: n, Share: 0.5}}, 1.2) < evidence {
			n++
		}
		return n
	}
	for _, c := range []struct {
		name  string
		stops []Stop
		sums  []experiment.Sums
		harm  bool
		says  string
	}{
		{"nothing", errors, []experiment.Sums{{}, {}}, false, "no unit has a number for it yet"},
		{"good", errors, []experiment.Sums{events(1000, 10), events(1000, 10)}, false, "new has 0.01, control 0.01: not known to be more than 1.2 times the control's"},
		{"nearly", errors, []experiment.Sums{events(1000, least(20)-1), events(1000, 10)}, false, "not known to be more"},
		{"harm", errors, []experiment.Sums{events(1000, least(20)), events(1000, 10)}, true, ": more than 1.2 times the control's"},
		{"two guards share", append(errors, cost...), []experiment.Sums{events(1000, least(40)-1), events(1000, 10), spread(1000, 1, 2), spread(1000, 1, 2)}, false, "not known to be more"},
		{"of two guards harm", append(errors, cost...), []experiment.Sums{events(1000, least(40)), events(1000, 10), spread(1000, 1, 2), spread(1000, 1, 2)}, true, ": more than"},
		{"requests, by unit", requests, []experiment.Sums{{}, {}, events(100, least(40)), events(100, 10)}, false, "no unit has a number"},
		{"requests, nearly by unit", requests, []experiment.Sums{events(100, 5), events(100, 5), events(100, least(40)-1), events(100, 10)}, false, "new has 0.025, control 0.025: not known"},
		{"requests, harm by unit", requests, []experiment.Sums{events(100, 5), events(100, 5), events(100, least(40)), events(100, 10)}, true, ": more than"},
		{"requests, harm by requests", requests, []experiment.Sums{events(1000, 500), events(1000, 50), events(1000, 10), events(1000, 10)}, true, "new has 0.25, control 0.025: more than"},
		{"less is harm", resolved, []experiment.Sums{events(1000, 300), events(1000, 600)}, true, "new has 0.3, control 0.6: less than 0.9 times the control's"},
		{"more is no harm", resolved, []experiment.Sums{events(1000, 600), events(1000, 300)}, false, "not known to be less"},
		{"none reports yet", resolved, []experiment.Sums{{Sums: sequential.Sums{N: 1000}}, {Sums: sequential.Sums{N: 1000}}}, false, "no unit has a number for it yet"},
		{"none of New reports", resolved, []experiment.Sums{{Sums: sequential.Sums{N: 1000}}, events(1000, 300)}, true, "new has 0, control 0.3: less than"},
		{"mean", cost, []experiment.Sums{spread(1000, 2, 4), spread(1000, 1, 2)}, true, "new has 3, control 1.5: more than"},
		{"mean of few", cost, []experiment.Sums{spread(298, 2, 4), spread(298, 1, 2)}, false, "each needs 300 units with a number, 10 of them other than 0"},
		{"more requests", perRequest, []experiment.Sums{twice(2), twice(1)}, false, "new has 1.5, control 1.5: not known"},
		{"lower mean", score, []experiment.Sums{spread(1000, 1, 2), spread(1000, 2, 4)}, true, ": less than 0.9 times"},
		{"mean of others", score, []experiment.Sums{spread(500, 1, 2), spread(1000, 2, 4)}, false, "units of one have a number more often"},
		{"mean of none", score, []experiment.Sums{{}, spread(10, 2, 4)}, false, "new has no number yet"},
		{"requests of the control are missing", requests, []experiment.Sums{events(10, 5), {}, events(10, 5), {}}, false, "control has no number yet"},
	} {
		e := weighed(c.stops, 1000, c.sums...)
		g := e.Guards[0]
		if g.Harm != c.harm || e.Harm() != c.harm || (g.Strength >= 1) != c.harm && !e.Mismatch || g.Strength < 0 || !strings.Contains(g.Says, c.says) {
			t.Errorf("%s: %+v", c.name, g)
		}
		if e.Mismatch != (c.name == "mean of others") || len(e.Guards) != len(c.stops) || g.Name != c.stops[0].Name() || g.Ratio != c.stops[0].Ratio {
			t.Errorf("%s: %+v", c.name, e)
		}
		if !e.Since.Equal(began) || !e.Through.Equal(began.Add(time.Hour)) || e.Units != 1000 || e.Control != 1000 {
			t.Errorf("%s: %+v", c.name, e)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	e := weighed(append(requests, cost...), 1000, events(100, 5), events(100, 5), events(100, 5), events(100, 5), spread(1000, 2, 4), spread(1000, 1, 2))
	if e.Guards[0].Harm || !e.Guards[1].Harm || !e.Harm() {
		t.Errorf("%+v: the second guard sees harm", e)
	}
	if e := ramp(errors...).Weigh(&experiment.Data{}); e.Harm() || e.Mismatch || len(e.Guards) != 1 {
		t.Errorf("%+v of nothing", e)
	}
}

// TestStrength: the strength is the part of the needed evidence, on a scale of its logarithm.
func TestStrength(t *testing.T) {
	e := weighed([]Stop{{Measure: experiment.Error, As: experiment.Rate, Ratio: 1.2}}, 1000, events(1000, 26), events(1000, 10))
	want := math.Log(sequential.RateExceeds([]sequential.Events{{Control: 10, Arm: 26, Share: 0.5}}, 1.2)) / math.Log(20)
	if got := e.Guards[0].Strength; math.Abs(got-want) > 1e-12 || want < 0.1 || want > 0.9 {
		t.Errorf("%v, want %v", got, want)
	}
	e = weighed([]Stop{{Measure: experiment.Error, As: experiment.Rate, Ratio: 1.2}}, 1000, events(1000, 1), events(1000, 1000))
	if e.Guards[0].Strength != 0 {
		t.Errorf("%v in spite of the contrary", e.Guards[0].Strength)
	}
}

// TestWeighStrata: units of each step are compared with those of the same step, and evidence
// of all steps adds up.
func TestWeighStrata(t *testing.T) {
	p := ramp(Stop{Measure: experiment.Error, As: experiment.Rate})
	n := numbers{metrics: 1}
	for _, s := range []struct {
		share                int
		arm, control, events int64
	}{{1_000, 100, 100, 8}, {5_000, 500, 490, 12}} {
		n.of(s.share, New).Units, n.of(s.share, Control).Units = s.arm, s.control
		n.of(s.share, New).Decided[0], n.of(s.share, Control).Decided[0] = events(s.arm, s.events), events(s.control, 2)
	}
	e := p.Weigh(&n.Data)
	want := sequential.RateExceeds([]sequential.Events{{Control: 2, Arm: 8, Share: 0.5}, {Control: 2, Arm: 12, Share: 0.5}}, 1.2)
	if got := math.Exp(e.Guards[0].Strength * math.Log(20)); math.Abs(got/want-1) > 1e-9 || e.Units != 600 || e.Control != 590 || *e.Guards[0].New != 20.0/600 || *e.Guards[0].Control != 4.0/590 {
		t.Errorf("%v, want %v: %+v", got, want, e)
	}
	if e.Mismatch {
		t.Error("a mismatch")
	}
	n.of(5_000, New).Units = 900
	if !p.Weigh(&n.Data).Mismatch {
		t.Error("900 and 490 units are no mismatch")
	}
	n.of(5_000, New).Units, n.of(5_000, Control).Moved = 900, 410 // those that moved are missing
	if !p.Weigh(&n.Data).Mismatch {
		t.Error("900 and 490 units that are left are no mismatch")
	}
}
