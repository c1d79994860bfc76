package bill

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Known is what a gateway knows beside what it counted.
type Known struct {
	Oldest   time.Time // of the traces that are stored; zero: there are none
	Unlogged []string  // endpoints whose calls leave no trace
	Now      time.Time
	// Providers are the names of providers whose attempts are billed; none: those
	// that begin with the name of the vendor.
	Providers []string
	Tolerance float64 // as a part of 1
}

// Counts is what was used and what it cost.
type Counts struct {
	Requests    int64   `json:"requests"` // of ours, attempts
	Input       int64   `json:"input_tokens"`
	Cached      int64   `json:"cached_tokens"`
	Written     int64   `json:"cache_write_tokens"`
	WrittenHour int64   `json:"cache_write_hour_tokens"`
	Output      int64   `json:"output_tokens"`
	Cost        float64 `json:"cost_usd"`
}

// prompt returns all tokens of the prompts.
func (c *Counts) prompt() int64 { return c.Input + c.Cached + c.Written + c.WrittenHour }

func (c *Counts) tokens() int64 { return c.prompt() + c.Output }

// minus returns the difference to other counts.
func (c *Counts) minus(o *Counts) Counts {
	return Counts{
		c.Requests - o.Requests, c.Input - o.Input, c.Cached - o.Cached, c.Written - o.Written, c.WrittenHour - o.WrittenHour, c.Output - o.Output, c.Cost - o.Cost,
	}
}

// Row is a model on a day.
type Row struct {
	Vendor string   `json:"vendor"`
	Day    string   `json:"day"`
	Model  string   `json:"model"` // without its date; empty: all models, where the export does not tell them apart
	Names  []string `json:"names"` // of the model, as both sides have it

	Ours       Counts `json:"ours"`
	Theirs     Counts `json:"theirs"`
	Difference Counts `json:"difference"` // theirs less ours
	HasTokens  bool   `json:"has_tokens"` // an export says what was used
	HasCost    bool   `json:"has_cost"`   // an export says what it cost

	Matches bool     `json:"matches"`
	Reasons []string `json:"reasons,omitempty"`

	sums  sqlite.CostSums
	costs [Kinds]float64 // theirs
	batch int64          // tokens of theirs
}

// Report is how bills differ from what was counted.
type Report struct {
	Rows    []Row    `json:"rows"` // by vendor, day and model
	Ours    Counts   `json:"ours"`
	Theirs  Counts   `json:"theirs"`
	Matches bool     `json:"matches"`
	Notes   []string `json:"notes,omitempty"`
}

// allModels is the model of a row that is of all.
const allModels = ""

type rowKey struct{ vendor, day, model string }

// comparison is what Compare works with.
type comparison struct {
	known *Known
	rows  map[rowKey]*Row
	// By vendor: whether an export of usage, or of costs, does not tell models apart,
	// and the days that those exports are about.
	wholeTokens, wholeCost map[string]bool
	tokenDays, costDays    map[string]span
	days                   map[vendorDay]bool // that an export has
}

type vendorDay struct{ vendor, day string }

type span struct{ first, last string }

func (s span) has(day string) bool { return s.first != "" && s.first <= day && day <= s.last }

func (s span) with(e *Export) span {
	if s.first == "" {
		return span{e.First, e.Last}
	}
	return span{min(s.first, e.First), max(s.last, e.Last)}
}

// Compare holds exports against the costs of a gateway, which are by provider, model
// and day.
func Compare(exports []*Export, ours []sqlite.CostRow, known *Known) *Report {
	c := &comparison{
		known: known, rows: map[rowKey]*Row{}, wholeTokens: map[string]bool{}, wholeCost: map[string]bool{},
		tokenDays: map[string]span{}, costDays: map[string]span{}, days: map[vendorDay]bool{},
	}
	vendors := make(map[string]bool)
	for _, e := range exports {
		vendors[e.Vendor] = true
		for i := range e.sums.list {
			l := &e.sums.list[i]
			c.wholeTokens[e.Vendor] = c.wholeTokens[e.Vendor] || l.HasTokens && l.Model == allModels
			c.wholeCost[e.Vendor] = c.wholeCost[e.Vendor] || l.HasCost && l.Model == allModels
		}
		if e.First == "" {
			continue
		}
		switch {
		case e.Shape == quiet:
		case strings.HasPrefix(e.Shape, "costs"):
			c.costDays[e.Vendor] = c.costDays[e.Vendor].with(e)
		default:
			c.tokenDays[e.Vendor] = c.tokenDays[e.Vendor].with(e)
		}
		for day := range e.days {
			c.days[vendorDay{e.Vendor, day}] = true
		}
	}
	for _, e := range exports {
		if e.Shape != quiet {
			continue
		}
		// It is of what the others are of, and of usage where they are of both: tokens
		// that nobody used cost nothing.
		days := c.tokenDays
		if days[e.Vendor].first == "" && c.costDays[e.Vendor].first != "" {
			days = c.costDays
		}
		days[e.Vendor] = days[e.Vendor].with(e)
	}
	for _, e := range exports {
		for i := range e.sums.list {
			c.addTheirs(e.Vendor, &e.sums.list[i].Line)
		}
	}
	report := &Report{Rows: []Row{}, Matches: true, Notes: repeated(exports)}
	for _, vendor := range slices.Sorted(maps.Keys(vendors)) {
		some := false
		var providers []string
		for i := range ours {
			provider := ours[i].By["provider"]
			if c.known.isOf(vendor, provider) {
				some = true
				c.addOurs(vendor, &ours[i])
			} else if provider != "" && !slices.Contains(providers, provider) {
				providers = append(providers, provider)
			}
		}
		if !some && len(providers) > 0 {
			slices.Sort(providers)
			note := fmt.Sprintf("no attempt was at a provider of %s by its name: --provider says which of %s is", vendor, strings.Join(providers, ", "))
			if named := c.known.Providers; len(named) > 0 {
				note = fmt.Sprintf("no attempt was at %s, as --provider says: there were attempts at %s", strings.Join(named, ", "), strings.Join(providers, ", "))
			}
			report.Notes = append(report.Notes, note)
		}
	}
	c.report(report)
	return report
}

// repeated returns a note of each file that has a page twice, and of each two files of
// which one seems to repeat the other: a file of a week, and that of one of its days.
func repeated(exports []*Export) (notes []string) {
	for i, e := range exports {
		if e.twice != "" {
			notes = append(notes, fmt.Sprintf("%s has a page of %s twice: its usage counts twice", e.Name, e.twice))
		}
		for _, other := range exports[:i] {
			if other.Vendor != e.Vendor || other.Shape != e.Shape {
				continue
			}
			if at := slices.IndexFunc(other.sums.list, e.repeats); at >= 0 {
				s := &other.sums.list[at]
				notes = append(notes, fmt.Sprintf("%s and %s have the same numbers for %s on %s: where one repeats the other, its usage counts twice", other.Name, e.Name, cmp.Or(s.Model, "all models"), s.Day))
			}
		}
	}
	return notes
}

// repeats reports whether the export has lines of a sum of another one.
func (e *Export) repeats(other sum) bool {
	at, has := e.sums.at[sumKey{other.Day, other.Model, other.Batch}]
	return has && e.sums.list[at].sample.shares(other.sample)
}

// isOf reports whether a provider's attempts are on the bill of a vendor.
func (k *Known) isOf(vendor, provider string) bool {
	if len(k.Providers) > 0 {
		return slices.Contains(k.Providers, provider)
	}
	return strings.HasPrefix(provider, vendor)
}

func (c *comparison) row(vendor, day, model string) *Row {
	name := model
	if model != allModels {
		model = Base(model)
	}
	key := rowKey{vendor, day, model}
	r := c.rows[key]
	if r == nil {
		r = &Row{Vendor: vendor, Day: day, Model: model, Names: []string{}}
		c.rows[key] = r
	}
	if name != allModels && !slices.Contains(r.Names, name) {
		r.Names = append(r.Names, name)
	}
	return r
}

// addTheirs adds a sum of an export.
func (c *comparison) addTheirs(vendor string, l *Line) {
	model := l.Model
	if l.HasTokens && c.wholeTokens[vendor] || l.HasCost && c.wholeCost[vendor] {
		model = allModels
	}
	r := c.row(vendor, l.Day, model)
	r.HasTokens, r.HasCost = r.HasTokens || l.HasTokens, r.HasCost || l.HasCost
	t := &r.Theirs
	t.Requests += l.Requests
	t.Input += l.Tokens[Input]
	t.Cached += l.Tokens[Cached]
	t.Written += l.Tokens[Written]
	t.WrittenHour += l.Tokens[WrittenHour]
	t.Output += l.Tokens[Output]
	for kind, cost := range l.Cost {
		t.Cost += cost
		r.costs[kind] += cost
	}
	if l.Batch {
		for _, tokens := range l.Tokens {
			r.batch += tokens
		}
	}
}

// addOurs adds what was counted of a model on a day, to each row that it is in.
func (c *comparison) addOurs(vendor string, o *sqlite.CostRow) {
	day, model := o.By["day"], o.By["model"]
	tokens, cost := c.tokenDays[vendor].has(day), c.costDays[vendor].has(day)
	var into []*Row
	for _, one := range []struct {
		covered, whole bool
		has            func(*Row) *bool
	}{
		{tokens, c.wholeTokens[vendor], func(r *Row) *bool { return &r.HasTokens }},
		{cost, c.wholeCost[vendor], func(r *Row) *bool { return &r.HasCost }},
	} {
		if !one.covered {
			continue
		}
		name := model
		if one.whole {
			name = allModels
		}
		r := c.row(vendor, day, name)
		*one.has(r) = true
		if !slices.Contains(into, r) {
			into = append(into, r)
		}
	}
	for _, r := range into {
		r.sums.Add(&o.CostSums)
	}
}

// report compares the rows.
func (c *comparison) report(report *Report) {
	all := make([]*Row, 0, len(c.rows))
	for _, r := range c.rows {
		s := &r.sums
		r.Ours = Counts{
			Requests: s.Attempts, Input: max(s.PromptTokens-s.CachedTokens-s.CacheWriteTokens-s.CacheWriteHourTokens, 0), Cached: s.CachedTokens,
			Written: s.CacheWriteTokens, WrittenHour: s.CacheWriteHourTokens, Output: s.CompletionTokens, Cost: s.Cost,
		}
		r.Difference = r.Theirs.minus(&r.Ours)
		if r.Vendor == Anthropic {
			r.Difference.Requests = 0 // its exports do not say how many there were
		}
		slices.Sort(r.Names)
		r.Matches = c.within(r)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Row) int {
		return cmp.Or(strings.Compare(a.Vendor, b.Vendor), strings.Compare(a.Day, b.Day), strings.Compare(a.Model, b.Model))
	})
	for _, r := range all {
		if !r.Matches {
			report.Matches = false
			r.Reasons = c.reasons(r)
		}
		report.Rows = append(report.Rows, *r)
		if r.HasTokens {
			ours := r.Ours
			if r.Vendor == Anthropic {
				ours.Requests = 0 // as theirs
			}
			report.Ours.addTokens(&ours)
			report.Theirs.addTokens(&r.Theirs)
		}
		if r.HasCost {
			report.Ours.Cost += r.Ours.Cost
			report.Theirs.Cost += r.Theirs.Cost
		}
	}
	if len(c.known.Unlogged) > 0 {
		report.Notes = append(report.Notes, "calls of "+strings.Join(c.known.Unlogged, ", ")+" leave no trace (log: none): they are billed, and not counted here")
	}
}

func (c *Counts) addTokens(o *Counts) {
	c.Requests += o.Requests
	c.Input += o.Input
	c.Cached += o.Cached
	c.Written += o.Written
	c.WrittenHour += o.WrittenHour
	c.Output += o.Output
}

// cent is the difference of a row's costs that is none: exports are rounded.
const cent = 0.01

// within reports whether a row is within the tolerance: its tokens of each kind, and
// its cost.
func (c *comparison) within(r *Row) bool {
	if r.HasTokens {
		for _, pair := range [...][2]int64{
			{r.Ours.prompt(), r.Theirs.prompt()}, {r.Ours.Cached, r.Theirs.Cached},
			{r.Ours.Written + r.Ours.WrittenHour, r.Theirs.Written + r.Theirs.WrittenHour}, {r.Ours.Output, r.Theirs.Output},
		} {
			if c.beyond(float64(pair[0]), float64(pair[1])) {
				return false
			}
		}
	}
	return !r.HasCost || math.Abs(r.Difference.Cost) < cent || !c.beyond(r.Ours.Cost, r.Theirs.Cost)
}

// beyond reports whether two numbers differ by more than the tolerance.
func (c *comparison) beyond(a, b float64) bool {
	return math.Abs(a-b) > c.known.Tolerance*max(math.Abs(a), math.Abs(b))
}

// reasons returns what explains a difference, as far as the numbers show it.
func (c *comparison) reasons(r *Row) (why []string) {
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	day, _ := time.Parse(time.DateOnly, r.Day)
	gone := c.known.Oldest.IsZero() || day.Before(c.known.Oldest.UTC().Truncate(24*time.Hour))
	switch {
	case c.known.Oldest.IsZero():
		add("no traces are stored at all")
	case gone:
		add("the oldest trace that is stored is of %s: those of this day went with the retention", c.known.Oldest.UTC().Format(time.DateOnly))
	case day.Before(c.known.Oldest):
		add("the oldest trace that is stored is of %s: a part of this day may have gone with the retention", c.known.Oldest.UTC().Format(time.RFC3339))
	}
	switch {
	case r.isItem():
		add("theirs is not for tokens of a known kind: what the provider's tools cost, such as searches, is here in the cost of the model that used them; other items are of no call through this gateway")
	case r.sums.Attempts == 0 && !gone:
		add("the gateway recorded no attempt with this model on this day: others use the account, the calls leave no trace (log: none), or another provider's name has them (--provider)")
	}
	if c.known.Now.Before(day.Add(27 * time.Hour)) {
		add("the day ended less than three hours ago, or goes on: exports are behind")
	}
	switch {
	case r.Theirs != (Counts{}):
	case !c.days[vendorDay{r.Vendor, r.Day}]:
		add("the files have nothing at all of this day: a page or an export is missing, or the attempts are another account's")
	default:
		add("the export has nothing of this model on this day: the attempts are another account's, or its file lacks them")
	}
	if r.batch > 0 {
		add("%d tokens of theirs are of batches, which the gateway makes none of", r.batch)
	}
	if r.HasTokens {
		why = append(why, c.tokenReasons(r)...)
	}
	if r.HasCost {
		why = append(why, c.costReasons(r)...)
	}
	if neighbour := c.midnight(r); neighbour != "" {
		add("%s has the opposite difference: the bill counts calls around midnight (UTC) on the other day", neighbour)
	}
	return why
}

// isItem reports whether the row is of an item of a bill beside the models, such as
// "web search tool calls".
func (r *Row) isItem() bool {
	return r.Model != allModels && r.sums.Attempts == 0 && !r.HasTokens && r.costs == [Kinds]float64{Other: r.costs[Other]}
}

// tokenReasons explains a difference of tokens.
func (c *comparison) tokenReasons(r *Row) (why []string) {
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	d, s := &r.Difference, &r.sums
	if s.Attempts > 0 && r.Theirs.Requests > s.Attempts {
		add("theirs has more requests (%d) than there are attempts (%d): calls past this gateway, or without a trace", r.Theirs.Requests, s.Attempts)
	}
	off := d.prompt() + d.Output
	if s.EstimatedTokens > 0 && c.beyond(float64(r.Ours.tokens()), float64(r.Theirs.tokens())) {
		if off = max(off, -off); off <= s.EstimatedTokens {
			add("%d of our tokens are estimated, because their calls were interrupted or no usage was given: that is enough for the difference", s.EstimatedTokens)
		} else {
			add("%d of our tokens are estimated, because their calls were interrupted or no usage was given: that is not enough for the difference", s.EstimatedTokens)
		}
	}
	if s.Unanswered > 0 && d.prompt()+d.Output > 0 {
		add("attempts that failed, were cancelled, or lost to a hedge (%d): what the provider had done until then may be billed", s.Unanswered)
	}
	if r.Ours.Cached == 0 && r.Theirs.Cached > 0 && !c.beyond(float64(r.Ours.prompt()), float64(r.Theirs.prompt())) {
		add("the prompts are the same in all, and ours does not know which tokens were cached")
	}
	return why
}

// costReasons explains a difference of money.
func (c *comparison) costReasons(r *Row) (why []string) {
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	s := &r.sums
	if s.Unpriced > 0 {
		add("attempts without a price here (%d, with %d tokens): give the model one by the option price", s.Unpriced, s.UnpricedTokens)
	}
	sameTokens := r.HasTokens && r.Ours.tokens() > 0 && !c.beyond(float64(r.Ours.tokens()), float64(r.Theirs.tokens()))
	if sameTokens && c.beyond(r.Ours.Cost, r.Theirs.Cost) {
		add("the tokens match and the prices do not: theirs is %s for a million tokens of all kinds, ours %s",
			perMillion(r.Theirs.Cost, r.Theirs.tokens()), perMillion(r.Ours.Cost, r.Ours.tokens()))
	}
	if prices := r.prices(); prices != "" && r.HasTokens {
		add("what theirs costs for a million tokens: %s", prices)
		if listed := r.listed(); listed != "" {
			add("the price list that ships with Cadenza, of %s: %s", price.Date(), listed)
		}
	}
	if r.HasTokens && r.Theirs.Input > 0 && r.Theirs.Cached > 0 && r.costs[Input] > 0 {
		full, cached := r.costs[Input]/float64(r.Theirs.Input), r.costs[Cached]/float64(r.Theirs.Cached)
		saved := float64(r.Theirs.Cached) * (full - cached)
		if more := r.Ours.Cost - r.Theirs.Cost; saved > 0 && math.Abs(more-saved) <= 0.05*saved {
			add("ours has the cached tokens at the price of the others: that is the difference")
		}
	}
	if r.costs[Other] != 0 && r.Model != allModels && r.Theirs.tokens() > 0 {
		add("%s of theirs is not for tokens of a known kind", money(r.costs[Other]))
	}
	if s.ReportedCost != s.ListCost {
		add("ours has %s that the provider said itself, which is %s by the price list", money(s.ReportedCost), money(s.ListCost))
	}
	return why
}

// prices returns the prices that the costs of theirs imply.
func (r *Row) prices() string {
	var parts []string
	for kind, tokens := range [...]int64{Input: r.Theirs.Input, Cached: r.Theirs.Cached, Written: r.Theirs.Written, WrittenHour: r.Theirs.WrittenHour, Output: r.Theirs.Output} {
		if tokens > 0 && r.costs[kind] > 0 {
			parts = append(parts, Kind(kind).String()+" "+perMillion(r.costs[kind], tokens))
		}
	}
	return strings.Join(parts, ", ")
}

// hosts are those of the vendors, by which the price list knows them.
var hosts = map[string]string{OpenAI: "api.openai.com", Anthropic: "api.anthropic.com"}

// listed returns the prices of the kinds of tokens that were used, by the list that
// ships; empty where it lacks the model. Those of long prompts are others.
func (r *Row) listed() string {
	var found *price.Price
	for _, name := range append([]string{r.Model}, r.Names...) {
		if found = price.Shipped(hosts[r.Vendor], name); found != nil {
			break
		}
	}
	if found == nil {
		return ""
	}
	const few = 1000 // of a short prompt
	var parts []string
	for kind, one := range [...]struct {
		used  int64
		usage providers.Usage
	}{
		Input:       {r.Theirs.Input, providers.Usage{PromptTokens: few}},
		Cached:      {r.Theirs.Cached, providers.Usage{PromptTokens: few, CachedTokens: few}},
		Written:     {r.Theirs.Written, providers.Usage{PromptTokens: few, CacheWriteTokens: few}},
		WrittenHour: {r.Theirs.WrittenHour, providers.Usage{PromptTokens: few, CacheWriteHourTokens: few}},
		Output:      {r.Theirs.Output, providers.Usage{CompletionTokens: few}},
	} {
		if one.used > 0 {
			parts = append(parts, Kind(kind).String()+" "+perMillion(found.Cost(&one.usage), few))
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

// money returns an amount for people, with four digits that count.
func money(dollars float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(dollars, 'g', 4, 64), 64) // of its own text
	return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
}

// midnight returns the day beside the row's that differs by about as much in the other
// direction, empty where there is none.
func (c *comparison) midnight(r *Row) string {
	if !r.HasTokens {
		return ""
	}
	off := r.Difference.tokens()
	day, _ := time.Parse(time.DateOnly, r.Day)
	for _, beside := range []time.Time{day.AddDate(0, 0, -1), day.AddDate(0, 0, 1)} {
		name := beside.Format(time.DateOnly)
		if o := c.rows[rowKey{r.Vendor, name, r.Model}]; o != nil && o.HasTokens && off*o.Difference.tokens() < 0 &&
			!c.beyond(float64(r.Ours.tokens()+o.Ours.tokens()), float64(r.Theirs.tokens()+o.Theirs.tokens())) {
			return name
		}
	}
	return ""
}
