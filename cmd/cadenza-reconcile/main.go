// Command cadenza-reconcile compares a provider's export of usage or costs with the
// counts of a gateway, by model and day (UTC):
//
//	caddy cadenza costs --by provider,model,day --since 2026-10-31 --top 10000 --json |
//		cadenza-reconcile --costs - usage.json costs.csv
//
// It fails if they differ by more than --tolerance, so that a scheduled job notices. It
// links no code of the gateway, whose costs it reads as JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// errBill is returned if a bill differs from the counts.
var errBill = errors.New("the bill differs from what was counted")

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", visible.Lines(err.Error()))
		os.Exit(1)
	}
}

const usage = `Usage: cadenza-reconcile [flags] --costs FILE EXPORT...

Compares exports of OpenAI and Anthropic with the costs of a gateway, by model and day
(UTC), and says what explains a difference. An EXPORT has JSON pages of their APIs for
usage and costs, one after the other or in a list, or is a CSV file of their consoles.
Several are of one bill together, such as one of usage and one of costs. - is the
standard input. A date in a model's name is left out, so gpt-4o-mini-2024-07-18 is
gpt-4o-mini. Members and columns that are not known are named, and not counted.

The costs are what the gateway counted, from a day before the first day of the exports:

  caddy cadenza costs --by provider,model,day --since 2026-10-31 --top 10000 --json

The attempts are those at providers whose names begin with openai or anthropic, or that
--provider names. The command fails where the tokens or the cost of a model on a day
differ by more than --tolerance, and by a cent at least.

Flags:
`

// options say how to compare.
type options struct {
	providers []string // the providers whose attempts are billed; empty: the ones named after the vendor
	tolerance float64  // as a part of 1
}

// run runs the command with arguments. Tests call it, too.
func run(arguments []string, in io.Reader, out io.Writer, now time.Time) error {
	o := options{tolerance: 0.01}
	flags := flag.NewFlagSet("cadenza-reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	costs := flags.String("costs", "", "the `FILE` that caddy cadenza costs wrote, - for the standard input")
	flags.Func("provider", "a provider whose attempts are on the bill, by its `NAME`; repeatable", func(name string) error {
		o.providers = append(o.providers, name)
		return nil
	})
	flags.Func("tolerance", "by how much a model's tokens and cost of a day may differ, such as 2% (default 1%)", func(text string) error {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return errors.New("it takes a percentage from 0% to 100%")
		}
		o.tolerance = percent / 100
		return nil
	})
	all := flags.Bool("all", false, "show the models and days that match, too")
	asJSON := flags.Bool("json", false, "write the comparison as JSON")
	if err := flags.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return nil
	} else if err != nil {
		return err
	}
	if *costs == "" || flags.NArg() == 0 {
		return errors.New("it takes --costs FILE and an export: --help shows how to get them")
	}

	var exports []*export
	for _, name := range flags.Args() {
		e := &export{Name: name}
		if err := read(name, in, e.parse); err != nil {
			return err
		}
		exports = append(exports, e)
	}
	ours := new(counted)
	if err := read(*costs, in, ours.parse); err != nil {
		return err
	}
	if err := ours.covers(exports); err != nil {
		return fmt.Errorf("%s: %w", *costs, err)
	}
	r := compare(exports, ours, &o, now)
	if err := r.write(out, *all, *asJSON); err != nil {
		return err
	}
	if !r.Matches {
		return errBill
	}
	return nil
}

// read parses a file; the name - means the standard input.
func read(name string, in io.Reader, parse func(io.Reader) error) error {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if err := parse(in); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// counted is the compared part of the output of caddy cadenza costs.
type counted struct {
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"`
	By       []string        `json:"by"`
	Oldest   time.Time       `json:"oldest"`   // the time of the oldest stored trace; zero: there is none
	Unlogged []string        `json:"unlogged"` // endpoints whose calls are not recorded
	Rows     []countedRow    `json:"rows"`
	Others   json.RawMessage `json:"others"`
}

// countedRow is the use of a provider's model on a day.
type countedRow struct {
	By struct {
		Provider string `json:"provider"`
		Model    string `json:"model"`
		Day      string `json:"day"`
	} `json:"by"`
	countedSums
}

type countedSums struct {
	Attempts       int64   `json:"attempts"`
	Unanswered     int64   `json:"unanswered"` // failed, were cancelled, or lost to a hedge
	Unpriced       int64   `json:"unpriced"`
	UnpricedTokens int64   `json:"unpriced_tokens"`
	Prompt         int64   `json:"prompt_tokens"`
	Cached         int64   `json:"cached_tokens"`           // part of the prompt tokens
	Written        int64   `json:"cache_write_tokens"`      // part of the prompt tokens
	WrittenHour    int64   `json:"cache_write_hour_tokens"` // part of the prompt tokens
	Completion     int64   `json:"completion_tokens"`
	Estimated      int64   `json:"estimated_tokens"`
	Cost           float64 `json:"cost_usd"`
	// Reported is the provider's own cost of attempts for which the price list differs;
	// Listed is the cost of the same attempts by the list.
	Reported float64 `json:"reported_cost_usd"`
	Listed   float64 `json:"list_cost_usd"`
}

// parse reads the costs.
func (c *counted) parse(in io.Reader) error {
	if err := json.NewDecoder(in).Decode(c); err != nil {
		return fmt.Errorf("these are no costs as caddy cadenza costs --json writes them: %w", err)
	}
	slices.Sort(c.By)
	if !slices.Equal(c.By, []string{"day", "model", "provider"}) {
		return fmt.Errorf("the costs are by %q: give caddy cadenza costs --by provider,model,day", strings.Join(c.By, ","))
	}
	if len(c.Others) > 0 {
		return errors.New("the costs lack models and days: give caddy cadenza costs --top 10000, or fewer days")
	}
	return nil
}

// covers returns an error if the costs lack a part of the exports' days. An attempt counts
// on the day on which it began; its call may have begun on the previous day.
func (c *counted) covers(exports []*export) error {
	first, last := "", ""
	for _, e := range exports {
		if e.First != "" && (first == "" || e.First < first) {
			first = e.First
		}
		last = max(last, e.Last)
	}
	if first == "" {
		return errors.New("the exports have no days: nothing is to be compared")
	}
	begin, _ := time.Parse(time.DateOnly, first)
	end, _ := time.Parse(time.DateOnly, last)
	if c.Since.After(begin) || !c.Until.IsZero() && c.Until.Before(end.AddDate(0, 0, 1)) {
		return fmt.Errorf("the exports are of %s to %s, and the costs are not of all these days: give caddy cadenza costs --since %s",
			first, last, begin.AddDate(0, 0, -1).Format(time.DateOnly))
	}
	return nil
}
