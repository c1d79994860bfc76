package limit

import (
	"math"
	"strconv"
	"time"
)

// By names the property of a call by which a limit counts: each value is a subject with
// its own counters.
type By uint8

// The properties that limits count by.
const (
	ByAPIKey    By = iota // the name of the caller's key
	ByEndpoint            // the key of the endpoint
	ByWorkspace           // all together
	ByMetadata            // a member of the request's metadata
	ByClientIP            // the address of the client: one of IPv4, or a /64 of IPv6
)

// Window is a span of time with its own counters. Windows of a duration begin at
// multiples of it since 1970 (UTC); Month is a month of the calendar, in UTC.
type Window struct {
	Length time.Duration // 0: a month
}

// Month is the month of the calendar.
var Month = Window{}

// span returns the window that contains a time, in nanoseconds since 1970. The end is
// the start of the next window.
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

// Began returns when the window began that ends at a time; zero for no time.
func (w Window) Began(end time.Time) time.Time {
	if end.IsZero() {
		return end
	}
	start, _ := w.span(end.UnixNano() - 1)
	return time.Unix(0, start)
}

// String returns the window as the configuration has it.
func (w Window) String() string {
	if w == Month {
		return "1mo"
	}
	for _, unit := range [...]struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if w.Length%unit.length == 0 {
			return strconv.FormatInt(int64(w.Length/unit.length), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(w.Length/time.Second), 10) + "s"
}

// Ceiling bounds one measure.
type Ceiling struct {
	Measure Measure
	Most    int64
	Window  Window // ignored for InFlight
}

// String returns the ceiling as the configuration has it, such as 100/1m.
func (c Ceiling) String() string {
	text := c.Measure.Text(c.Most) + Measures[c.Measure].Unit
	if c.Measure != InFlight {
		text += "/" + c.Window.String()
	}
	return text
}

// Limit is the configuration of a limit. It must not be changed once it is in use.
type Limit struct {
	Name     string
	By       By
	Member   string    // of the metadata
	Routes   []string  // whose requests count; empty: the routes of endpoints
	Ceilings []Ceiling // at least one
}

// Ask selects the counters that count a call, by one subject of a limit. All calls
// without a value of the property that the limit counts by share the subject "".
type Ask struct {
	Limit   *Limit
	Subject string
}

// Refusal says why a call is refused. If several ceilings are full, it is the one that
// stays full longest.
type Refusal struct {
	Ask
	Ceiling Ceiling
	// RetryAfter is the time until the window ends. It is zero if running calls alone
	// fill the ceiling, by their number or by amounts that they have set aside: such
	// calls may end at any time.
	RetryAfter time.Duration
	// Never reports that this one call may use more than the whole ceiling.
	Never bool
	// Loading reports that the counters are still being read from the file. No ceiling
	// refused the call, and Ceiling is zero.
	Loading bool
}

// Standing describes how much of a ceiling a subject uses.
type Standing struct {
	Ask
	Ceiling  Ceiling
	Used     int64 // settled in the window; for InFlight: the running calls
	Reserved int64 // set aside for running calls
	// Crashed is the part of Used that was set aside for calls whose process died.
	// Their actual use is unknown, so they count in full.
	Crashed int64
	Resets  time.Time // when the window ends; zero for calls in flight
}

// Share returns the share of the ceiling that is used or set aside, in percent,
// rounded down. It may be above 100: see Stats.Exceeded.
func (s *Standing) Share() int {
	return percent(sum(s.Used, s.Reserved), s.Ceiling.Most)
}

// percent returns an amount in percent of a ceiling. A ceiling of zero is always full.
func percent(amount, ceiling int64) int {
	switch {
	case ceiling <= 0:
		return 100
	case amount <= math.MaxInt64/100:
		return int(min(amount*100/ceiling, math.MaxInt32))
	}
	return int(min(float64(amount)/float64(ceiling)*100, math.MaxInt32))
}
