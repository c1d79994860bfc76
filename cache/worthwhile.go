package cache

// Threshold is the least cost, in nanoseconds, of an evaluation that is cached.
// It follows from BenchmarkHitOrEvaluate and BenchmarkMiss. On one core of a
// small server a hit takes about 140 ns, the building of its key included. A miss
// adds up to 1,100 ns to the evaluation, for a lookup and a set.
// With a share h of hits, caching an evaluation of c ns pays if
//
//	h × (c - 140) > (1 - h) × 1,100
//
// which at 1,000 ns needs 56 % of hits. Tables of a thousand rows cost far less;
// a table whose rows try a dozen patterns costs more.
const Threshold = 1000

// Worthwhile reports whether an evaluation of the given cost in nanoseconds
// should be cached.
func Worthwhile(nanoseconds int) bool { return nanoseconds >= Threshold }
