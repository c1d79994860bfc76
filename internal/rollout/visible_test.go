package rollout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

func TestVisible(t *testing.T) {
	rate, requests := Stop{Measure: experiment.Error, As: experiment.Rate, Ratio: 1.2}, Stop{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2}
	resolved, cost := Stop{Value: "resolved", As: experiment.Rate, Ratio: 0.9}, Stop{Measure: experiment.Cost, As: experiment.Total, Ratio: 1.2}
	more, half, p := rate, resolved, ramp()
	more.Ratio, half.Ratio = 2, 0.6
	for _, c := range []struct {
		step  int
		stop  Stop
		every time.Duration
		need  int64
		of    Usual
		want  string
	}{
		{1_000, rate, time.Hour, 0, Usual{1000, 0.02, 0}, "the 1 % step sees 3 times the control's error in 46 minutes, not 2 times"},
		{5_000, rate, time.Hour, 0, Usual{1000, 0.02, 0}, "the 5 % step sees 2 times the control's error in 40 minutes, not 1.5 times"},
		{50_000, rate, time.Hour, 0, Usual{1000, 0.02, 0}, "the 50 % step sees 1.5 times the control's error in 28 minutes"},
		{1_000, rate, 10 * time.Minute, 0, Usual{1000, 0.02, 0}, "the 1 % step sees 10 times the control's error in 5 minutes, not 5 times"},
		{1_000, rate, 10 * time.Minute, 200, Usual{1000, 0.02, 0}, "the 1 % step sees 5 times the control's error in 14 minutes, not 3 times"},
		{1_000, rate, 24 * time.Hour, 0, Usual{100, 0.02, 0}, "the 1 % step sees 3 times the control's error in 7.53 hours, not 2 times"},
		{1_000, rate, time.Hour, 0, Usual{10, 0.02, 0}, "the 1 % step does not see 10 times the control's error in its time"},
		{1_000, rate, time.Hour, 0, Usual{10, 0.3, 0}, "the 1 % step does not see 3 times the control's error in its time"},
		{50_000, more, time.Hour, 0, Usual{1000, 0.02, 0}, "the 50 % step sees 3 times the control's error in 6 minutes"},
		{1_000, requests, time.Hour, 0, Usual{1000, 0.02, 0}, "the 1 % step sees 3 times the control's error in 54 minutes, not 2 times"},
		{50_000, resolved, time.Hour, 0, Usual{1000, 0.6, 0}, "the 50 % step sees 0.667 times the control's resolved in 1 minute"},
		{1_000, resolved, time.Hour, 0, Usual{1000, 0.2, 0}, "the 1 % step sees 0.5 times the control's resolved in 29 minutes, not 0.667 times"},
		{50_000, half, time.Hour, 0, Usual{1000, 0.3, 0}, "the 50 % step sees 0.5 times the control's resolved in 6 minutes"},
		{25_000, cost, time.Hour, 0, Usual{1000, 2, 12}, "the 25 % step sees 1.5 times the control's cost in 5 minutes"},
		{1_000, cost, time.Hour, 0, Usual{1000, 2, 12}, "the 1 % step sees 2 times the control's cost in 36 minutes, not 1.5 times"},
		{1_000, rate, time.Hour, 0, Usual{0, 0.02, 0}, "it is not known which harm in error the 1 % step sees"},
		{1_000, rate, time.Hour, 0, Usual{1000, 0, 0}, "it is not known which harm in error the 1 % step sees"},
		{1_000, cost, time.Hour, 0, Usual{1000, 0, 0}, "it is not known which harm in cost the 1 % step sees"},
		{1_000, cost, time.Hour, 0, Usual{1000, 0, 12}, "it is not known which harm in cost the 1 % step sees"},
		{1_000, cost, time.Hour, 0, Usual{1000, 2, 0}, "it is not known which harm in cost the 1 % step sees"},
		{Whole, rate, time.Hour, 0, Usual{1000, 0.02, 0}, "it is not known which harm in error the 100 % step sees"},
	} {
		p.Stops, p.Every, p.Need = []Stop{c.stop}, c.every, c.need
		if got := p.Visible(c.step, &c.stop, c.of).Says(&c.stop); got != c.want {
			t.Errorf("%d, %+v: %s; want %s", c.step, c.of, got, c.want)
		}
	}
	// Two guards need more.
	p.Stops, p.Every, p.Need = []Stop{rate}, time.Hour, 0
	alone := p.Visible(1_000, &rate, Usual{1000, 0.02, 0})
	p.Stops = []Stop{rate, cost}
	if both := p.Visible(1_000, &rate, Usual{1000, 0.02, 0}); both.After < alone.After*11/10 {
		t.Errorf("%v alone, %v of two", alone, both)
	}
}

func TestUsual(t *testing.T) {
	traffic := &experiment.Traffic{Days: 2, Units: map[string]int64{"blue": 1_440, experiment.PassedOn: 2_880}, Answers: 5_760, Errors: 576}
	for _, c := range []struct {
		as      experiment.As
		control string
		want    Usual
	}{
		{experiment.Rate, experiment.PassedOn, Usual{1.5, 1 - 0.81, 0.81 * 0.19}},
		{experiment.Ratio, experiment.PassedOn, Usual{1.5, 1 - 0.81, 0.81 * 0.19}},
		{experiment.Rate, "green", Usual{1.5, 0, 0}},
	} {
		s := Stop{Measure: experiment.Error, As: c.as, Ratio: 1.2}
		got := s.Usual(traffic, c.control)
		if math.Abs(got.Minutely-c.want.Minutely) > 1e-9 || math.Abs(got.Number-c.want.Number) > 1e-9 || math.Abs(got.Variance-c.want.Variance) > 1e-9 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestVisibleIsSeen: half of the rollouts that do a harm are stopped by about the time that is
// said.
func TestVisibleIsSeen(t *testing.T) {
	for i, c := range []struct {
		ratio, times, base float64
		as                 experiment.As
	}{{1.2, 5, 0.02, experiment.Rate}, {1.2, 1.5, 0.1, experiment.Rate}, {1.2, 2, 0.05, experiment.Rate}, {0.9, 0.5, 0.2, experiment.Rate}, {2, 10, 0.01, experiment.Rate}, {1.2, 2, 1, experiment.Total}, {0.8, 0.5, 1, experiment.Total}} {
		s := Stop{Measure: experiment.Error, As: c.as, Ratio: c.ratio}
		variance := c.base * c.base * (math.Exp(1.2*1.2) - 1)
		expected := s.minutes(c.times, 10, alpha, Usual{0, c.base, variance})
		minutes := play(runs(4_000, 401), uint64(300+i), func(r *rand.Rand) float64 {
			var strata [1]experiment.Stratum
			strata[0].Shares = map[string]float64{New: 0.5, Control: 0.5}
			control, arm := &experiment.Arm{Decided: make([]experiment.Sums, 1)}, &experiment.Arm{Decided: make([]experiment.Sums, 1)}
			strata[0].Arms = map[string]*experiment.Arm{New: arm, Control: control}
			w := weighing{Plan: ramp(), stop: &s, strata: strata[:], alpha: alpha}
			for n := 1; ; n++ {
				name, number := arm, c.base*c.times
				if r.IntN(2) == 0 {
					name, number = control, c.base
				}
				u := sequential.Unit{Y: number * math.Exp(1.2*r.NormFloat64()-0.72)}
				if c.as == experiment.Rate {
					if u.Y = 0; r.Float64() < number {
						u.Y = 1
					}
				}
				name.Decided[0].Add(u)
				if u.Y == 0 || c.as == experiment.Total && n%20 != 0 {
					continue
				}
				if part, ok := w.strength(c.as, 0); ok && part >= 1 {
					return float64(n) / 20
				}
			}
		})
		slices.Sort(minutes)
		median := minutes[len(minutes)/2]
		t.Logf("%+v: %.1f minutes expected, %.1f at the median", c, expected, median)
		if median < 0.85*expected || median > 1.15*expected {
			t.Errorf("%+v: %v minutes expected, %v at the median", c, expected, median)
		}
	}
}
