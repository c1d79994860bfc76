// Package sequential compares arms of an experiment by statistics that hold however often
// one looks at them.
package sequential

// Unit is what a unit did.
type Unit struct {
	// Y is its number: 0 or 1 for a rate, its mean or total, or the numerator of a ratio.
	Y float64
	// D is the denominator of a ratio; 0 for others.
	D float64
	// Past is its number before the experiment, if HasPast is set.
	Past    float64
	HasPast bool
}

// Sums are the sums over units, in any order. A unit whose numbers change is removed
// and added again.
type Sums struct {
	N             int64 // units
	Y, YY         float64
	D, DD, YD     float64
	H             int64 // units with a past
	C, CC, YC, YH float64
}
