package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTextClasses(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 8, 100, 5000} {
		classes := make(map[string]uint32, n)
		for i := range n {
			// The first is the empty text.
			text := ""
			if i > 0 {
				text = fmt.Sprintf("customer-%d", i)
			}
			classes[text] = firstLiteral + uint32(i)
		}
		found := newTextClasses(classes)
		for text, want := range classes {
			if got := found.find(text, hashText(text)); got != want {
				t.Errorf("of %d: %q has class %d, want %d", n, text, got, want)
			}
		}
		for i := range 1000 {
			text := fmt.Sprintf("other-%d", i)
			if got := found.find(text, hashText(text)); got != otherClass {
				t.Errorf("of %d: %q has class %d, want that of other texts", n, text, got)
			}
		}
	}
}

// TestTextClassesCollide holds that a hash is never taken for the text.
func TestTextClassesCollide(t *testing.T) {
	found := newTextClasses(map[string]uint32{"pro": firstLiteral, "team": firstLiteral + 1})
	for _, hash := range []uint64{0, hashText("pro"), hashText("team")} {
		if got := found.find("free", hash); got != otherClass {
			t.Errorf("a text that hashes as another has class %d, want that of other texts", got)
		}
	}
}

func TestIntsAbove(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		bounds := make([]int64, n)
		for i := range bounds {
			bounds[i] = rnd.Int64N(200) - 100
		}
		bounds = append(bounds, minKey, maxKey)
		bounds = bounds[:n+n%3] // with the extremes at times
		slices.Sort(bounds)
		bounds = slices.Compact(bounds)
		for key := int64(-102); key <= 102; key++ {
			if got, want := intsAbove(bounds, key), above(bounds, key); got != want {
				t.Fatalf("%d bounds are at most %d, want %d, in %d", got, key, want, bounds)
			}
		}
		for _, key := range []int64{minKey, minKey + 1, maxKey - 1, maxKey} {
			if got, want := intsAbove(bounds, key), above(bounds, key); got != want {
				t.Fatalf("%d bounds are at most %d, want %d, in %d", got, key, want, bounds)
			}
		}
	}
}
