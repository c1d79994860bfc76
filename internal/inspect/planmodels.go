package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/providers"
)

// PlanModel is the decisions that name another model than they did, as PROVIDER/MODEL.
type PlanModel struct {
	Old   string `json:"old"`
	New   string `json:"new"`
	Calls int64  `json:"calls"`
	// Priced is how many of the calls have recorded tokens, and a new model with a price.
	// These cost CostOld dollars. The new model costs CostLow if it caches as much of the
	// prompts as the old one did, and answers at once; and CostHigh if it caches nothing,
	// and is tried as often.
	Priced   int64   `json:"priced"`
	CostOld  float64 `json:"cost_usd_old"`
	CostLow  float64 `json:"cost_usd_low"`
	CostHigh float64 `json:"cost_usd_high"`
	// TookOld and TookNew are what all recorded calls of the models took; nil: not seen.
	TookOld *PlanTook `json:"took_old,omitempty"`
	TookNew *PlanTook `json:"took_new,omitempty"`

	to []definition.Target
}

// PlanTook is how long calls of a model took: half of them no longer than P50.
type PlanTook struct {
	Calls int64   `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
}

// String says what half of the calls took at most, and 95 %.
func (took *PlanTook) String() string {
	if took == nil {
		return "not seen"
	}
	return fmt.Sprintf("%.0f to %.0f ms (%s calls)", took.P50, took.P95, number(took.Calls))
}

// maxPlanModels bounds the names of models, which providers choose.
const maxPlanModels = 1000

// models is the part of a tally on models.
type models struct {
	shifts map[[2]string]*PlanModel
	took   map[string]*histogram.Durations
}

// targetsOf returns the targets that a call tries first: one, or each that has a weight.
func targetsOf(v *definition.Variant, how *definition.Policy) (list []definition.Target) {
	if how == nil || how.Weights == nil {
		return []definition.Target{{Provider: v.Provider, Model: v.Model}}
	}
	for i, t := range how.Targets(v) {
		if how.Weights[i] > 0 {
			list = append(list, t)
		}
	}
	return list
}

// orModel is between the names of models of which each may be called.
const orModel = " or "

func modelName(list []definition.Target) (name string) {
	for i, t := range list {
		if i > 0 {
			name += orModel
		}
		name += t.Provider + "/" + t.Model
	}
	return name
}

// shift returns the shift between the answers of two sets, or nil if it is none or not known.
func (m *models) shift(base, next answers) *PlanModel {
	one := func(a answers) (string, []definition.Target) {
		name := modelName(a.list[0].targets)
		if slices.ContainsFunc(a.list, func(b answer) bool { return modelName(b.targets) != name }) {
			return "", nil
		}
		return name, a.list[0].targets
	}
	old, _ := one(base)
	name, to := one(next)
	key := [2]string{old, name}
	if shift := m.shifts[key]; shift != nil || old == name || old == "" || name == "" || len(m.shifts) >= maxPlanModels {
		return shift
	}
	m.shifts[key] = &PlanModel{Old: old, New: name, to: to}
	return m.shifts[key]
}

// see takes over what a call took.
func (m *models) see(t *Traced) {
	if t.Latency <= 0 || t.Cached || t.Status >= 400 || t.Provider == "" {
		return
	}
	name := t.Provider + "/" + t.Model
	took := m.took[name]
	if took == nil {
		if len(m.took) >= maxPlanModels {
			return
		}
		took = new(histogram.Durations)
		m.took[name] = took
	}
	took.Observe(t.Latency * 1000)
}

// add adds a call of the old model.
func (c *PlanModel) add(t *Traced, weight int64, cost func(provider, model string, u *providers.Usage) (float64, bool)) {
	c.Calls += weight
	if t.Usage == nil || cost == nil {
		return
	}
	once := providers.Usage{PromptTokens: t.Usage.Prompt, CompletionTokens: t.Usage.Completion}
	all := providers.Usage{}
	for _, attempt := range t.Attempts {
		once.CachedTokens = max(once.CachedTokens, attempt.Cached)
		all.PromptTokens += cmp.Or(attempt.Prompt, t.Usage.Prompt) // a failed one may be paid, too
		all.CompletionTokens += attempt.Completion
	}
	all.PromptTokens, all.CompletionTokens = max(all.PromptTokens, once.PromptTokens), max(all.CompletionTokens, once.CompletionTokens)
	var low, high float64
	for i, target := range c.to {
		least, ok := cost(target.Provider, target.Model, &once)
		most, _ := cost(target.Provider, target.Model, &all)
		if !ok {
			return
		}
		if low, high = min(low, least), max(high, most, least); i == 0 {
			low = least
		}
	}
	if t.Cached {
		low = 0 // by the gateway
	}
	w := float64(weight)
	c.Priced, c.CostOld, c.CostLow, c.CostHigh = c.Priced+weight, c.CostOld+w*t.Cost, c.CostLow+w*low, c.CostHigh+w*high
}

// report returns the shifts, the most frequent first.
func (m *models) report() []PlanModel {
	list := []PlanModel{}
	took := func(name string) *PlanTook {
		if d := m.took[name]; d != nil {
			return &PlanTook{d.Total(), d.Quantile(0.5), d.Quantile(0.95)}
		}
		return nil
	}
	for _, shift := range m.shifts {
		c := *shift
		c.TookOld, c.TookNew = took(c.Old), took(c.New)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b PlanModel) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Old, b.Old), cmp.Compare(a.New, b.New))
	})
	return list
}
