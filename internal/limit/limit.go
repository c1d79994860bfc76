package limit

import (
	"math"
	"time"
)

// Measure is what a ceiling bounds.
type Measure uint8

// The measures.
const (
	Requests Measure = iota
	Tokens           // of prompts and answers
	Money            // in nanodollars
	InFlight         // calls at a time
)

// Dollar is a US dollar in the unit of Money.
const Dollar = 1_000_000_000

// By is what a limit counts apart: each value has counters of its own, its subject's.
type By uint8

// What limits count by.
const (
	ByAPIKey    By = iota // the name of the caller's key
	ByEndpoint            // the key of the endpoint
	ByWorkspace           // all together
	ByMetadata            // a member of the request's metadata
)

// Window is a span of time with counters of its own. Windows of a duration begin at
// multiples of it since 1970 (UTC); Month is a month of the calendar, in UTC.
type Window struct {
	Length time.Duration // 0: a month
}

// Month is the month of the calendar.
var Month = Window{}

// span returns the window that a time is in, in nanoseconds since 1970. The end is
// the beginning of the next window.
func (w Window) span(now int64) (start, end int64) {
	if w.Length <= 0 {
		year, month, _ := time.Unix(0, now).UTC().Date()
		begin := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		return begin.UnixNano(), begin.AddDate(0, 1, 0).UnixNano()
	}
	length := int64(w.Length)
	past := now % length
	if past < 0 {
		past += length
	}
	return now - past, now - past + length
}

// Ceiling bounds one measure.
type Ceiling struct {
	Measure Measure
	Most    int64
	Window  Window // without a meaning for InFlight
}

// Limit is a limit as it is configured. It must not be changed once it is in use.
type Limit struct {
	Name     string
	By       By
	Member   string    // of the metadata
	Routes   []string  // whose requests count; empty: those that call endpoints
	Ceilings []Ceiling // at least one
}

// Amounts are what is used of each measure. Those below zero count as zero.
type Amounts struct{ Requests, Tokens, Money int64 }

// Of returns the amount of a measure.
func (a *Amounts) Of(m Measure) int64 {
	switch m {
	case Requests:
		return max(a.Requests, 0)
	case Tokens:
		return max(a.Tokens, 0)
	case Money:
		return max(a.Money, 0)
	}
	return 0
}

// plus returns the sums. They end at the largest number there is.
func (a Amounts) plus(b Amounts) Amounts {
	return Amounts{sum(a.Of(Requests), b.Of(Requests)), sum(a.Of(Tokens), b.Of(Tokens)), sum(a.Of(Money), b.Of(Money))}
}

// less returns what is left, at least zero.
func (a Amounts) less(b Amounts) Amounts {
	return Amounts{max(a.Requests-b.Of(Requests), 0), max(a.Tokens-b.Of(Tokens), 0), max(a.Money-b.Of(Money), 0)}
}

// sum adds two amounts of at least zero, up to the largest number there is.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Ask names the counters of a limit that a call counts for. Calls without a value that
// the limit counts by have the subject "" in common.
type Ask struct {
	Limit   *Limit
	Subject string
}

// Refusal says why a call is refused. Of several ceilings without room it is the one
// that lasts longest.
type Refusal struct {
	Ask
	Ceiling Ceiling
	// RetryAfter is the time until the window ends. It is zero where only calls under
	// way stand in the way, which may end at any time: calls in flight, and amounts
	// that are set aside and would leave room if none of them was used.
	RetryAfter time.Duration
	// Never reports that the call alone may use more than the ceiling.
	Never bool
	// Loading reports that no ceiling refused the call: what was used before is still
	// being read from the file. Ceiling is zero then.
	Loading bool
}

// Standing is how a subject stands with a ceiling.
type Standing struct {
	Ask
	Ceiling  Ceiling
	Used     int64 // settled in the window; of InFlight: the calls
	Reserved int64 // set aside for calls that have not ended
	// Crashed is the part of Used that was set aside for calls whose process died:
	// what they did use is not known, so they count in full.
	Crashed int64
	Resets  time.Time // when the window ends; zero for calls in flight
}

// Share returns the share of the ceiling that is used or set aside, in percent,
// rounded down. It may be above 100: see Stats.Exceeded.
func (s *Standing) Share() int {
	return percent(sum(s.Used, s.Reserved), s.Ceiling.Most)
}

// percent returns how many hundredths of most an amount is. A ceiling of zero is
// always full.
func percent(amount, most int64) int {
	switch {
	case most <= 0:
		return 100
	case amount <= math.MaxInt64/100:
		return int(min(amount*100/most, math.MaxInt32))
	}
	return int(min(float64(amount)/float64(most)*100, math.MaxInt32))
}
