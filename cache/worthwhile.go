package cache

// Threshold is the cost of an evaluation, in nanoseconds, from which on it is
// cached. It follows from BenchmarkHitOrEvaluate and BenchmarkMiss: on one core
// of a small server a hit takes about 140 ns, the building of its key included,
// and what a miss adds to the evaluation, a lookup and a set, up to 1,100 ns.
// With a share h of hits, caching an evaluation of c ns pays where
//
//	h × (c - 140) > (1 - h) × 1,100
//
// which at 1,000 ns is from 56 % of hits on. Tables of a thousand rows stay far
// below it; a table whose rows try a dozen patterns exceeds it.
const Threshold = 1000

// Worthwhile reports whether an evaluation of the given cost in nanoseconds
// should be cached.
func Worthwhile(nanoseconds int) bool { return nanoseconds >= Threshold }
