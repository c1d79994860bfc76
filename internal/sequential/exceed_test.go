package sequential

import (
	"math"
	"testing"
)

// binomial returns the probability of so many of n.
func binomial(some, n int64, p float64) float64 {
	c, _ := math.Lgamma(float64(n + 1))
	a, _ := math.Lgamma(float64(some + 1))
	b, _ := math.Lgamma(float64(n - some + 1))
	return math.Exp(c - a - b + float64(some)*math.Log(p) + float64(n-some)*math.Log(1-p))
}

// part returns the part of the events that is in an arm with this share of the units and so
// many times the rate.
func part(share, times float64) float64 { return 1 / (1 + (1-share)/share/times) }

func TestRateExceeds(t *testing.T) {
	for _, share := range []float64{0.5, 0.05, 0.9} {
		for _, ratio := range []float64{1, 1.2, 3, 0.5, 0.9} {
			// At the tolerated ratio the mean of an e-value is 1, on the good side of it less.
			better := ratio / 1.1
			if ratio < 1 {
				better = ratio * 1.1
			}
			var mean, less float64
			for arm := range int64(41) {
				e := RateExceeds([]Events{{40 - arm, arm, share}}, ratio)
				mean += binomial(arm, 40, part(share, ratio)) * e
				less += binomial(arm, 40, part(share, better)) * e
			}
			near(t, "mean", mean, 1)
			if less > 0.95 {
				t.Errorf("share %v, ratio %v: the mean of better ones is %v", share, ratio, less)
			}
			// The likelihood ratios are those of the events in each stratum, of the same ratio
			// of the rates in all of them.
			want := 0.0
			for _, times := range []float64{1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25} {
				truth := ratio * times
				if ratio < 1 {
					truth = ratio / times
				}
				want += binomial(11, 20, part(share, truth)) / binomial(11, 20, part(share, ratio)) *
					binomial(7, 9, part(0.3, truth)) / binomial(7, 9, part(0.3, ratio)) / 14
			}
			two := []Events{{9, 11, share}, {2, 7, 0.3}}
			if got := RateExceeds(two, ratio); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("share %v, ratio %v: %v, want %v", share, ratio, got, want)
			}
			turned := []Events{{11, 9, 1 - share}, {7, 2, 0.7}}
			if got := RateExceeds(turned, 1/ratio); ratio != 1 && math.Abs(got/want-1) > 1e-9 {
				t.Errorf("share %v, ratio %v, arms exchanged: %v, want %v", share, ratio, got, want)
			}
		}
	}
	for _, none := range [][]Events{nil, {{5, 5, 0}}, {{5, 5, 1}}, {{5, 5, math.NaN()}}, {{-1, 5, 0.5}}, {{5, -1, 0.5}}} {
		if e := RateExceeds(none, 1.2); e != 1 {
			t.Errorf("%v: %v", none, e)
		}
	}
	if e := RateExceeds([]Events{{0, 1e9, 0.5}}, 1.2); e != math.MaxFloat64 {
		t.Errorf("%v of a billion", e)
	}
}

// The bound is that of Waudby-Smith et al., whose rho is the best one for the planned size.
func TestBound(t *testing.T) {
	for _, c := range []struct{ units, n, alpha float64 }{{300, 5_000, 0.05}, {5_000, 5_000, 0.05}, {1e6, 5_000, 0.0125}} {
		rho2 := (-2*math.Log(2*c.alpha) + math.Log(-2*math.Log(2*c.alpha)+1)) / c.n
		want := math.Sqrt(c.units) * math.Sqrt(2*(c.units*rho2+1)/(c.units*c.units*rho2)*math.Log(1+math.Sqrt(c.units*rho2+1)/(2*c.alpha)))
		near(t, "bound", bound(c.units, c.n, c.alpha), want)
		if two := boundary(c.units, c.n, c.alpha); want >= two {
			t.Errorf("one side reaches %v, two %v", want, two)
		}
	}
}

// What a mean or ratio exceeds is what Means and Ratios say of an arm and a control whose
// numbers are multiplied, but by the bound of one side.
func TestExceeds(t *testing.T) {
	const alpha = 0.05
	for _, what := range []string{"mean", "ratio"} {
		compare, exceeds := Means, MeanExceeds
		if what == "ratio" {
			compare, exceeds = Ratios, RatioExceeds
		}
		for _, ratio := range []float64{0.5, 0.8, 0.95, 1, 1.2, 1.7, 3} {
			for _, n := range [][2]int{{700, 350}, {400, 900}} {
				// The oracle's arm has more, of which a part is taken.
				var strata, turned, wanted []Pair
				var known float64
				for i, n := range [][2]int{n, {500, 500}, {0, 7}, {7, 0}} {
					p := Pair{oracleUnits(i, 0, n[0], what), oracleUnits(i, 1, n[1], what)}
					strata = append(strata, p)
					turned = append(turned, Pair{p.Arm, p.Control})
					control, arm, times := side{cell{Sums: p.Control}}, side{cell{Sums: p.Arm}}, ratio
					if ratio < 1 {
						control, arm, times = arm, control, 1/ratio
					}
					s := control[0].Sums
					s.Y, s.YY, s.YD = s.Y*times, s.YY*times*times, s.YD*times
					wanted = append(wanted, Pair{s, arm[0].Sums})
					if n[0] > 0 && n[1] > 0 {
						known += 4 * float64(n[0]*n[1]) / float64(n[0]+n[1])
					}
				}
				absolute, _ := compare(wanted, Planned, alpha)
				want := absolute.Difference / (absolute.High - absolute.Difference) * boundary(known, Planned, alpha) / bound(known, Planned, alpha)
				got, ok := exceeds(strata, ratio, alpha)
				if !ok {
					t.Fatalf("%s, ratio %v: nothing said", what, ratio)
				}
				near(t, what, got, want)
				got, ok = exceeds(turned, 1/ratio, alpha)
				if !ok {
					t.Fatalf("%s, ratio %v: nothing said", what, ratio)
				}
				if ratio != 1 {
					near(t, what+", arms exchanged", got, want)
				}
			}
		}
	}
}

// Of numbers below zero as much is tolerated as of those above.
func TestExceedsBelowZero(t *testing.T) {
	around := func(mean float64) Sums { return many(map[Unit]int{{Y: mean - 1, D: 1}: 500, {Y: mean + 1, D: 1}: 500}) }
	for _, exceeds := range []func([]Pair, float64, float64) (float64, bool){MeanExceeds, RatioExceeds} {
		for _, c := range []struct {
			control, arm, ratio float64
			harm                bool
		}{
			{5, 5, 1.2, false}, {5, 5.9, 1.2, false}, {5, 6.5, 1.2, true},
			{-5, -5, 1.2, false}, {-5, -4.1, 1.2, false}, {-5, -3.5, 1.2, true}, {-5, -7, 1.2, false},
			{-5, -5, 0.8, false}, {-5, -5.9, 0.8, false}, {-5, -7, 0.8, true}, {-5, -3, 0.8, false}, {5, 3.5, 0.8, true},
			{-5, 5, 3, false}, {-5, 6, 3, true}, {0.01, 0.01, 1.2, false}, {-0.01, -0.01, 1.2, false}, {-0.01, 0.5, 1.2, true},
		} {
			part, ok := exceeds([]Pair{{around(c.control), around(c.arm)}}, c.ratio, 0.05)
			if !ok || (part >= 1) != c.harm {
				t.Errorf("%+v: %v", c, part)
			}
		}
	}
}

func TestExceedsStart(t *testing.T) {
	units := func(zeros, others int) Sums {
		return many(map[Unit]int{{D: 2}: zeros, {Y: 1, D: 2}: others - 1, {Y: 3, D: 4}: 1})
	}
	for _, c := range []struct {
		s    Sums
		want bool
	}{{units(0, 300), true}, {units(0, 299), false}, {units(290, 10), true}, {units(291, 9), false}, {Sums{}, false}} {
		for _, p := range []Pair{{units(300, 300), c.s}, {c.s, units(300, 300)}} {
			for _, exceeds := range []func([]Pair, float64, float64) (float64, bool){MeanExceeds, RatioExceeds} {
				for _, ratio := range []float64{0.8, 1.2} {
					if part, ok := exceeds([]Pair{p}, ratio, 0.05); ok != c.want || !ok && part != 0 {
						t.Errorf("%+v: %v, %v", p, part, ok)
					}
				}
			}
		}
	}
	// A mean of numbers that are 0 and 1 needs both.
	if _, ok := MeanExceeds([]Pair{{rate(500, 500), rate(295, 5)}}, 1.2, 0.05); ok {
		t.Error("5 units without an event are enough")
	}
	for _, y := range []float64{1e160, math.MaxFloat64, math.NaN()} {
		s := units(300, 300)
		s.Y, s.YY = y, y*y
		for _, exceeds := range []func([]Pair, float64, float64) (float64, bool){MeanExceeds, RatioExceeds} {
			if part, ok := exceeds([]Pair{{units(300, 300), s}}, 1.2, 0.05); part != 0 {
				t.Errorf("%v: %v, %v", y, part, ok)
			}
		}
	}
	if _, ok := RatioExceeds([]Pair{{rate(500, 500), rate(500, 500)}}, 1.2, 0.05); ok {
		t.Error("a ratio without denominators is said")
	}
	if _, ok := MeanExceeds([]Pair{{units(300, 300), units(300, 300)}}, 1.2, math.NaN()); ok {
		t.Error("an alpha that is none says something")
	}
}
