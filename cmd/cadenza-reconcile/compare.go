package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// counts are the use of a model, and its cost.
type counts struct {
	Requests int64
	Tokens   [kinds]int64
	Cost     [kinds]float64 // in US dollars; our costs are all of the kind other
}

func (c *counts) add(o *counts) {
	c.Requests += o.Requests
	for k := range kinds {
		c.Tokens[k] += o.Tokens[k]
		c.Cost[k] += o.Cost[k]
	}
}

// prompt returns all tokens of the prompts.
func (c *counts) prompt() int64 {
	return c.Tokens[input] + c.Tokens[cached] + c.Tokens[written] + c.Tokens[writtenHour]
}

func (c *counts) tokens() int64 { return c.prompt() + c.Tokens[output] }

func (c *counts) cost() (sum float64) {
	for _, dollars := range c.Cost {
		sum += dollars
	}
	return sum
}

// MarshalJSON uses the names of tokens in caddy cadenza costs.
func (c counts) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Requests    int64   `json:"requests"` // on our side, attempts
		Input       int64   `json:"input_tokens"`
		Cached      int64   `json:"cached_tokens"`
		Written     int64   `json:"cache_write_tokens"`
		WrittenHour int64   `json:"cache_write_hour_tokens"`
		Output      int64   `json:"output_tokens"`
		Cost        float64 `json:"cost_usd"`
	}{c.Requests, c.Tokens[input], c.Tokens[cached], c.Tokens[written], c.Tokens[writtenHour], c.Tokens[output], c.cost()})
}

// row is a model on a day.
type row struct {
	Vendor    string   `json:"vendor"`
	Day       string   `json:"day"`
	Model     string   `json:"model"` // without its date; empty: all models, if the export has only their sum
	Names     []string `json:"names"` // the model's names on both sides
	Ours      counts   `json:"ours"`
	Theirs    counts   `json:"theirs"`
	HasTokens bool     `json:"has_tokens"` // an export has the usage
	HasCost   bool     `json:"has_cost"`   // an export has the cost
	Matches   bool     `json:"matches"`
	Reasons   []string `json:"reasons,omitempty"`

	sums  countedSums
	batch int64 // the tokens of batches on their side
}

// report has the differences between bills and the gateway's counts.
type report struct {
	Files   []*export `json:"files"`
	Rows    []*row    `json:"rows"` // by vendor, day and model
	Ours    counts    `json:"ours"`
	Theirs  counts    `json:"theirs"`
	Matches bool      `json:"matches"`
	Notes   []string  `json:"notes,omitempty"`
}

type rowKey struct{ vendor, day, model string }

// measure is the subject of exports: the costs of a vendor, or its usage.
type measure struct {
	vendor string
	costs  bool
}

// coverage describes all exports of a measure.
type coverage struct {
	first, last string // days
	whole       bool   // a line has the sum of all models
}

// comparison is the state of compare.
type comparison struct {
	*options
	ours    *counted
	now     time.Time
	rows    map[rowKey]*row
	covered map[measure]*coverage
}

// compare compares exports with the costs of a gateway.
func compare(exports []*export, ours *counted, o *options, now time.Time) *report {
	c := &comparison{options: o, ours: ours, now: now, rows: make(map[rowKey]*row), covered: make(map[measure]*coverage)}
	for _, e := range exports {
		if e.Shape != "" {
			c.cover(measure{e.Vendor, e.costs}, e)
		}
	}
	for _, e := range exports {
		// An export without results has the same measures as the vendor's others.
		if costs := (measure{e.Vendor, true}); e.Shape == "" {
			costs.costs = c.covered[costs] != nil && c.covered[measure{e.Vendor, false}] == nil
			c.cover(costs, e)
		}
	}
	for _, e := range exports {
		c.addTheirs(e)
	}
	r := &report{Files: exports, Rows: []*row{}, Matches: true}
	for _, vendor := range []string{openAI, anthropic} {
		if c.covered[measure{vendor, false}] != nil || c.covered[measure{vendor, true}] != nil {
			r.Notes = append(r.Notes, c.addOurs(vendor)...)
		}
	}
	c.report(r)
	return r
}

// cover adds the days of an export to the coverage of a measure.
func (c *comparison) cover(m measure, e *export) {
	if e.First == "" {
		return
	}
	days := c.covered[m]
	if days == nil {
		days = &coverage{first: e.First}
		c.covered[m] = days
	}
	days.first, days.last = min(days.first, e.First), max(days.last, e.Last)
	for key := range e.lines {
		days.whole = days.whole || key.model == ""
	}
}

// row returns the row of a model on a day, and marks that it has the measure.
func (c *comparison) row(m measure, day, model string) *row {
	name := model
	if c.covered[m].whole {
		model = ""
	}
	model = baseName(model)
	r := c.rows[rowKey{m.vendor, day, model}]
	if r == nil {
		r = &row{Vendor: m.vendor, Day: day, Model: model, Names: []string{}}
		c.rows[rowKey{m.vendor, day, model}] = r
	}
	if model != "" && !slices.Contains(r.Names, name) {
		r.Names = append(r.Names, name)
	}
	r.HasTokens, r.HasCost = r.HasTokens || !m.costs, r.HasCost || m.costs
	return r
}

func (c *comparison) addTheirs(e *export) {
	for key, sum := range e.lines {
		r := c.row(measure{e.Vendor, e.costs}, key.day, key.model)
		r.Theirs.add(sum)
		if key.batch {
			r.batch += sum.tokens()
		}
	}
}

// addOurs adds the counts of a vendor's providers to their rows. It returns a note if there
// are no counts.
func (c *comparison) addOurs(vendor string) (notes []string) {
	var others []string
	some := false
	for i := range c.ours.Rows {
		o := &c.ours.Rows[i]
		if !c.isOf(vendor, o.By.Provider) {
			if o.By.Provider != "" && !slices.Contains(others, o.By.Provider) {
				others = append(others, o.By.Provider)
			}
			continue
		}
		some = true
		var before *row
		for _, costs := range []bool{false, true} {
			m := measure{vendor, costs}
			days := c.covered[m]
			if days == nil || o.By.Day < days.first || o.By.Day > days.last {
				continue
			}
			r := c.row(m, o.By.Day, o.By.Model)
			if r != before {
				r.addOurs(&o.countedSums)
			}
			before = r
		}
	}
	if !some && len(others) > 0 {
		slices.Sort(others)
		notes = append(notes, fmt.Sprintf("no attempt was at a provider of %s: --provider says which of %s is on its bill", vendor, strings.Join(others, ", ")))
	}
	return notes
}

// isOf reports whether a provider's attempts are on the bill of a vendor.
func (c *comparison) isOf(vendor, provider string) bool {
	if len(c.providers) > 0 {
		return slices.Contains(c.providers, provider)
	}
	return strings.HasPrefix(provider, vendor)
}

func (r *row) addOurs(o *countedSums) {
	r.Ours.add(&counts{Requests: o.Attempts, Cost: [kinds]float64{other: o.Cost}, Tokens: [kinds]int64{
		input: max(o.Prompt-o.Cached-o.Written-o.WrittenHour, 0), cached: o.Cached, written: o.Written, writtenHour: o.WrittenHour, output: o.Completion,
	}})
	s := &r.sums
	s.Attempts += o.Attempts
	s.Unanswered += o.Unanswered
	s.Unpriced += o.Unpriced
	s.UnpricedTokens += o.UnpricedTokens
	s.Estimated += o.Estimated
	s.Reported += o.Reported
	s.Listed += o.Listed
}

// report compares the rows.
func (c *comparison) report(to *report) {
	for _, r := range c.rows {
		to.Rows = append(to.Rows, r)
	}
	slices.SortFunc(to.Rows, func(a, b *row) int {
		return cmp.Or(strings.Compare(a.Vendor, b.Vendor), strings.Compare(a.Day, b.Day), strings.Compare(a.Model, b.Model))
	})
	for _, r := range to.Rows {
		slices.Sort(r.Names)
		if r.Vendor == anthropic {
			r.Ours.Requests = 0 // its exports have no numbers of requests
		}
		if r.Matches = c.within(r); !r.Matches {
			to.Matches = false
			r.Reasons = c.reasons(r)
		}
		ours, theirs := r.Ours, r.Theirs
		if !r.HasTokens {
			ours.Requests, ours.Tokens = 0, [kinds]int64{}
		}
		if !r.HasCost {
			ours.Cost = [kinds]float64{}
		}
		to.Ours.add(&ours)
		to.Theirs.add(&theirs)
	}
	for _, e := range to.Files {
		if e.Twice {
			to.Notes = append(to.Notes, e.Name+" has a page twice: its usage counts twice")
		}
	}
	if len(c.ours.Unlogged) > 0 {
		to.Notes = append(to.Notes, "calls of "+strings.Join(c.ours.Unlogged, ", ")+" leave no trace (log: none): they are billed, and not counted here")
	}
}

// cent is the difference of a row's costs that is ignored, because exports are rounded.
const cent = 0.01

// within reports whether a row is within the tolerance, in its tokens of each kind and
// in its cost.
func (c *comparison) within(r *row) bool {
	o, t := &r.Ours, &r.Theirs
	if r.HasTokens && (c.beyond(o.prompt(), t.prompt()) || c.beyond(o.Tokens[cached], t.Tokens[cached]) || c.beyond(o.Tokens[output], t.Tokens[output]) ||
		c.beyond(o.Tokens[written]+o.Tokens[writtenHour], t.Tokens[written]+t.Tokens[writtenHour])) {
		return false
	}
	return !r.HasCost || math.Abs(o.cost()-t.cost()) < cent || !c.costsBeyond(o.cost(), t.cost())
}

// beyond reports whether two numbers of tokens differ by more than the tolerance.
func (c *comparison) beyond(a, b int64) bool { return c.costsBeyond(float64(a), float64(b)) }

func (c *comparison) costsBeyond(a, b float64) bool {
	return math.Abs(a-b) > c.tolerance*max(math.Abs(a), math.Abs(b))
}

// reasons returns explanations of a difference, as far as the numbers show it.
func (c *comparison) reasons(r *row) (why []string) {
	add := func(when bool, format string, args ...any) {
		if when {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	o, t, s := &r.Ours, &r.Theirs, &r.sums
	day, _ := time.Parse(time.DateOnly, r.Day)
	oldest := c.ours.Oldest.UTC()
	gone := oldest.IsZero() || day.Before(oldest.Truncate(24*time.Hour))
	add(oldest.IsZero(), "no traces are stored at all")
	add(!oldest.IsZero() && day.Before(oldest), "the oldest trace that is stored is of %s: others of this day went with the retention", oldest.Format(time.RFC3339))
	item := r.Model != "" && s.Attempts == 0 && !r.HasTokens && t.Cost == [kinds]float64{other: t.Cost[other]}
	add(item, "theirs is not for tokens of a known kind: the provider's tools, such as searches, are here in the cost of the model that used them; other items are of no call through this gateway")
	add(s.Attempts == 0 && !gone && !item, "the gateway recorded no attempt with this model on this day: others use the account, the calls leave no trace (log: none), or another provider's name has them (--provider)")
	add(c.now.Before(day.Add(27*time.Hour)), "the day ended less than three hours ago, or goes on: exports are behind")
	add(*t == counts{}, "the exports have nothing of this model on this day: a page or an export is missing, or the attempts are another account's")
	add(r.batch > 0, "%d tokens of theirs are of batches, which the gateway does not make", r.batch)
	off := t.tokens() - o.tokens()
	if r.HasTokens {
		add(s.Attempts > 0 && t.Requests > s.Attempts, "theirs has more requests (%d) than there are attempts (%d): calls past this gateway, or without a trace", t.Requests, s.Attempts)
		enough := "enough"
		if max(off, -off) > s.Estimated {
			enough = "not enough"
		}
		add(s.Estimated > 0 && c.beyond(o.tokens(), t.tokens()), "%d of our tokens are estimated, because their calls were interrupted or no usage was given: that is %s for the difference", s.Estimated, enough)
		add(s.Unanswered > 0 && off > 0, "attempts that failed, were cancelled, or lost to a hedge (%d): what the provider had done until then may be billed", s.Unanswered)
	}
	if r.HasCost {
		add(s.Unpriced > 0, "attempts without a price here (%d, with %d tokens): give the model one by the option price", s.Unpriced, s.UnpricedTokens)
		sameTokens := r.HasTokens && o.tokens() > 0 && !c.beyond(o.tokens(), t.tokens())
		add(sameTokens && c.costsBeyond(o.cost(), t.cost()), "the tokens match and the prices do not: theirs is %s for a million tokens of all kinds, ours %s",
			perMillion(t.cost(), t.tokens()), perMillion(o.cost(), o.tokens()))
		prices := t.prices()
		add(prices != "", "the price of a million tokens in theirs: %s", prices)
		add(t.Cost[other] != 0 && r.Model != "" && t.tokens() > 0, "%s of theirs is not for tokens of a known kind", money(t.Cost[other]))
		add(s.Reported != s.Listed, "ours has %s that the provider said itself, which is %s by the price list", money(s.Reported), money(s.Listed))
	}
	return why
}

// prices returns the prices implied by the costs, for the kinds of tokens that were used.
func (c *counts) prices() string {
	var parts []string
	for k, tokens := range c.Tokens {
		if tokens > 0 && c.Cost[k] > 0 {
			parts = append(parts, kindNames[k]+" "+perMillion(c.Cost[k], tokens))
		}
	}
	return strings.Join(parts, ", ")
}

func perMillion(dollars float64, tokens int64) string {
	if tokens == 0 {
		return "-"
	}
	return money(dollars / float64(tokens) * 1e6)
}

// money returns an amount for people, with four significant digits.
func money(dollars float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(dollars, 'g', 4, 64), 64) // never fails
	return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
}
