package histogram

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// near allows for the promised error, or a rounding of floats.
func near(got, want, part float64) bool {
	return math.Abs(got-want) <= math.Abs(want)*part+1e-9
}

// TestNumbers counts numbers in parts, merges these in any order, stored or not, and
// compares the result with the numbers themselves.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]float64{1e-8, 0.01, 1, 1000, 1e14}).Draw(t, "scale")
		offset := rapid.SampledFrom([]float64{0, 0, 1e3, -1e3, 1e12}).Draw(t, "offset")
		number := rapid.OneOf(
			rapid.Float64Range(-10*scale, 10*scale), rapid.Map(rapid.IntRange(-3, 3), func(n int) float64 { return float64(n) }),
		)
		numbers := rapid.SliceOfN(number, 1, 200).Draw(t, "numbers")
		parts := make([]Named, rapid.IntRange(1, 4).Draw(t, "parts"))
		for i := range numbers {
			numbers[i] = min(max(numbers[i]+offset, -1e15), 1e15)
			parts[rapid.IntRange(0, len(parts)-1).Draw(t, "part")].Observe("n", numbers[i])
		}
		var all Named
		for i := range parts {
			if rapid.Bool().Draw(t, "stored") {
				encoded, _ := parts[i].Encode().([]byte)
				if err := all.Decode(encoded); err != nil {
					t.Fatal(err)
				}
				continue
			}
			all.Merge(&parts[i])
		}
		got := all.Names["n"]
		sum := 0.0
		for _, x := range numbers {
			sum += x
		}
		mean, squares := sum/float64(len(numbers)), 0.0
		for _, x := range numbers {
			squares += (x - mean) * (x - mean)
		}
		deviation := 0.0
		if len(numbers) > 1 {
			deviation = math.Sqrt(squares / float64(len(numbers)-1))
		}
		slices.Sort(numbers)
		largest := max(math.Abs(numbers[0]), math.Abs(numbers[len(numbers)-1]))
		if got.Count != int64(len(numbers)) || got.Min != numbers[0] || got.Max != numbers[len(numbers)-1] ||
			math.Abs(got.Mean-mean) > 1e-12*largest+1e-12 || math.Abs(got.Deviation()-deviation) > 1e-6*deviation+1e-11*largest+1e-9 {
			t.Fatalf("%d from %v to %v, mean %v, deviation %v; want %d from %v to %v, %v, %v", got.Count, got.Min, got.Max, got.Mean, got.Deviation(),
				len(numbers), numbers[0], numbers[len(numbers)-1], mean, deviation)
		}
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			want := numbers[int(math.Ceil(q*float64(len(numbers))))-1]
			if x := got.Quantile(q); !near(x, want, 0.048) || x < got.Min || x > got.Max {
				t.Fatalf("the quantile %v is %v, want %v", q, x, want)
			}
		}
	})
}

// TestNumbersOfTwoDigitsAreExact also checks that any number is near to that of its bucket.
func TestNumbersOfTwoDigitsAreExact(t *testing.T) {
	for exponent := firstExponent; exponent < lastExponent; exponent++ {
		for digits := 10; digits < 100; digits++ {
			for _, sign := range []string{"", "-"} {
				var x float64
				if _, err := fmt.Sscanf(fmt.Sprintf("%s%d.%de%d", sign, digits/10, digits%10, exponent), "%g", &x); err != nil {
					t.Fatal(err)
				}
				if got := numberOf(numberBucket(x)); got != x {
					t.Errorf("%v became %v", x, got)
				}
				if y := x * 1.004; !near(numberOf(numberBucket(y)), y, 0.048) {
					t.Errorf("%v became %v", y, numberOf(numberBucket(y)))
				}
			}
		}
	}
	for x, want := range map[float64]float64{
		0: 0, math.Copysign(0, -1): 0, 1e-10: 0, -1e-10: 0, 5e-324: 0, 1e15: 1e15, 1e300: 1e15, -1e300: -1e15,
		1.05: 1.1, 9.96: 10, 99.4: 99, 999: 1000, 1234: 1200, -1234: -1200, math.NaN(): 0,
	} {
		if got := numberOf(numberBucket(x)); got != want {
			t.Errorf("%v became %v, want %v", x, got, want)
		}
	}
	var large Numbers
	if large.Observe(-1e300); large.Mean != -1e15 || large.Min != -1e15 {
		t.Errorf("what is beyond the most is not taken for it: %+v", large)
	}
	var n Numbers
	n.Observe(math.NaN())
	n.Observe(math.Inf(-1))
	if n.Count != 0 || n.Quantile(0.5) != 0 || n.Deviation() != 0 {
		t.Errorf("what is no number was counted: %+v", n)
	}
}

// TestNamesAreBounded checks that names beyond the bound count as one, even if each of the
// merged parts is within it.
func TestNamesAreBounded(t *testing.T) {
	var first, second Named
	for i := range MaxNames {
		first.Observe(fmt.Sprintf("a%02d", i), 1)
		second.Observe(fmt.Sprintf("b%02d", i), 2)
		second.Observe("a07", 3)
	}
	first.Observe("late", 5)
	encoded, _ := second.Encode().([]byte)
	if err := first.Decode(encoded); err != nil {
		t.Fatal(err)
	}
	if len(first.Names) != MaxNames || first.Names["a07"].Count != 1+MaxNames || first.Names["b00"] != nil ||
		first.Other.Count != MaxNames+1 || first.Other.Max != 5 {
		t.Errorf("%d names, %+v, others %+v", len(first.Names), first.Names["a07"], first.Other)
	}
	again, _ := first.Encode().([]byte)
	var back Named
	if err := back.Decode(again); err != nil || back.Other.Count != first.Other.Count || len(back.Names) != MaxNames {
		t.Errorf("%d names and %d others came back, %v", len(back.Names), back.Other.Count, err)
	}
	if (&Named{}).Encode() != nil {
		t.Error("nothing is stored as something")
	}
}

// FuzzNamed checks that no stored form does harm, and that numbers are the same after they
// are stored and read again.
func FuzzNamed(f *testing.F) {
	var n Named
	for i := range 3 {
		n.Observe("resolved", float64(i))
		n.Observe("", -1e9)
	}
	encoded, _ := n.Encode().([]byte)
	f.Add(encoded)
	f.Add([]byte{0x80})
	f.Add([]byte{1, 'a', 0})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var n Named
		if n.Decode(encoded) != nil {
			return
		}
		again, _ := n.Encode().([]byte)
		var back Named
		if err := back.Decode(again); err != nil {
			t.Fatal(err)
		}
		if third, _ := back.Encode().([]byte); !bytes.Equal(again, third) {
			t.Errorf("%x became %x", again, third)
		}
		for _, numbers := range n.Names {
			numbers.Quantile(0.99)
		}
	})
}
