package sequential

import (
	"math"
	"math/rand/v2"
	"testing"
)

// many returns the sums of so many units of each kind.
func many(units map[Unit]int) (s Sums) {
	for u, n := range units {
		for range n {
			s.Add(u)
		}
	}
	return s
}

// rate returns the sums of so many units with an event and without.
func rate(events, others int) Sums {
	return many(map[Unit]int{{Y: 1}: events, {}: others})
}

func TestSums(t *testing.T) {
	var s, o Sums
	s.Add(Unit{Y: 3, D: 3})
	s.Add(Unit{Y: 2, D: 5})
	s.Add(Unit{D: 1})
	s.Add(Unit{D: 1})
	s.Add(Unit{Y: 4, Past: 3, HasPast: true})
	o.Add(Unit{Y: -1, Past: -2, HasPast: true})
	want := Sums{N: 5, Positive: 3, Partial: 4, Y: 9, YY: 29, D: 10, DD: 36, YD: 19, H: 1, C: 3, CC: 9, YC: 12, YH: 4}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.Merge(&o)
	want = Sums{N: 6, Positive: 4, Partial: 5, Y: 8, YY: 30, D: 10, DD: 36, YD: 19, H: 2, C: 1, CC: 13, YC: 14, YH: 3}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.Remove(Unit{Y: 4, Past: 3, HasPast: true})
	s.Remove(Unit{Y: -1, Past: -2, HasPast: true})
	s.Remove(Unit{Y: 2, D: 5})
	s.Remove(Unit{D: 1})
	s.Remove(Unit{D: 1})
	s.Remove(Unit{Y: 3, D: 3})
	if s != (Sums{}) {
		t.Errorf("%+v are left", s)
	}
}

func TestMoments(t *testing.T) {
	two := many(map[Unit]int{{Y: 1, D: 2}: 1, {Y: 5, D: 2}: 1})
	mean, variance := two.Mean()
	near(t, "mean", mean, 3)
	near(t, "variance", variance, 8)
	ratio, variance := two.Ratio()
	near(t, "ratio", ratio, 1.5)
	near(t, "variance of a ratio", variance, 2)
	one := many(map[Unit]int{{Y: 1, D: 2}: 1})
	for _, f := range []func() (float64, float64){one.Mean, one.Ratio} {
		if a, b := f(); a != 0 || b != 0 {
			t.Errorf("%v, %v of one unit", a, b)
		}
	}
}

func TestStartRule(t *testing.T) {
	constant := Unit{Y: 2}
	mean := func(zeros, others int) Sums { return many(map[Unit]int{{}: zeros, constant: others - 1, {Y: 3}: 1}) }
	ratio := func(none, some, all int) Sums {
		return many(map[Unit]int{{D: 2}: none, {Y: 1, D: 2}: some, {Y: 2, D: 2}: all})
	}
	for _, c := range []struct {
		name  string
		s     Sums
		ratio bool
		want  bool
	}{
		{"rate", rate(10, 290), false, true},
		{"units", rate(20, 279), false, false},
		{"events", rate(9, 991), false, false},
		{"others", rate(991, 9), false, false},
		{"both", rate(290, 10), false, true},
		{"mean", mean(290, 10), false, true},
		{"mean without zeros", mean(0, 300), false, true},
		{"mean with the sum of a rate", many(map[Unit]int{{Y: 0.5}: 150, {Y: 1.5}: 150}), false, true},
		{"zeros", mean(291, 9), false, false},
		{"ratio", ratio(290, 5, 5), true, true},
		{"ratio of zeros", ratio(291, 5, 4), true, false},
		{"ratio of all", ratio(5, 5, 290), true, true},
		{"ratio of nearly all", ratio(4, 5, 291), true, false},
		{"nothing", Sums{}, false, false},
		{"ratio of nothing", Sums{}, true, false},
	} {
		plenty := rate(500, 500)
		compare := Means
		if c.ratio {
			plenty, compare = ratio(300, 300, 300), Ratios
		}
		for _, p := range []Pair{{c.s, plenty}, {plenty, c.s}} {
			if absolute, relative := compare([]Pair{p}, 10_000, 0.05); (absolute != nil) != c.want || absolute == nil && relative != nil {
				t.Errorf("%s: %v", c.name, absolute)
			}
		}
	}

	// Units for which the other arm has nobody to compare with are not known better for it.
	lonely := []Pair{{rate(100, 500), rate(1, 2)}, {rate(1, 2), rate(100, 500)}}
	if absolute, _ := Means(lonely, 10_000, 0.05); absolute != nil {
		t.Errorf("%v of 3 and 3 units", *absolute)
	}
	strata := []Pair{{rate(10, 140), rate(10, 140)}, {rate(5, 145), rate(5, 145)}, {Control: rate(100, 100)}}
	if absolute, _ := Means(strata, 10_000, 0.05); absolute == nil {
		t.Error("nothing is said of 300 units in two strata")
	}

	p := []Pair{{rate(100, 900), rate(150, 850)}}
	for _, c := range [][2]float64{{0, 0.05}, {-1, 0.05}, {math.NaN(), 0.05}, {10_000, 0}, {10_000, 1}, {10_000, math.NaN()}} {
		if absolute, relative := Means(p, c[0], c[1]); absolute != nil || relative != nil {
			t.Errorf("planned size %v, alpha %v: %v, %v", c[0], c[1], absolute, relative)
		}
	}
}

// A control whose mean may be zero has no relative difference. One with a negative mean has:
// by its size.
func TestRelative(t *testing.T) {
	around := func(mean float64, n int) Sums {
		return many(map[Unit]int{{Y: mean - 1}: n, {Y: mean + 1}: n})
	}
	for _, mean := range []float64{0, 0.01, -0.01} {
		absolute, relative := Means([]Pair{{around(mean, 500), around(5, 500)}}, 10_000, 0.05)
		if absolute == nil || relative != nil {
			t.Errorf("control %v: %v, %v", mean, absolute, relative)
		}
	}
	_, up := Means([]Pair{{around(4, 500), around(5, 500)}}, 10_000, 0.05)
	_, down := Means([]Pair{{around(-4, 500), around(-5, 500)}}, 10_000, 0.05)
	if up == nil || down == nil || math.Abs(up.Difference-0.25) > 1e-12 || *down != (Interval{-up.Difference, -up.High, -up.Low}) {
		t.Errorf("%v and %v", up, down)
	}

	// Both intervals have zero, or none has.
	for events := 100; events < 200; events++ {
		absolute, relative := Means([]Pair{{rate(100, 900), rate(events, 1000-events)}}, 10_000, 0.05)
		if (absolute.Low > 0) != (relative.Low > 0) {
			t.Errorf("%d events: %v and %v", events, absolute, relative)
		}
	}
}

// Sums of numbers that are much larger than their differences still have a variance, and no
// number that can't be said is.
func TestLargeNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(600, 1))
	for _, c := range []struct {
		mean float64
		n    int
		most float64 // that the variance may be, instead of 1
	}{{1e6, 1_000, 1.4}, {1e6, 100_000, 30}, {1e3, 100_000, 1.02}} {
		var p Pair
		for range c.n {
			p.Control.Add(Unit{Y: c.mean + r.NormFloat64(), Past: c.mean + r.NormFloat64(), HasPast: true})
			p.Arm.Add(Unit{Y: c.mean + 1 + r.NormFloat64(), Past: c.mean + r.NormFloat64(), HasPast: true})
		}
		for _, s := range []*Sums{&p.Control, &p.Arm} {
			if mean, variance := s.Mean(); math.Abs(mean-c.mean) > 2 || variance < 0.9 || variance > c.most {
				t.Errorf("%+v: mean %v, variance %v", c, mean, variance)
			}
		}
		absolute, relative := Means([]Pair{p}, 10_000, 0.05)
		width := boundary(float64(2*c.n), 10_000, 0.05) * math.Sqrt(2/float64(c.n))
		if got := absolute.High - absolute.Difference; got < 0.95*width || got > math.Sqrt(c.most)*width || absolute.Low > 1 || absolute.High < 1 {
			t.Errorf("%+v: %v, want about ± %v", c, absolute, width)
		}
		if got := c.mean * (relative.High - relative.Low) / (absolute.High - absolute.Low); math.Abs(got-1) > 2/c.mean {
			t.Errorf("%+v: %v, but relative %v", c, absolute, relative)
		}
	}
	// With a mean of 1e9 rounding hides the variance. It becomes large, not small.
	for i := range 100 {
		mean := 1e9 + 12345.6*float64(i)
		s := many(map[Unit]int{{Y: mean - 1}: 500, {Y: mean + 1}: 500})
		if _, variance := s.Mean(); variance < 0.9 {
			t.Errorf("mean %v: variance %v", mean, variance)
		}
	}
	// Of what a number leaves that was a million times larger and was removed, nothing is said.
	spoilt := rate(500, 500)
	spoilt.Y, spoilt.YY = 500.5, 250
	if mean, variance := spoilt.Mean(); mean != 0 || variance != 0 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
	if absolute, relative := Means([]Pair{{spoilt, spoilt}}, 10_000, 0.05); absolute != nil || relative != nil {
		t.Errorf("%v, %v", absolute, relative)
	}

	for _, y := range []float64{1e80, 1e160, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-160} {
		var p Pair
		for i := range 1000 {
			u := Unit{Y: y * float64(i%7), D: 1 + float64(i%3), Past: y * float64(i%5), HasPast: i%2 == 0}
			p.Control.Add(u)
			u.Y *= 0.5
			p.Arm.Add(u)
		}
		for _, compare := range []func([]Pair, float64, float64) (*Interval, *Interval){Means, Ratios} {
			absolute, relative := compare([]Pair{p}, 10_000, 0.05)
			for _, i := range []*Interval{absolute, relative} {
				if i != nil && (math.IsNaN(i.Low+i.High+i.Difference) || math.IsInf(i.Low, 0) || math.IsInf(i.High, 0) || math.IsInf(i.Difference, 0)) {
					t.Errorf("%v: %v", y, *i)
				}
			}
		}
		for _, f := range []func() (float64, float64){p.Control.Mean, p.Control.Ratio} {
			if a, b := f(); math.IsNaN(a+b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
				t.Errorf("%v: %v and %v", y, a, b)
			}
		}
	}
	// Denominators of zero.
	p := Pair{rate(500, 500), rate(500, 500)}
	if absolute, relative := Ratios([]Pair{p}, 10_000, 0.05); absolute != nil || relative != nil {
		t.Errorf("%v and %v of nothing", absolute, relative)
	}
	if ratio, variance := p.Control.Ratio(); ratio != 0 || variance != 0 {
		t.Errorf("%v, %v of nothing", ratio, variance)
	}
}

// The past takes from the variance what it explains, as theory says: of the half that have
// one Y is 2·past + noise, so that the noise is left, and of what the halves differ nothing.
func TestPast(t *testing.T) {
	r := rand.New(rand.NewPCG(700, 1))
	draw := known(0)
	var with, without Pair
	for range 40_000 {
		c, a := draw(r, 0, false), draw(r, 0, true)
		with.Control.Add(c)
		with.Arm.Add(a)
		without.Control.Add(Unit{Y: c.Y})
		without.Arm.Add(Unit{Y: a.Y})
	}
	// 1/2·(16+1) + 1/2·1 within the halves, whose means are 8 and 3.
	for _, c := range []struct {
		s    *Sums
		want float64
	}{{&with.Control, 1}, {&without.Control, 9 + 25.0/4}} {
		if mean, variance := c.s.Mean(); math.Abs(mean-5.5) > 0.1 || math.Abs(variance/c.want-1) > 0.03 {
			t.Errorf("mean %v, variance %v, want 5.5 and %v", mean, variance, c.want)
		}
	}
	narrow, _ := Means([]Pair{with}, 10_000, 0.05)
	wide, _ := Means([]Pair{without}, 10_000, 0.05)
	if got := (narrow.High - narrow.Low) / (wide.High - wide.Low); math.Abs(got*math.Sqrt(15.25)-1) > 0.03 {
		t.Errorf("the interval becomes %v as wide, want %v", got, 1/math.Sqrt(15.25))
	}

	// A past that says nothing, or that all units have, or that is the same for all, is
	// no harm.
	for _, past := range []func(i int) (float64, bool){
		func(i int) (float64, bool) { return 0, true },
		func(i int) (float64, bool) { return 7, i%2 == 0 },
		func(i int) (float64, bool) { return float64(i % 11), true },
		func(i int) (float64, bool) { return 0, i%2 == 0 },
	} {
		var p, plain Pair
		for i := range 2_000 {
			u := Unit{Y: r.NormFloat64()}
			plain.Control.Add(u)
			u.Past, u.HasPast = past(i)
			p.Control.Add(u)
			u = Unit{Y: 5 + r.NormFloat64()}
			plain.Arm.Add(u)
			u.Past, u.HasPast = past(i)
			p.Arm.Add(u)
		}
		got, _ := Means([]Pair{p}, 10_000, 0.05)
		want, _ := Means([]Pair{plain}, 10_000, 0.05)
		if got == nil || math.Abs(got.Low-want.Low) > 0.01 || math.Abs(got.High-want.High) > 0.01 {
			t.Errorf("%v, without the past %v", got, want)
		}
	}
}

// Strata with few units in an arm change next to nothing.
func TestSmallStrata(t *testing.T) {
	large := Pair{rate(200, 1800), rate(240, 1760)}
	strata := []Pair{large, {rate(0, 1000), rate(1, 0)}, {rate(1, 0), rate(0, 1)}, {rate(0, 1), rate(2, 5000)}, {Arm: rate(5, 5)}, {}}
	got, _ := Means(strata, 10_000, 0.05)
	want, _ := Means([]Pair{large}, 10_000, 0.05)
	if got == nil || math.Abs(got.Difference-want.Difference) > 0.001 || math.Abs(got.Low-want.Low) > 0.001 || math.Abs(got.High-want.High) > 0.001 {
		t.Errorf("%v, want about %v", got, want)
	}

	// The doc comment of Means: after 10,000 units each at 1, 5 and 50 % the interval is half
	// as wide as with weights by units, which the errors of these weights say.
	var byUnits, known float64
	strata = nil
	for _, n := range []int{100, 500, 5_000} {
		c := 10_000 - n
		strata = append(strata, Pair{rate(c/10, c-c/10), rate(n/10, n-n/10)})
		byUnits += 0.09 / 9 * (1/float64(c) + 1/float64(n))
		known += float64(c) * float64(n) / 10_000
	}
	got, _ = Means(strata, 10_000, 0.05)
	wide := boundary(4*known, 10_000, 0.05) * math.Sqrt(byUnits)
	if ratio := (got.High - got.Difference) / wide; ratio < 0.45 || ratio > 0.52 {
		t.Errorf("%v as wide", ratio)
	}
}

func TestCounts(t *testing.T) {
	// An e-value has the mean 1 if nothing differs, whatever the share.
	for _, share := range []float64{0.5, 0.05, 0.9} {
		var mean, probability float64 = 0, math.Pow(1-share, 40)
		for arm := range 41 {
			mean += probability * Counts(int64(40-arm), int64(arm), share)
			probability *= float64(40-arm) / float64(arm+1) * share / (1 - share)
		}
		near(t, "mean", mean, 1)
	}
	near(t, "the other way round", Counts(3, 17, 0.4), Counts(17, 3, 0.6))
	for _, c := range []struct {
		control, arm int64
		share        float64
	}{{5, 5, 0}, {5, 5, 1}, {5, 5, math.NaN()}, {-1, 5, 0.5}, {5, -1, 0.5}} {
		if e := Counts(c.control, c.arm, c.share); e != 1 {
			t.Errorf("%+v: %v", c, e)
		}
	}
	if e := Counts(0, 1_000_000, 0.5); e != math.MaxFloat64 {
		t.Errorf("%v", e)
	}
}

func TestDividedSegments(t *testing.T) {
	a := Segment{[]int64{40, 960}, []float64{0.05, 0.95}}
	b := Segment{[]int64{3100, 2900}, []float64{0.5, 0.5}}
	near(t, "two segments", Divided([]Segment{a, b}), Divided([]Segment{a})*Divided([]Segment{b}))
	// Parts of what is left of the units are shares of those.
	near(t, "parts", Divided([]Segment{{[]int64{40, 960}, []float64{0.01, 0.19}}}), Divided([]Segment{a}))
	near(t, "an arm without a share", Divided([]Segment{{[]int64{40, 0, 960}, []float64{0.05, 0, 0.95}}}), Divided([]Segment{a}))
	for _, c := range []struct {
		segments []Segment
		want     float64
	}{
		{nil, 1},
		{[]Segment{{}}, 1},
		{[]Segment{{[]int64{0, 0}, []float64{0.3, 0.7}}}, 1},
		{[]Segment{{[]int64{0, 0}, []float64{0, 0}}}, 1},
		{[]Segment{{[]int64{1, 40}, []float64{0, 1}}}, math.MaxFloat64},
		{[]Segment{{[]int64{1_000_000, 0}, []float64{0.5, 0.5}}}, math.MaxFloat64},
	} {
		if got := Divided(c.segments); got != c.want {
			t.Errorf("%v: %v, want %v", c.segments, got, c.want)
		}
	}
}

func TestNeeded(t *testing.T) {
	// By bisection.
	for _, c := range []struct {
		difference, share float64
		want              int64
	}{{0.05, 0.5, 3375}, {0.02, 0.5, 22126}, {-0.02, 0.1, 61459}} {
		if got := Needed(0.2, 0.16, c.difference, c.share, 0.05); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for _, c := range []struct {
		base, variance, difference, share, alpha float64
		want                                     int64
	}{
		{0.5, 0.25, 0.5, 0.5, 0.05, 600},      // the start rule's units
		{0.5, 0.25, 0.5, 0.1, 0.05, 3_000},    // for the smaller arm
		{0.5, 0.25, 0.5, 0.75, 0.05, 1_200},   // whichever it is
		{0.01, 0.0099, 0.5, 0.5, 0.05, 2_000}, // its events
		{0.99, 0.0099, 0.5, 0.5, 0.05, 2_000}, // and those without
		{1000, 1, 100, 0.5, 0.05, 600},        // not so for other numbers
		{-1000, 1, 100, 0.5, 0.05, 600},
		{0.5, 0, 0.1, 0.5, 0.05, 0},
		{0.5, 0.25, 0, 0.5, 0.05, 0},
		{0.5, 0.25, 0.1, 0, 0.05, 0},
		{0.5, 0.25, 0.1, 1, 0.05, 0},
		{0.5, 0.25, 0.1, 0.5, 0, 0},
		{0.5, 0.25, 0.1, 0.5, 1, 0},
		{0.5, math.NaN(), 0.1, 0.5, 0.05, 0},
		{0.5, 0.25, 1e-12, 0.5, 0.05, 0}, // more than can be counted
	} {
		if got := Needed(c.base, c.variance, c.difference, c.share, c.alpha); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		arms, metrics  int
		primary, other float64
	}{
		{1, 1, 0.05, 0.05}, {2, 1, 0.025, 0.025}, {1, 2, 0.025, 0.025}, {2, 4, 0.0125, 0.05 / 12}, {0, 0, 0.05, 0.05},
	} {
		primary, other := Levels(c.arms, c.metrics)
		near(t, "primary", primary, c.primary)
		near(t, "other", other, c.other)
		if c.metrics > 0 && c.arms > 0 {
			all := float64(c.arms) * primary
			if c.metrics > 1 {
				all += float64(c.arms*(c.metrics-1)) * other
			}
			near(t, "all", all, 0.05)
		}
	}
}
