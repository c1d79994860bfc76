// Package histogram counts durations, and numbers of any kind, in buckets of a bounded
// error, in a few bytes per bucket: what the statistics of the store keep of them.
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

// maxBucket bounds a histogram that is fed nonsense: it begins at 500 years.
const maxBucket = 390

// Histogram counts durations by bucket, in the order of the buckets, without the
// empty ones. Bucket n is of the microseconds from 1.1^(n-1), exclusive, to
// 1.1^n; bucket 0 of all up to 1.
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
	at, found := slices.BinarySearchFunc(*h, index, func(b bucket, index int) int { return cmp.Compare(b.index, index) })
	if found {
		(*h)[at].count += count
		return
	}
	*h = slices.Insert(*h, at, bucket{index, count})
}

// Merge adds what other counted.
func (h *Histogram) Merge(other Histogram) {
	if len(*h) == 0 {
		*h = slices.Clone(other)
		return
	}
	// Both are in order, and mostly have the same buckets.
	for at, i := 0, 0; i < len(other); at++ {
		switch {
		case at == len(*h):
			*h = append(*h, other[i:]...)
			return
		case (*h)[at].index < other[i].index:
			continue
		case (*h)[at].index == other[i].index:
			(*h)[at].count += other[i].count
		default:
			*h = slices.Insert(*h, at, other[i])
		}
		i++
	}
}

// Total is how many durations were counted.
func (h Histogram) Total() (n int64) {
	for _, b := range h {
		n += b.count
	}
	return n
}

// Quantile is the duration, in milliseconds, that the share q of all does not
// exceed; 0 for none.
func (h Histogram) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.Total())))
	for _, b := range h {
		if rank -= b.count; rank <= 0 {
			return math.Pow(bucketGrowth, float64(b.index)-0.5) / 1000
		}
	}
	return 0
}

// Encode returns the form in which the histogram is stored: of each bucket, how
// far it is from the last and its count, as varints. It is nil for an empty one.
func (h Histogram) Encode() any {
	if len(h) == 0 {
		return nil
	}
	return h.encode()
}

func (h Histogram) encode() []byte {
	encoded, last := make([]byte, 0, 3*len(h)), 0
	for _, b := range h {
		encoded = binary.AppendUvarint(encoded, uint64(b.index-last))
		encoded = binary.AppendUvarint(encoded, uint64(b.count))
		last = b.index
	}
	return encoded
}

// Decode adds what Encode returned.
func (h *Histogram) Decode(encoded []byte) error { return h.decode(encoded, maxBucket) }

// decode adds what encode returned, of buckets up to most.
func (h *Histogram) decode(encoded []byte, most int) error {
	if len(encoded) == 0 {
		return nil
	}
	decoded := make(Histogram, 0, len(encoded)/2)
	for index := 0; len(encoded) > 0; {
		step, n := binary.Uvarint(encoded)
		count, m := binary.Uvarint(encoded[max(n, 0):])
		if n <= 0 || m <= 0 || step > uint64(most) || count > math.MaxInt64 {
			return errors.New("a histogram is damaged")
		}
		encoded = encoded[n+m:]
		if index += int(step); index > most || len(decoded) > 0 && step == 0 {
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
