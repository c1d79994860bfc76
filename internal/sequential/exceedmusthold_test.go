package sequential

import (
	"math/rand/v2"
	"testing"
)

// At most 5 % of arms whose mean, or ratio, is exactly what is tolerated are ever said to
// exceed it, and one that has half as much again is found.
func TestToleratedIsTolerated(t *testing.T) {
	answers := func(times float64) func(*rand.Rand, int, bool) Unit {
		return func(r *rand.Rand, _ int, arm bool) Unit {
			u := Unit{D: float64(1 + r.IntN(10))}
			for range int(u.D) {
				u.Y += lognormal(r)
			}
			if arm {
				u.Y *= times
			}
			return u
		}
	}
	often := func(i int) (int, float64) {
		return (i - 1) / 1_000, 0.5
	}
	n, units := runs(10_000, 60), runs(20_000, 10_000)
	for i, c := range []struct {
		name    string
		ratio   float64
		exceeds func([]Pair, float64, float64) (float64, bool)
		begin   func(times float64) func(*rand.Rand) ([]Pair, func(int))
	}{
		{"means", 1.2, MeanExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) { return simple(0.5, costs(times)) }},
		{"means, strata", 1.2, MeanExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) {
			return stratified(20, often, costs(times))
		}},
		{"means, small share", 1.2, MeanExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) { return simple(0.05, costs(times)) }},
		{"means, less is harm", 0.8, MeanExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) { return simple(0.5, costs(times)) }},
		{"ratios", 1.2, RatioExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) { return simple(0.5, answers(times)) }},
		{"ratios of errors", 1.2, RatioExceeds, func(times float64) func(*rand.Rand) ([]Pair, func(int)) {
			return simple(0.5, requests(0.2, 0.2*times))
		}},
	} {
		found := func(seed uint64, n int, truth, alpha float64) int {
			return count(play(n, seed, func(r *rand.Rand) bool {
				strata, step := c.begin(truth)(r)
				for i := 1; i <= units; i++ {
					step(i)
					if i%100 == 0 {
						if part, ok := c.exceeds(strata, c.ratio, alpha); ok && part >= 1 {
							return true
						}
					}
				}
				return false
			}))
		}
		wrong := [2]int{found(uint64(800+i), n, c.ratio, 0.05), found(uint64(800+i), n, c.ratio, 0.0125)}
		t.Logf("%s: %.2f %%, at a level of 1.25 %% %.2f %%", c.name, 100*float64(wrong[0])/float64(n), 100*float64(wrong[1])/float64(n))
		if float64(wrong[0]) > 0.05*float64(n) || float64(wrong[1]) > max(0.0125*float64(n), 2) {
			t.Errorf("%s: %v of %d are said to exceed what is tolerated", c.name, wrong, n)
		}
		worse := c.ratio * 1.5
		if c.ratio < 1 {
			worse = c.ratio / 1.5
		}
		if right := found(uint64(900+i), 20, worse, 0.05); right < 18 && c.name != "means, small share" {
			t.Errorf("%s: %d of 20 are found", c.name, right)
		}
	}
}
