package command

import (
	"fmt"
	"net/url"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// checkModels warns of models that end within 90 days, or have ended. If asked is not
// nil, the warnings have the share of decisions that pick the model.
func (c *check) checkModels(known definition.Providers, table *price.Table, asked *gatewayClient) error {
	if c.snapshot == nil {
		return nil
	}
	var picked *picks
	now := time.Now()
	var failed error
	warnings := c.snapshot.CheckModels(known, func(provider, host, model string) (message, successor string) {
		m := table.Model(provider, host, model)
		ending := m.Ending(now)
		if ending == "" || failed != nil {
			return "", ""
		}
		message = "the model " + model + " of " + provider + " " + ending
		next := table.Model(provider, host, m.Successor)
		if next.ContextWindow > 0 && m.ContextWindow > 0 && next.ContextWindow != m.ContextWindow {
			message += fmt.Sprintf(", with a context window of %d tokens instead of %d", next.ContextWindow, m.ContextWindow)
		}
		if asked != nil {
			if picked == nil {
				picked, failed = asked.lastWeek(c.snapshot)
			}
			message += "; " + picked.share(provider, model)
		}
		return message, m.Successor
	})
	if failed != nil {
		return failed
	}
	c.Warnings = append(c.Warnings, inspect.Findings(warnings)...)
	c.judge()
	return nil
}

// picks counts the decisions of a week by the provider and model that they picked.
type picks struct {
	by  map[[2]string]int64
	all int64
}

// lastWeek asks a gateway for the decisions of the last seven days on definitions with
// variants, and finds the models that they picked by the definitions. A decision for a
// variant that the definitions no longer have picks none of their models.
func (g *gatewayClient) lastWeek(s *definition.Snapshot) (*picks, error) {
	var stats adminapi.Stats
	if err := g.get("/cadenza/stats", url.Values{"since": {"7d"}}, &stats); err != nil {
		return nil, err
	}
	p := &picks{by: make(map[[2]string]int64)}
	for _, row := range stats.Rows {
		k := kind.Named(row.Kind)
		if k == nil || !k.Variants {
			continue
		}
		p.all += row.Traces
		d := s.Find(k, row.Key)
		if d == nil {
			continue
		}
		for _, v := range d.Rendered().Variants() {
			if v.Key == row.Variant {
				p.by[[2]string{v.Provider, v.Model}] += row.Traces
			}
		}
	}
	return p, nil
}

// share describes the part of the decisions that picked a model.
func (p *picks) share(provider, model string) string {
	if p == nil || p.all == 0 {
		return "no decision of the last week is recorded"
	}
	percent := 100 * float64(p.by[[2]string{provider, model}]) / float64(p.all)
	if percent > 0 && percent < 1 {
		return "less than 1 % of last week's decisions pick it"
	}
	return fmt.Sprintf("%.0f %% of last week's decisions pick it", percent)
}
