package histogram

import (
	"math"
	"testing"
)

// TestDurations: one duration is itself at every quantile, and no quantile of several is
// beyond the least and the greatest, also when they were stored and merged.
func TestDurations(t *testing.T) {
	for _, all := range [][]float64{{812_000}, {812_000, 812_000}, {1, 3}, {0.5}, {100, 950, 1_000_000}} {
		var merged Durations
		lowest, highest := math.Inf(1), 0.0
		for _, micros := range all {
			var one, read Durations
			one.Observe(micros)
			if err := read.Decode(one.Encode().([]byte)); err != nil {
				t.Fatal(err)
			}
			merged.Merge(read)
			lowest, highest = min(lowest, micros), max(highest, micros)
		}
		if merged.Total() != int64(len(all)) {
			t.Errorf("%v: %d counted", all, merged.Total())
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			if got := merged.Quantile(q) * 1000; got < lowest || got > highest || lowest == highest && got != lowest {
				t.Errorf("%v: the quantile %v is %v", all, q, got)
			}
		}
	}
	var empty Durations
	if empty.Quantile(0.5) != 0 || empty.Encode() != nil || empty.Decode(nil) != nil {
		t.Error("of none there is something")
	}
}

// FuzzDurations checks that no stored form does harm, and that durations are the same after
// they are stored and read again.
func FuzzDurations(f *testing.F) {
	var sample Durations
	sample.Observe(1)
	sample.Observe(812_000)
	f.Add(sample.Encode().([]byte))
	f.Add([]byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var d, again Durations
		if d.Decode(encoded) != nil || d.Encode() == nil {
			return
		}
		if err := again.Decode(d.Encode().([]byte)); err != nil {
			t.Fatal(err)
		}
		if again.Total() != d.Total() || again.Quantile(0.5) != d.Quantile(0.5) {
			t.Errorf("%+v, then %+v", d, again)
		}
	})
}
