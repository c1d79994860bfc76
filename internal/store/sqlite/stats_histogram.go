package sqlite

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

// histogram counts durations by bucket, in the order of the buckets, without the
// empty ones. Bucket n is of the microseconds from 1.1^(n-1), exclusive, to
// 1.1^n; bucket 0 of all up to 1.
type histogram []bucket

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

// observe counts one duration.
func (h *histogram) observe(micros float64) { h.add(bucketOf(micros), 1) }

func (h *histogram) add(index int, count int64) {
	at, found := slices.BinarySearchFunc(*h, index, func(b bucket, index int) int { return cmp.Compare(b.index, index) })
	if found {
		(*h)[at].count += count
		return
	}
	*h = slices.Insert(*h, at, bucket{index, count})
}

func (h *histogram) merge(other histogram) {
	if len(*h) == 0 {
		*h = slices.Clone(other)
		return
	}
	for _, b := range other {
		h.add(b.index, b.count)
	}
}

func (h histogram) total() (n int64) {
	for _, b := range h {
		n += b.count
	}
	return n
}

// quantile is the duration, in milliseconds, that the share q of all does not
// exceed; 0 for none.
func (h histogram) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.total())))
	for _, b := range h {
		if rank -= b.count; rank <= 0 {
			return math.Pow(bucketGrowth, float64(b.index)-0.5) / 1000
		}
	}
	return 0
}

// encode returns the form in which the histogram is stored: of each bucket, how
// far it is from the last and its count, as varints. It is nil for an empty one.
func (h histogram) encode() any {
	if len(h) == 0 {
		return nil
	}
	encoded, last := make([]byte, 0, 3*len(h)), 0
	for _, b := range h {
		encoded = binary.AppendUvarint(encoded, uint64(b.index-last))
		encoded = binary.AppendUvarint(encoded, uint64(b.count))
		last = b.index
	}
	return encoded
}

// decode adds what encode returned.
func (h *histogram) decode(encoded []byte) error {
	decoded := make(histogram, 0, len(encoded)/2)
	for index := 0; len(encoded) > 0; {
		step, n := binary.Uvarint(encoded)
		count, m := binary.Uvarint(encoded[max(n, 0):])
		if n <= 0 || m <= 0 || step > maxBucket || count > math.MaxInt64 {
			return errors.New("a histogram is damaged")
		}
		encoded = encoded[n+m:]
		if index += int(step); index > maxBucket || len(decoded) > 0 && step == 0 {
			return errors.New("a histogram is damaged")
		}
		decoded = append(decoded, bucket{index, int64(count)})
	}
	h.merge(decoded)
	return nil
}
