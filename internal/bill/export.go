// Package bill reads what providers say that was used and costs, as exports of theirs
// have it, and explains how that differs from what a gateway counted.
package bill

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The vendors whose exports are known.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// Kind is what is billed.
type Kind uint8

// The kinds. A bill's tokens of the prompt are of one of the first four.
const (
	Input       Kind = iota // of the prompt, neither read from a cache nor written to it
	Cached                  // of the prompt, read from a cache
	Written                 // of the prompt, written to a cache for some minutes
	WrittenHour             // of the prompt, written to a cache for an hour
	Output                  // of the answer
	Other                   // no tokens, or it is not said of which kind
	Kinds
)

var kindNames = [Kinds]string{"input", "cached", "written", "written_hour", "output", "other"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Line is what an export says of a model, or of another item, on a day.
type Line struct {
	Day   string // UTC, such as 2026-11-01
	Model string // or the item; empty: the export does not tell models apart

	Requests  int64
	Tokens    [Kinds]int64
	Cost      [Kinds]float64 // in US dollars
	HasTokens bool           // Requests and Tokens are known
	HasCost   bool
	Batch     bool // of a batch, as the gateway makes none
}

// some reports whether anything was used or paid.
func (l *Line) some() bool {
	return l.Requests != 0 || l.Tokens != [Kinds]int64{} || l.Cost != [Kinds]float64{}
}

// Export is what a file says.
type Export struct {
	Name    string // of the file, for notes
	Vendor  string
	Shape   string   // such as "usage of completions (CSV)"
	Lines   int      // results or rows that it has
	Unknown []string // members or columns that are not known, and not counted
	More    bool     // the file lacks pages that come after its last

	// First and Last are the days that it is about, also those without lines; empty:
	// it has none.
	First, Last string

	sums sums
	days map[string]bool // those that it has, between First and Last

	twice string // the first day of a page that the file has twice; empty: none
}

// covers adds a day that the export is about.
func (e *Export) covers(day string) error {
	if e.days[day] {
		return nil
	}
	if len(e.days) == maxSums {
		return errManySums
	}
	if e.First == "" || day < e.First {
		e.First = day
	}
	e.Last = max(e.Last, day)
	if e.days == nil {
		e.days = make(map[string]bool)
	}
	e.days[day] = true
	return nil
}

// quiet is the shape of an export without results, which does not say whether it is of
// usage or of costs.
const quiet = "neither usage nor costs"

// maxUnknown is how many unknown members are named.
const maxUnknown = 20

// notKnown adds the name of a member that is not known.
func (e *Export) notKnown(name string) {
	if len(e.Unknown) < maxUnknown && !slices.Contains(e.Unknown, name) {
		e.Unknown = append(e.Unknown, name)
	}
}

// dated matches what a model's name ends with where it is that of one version:
// gpt-4o-mini-2024-07-18, claude-opus-4-20250514, gpt-4-0613, claude-3-5-haiku-latest.
var dated = regexp.MustCompile(`[-@](20\d\d-[01]\d-[0-3]\d|20\d\d[01]\d[0-3]\d|[01]\d[0-3]\d|latest)$`)

// generation matches the names of Anthropic's older models, whose display names have
// the words in the other order.
var generation = regexp.MustCompile(`^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)$`)

// Base returns the name of a model without its date, by which names of the same model
// match: those of definitions, those of exports, and display names such as
// "Claude Haiku 4.5".
func Base(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	if strings.HasPrefix(name, "claude ") {
		name = strings.NewReplacer(" ", "-", ".", "-").Replace(name)
	}
	name = dated.ReplaceAllString(name, "")
	return generation.ReplaceAllString(name, "claude-$2-$1")
}

// dayOf returns the day of a bucket, which must not go beyond it.
func dayOf(from, until time.Time) (string, error) {
	from = from.UTC()
	if !until.IsZero() && until.Sub(from.Truncate(24*time.Hour)) > 24*time.Hour {
		return "", fmt.Errorf("a bucket from %s to %s is of more than one day: export days (bucket_width=1d), hours or minutes",
			from.Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	}
	if year := from.Year(); year < 2000 || year > 9999 {
		return "", fmt.Errorf("%s is no time of a bill", from.Format(time.RFC3339))
	}
	return from.Format(time.DateOnly), nil
}

// parseDay reads a date, or a time, as exports have it.
func parseDay(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 2026-11-01 or 2026-11-01T00:00:00Z", text)
}

// parseCount reads a number of tokens or requests; empty: none.
func parseCount(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64) // some write 12.0
	if err != nil || n < 0 || n > 1e15 || n != math.Trunc(n) {
		return 0, fmt.Errorf("%q is no number of tokens or requests", text)
	}
	return int64(n), nil
}

// parseMoney reads an amount, which is negative for credits; empty: none.
func parseMoney(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	amount, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(amount) || math.Abs(amount) > 1e12 {
		return 0, fmt.Errorf("%q is no amount of money", text)
	}
	return amount, nil
}

// inDollars refuses amounts of another currency.
func inDollars(currency string) error {
	if currency != "" && !strings.EqualFold(currency, "usd") {
		return fmt.Errorf("amounts are in %q: only US dollars can be compared", currency)
	}
	return nil
}

// openAIItem returns the model and the kind of a line item of OpenAI's costs, such as
// "gpt-4o-2024-08-06, cached input". Other items are their own model, of kind Other.
func openAIItem(item string) (model string, kind Kind) {
	model, what, some := strings.Cut(item, ", ")
	if !some {
		return item, Other
	}
	switch strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(what)), "_", " "), " tokens") {
	case "input":
		return model, Input
	case "cached input", "input cached":
		return model, Cached
	case "cache write", "input cache write":
		return model, Written
	case "output":
		return model, Output
	}
	return model, Other
}

// anthropicKinds are the kinds of the token types of Anthropic's costs, those of the
// API and those of CSV files.
var anthropicKinds = map[string]Kind{
	"uncached_input_tokens":                    Input,
	"cache_read_input_tokens":                  Cached,
	"cache_creation.ephemeral_5m_input_tokens": Written,
	"cache_creation.ephemeral_1h_input_tokens": WrittenHour,
	"output_tokens":                            Output,
	"input_no_cache":                           Input,
	"input_cache_read":                         Cached,
	"input_cache_write_5m":                     Written,
	"input_cache_write_1h":                     WrittenHour,
	"output":                                   Output,
}

// anthropicCost returns the model and the kind of one of Anthropic's costs. What is not
// of tokens is an item of its own, such as web_search.
func anthropicCost(model, costType, tokenType string) (string, Kind) {
	kind, known := anthropicKinds[tokenType]
	if !known {
		kind = Other
	}
	if model == "" && costType != "" && !strings.HasPrefix(costType, "token") {
		return costType, Other
	}
	return model, kind
}
