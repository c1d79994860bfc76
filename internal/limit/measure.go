package limit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Measure is the quantity that a ceiling bounds.
type Measure uint8

// The measures. Amounts has the ones before InFlight.
const (
	Requests Measure = iota
	Tokens           // of prompts and answers
	Money            // in nanodollars
	InFlight         // concurrent calls
)

// Dollar is a US dollar in the unit of Money.
const Dollar = 1_000_000_000

// maxDollars bounds a ceiling of money, in US dollars.
const maxDollars = 1e9

// Measures describes the measures. All their differences are in this table, except how
// the use of an attempt is counted.
var Measures = [...]struct {
	Name string // in the configuration, in metrics and in ledgers
	Unit string // after an amount in the configuration
	Noun string // after an amount in a sentence
	// Scale is the number of units of Amounts in one unit that people see.
	Scale int64
	// Example is a ceiling in the configuration's syntax.
	Example string
	// Metered reports that attempts at targets use the measure: the maximum use of each
	// attempt is set aside before it, and settled when its use is known. The other
	// measures are settled once per request.
	Metered bool
	// Header is the measure's word in the rate limit headers of OpenAI and Anthropic;
	// empty if they have none. https://platform.openai.com/docs/guides/rate-limits
	Header string
	// Quota is the quota unit in draft-ietf-httpapi-ratelimit-headers; empty: requests.
	// Quotas in percent do not reveal the ceiling.
	Quota string
	// Parse reads an amount in the configuration's syntax; nil for InFlight, which the
	// configuration has as a number.
	Parse func(text string) (int64, error)
}{
	Requests: {Name: "requests", Scale: 1, Example: "100/1m", Header: "Requests", Parse: parseCount},
	Tokens: {
		Name: "tokens", Noun: "tokens", Scale: 1, Example: "200000/1m", Metered: true,
		Header: "Tokens", Quota: "tokens", Parse: parseCount,
	},
	Money: {
		Name: "money", Unit: "usd", Noun: "US dollars", Scale: Dollar, Example: "5usd/1d", Metered: true,
		Quota: "percent", Parse: parseDollars,
	},
	InFlight: {Name: "in_flight", Scale: 1, Quota: "concurrent-requests"},
}

// String returns the name of a measure in the configuration.
func (m Measure) String() string { return Measures[m].Name }

// Text returns an amount in the unit that people see, without trailing zeros.
func (m Measure) Text(amount int64) string {
	scale := Measures[m].Scale
	text := strconv.FormatInt(amount/scale, 10)
	if rest := amount % scale; rest != 0 {
		text += "." + strings.TrimRight(strconv.FormatInt(scale+rest, 10)[1:], "0")
	}
	return text
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q must be a whole number, at least 1 and without separators", text)
	}
	return n, nil
}

func parseDollars(text string) (int64, error) {
	number, found := strings.CutSuffix(text, "usd")
	if !found {
		return 0, errors.New("the amount must be in US dollars, with the unit usd behind the number")
	}
	dollars, err := strconv.ParseFloat(number, 64)
	if err != nil || !(dollars >= 1.0/Dollar) || dollars > maxDollars {
		return 0, fmt.Errorf("%q must be a number of US dollars above 0 and at most %.0f", number, maxDollars)
	}
	return int64(math.Round(dollars * Dollar)), nil
}

// Amounts is an amount of each measure. Negative amounts count as zero.
type Amounts [InFlight]int64

// Of returns the amount of a measure; zero for InFlight.
func (a *Amounts) Of(m Measure) int64 {
	if m >= InFlight {
		return 0
	}
	return max(a[m], 0)
}

// Plus returns the sums, which are at most math.MaxInt64.
func (a Amounts) Plus(b Amounts) Amounts {
	for m := range a {
		a[m] = sum(max(a[m], 0), max(b[m], 0))
	}
	return a
}

// Less returns the differences, which are at least zero.
func (a Amounts) Less(b Amounts) Amounts {
	for m := range a {
		a[m] = max(a[m]-max(b[m], 0), 0)
	}
	return a
}

// sum adds two amounts of at least zero, up to math.MaxInt64.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
