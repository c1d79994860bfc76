package histogram

import (
	"encoding/binary"
	"errors"
	"math"
)

// Durations counts durations, and has the least and the greatest of them. No quantile is
// beyond these, so that one report of 812 ms is 812 ms.
type Durations struct {
	min, max float64 // in microseconds
	buckets  Histogram
}

// Observe counts one duration.
func (d *Durations) Observe(micros float64) {
	if len(d.buckets) == 0 {
		d.min, d.max = micros, micros
	}
	d.min, d.max = min(d.min, micros), max(d.max, micros)
	d.buckets.Observe(micros)
}

// Merge adds the counts of other.
func (d *Durations) Merge(other Durations) {
	switch {
	case len(other.buckets) == 0:
		return
	case len(d.buckets) == 0:
		d.min, d.max = other.min, other.max
	}
	d.min, d.max = min(d.min, other.min), max(d.max, other.max)
	d.buckets.Merge(other.buckets)
}

// Total returns the number of durations that were counted.
func (d *Durations) Total() int64 { return d.buckets.Total() }

// Quantile returns the duration, in milliseconds, that the share q of all does not exceed,
// 0 if there are none.
func (d *Durations) Quantile(q float64) float64 {
	if len(d.buckets) == 0 {
		return 0
	}
	return min(max(d.buckets.Quantile(q), d.min/1000), d.max/1000)
}

// Encode returns the stored form of the durations: the least, the greatest, and the
// buckets. It is nil if there are none.
func (d *Durations) Encode() any {
	if len(d.buckets) == 0 {
		return nil
	}
	encoded := binary.LittleEndian.AppendUint64(make([]byte, 0, 16+3*len(d.buckets)), math.Float64bits(d.min))
	return append(binary.LittleEndian.AppendUint64(encoded, math.Float64bits(d.max)), d.buckets.encode()...)
}

// Decode adds the durations that Encode returned.
func (d *Durations) Decode(encoded []byte) error {
	if len(encoded) == 0 {
		return nil
	}
	if len(encoded) < 16 {
		return errors.New("durations are damaged")
	}
	found := Durations{
		min: math.Float64frombits(binary.LittleEndian.Uint64(encoded)),
		max: math.Float64frombits(binary.LittleEndian.Uint64(encoded[8:])),
	}
	if !(found.min <= found.max) {
		return errors.New("durations are damaged")
	}
	if err := found.buckets.decode(encoded[16:], maxBucket); err != nil {
		return err
	}
	d.Merge(found)
	return nil
}
