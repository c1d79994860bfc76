package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
)

// BudgetCeiling is a ceiling of tokens or money, for CheckBudgets.
type BudgetCeiling struct {
	Limit   string // its name
	Measure limit.Measure
	Most    float64 // in US dollars, or tokens
	Text    string  // as the configuration has it, such as "tokens 500/1h"
}

// The bounds of CheckBudgets.
const (
	budgetRows  = 200 // of a table, for which contexts are tried
	budgetSteps = 500_000
)

// CheckBudgets returns warnings on rules at the end of a budget that calls never reach,
// because one call sets more aside than the rule leaves, and on rules that every call
// meets. For each row of the tables that ask for the budget it tries one context with
// each whole percent of the budget, for a call without messages of the caller.
func CheckBudgets(snapshot *definition.Snapshot, ceilings []BudgetCeiling, prices *price.Table, known definition.Providers, now time.Time) []definition.Warning {
	var found []definition.Warning
	for _, key := range slices.Sorted(maps.Keys(snapshot.Endpoints)) {
		for _, ceiling := range ceilings {
			c := budgetCheck{snapshot: snapshot, endpoint: snapshot.Endpoints[key], ceilings: ceilings, ceiling: ceiling, field: "budget." + ceiling.Limit, prices: prices, known: known, now: now, said: make(map[string]bool)}
			found = append(found, c.run()...)
		}
	}
	return found
}

// budgetCheck checks one endpoint and one ceiling.
type budgetCheck struct {
	snapshot *definition.Snapshot
	endpoint *definition.Endpoint
	ceilings []BudgetCeiling
	ceiling  BudgetCeiling // the one of ceilings to check
	field    string
	prices   *price.Table
	known    definition.Providers
	now      time.Time
	said     map[string]bool // messages in found
	found    []definition.Warning

	binding rules.Binding
	parser  fastjson.Parser
}

// way is one way to make a call: the variants that its tables pick.
type way struct {
	variant        *definition.Variant
	policy         *definition.Policy
	picked, chosen rules.Decision // of the prompt's and the endpoint's table
}

func (w way) same(other way) bool { return w.variant == other.variant && w.policy == other.policy }

// name returns the key of the endpoint's variant, or of the prompt's variant if the
// endpoint has none.
func (w way) name() string { return cmp.Or(w.policy.Key, w.variant.Key) }

func (c *budgetCheck) run() []definition.Warning {
	tables := []*rules.Table{c.endpoint.Prompt.Table()}
	if t := c.endpoint.Table(); t != nil {
		tables = append(tables, t)
	}
	reads := func(t *rules.Table) bool { return slices.Contains(t.Fields(), c.field) }
	if !slices.ContainsFunc(tables, reads) {
		return nil
	}
	c.try(map[string]string{}, c.now)
	for _, t := range tables {
		finder := rules.NewFinder(c.now, budgetSteps, t)
		for row := range min(len(t.Rows()), budgetRows) {
			if values, at, found, _ := finder.Find([]int{row}, nil); found {
				c.try(values, at)
			}
		}
	}
	return c.found
}

// decide returns the way to call when the given percent of the budget is used. A negative
// percent stands for an unknown budget.
func (c *budgetCheck) decide(values map[string]string, at time.Time, percent int) (w way, ok bool) {
	m := c.snapshot.Model
	names := append(m.FieldNames(), m.GatewayNames()...)
	members := make([]string, len(names))
	for i, name := range names {
		if members[i] = values[name]; name == c.field {
			if members[i] = ""; percent >= 0 {
				members[i] = strconv.Itoa(percent)
			}
		}
	}
	context := m.ContextJSON(members)
	if !slices.ContainsFunc(members, func(v string) bool { return v != "" }) {
		context = "{}"
	}
	v, err := c.parser.Parse(context)
	if err != nil || m.Simulate(&c.binding, v, at) != nil {
		return w, false
	}
	e := c.endpoint
	w.picked = e.Prompt.Table().Evaluate(&c.binding)
	w.variant, w.policy = e.Prompt.Variant(w.picked), e.Default()
	if t := e.Table(); t != nil {
		w.chosen = t.Evaluate(&c.binding)
		w.policy = e.Policy(w.chosen)
	}
	return w, true
}

// sets returns the amounts of a ceiling that a call sets aside: first for an attempt at
// the most expensive target, and the least that it needs, for an attempt at the cheapest.
// messages is the number of tokens of the call's messages.
func (c *budgetCheck) sets(ceiling BudgetCeiling, w way, messages int64) (first, least float64) {
	least = math.Inf(1)
	for _, t := range w.policy.Targets(w.variant) {
		target := &invoke.Target{Name: t.Provider, Host: c.known[t.Provider].Host, Model: t.Model, Parameters: t.Parameters, Extra: t.Extra}
		target.Bounds = invoke.BoundsOf(target)
		a := mostAt(c.prices, target, messages+target.Beside(invoke.TightTokens))
		amount := float64(a.Of(ceiling.Measure)) / float64(limit.Measures[ceiling.Measure].Scale)
		first, least = max(first, amount), min(least, amount)
	}
	return first, least
}

// messages returns the tokens of the prompt's messages for a caller that sends no
// messages and a one-letter text for each variable. ok is false if such a call fails.
func (c *budgetCheck) messages(w way) (tokens int64, ok bool) {
	p := c.endpoint.Prompt
	var arena fastjson.Arena
	variables := arena.NewObject()
	for _, name := range p.Variables().Names() {
		if p.Variables().Required(name) {
			variables.Set(name, arena.NewString("x"))
		}
	}
	var values prompt.Values
	if p.Bind(w.variant, variables, &c.binding, &values) != nil {
		return 0, false
	}
	messages, err := w.variant.Messages(&values, nil)
	return invoke.TightTokens(messages, nil), err == nil
}

// lowered reports whether callers may ask for a shorter answer.
func (c *budgetCheck) lowered() bool {
	shortest := int64(1)
	return c.endpoint.Accept.Check("max_tokens", &providers.Parameters{MaxTokens: &shortest}) == ""
}

// least returns the smallest budget, in percent, that a call of this way can have: the
// largest share that it sets aside of any ceiling of the limit.
func (c *budgetCheck) least(w way, messages int64) (percent int) {
	for _, ceiling := range c.ceilings {
		if first, _ := c.sets(ceiling, w, messages); ceiling.Limit == c.ceiling.Limit {
			percent = max(percent, ceiling.percentOf(first))
		}
	}
	return percent
}

// percentOf returns an amount as a percentage of the ceiling, at most percents.
func (c BudgetCeiling) percentOf(amount float64) int {
	return int(min(amount/c.Most*100, percents))
}

// percents is the largest budget that try tests, in percent.
const percents = 200

// try finds the rules that calls in a context never reach or always meet.
func (c *budgetCheck) try(values map[string]string, at time.Time) {
	usual, ok := c.decide(values, at, -1)
	if !ok {
		return
	}
	ways := make([]way, percents+1) // by the budget
	for percent := range ways {
		if ways[percent], ok = c.decide(values, at, percent); !ok {
			return
		}
	}
	isUsual := func(w way) bool { return w.same(usual) }
	own, _ := c.sets(c.ceiling, usual, 0)
	first := c.ceiling.percentOf(own) // the budget of a caller that has used nothing
	begins := first
	for begins > 0 && !isUsual(ways[begins-1]) {
		begins--
	}
	if begins > 0 && !slices.ContainsFunc(ways[first:], isUsual) && !c.lowered() {
		c.warn(usual, ways[begins-1], ways[begins], own, func(row string) string {
			return fmt.Sprintf("so every call meets %s, which begins at %d %%, and none is made by %s: raise the ceiling, or lower max_tokens", row, begins, usual.name())
		})
	}
	tokens, ok := c.messages(usual)
	own, _ = c.sets(c.ceiling, usual, tokens)
	for percent := c.least(usual, tokens); ok && percent < 100; percent++ {
		w, later := ways[percent], percent+1
		if w.same(ways[later]) || isUsual(w) {
			continue
		}
		tokens, rendered := c.messages(w)
		_, need := c.sets(c.ceiling, w, tokens)
		tokens, renders := c.messages(ways[later])
		_, helps := c.sets(c.ceiling, ways[later], tokens)
		// The most that other calls have used while the tables still choose this way.
		used := float64(later)/100*c.ceiling.Most - own
		if !rendered || !renders || used < 0 || used+need <= c.ceiling.Most || used+helps > c.ceiling.Most {
			continue
		}
		c.warn(w, w, ways[later], need, func(row string) string {
			refused := max(100-c.ceiling.percentOf(need), 0)
			return fmt.Sprintf("so it is refused from %d %% on, before the budget reaches %d %%, where %s begins: let that begin earlier, or make %s the answer where the budget is not known",
				refused, later, row, w.name())
		})
	}
}

// warn adds a warning about the way w, at the row that changes the way from before to
// after.
func (c *budgetCheck) warn(w, before, after way, amount float64, what func(row string) string) {
	table, d, pos := c.endpoint.Table(), after.chosen, c.endpoint.Pos
	if table == nil || before.policy == after.policy {
		table, d, pos = c.endpoint.Prompt.Table(), after.picked, c.endpoint.Prompt.Pos
	}
	row := "the default"
	if d.Row >= 0 {
		row, pos = table.Rows()[d.Row].ID, table.Rows()[d.Row].Pos
	}
	message := fmt.Sprintf("one call of %s by %s sets aside %s %s or more, %d %% of limit %s (%s), %s", c.endpoint.Key, w.name(),
		strconv.FormatFloat(amount, 'g', 4, 64), cmp.Or(limit.Measures[c.ceiling.Measure].Unit, limit.Measures[c.ceiling.Measure].Noun), c.ceiling.percentOf(amount), c.ceiling.Limit, c.ceiling.Text, what(row))
	if !c.said[message] {
		c.said[message] = true
		c.found = append(c.found, definition.Warning{Pos: pos, Message: message, Kind: "budget"})
	}
}
