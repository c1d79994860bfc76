package sequential

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// These tests play experiments with random units. They play all of them with CADENZA_FULL=1
// and less otherwise.

// runs returns how many of the runs a test plays.
func runs(full, short int) int {
	if os.Getenv("CADENZA_FULL") != "" {
		return full
	}
	return short
}

// play returns what f returns for each run, each of which has random numbers of its own.
func play[T any](n int, seed uint64, f func(*rand.Rand) T) []T {
	results := make([]T, n)
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				results[i] = f(rand.New(rand.NewPCG(seed, uint64(i))))
			}
		})
	}
	group.Wait()
	return results
}

func count(list []bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

// event returns 1 with the probability p, else 0.
func event(r *rand.Rand, p float64) float64 {
	if r.Float64() < p {
		return 1
	}
	return 0
}

// lognormal returns a number with the median 1.
func lognormal(r *rand.Rand) float64 { return math.Exp(1.2 * r.NormFloat64()) }

func excludesZero(i *Interval) bool { return i != nil && (i.Low > 0 || i.High < 0) }

// found returns after how many units a difference of rates is called: before the start rule
// by counts, then by the interval. It looks after every so many units.
func found(r *rand.Rand, control, arm, share float64, units, every int) int {
	const alpha = 0.05
	p := make([]Pair, 1)
	for i := 1; i <= units; i++ {
		if r.Float64() < share {
			p[0].Arm.Add(Unit{Y: event(r, arm)})
		} else {
			p[0].Control.Add(Unit{Y: event(r, control)})
		}
		if i%every != 0 {
			continue
		}
		absolute, _ := Means(p, Planned, (1-Early)*alpha)
		if absolute == nil && Counts(p[0].Control.Positive, p[0].Arm.Positive, share) >= 1/(Early*alpha) || excludesZero(absolute) {
			return i
		}
	}
	return math.MaxInt
}

// At most 5 % of experiments in which both arms are the same ever call a difference, of
// those with 20,000 units that are looked at after every 100.
func TestSameIsSame(t *testing.T) {
	n := runs(10_000, 40)
	for i, share := range []float64{0.5, 0.05, 0.01} {
		for j, rate := range []float64{0.01, 0.05} {
			called := count(play(n, uint64(100+10*i+j), func(r *rand.Rand) bool {
				return found(r, rate, rate, share, 20_000, 100) <= 20_000
			}))
			t.Logf("share %v, rate %v: %.2f %%", share, rate, 100*float64(called)/float64(n))
			if float64(called) > 0.05*float64(n) {
				t.Errorf("share %v, rate %v: %d of %d call a difference", share, rate, called, n)
			}
		}
		// Means, also at the level that they have beside others.
		alphas := [2]float64{0.05, 0.0125}
		var called [2]float64
		for _, c := range play(n, uint64(200+i), func(r *rand.Rand) (called [2]bool) {
			p := make([]Pair, 1)
			for i := 1; i <= 20_000; i++ {
				s := &p[0].Control
				if r.Float64() < share {
					s = &p[0].Arm
				}
				s.Add(Unit{Y: lognormal(r)})
				for j, alpha := range alphas {
					if i%100 == 0 && !called[j] {
						absolute, _ := Means(p, Planned, alpha)
						called[j] = excludesZero(absolute)
					}
				}
			}
			return called
		}) {
			for j := range c {
				if c[j] {
					called[j]++
				}
			}
		}
		for j, alpha := range alphas {
			t.Logf("share %v, means, alpha %v: %.2f %%", share, alpha, 100*called[j]/float64(n))
			if most := alpha * float64(n); called[j] > max(most, 2) {
				t.Errorf("share %v, means: %v of %d call a difference at %v", share, called[j], n, alpha)
			}
		}
	}
}

// The same holds for numbers of which few are far from the others, so that a small arm may
// have had none of those.
func TestSkewedIsSame(t *testing.T) {
	// scores are 1 of the part p of units, and 5 of others.
	scores := func(p float64) func(*rand.Rand) Unit {
		return func(r *rand.Rand) Unit { return Unit{Y: 5 - 4*event(r, p)} }
	}
	// totals are those of which 5 % of units pay anything.
	totals := func(sigma float64) func(*rand.Rand) Unit {
		return func(r *rand.Rand) Unit { return Unit{Y: event(r, 0.05) * math.Exp(sigma*r.NormFloat64())} }
	}
	// answers are 1 to 10 of a unit, of which one costs as much as the other.
	answers := func(r *rand.Rand) Unit {
		d := float64(1 + r.IntN(10))
		return Unit{Y: d * math.Exp(1.8*r.NormFloat64()), D: d}
	}
	n, units := runs(4_000, 100), runs(20_000, 10_000)
	for i, c := range []struct {
		name  string
		share float64
		draw  func(*rand.Rand) Unit
	}{
		{"scores, 1 %", 0.2, scores(0.01)},
		{"scores, 0.3 %", 0.2, scores(0.003)},
		{"scores, 0.3 %", 0.05, scores(0.003)},
		{"scores, 0.1 %", 0.05, scores(0.001)},
		{"totals, sigma 1.2", 0.2, totals(1.2)},
		{"totals, sigma 1.2", 0.1, totals(1.2)},
		{"totals, sigma 1.8", 0.1, totals(1.8)},
		{"costs of answers", 0.1, answers},
		{"costs of answers", 0.05, answers},
	} {
		compare := Means
		if c.draw(rand.New(rand.NewPCG(250, 0))).D > 0 {
			compare = Ratios
		}
		called := count(play(n, uint64(250+i), func(r *rand.Rand) bool {
			p := make([]Pair, 1)
			for i := 1; i <= units; i++ {
				s := &p[0].Control
				if r.Float64() < c.share {
					s = &p[0].Arm
				}
				s.Add(c.draw(r))
				if i%20 == 0 {
					if absolute, _ := compare(p, Planned, 0.05); excludesZero(absolute) {
						return true
					}
				}
			}
			return false
		}))
		t.Logf("%s, share %v: %.2f %%", c.name, c.share, 100*float64(called)/float64(n))
		if float64(called) > 0.05*float64(n) {
			t.Errorf("%s, share %v: %d of %d call a difference", c.name, c.share, called, n)
		}
	}
}

// A true difference is found in time.
func TestDifferencesAreFound(t *testing.T) {
	for _, c := range []struct {
		control, arm float64
		half, most   int
	}{{0.05, 0.10, 1_300, 2_600}, {0.60, 0.70, 1_100, 1_800}} {
		n := runs(10_000, 150)
		units := play(n, 300, func(r *rand.Rand) int { return found(r, c.control, c.arm, 0.5, 10_000, 10) })
		slices.Sort(units)
		t.Logf("%v to %v: median %d, 90 %% %d", c.control, c.arm, units[n/2], units[n*9/10])
		if units[n/2] > c.half || units[n*9/10] > c.most {
			t.Errorf("%v to %v: the median is %d units, 90 %% %d", c.control, c.arm, units[n/2], units[n*9/10])
		}
	}
}

// Needed is what 80 % of runs need.
func TestNeededIsNeeded(t *testing.T) {
	for i, c := range []struct{ share, alpha, difference float64 }{{0.5, 0.05, 0.06}, {0.5, 0.0025, 0.06}, {0.2, 0.025, 0.06}, {0.5, 0.05, 0.015}} {
		n := runs(10_000, 100)
		base, difference := 0.30, c.difference
		// The variance is that of both arms.
		needed := Needed(base, base*(1-base), difference, c.share, c.alpha)
		at := float64(count(play(n, uint64(400+i), func(r *rand.Rand) bool {
			p := make([]Pair, 1)
			for i := int64(1); i <= needed; i++ {
				if r.Float64() < c.share {
					p[0].Arm.Add(Unit{Y: event(r, base+difference/2)})
				} else {
					p[0].Control.Add(Unit{Y: event(r, base-difference/2)})
				}
				if i%20 == 0 || i == needed {
					if absolute, _ := Means(p, Planned, c.alpha); excludesZero(absolute) {
						return true
					}
				}
			}
			return false
		}))) / float64(n)
		t.Logf("share %v, alpha %v, %d units: %.3f", c.share, c.alpha, needed, at)
		if margin := 0.02 + 2*math.Sqrt(0.16/float64(n)); math.Abs(at-0.8) > margin {
			t.Errorf("share %v, alpha %v: %d units are enough in %.1f %%", c.share, c.alpha, needed, 100*at)
		}
	}
}

// A good split is hardly ever said to be a mismatch, and a bad one soon.
func TestDivided(t *testing.T) {
	mismatch := func(r *rand.Rand, shares, truth []float64, units int) int {
		s := Segment{make([]int64, len(shares)), shares}
		for i := 1; i <= units; i++ {
			at, u := 0, r.Float64()
			for at < len(truth)-1 && u >= truth[at] {
				u -= truth[at]
				at++
			}
			s.Units[at]++
			if i%100 == 0 && Divided([]Segment{s}) >= 1000 {
				return i
			}
		}
		return math.MaxInt
	}
	n := runs(10_000, 100)
	for i, shares := range [][]float64{{0.5, 0.5}, {0.1, 0.9}, {0.01, 0.04, 0.95}} {
		wrong := count(play(n, uint64(500+i), func(r *rand.Rand) bool { return mismatch(r, shares, shares, 20_000) <= 20_000 }))
		t.Logf("%v: %.2f %%", shares, 100*float64(wrong)/float64(n))
		if float64(wrong) > 0.002*float64(n) {
			t.Errorf("%v: %d of %d are a mismatch", shares, wrong, n)
		}
	}
	n = runs(10_000, 100)
	units := play(n, 510, func(r *rand.Rand) int {
		return mismatch(r, []float64{0.5, 0.5}, []float64{0.48, 0.52}, 20_000)
	})
	slices.Sort(units)
	t.Logf("52:48: median %d, 90 %% %d", units[n/2], units[n*9/10])
	if units[n*9/10] > 20_000 {
		t.Errorf("52:48 is found by %d units in half, %d in 90 %%", units[n/2], units[n*9/10])
	}
}
