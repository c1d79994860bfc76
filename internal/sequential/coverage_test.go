package sequential

import (
	"math"
	"math/rand/v2"
	"testing"
)

// experiment is one of which the truth is known.
type experiment struct {
	name string
	// begin returns what adds unit i, from 1 on, to the strata.
	begin func(*rand.Rand) (strata []Pair, step func(i int))
	// absolute and relative are the truth after i units; nil: it is not asked for.
	absolute, relative func(i int) float64
	ratio              bool
	// size returns the planned size; nil: 10,000.
	size func(strata []Pair) float64
}

func always(x float64) func(int) float64 { return func(int) float64 { return x } }

// simple is an experiment with one stratum, of which draw returns the units.
func simple(share float64, draw func(r *rand.Rand, i int, arm bool) Unit) func(*rand.Rand) ([]Pair, func(int)) {
	return stratified(1, func(int) (int, float64) { return 0, share }, draw)
}

// stratified is an experiment with so many strata, of which at returns the one in which unit
// i is and its share.
func stratified(n int, at func(i int) (int, float64), draw func(r *rand.Rand, i int, arm bool) Unit) func(*rand.Rand) ([]Pair, func(int)) {
	return func(r *rand.Rand) ([]Pair, func(int)) {
		strata := make([]Pair, n)
		return strata, func(i int) {
			stratum, share := at(i)
			if r.Float64() < share {
				strata[stratum].Arm.Add(draw(r, i, true))
			} else {
				strata[stratum].Control.Add(draw(r, i, false))
			}
		}
	}
}

// rates draws units of which the control's have an event with the probability base, and the
// arm's with base·times + more.
func rates(base func(i int) float64, times, more float64) func(r *rand.Rand, i int, arm bool) Unit {
	return func(r *rand.Rand, i int, arm bool) Unit {
		p := base(i)
		if arm {
			p = p*times + more
		}
		return Unit{Y: event(r, p)}
	}
}

// late has units whose events are reported after some delay, of so many units on average.
func late(control, arm, delay float64) func(*rand.Rand) ([]Pair, func(int)) {
	return func(r *rand.Rand) ([]Pair, func(int)) {
		strata := make([]Pair, 1)
		reports := make(map[int][]*Sums)
		return strata, func(i int) {
			s, p := &strata[0].Control, control
			if r.Float64() < 0.5 {
				s, p = &strata[0].Arm, arm
			}
			s.Add(Unit{})
			if event(r, p) == 1 {
				at := i + int(delay*r.ExpFloat64())
				reports[at] = append(reports[at], s)
			}
			for _, s := range reports[i] {
				s.Remove(Unit{})
				s.Add(Unit{Y: 1})
			}
			delete(reports, i)
		}
	}
}

// requests draws what a unit of 1 to 10 requests did. How often they fail differs between
// units, and those with more requests fail more often: 0.7·p of all requests do.
func requests(control, arm float64) func(r *rand.Rand, i int, isArm bool) Unit {
	return func(r *rand.Rand, _ int, isArm bool) Unit {
		u := Unit{D: float64(1 + r.IntN(10))}
		p := control
		if isArm {
			p = arm
		}
		p *= 2 * r.Float64() * u.D / 10
		for range int(u.D) {
			u.Y += event(r, p)
		}
		return u
	}
}

// costs draws lognormal numbers, of which the arm's are so many times the control's.
func costs(times float64) func(r *rand.Rand, i int, arm bool) Unit {
	return func(r *rand.Rand, _ int, arm bool) Unit {
		if arm {
			return Unit{Y: times * lognormal(r)}
		}
		return Unit{Y: lognormal(r)}
	}
}

// known draws numbers of which the half with a past are 2·past + noise, and the others
// something else.
func known(more float64) func(r *rand.Rand, i int, arm bool) Unit {
	return func(r *rand.Rand, _ int, arm bool) Unit {
		u := Unit{Y: 3 + r.NormFloat64()}
		if r.Float64() < 0.5 {
			u = Unit{Past: 4 + 2*r.NormFloat64(), HasPast: true}
			u.Y = 2*u.Past + r.NormFloat64()
		}
		if arm {
			u.Y += more
		}
		return u
	}
}

var experiments = func() []experiment {
	drift := func(i int) float64 { return 0.02 + 0.06*float64(i)/20_000 }
	// twice changes the share twice.
	twice := func(i int) (int, float64) {
		switch {
		case i <= 4_000:
			return 0, 0.05
		case i <= 10_000:
			return 1, 0.2
		}
		return 2, 0.5
	}
	// often has 80 strata of 250 units, in most of which one of the arms has a few or none.
	often := func(i int) (int, float64) {
		s := (i - 1) / 250
		return s, [...]float64{0.01, 0.5, 0.99, 0.05}[s%4]
	}
	reported := func(i int) float64 {
		x := float64(i) / 2_000
		return 0.1 * (1 - (1-math.Exp(-x))/x)
	}
	lognormalMean := math.Exp(0.72)
	return []experiment{
		{name: "rates", begin: simple(0.5, rates(always(0.10), 1.2, 0)), absolute: always(0.02), relative: always(0.2)},
		{name: "rates, small share", begin: simple(0.05, rates(always(0.05), 1.2, 0)), absolute: always(0.01), relative: always(0.2)},
		{name: "rates, small control", begin: simple(0.95, rates(always(0.05), 1.2, 0)), absolute: always(0.01), relative: always(0.2)},
		{
			name: "rates, planned by what is seen", begin: simple(0.5, rates(always(0.10), 1.2, 0)), absolute: always(0.02), relative: always(0.2),
			size: func(strata []Pair) float64 {
				base, variance := strata[0].Control.Mean()
				return float64(Needed(base, variance, base*0.1, 0.5, 0.05))
			},
		},
		{name: "means", begin: simple(0.5, costs(1.1)), absolute: always(0.1 * lognormalMean), relative: always(0.1)},
		{name: "means, small share", begin: simple(0.05, costs(1.1)), absolute: always(0.1 * lognormalMean), relative: always(0.1)},
		{name: "ratios", begin: simple(0.5, requests(0.2, 0.25)), absolute: always(0.035), relative: always(0.25), ratio: true},
		{name: "ratios, small share", begin: simple(0.05, requests(0.2, 0.25)), absolute: always(0.035), relative: always(0.25), ratio: true},
		{name: "ratios, share changes twice", begin: stratified(3, twice, requests(0.2, 0.25)), absolute: always(0.035), relative: always(0.25), ratio: true},
		{name: "late reports", begin: late(0.1, 0.1, 2_000), absolute: always(0), relative: always(0)},
		{name: "late reports of a difference", begin: late(0.1, 0.2, 2_000), absolute: reported, relative: always(1)},
		{name: "late reports, by the end", begin: late(0.1, 0.12, 300), absolute: always(0.02), relative: always(0.2)},
		{name: "drift", begin: simple(0.5, rates(drift, 1, 0.01)), absolute: always(0.01)},
		{name: "drift, relative", begin: simple(0.2, rates(drift, 1.25, 0)), relative: always(0.25)},
		{name: "share changes twice", begin: stratified(3, twice, rates(drift, 1, 0.01)), absolute: always(0.01)},
		{name: "share changes twice, relative", begin: stratified(3, twice, rates(drift, 1.25, 0)), relative: always(0.25)},
		{name: "share changes twice, means", begin: stratified(3, twice, costs(1.1)), absolute: always(0.1 * lognormalMean), relative: always(0.1)},
		{name: "small strata", begin: stratified(80, often, rates(drift, 1, 0.01)), absolute: always(0.01)},
		{name: "small strata, means", begin: stratified(80, often, costs(1.1)), absolute: always(0.1 * lognormalMean), relative: always(0.1)},
		{name: "past", begin: simple(0.5, known(0.2)), absolute: always(0.2), relative: always(0.2 / 5.5)},
		{name: "past, share changes twice", begin: stratified(3, twice, known(0.2)), absolute: always(0.2), relative: always(0.2 / 5.5)},
	}
}()

// The intervals have the truth at all looks at once in at least 95 % of runs.
func TestCoverage(t *testing.T) {
	const every, alpha = 100, 0.05
	n, units := runs(4_000, 16), runs(20_000, 12_000)
	// In few runs, chance adds to the 5 %.
	most := alpha*float64(n) + 3*math.Sqrt(alpha*(1-alpha)*float64(n))
	if n == 4_000 {
		most = alpha * float64(n)
	}
	var all, asked float64
	for i, e := range experiments {
		size := e.size
		if size == nil {
			size = func([]Pair) float64 { return Planned }
		}
		compare := Means
		if e.ratio {
			compare = Ratios
		}
		type result struct{ absolute, relative, said bool }
		results := play(n, uint64(1000+i), func(r *rand.Rand) result {
			missed := result{}
			strata, step := e.begin(r)
			for i := 1; i <= units; i++ {
				step(i)
				if i%every != 0 {
					continue
				}
				absolute, relative := compare(strata, size(strata), alpha)
				misses := func(in *Interval, truth func(int) float64) bool {
					return in != nil && truth != nil && !(in.Low <= truth(i) && truth(i) <= in.High)
				}
				missed.absolute = missed.absolute || misses(absolute, e.absolute)
				missed.relative = missed.relative || misses(relative, e.relative)
				missed.said = absolute != nil && relative != nil
			}
			return missed
		})
		var absolute, relative, said float64
		for _, r := range results {
			if r.absolute {
				absolute++
			}
			if r.relative {
				relative++
			}
			if r.said {
				said++
			}
		}
		if e.absolute != nil {
			all, asked = all+absolute, asked+float64(n)
		}
		if e.relative != nil {
			all, asked = all+relative, asked+float64(n)
		}
		t.Logf("%s: missed in %.2f %%, relative in %.2f %%", e.name, 100*absolute/float64(n), 100*relative/float64(n))
		if absolute > most || relative > most || said < 0.9*float64(n) {
			t.Errorf("%s: of %d runs %v miss the truth, %v the relative one, and %v say both intervals at the end", e.name, n, absolute, relative, said)
		}
	}
	if all > alpha*asked {
		t.Errorf("of %v runs of all experiments %v miss the truth", asked, all)
	}
}
