package histogram

import (
	"encoding/binary"
	"errors"
	"math"
)

// Durations counts durations, and keeps the least and the greatest of them: no quantile
// is beyond those, so that one report of 812 ms is 812 ms.
type Durations struct {
	least, greatest float64 // in microseconds
	buckets         Histogram
}

// Observe counts one duration.
func (d *Durations) Observe(micros float64) {
	if len(d.buckets) == 0 {
		d.least, d.greatest = micros, micros
	}
	d.least, d.greatest = min(d.least, micros), max(d.greatest, micros)
	d.buckets.Observe(micros)
}

// Merge adds what other counted.
func (d *Durations) Merge(other Durations) {
	switch {
	case len(other.buckets) == 0:
		return
	case len(d.buckets) == 0:
		d.least, d.greatest = other.least, other.greatest
	}
	d.least, d.greatest = min(d.least, other.least), max(d.greatest, other.greatest)
	d.buckets.Merge(other.buckets)
}

// Total is how many durations were counted.
func (d *Durations) Total() int64 { return d.buckets.Total() }

// Quantile is the duration, in milliseconds, that the share q of all does not
// exceed; 0 for none.
func (d *Durations) Quantile(q float64) float64 {
	if len(d.buckets) == 0 {
		return 0
	}
	return min(max(d.buckets.Quantile(q), d.least/1000), d.greatest/1000)
}

// Encode returns the form in which the durations are stored: the least, the greatest, and
// the form of Histogram. It is nil where there are none.
func (d *Durations) Encode() any {
	if len(d.buckets) == 0 {
		return nil
	}
	encoded := binary.LittleEndian.AppendUint64(make([]byte, 0, 16+3*len(d.buckets)), math.Float64bits(d.least))
	return append(binary.LittleEndian.AppendUint64(encoded, math.Float64bits(d.greatest)), d.buckets.encode()...)
}

// Decode adds what Encode returned.
func (d *Durations) Decode(encoded []byte) error {
	if len(encoded) == 0 {
		return nil
	}
	if len(encoded) < 16 {
		return errors.New("durations are damaged")
	}
	found := Durations{
		least:    math.Float64frombits(binary.LittleEndian.Uint64(encoded)),
		greatest: math.Float64frombits(binary.LittleEndian.Uint64(encoded[8:])),
	}
	if !(found.least <= found.greatest) {
		return errors.New("durations are damaged")
	}
	if err := found.buckets.Decode(encoded[16:]); err != nil {
		return err
	}
	d.Merge(found)
	return nil
}
