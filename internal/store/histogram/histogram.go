// Package histogram counts durations and other numbers in buckets with a bounded error, in
// a few bytes for each bucket. The store's statistics consist of them.
package histogram

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// bucketGrowth is the ratio of the bounds of a bucket. A quantile is taken to be
// in the geometric middle of its bucket, so it is off by at most √1.1, 4.9 %.
const bucketGrowth = 1.1

// maxBucket bounds a histogram of nonsense: this bucket begins at 500 years.
const maxBucket = 390

// Histogram counts durations by bucket, in the order of the buckets, without the empty
// ones. Bucket n has the microseconds from 1.1^(n-1), exclusive, to 1.1^n; bucket 0 has all
// up to 1.
type Histogram []bucket

type bucket struct {
	index int
	count int64
}

func bucketOf(micros float64) int {
	if !(micros > 1) { // also for NaN
		return 0
	}
	return int(min(math.Ceil(math.Log(micros)/math.Log(bucketGrowth)), maxBucket))
}

// Observe counts one duration.
func (h *Histogram) Observe(micros float64) { h.add(bucketOf(micros), 1) }

func (h *Histogram) add(index int, count int64) {
	place, found := slices.BinarySearchFunc(*h, index, func(b bucket, index int) int { return cmp.Compare(b.index, index) })
	if found {
		(*h)[place].count += count
		return
	}
	*h = slices.Insert(*h, place, bucket{index, count})
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other Histogram) {
	if len(*h) == 0 {
		*h = slices.Clone(other)
		return
	}
	// Both are in order, and mostly have the same buckets.
	for place, i := 0, 0; i < len(other); place++ {
		switch {
		case place == len(*h):
			*h = append(*h, other[i:]...)
			return
		case (*h)[place].index < other[i].index:
			continue
		case (*h)[place].index == other[i].index:
			(*h)[place].count += other[i].count
		default:
			*h = slices.Insert(*h, place, other[i])
		}
		i++
	}
}

// Total returns the number of durations that were counted.
func (h Histogram) Total() (n int64) {
	for _, b := range h {
		n += b.count
	}
	return n
}

// Quantile returns the duration, in milliseconds, that the share q of all does not exceed,
// 0 if there are none.
func (h Histogram) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.Total())))
	for _, b := range h {
		if rank -= b.count; rank <= 0 {
			return math.Pow(bucketGrowth, float64(b.index)-0.5) / 1000
		}
	}
	return 0
}

// encode returns the stored form of the histogram: for each bucket its distance from the
// one before and its count, as varints.
func (h Histogram) encode() []byte {
	encoded, last := make([]byte, 0, 3*len(h)), 0
	for _, b := range h {
		encoded = binary.AppendUvarint(encoded, uint64(b.index-last))
		encoded = binary.AppendUvarint(encoded, uint64(b.count))
		last = b.index
	}
	return encoded
}

// decode adds what encode returned, for buckets up to last.
func (h *Histogram) decode(encoded []byte, last int) error {
	if len(encoded) == 0 {
		return nil
	}
	decoded := make(Histogram, 0, len(encoded)/2)
	for index := 0; len(encoded) > 0; {
		step, n := binary.Uvarint(encoded)
		count, m := binary.Uvarint(encoded[max(n, 0):])
		if n <= 0 || m <= 0 || step > uint64(last) || count > math.MaxInt64 {
			return errors.New("a histogram is damaged")
		}
		encoded = encoded[n+m:]
		if index += int(step); index > last || len(decoded) > 0 && step == 0 {
			return errors.New("a histogram is damaged")
		}
		decoded = append(decoded, bucket{index, int64(count)})
	}
	if len(*h) == 0 {
		*h = decoded
		return nil
	}
	h.Merge(decoded)
	return nil
}
