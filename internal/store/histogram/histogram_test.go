package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"around a second": func() float64 { return 1e6 * math.Exp(random.NormFloat64()) },
		"microseconds":    func() float64 { return 1 + 40*random.Float64() },
		"any size":        func() float64 { return math.Pow(10, 12*random.Float64()) },
		"one":             func() float64 { return 1234 },
	} {
		var h, half Histogram
		var durations []float64
		for n := range 5000 {
			micros := draw()
			durations = append(durations, micros/1000)
			if n%2 == 0 {
				h.Observe(micros)
			} else {
				half.Observe(micros)
			}
		}
		encoded := half.encode()
		if err := h.decode(encoded, maxBucket); err != nil {
			t.Fatal(err)
		}
		slices.Sort(durations)
		if h.Total() != int64(len(durations)) {
			t.Errorf("%s: %d counted, want %d", name, h.Total(), len(durations))
		}
		for _, q := range []float64{0.5, 0.9, 0.95, 0.99} {
			want := durations[int(math.Ceil(q*float64(len(durations))))-1]
			if got := h.Quantile(q); math.Abs(got-want) > max(want*0.05, 0.001) {
				t.Errorf("%s: the quantile %v is %v, want %v", name, q, got, want)
			}
		}
	}
	for micros, want := range map[float64]int{math.NaN(): 0, -1: 0, 0: 0, 1: 0, 1.05: 1, math.Inf(1): maxBucket, 1e308: maxBucket} {
		if got := bucketOf(micros); got != want {
			t.Errorf("%v µs are in bucket %d, want %d", micros, got, want)
		}
	}
	if q := (Histogram)(nil).Quantile(0.5); q != 0 {
		t.Errorf("the median of nothing is %v", q)
	}
}

// FuzzHistogram checks that no stored form does harm, and that a histogram is the same
// after it is stored and read again.
func FuzzHistogram(f *testing.F) {
	for _, h := range []Histogram{{}, {{0, 1}}, {{3, 200}, {maxBucket, math.MaxInt64}}} {
		encoded := h.encode()
		f.Add(encoded)
	}
	f.Add([]byte{0x80})
	f.Add([]byte{0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var h Histogram
		if h.decode(encoded, maxBucket) != nil {
			return
		}
		again := h.encode()
		var back Histogram
		if err := back.decode(again, maxBucket); err != nil || !slices.Equal(h, back) {
			t.Errorf("%v became %v, %v", h, back, err)
		}
		h.Quantile(0.99)
	})
}
