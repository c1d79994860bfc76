package histogram

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// MaxNames is the most names of a Named.
const MaxNames = 64

// Numbers are counted by their first two digits: 1234 with all that round to 1200. Numbers
// of two digits, such as 0, 1, 0.25 or 99, are exact; any other number is off by at most
// 4.8 %, as 1.05 is from 1.1. Numbers nearer to 0 than 1e-9 count as 0, and numbers beyond
// 1e15 as 1e15.
const (
	firstExponent = -9
	lastExponent  = 15
	perDecade     = 90 // 10 to 99

	// zeroNumber is the bucket of 0. The buckets of negative numbers are below it.
	zeroNumber = (lastExponent-firstExponent)*perDecade + 1
	lastNumber = 2 * zeroNumber
)

// Numbers summarizes numbers, in a few bytes for each that differs in its first two digits.
// The zero value has none.
type Numbers struct {
	Count    int64
	Mean     float64
	Min, Max float64

	squares float64 // the sum of the squares of the differences from the mean
	buckets Histogram
}

// numberBucket returns the bucket of a number.
//
//	1234 = 1.234e3: the digits 12, the exponent 3
func numberBucket(x float64) int {
	size := math.Abs(x)
	if !(size >= math.Pow10(firstExponent)) { // also for NaN
		return zeroNumber
	}
	size = min(size, math.Pow10(lastExponent))
	exponent := int(math.Floor(math.Log10(size)))
	digits := int(math.Round(scaled(size, 1-exponent)))
	if digits >= 100 { // 996 is 1.0e3
		exponent, digits = exponent+1, 10
	}
	place := max(exponent-firstExponent, 0)*perDecade + max(digits, 10) - 10 + 1
	place = min(place, zeroNumber)
	if x < 0 {
		return zeroNumber - place
	}
	return zeroNumber + place
}

// numberOf returns the number that stands for all numbers of a bucket.
func numberOf(index int) float64 {
	place := index - zeroNumber
	if place == 0 {
		return 0
	}
	sign := 1.0
	if place < 0 {
		sign, place = -1, -place
	}
	place--
	return sign * scaled(float64(10+place%perDecade), firstExponent+place/perDecade-1)
}

// scaled returns x times ten to the power of exponent, without the error that a
// power below 1 has.
func scaled(x float64, exponent int) float64 {
	if exponent < 0 {
		return x / math.Pow10(-exponent)
	}
	return x * math.Pow10(exponent)
}

// Observe counts a number. It ignores one that is not finite.
func (n *Numbers) Observe(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	limit := math.Pow10(lastExponent)
	x = min(max(x, -limit), limit)
	single := Numbers{Count: 1, Mean: x, Min: x, Max: x, buckets: Histogram{{numberBucket(x), 1}}}
	n.Merge(&single)
}

// Merge adds the counts of other. Sums of squares would lose the deviation of large numbers
// that lie close together, such as times; means and differences from them do not (Chan,
// Golub and LeVeque, 1979).
func (n *Numbers) Merge(other *Numbers) {
	if other.Count == 0 {
		return
	}
	if n.Count == 0 {
		*n = *other
		n.buckets = slices.Clone(other.buckets)
		return
	}
	count := n.Count + other.Count
	distance := other.Mean - n.Mean
	part := float64(other.Count) / float64(count)
	n.squares += other.squares + distance*distance*float64(n.Count)*part
	n.Mean += distance * part
	n.Count, n.Min, n.Max = count, min(n.Min, other.Min), max(n.Max, other.Max)
	n.buckets.Merge(other.buckets)
}

// Deviation returns the standard deviation of the numbers as a sample, 0 for fewer than
// two.
func (n *Numbers) Deviation() float64 {
	if n.Count < 2 {
		return 0
	}
	return math.Sqrt(n.squares / float64(n.Count-1))
}

// Quantile returns the number that the share q of all does not exceed, 0 if there are none.
func (n *Numbers) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(n.Count)))
	for _, b := range n.buckets {
		if rank -= b.count; rank <= 0 {
			return min(max(numberOf(b.index), n.Min), n.Max)
		}
	}
	return n.Max
}

var errNumbersDamaged = errors.New("numbers are damaged")

func (n *Numbers) appendTo(dst []byte) []byte {
	for _, x := range []float64{n.Mean, n.squares, n.Min, n.Max} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return append(dst, n.buckets.encode()...)
}

func (n *Numbers) decode(encoded []byte) error {
	for _, target := range []*float64{&n.Mean, &n.squares, &n.Min, &n.Max} {
		if len(encoded) < 8 {
			return errNumbersDamaged
		}
		*target = math.Float64frombits(binary.LittleEndian.Uint64(encoded))
		limit := math.Pow10(lastExponent)
		if target == &n.squares {
			limit *= limit * 1e20 // no sum of counted numbers comes near
		}
		if !(math.Abs(*target) <= limit) { // also for NaN
			return errNumbersDamaged
		}
		encoded = encoded[8:]
	}
	err := n.buckets.decode(encoded, lastNumber)
	n.Count = n.buckets.Total()
	if err == nil && (n.Count <= 0 || n.squares < 0 || n.Min > n.Max) {
		err = errNumbersDamaged
	}
	return err
}

// Named summarizes numbers by their names: at most MaxNames names, and all other numbers
// together.
type Named struct {
	Names map[string]*Numbers
	Other Numbers
}

// at returns the numbers of a name.
func (n *Named) at(name string) *Numbers {
	numbers := n.Names[name]
	switch {
	case numbers != nil:
		return numbers
	case name == "" || len(n.Names) >= MaxNames:
		return &n.Other
	case n.Names == nil:
		n.Names = map[string]*Numbers{}
	}
	numbers = new(Numbers)
	n.Names[name] = numbers
	return numbers
}

// Observe counts a number under its name.
func (n *Named) Observe(name string, x float64) { n.at(name).Observe(x) }

// Merge adds the counts of other. Names beyond MaxNames count as others, in alphabetical
// order, so that the same parts have the same sum.
func (n *Named) Merge(other *Named) {
	for _, name := range slices.Sorted(maps.Keys(other.Names)) {
		n.at(name).Merge(other.Names[name])
	}
	n.Other.Merge(&other.Other)
}

// Encode returns the stored form of the numbers: name and numbers, each with its length
// before it. The others have an empty name. It is nil if there are none.
func (n *Named) Encode() any {
	var encoded []byte
	add := func(name string, numbers *Numbers) {
		if numbers.Count > 0 {
			encoded = append(binary.AppendUvarint(encoded, uint64(len(name))), name...)
			body := numbers.appendTo(nil)
			encoded = append(binary.AppendUvarint(encoded, uint64(len(body))), body...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Names)) {
		add(name, n.Names[name])
	}
	if add("", &n.Other); encoded == nil {
		return nil
	}
	return encoded
}

// Decode adds the numbers that Encode returned.
func (n *Named) Decode(encoded []byte) error {
	part := func() ([]byte, bool) {
		length, size := binary.Uvarint(encoded)
		if size <= 0 || length > uint64(len(encoded)-size) {
			return nil, false
		}
		text := encoded[size:][:length]
		encoded = encoded[size:][length:]
		return text, true
	}
	for len(encoded) > 0 {
		name, ok := part()
		body, okToo := part()
		if !ok || !okToo {
			return errNumbersDamaged
		}
		var numbers Numbers
		if err := numbers.decode(body); err != nil {
			return err
		}
		n.at(string(name)).Merge(&numbers)
	}
	return nil
}
