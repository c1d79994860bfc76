package invoke

import (
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

func weighted(weights ...int) *call {
	k := &call{Call: &Call{}, engine: NewEngine()}
	for i, w := range weights {
		tgt := target(string(rune('a'+i)), scripted(says("x")))
		tgt.Weight = w
		k.Targets = append(k.Targets, tgt)
	}
	k.findUsable()
	return k
}

func ordered(weights ...int) []int {
	k := weighted(weights...)
	k.order()
	var order []int
	for _, u := range k.usable {
		order = append(order, u.index)
	}
	return order
}

func TestOrderIsDrawnInProportionToTheWeights(t *testing.T) {
	const draws = 40000
	first, second := [3]int{}, 0
	for range draws {
		order := ordered(0, 5, 3, 2)
		first[order[0]-1]++
		if order[0] == 1 && order[1] == 2 {
			second++
		}
		if order[3] != 0 {
			t.Fatalf("order %v: the target without a weight is not the last", order)
		}
	}
	// Seven standard deviations around the expected share: five come once in a million.
	near := func(what string, n, of int, share float64) {
		t.Helper()
		if d := math.Abs(float64(n) - share*float64(of)); d > 7*math.Sqrt(float64(of)*share*(1-share)) {
			t.Errorf("%s: %d of %d, want a share of %.2f", what, n, of, share)
		}
	}
	near("weight 5", first[0], draws, 0.5)
	near("weight 3", first[1], draws, 0.3)
	near("weight 2", first[2], draws, 0.2)
	near("weight 3 after weight 5", second, first[0], 0.6)
}

func TestOrderWithoutWeights(t *testing.T) {
	for _, test := range []struct{ weights, want []int }{
		{[]int{0, 0, 0}, []int{0, 1, 2}},
		{[]int{0, 0, 7}, []int{2, 0, 1}},
		{[]int{1, 0, 0}, []int{0, 1, 2}},
		{[]int{-5, 0, math.MinInt}, []int{0, 1, 2}},
		{[]int{}, nil},
	} {
		if diff := cmp.Diff(test.want, ordered(test.weights...)); diff != "" {
			t.Errorf("%v: %s", test.weights, diff)
		}
	}
}

func TestOrderLosesNoTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 1, 2, 1000, math.MaxInt, -1}), 0, 12).Draw(t, "weights")
		order := ordered(weights...)
		heavy := 0
		for _, w := range weights {
			if w > 0 {
				heavy++
			}
		}
		sorted := slices.Sorted(slices.Values(order))
		for i := range weights {
			if sorted[i] != i {
				t.Fatalf("order %v of %v", order, weights)
			}
			if (i < heavy) != (weights[order[i]] > 0) {
				t.Fatalf("order %v: weights do not stand first in %v", order, weights)
			}
		}
		if !slices.IsSorted(order[heavy:]) {
			t.Fatalf("order %v of %v: those without a weight changed places", order, weights)
		}
	})
}

// The share of a target that is ejected goes to the others in proportion to
// theirs.
func TestWeightsRespectHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		c := &Call{}
		counts := map[string]int{}
		for i, w := range []int{8, 3, 1, 0} {
			tgt := target(string(rune('a'+i)), scripted(says(string(rune('a'+i)))))
			tgt.Weight = w
			c.Targets = append(c.Targets, tgt)
		}
		eject(t, e, c.Targets[0])
		const calls = 8000
		for range calls {
			_, err, out := runOn(t, e, c)
			if err != nil {
				t.Fatal(err)
			}
			counts[out.text()]++
		}
		if counts["a"]+counts["d"] != 0 || math.Abs(float64(counts["b"])-0.75*calls) > 7*math.Sqrt(calls*0.75*0.25) {
			t.Errorf("answers %v", counts)
		}
	})
}

func TestTheFirstOfTheDrawnOrderDecidesTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := target("a", scripted(fails(status(400)))), target("b", scripted(fails(&providers.ConnectError{Err: errors.New("x")})))
		b.Weight = 1
		_, err, _ := run(t, &Call{Targets: []Target{a, b}, Policy: Policy{Total: time.Minute}})
		if err == nil || err.Code != wire.UpstreamUnavailable {
			t.Errorf("error %v", err)
		}
	})
}

func BenchmarkOrder(b *testing.B) {
	k := weighted(5, 3, 2, 0)
	usable := slices.Clone(k.usable)
	b.ReportAllocs()
	for b.Loop() {
		k.usable = usable
		k.order()
	}
}
