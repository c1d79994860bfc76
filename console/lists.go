package console

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// spanOf returns how far back a page looks: the visitor's word, or a default.
func (v *visit) spanOf(name, usual string) string {
	if text := strings.TrimSpace(v.query.Get(name)); text != "" {
		return text
	}
	return usual
}

// refusedPage has the requests that were refused before a call.
type refusedPage struct {
	Since string
	adminapi.Refused
}

func buildRefused(v *visit) (any, error) {
	p := &refusedPage{Since: v.spanOf("since", "24h")}
	v.command = "caddy cadenza refused --since " + shellWord(p.Since)
	return p, v.ask("refused", url.Values{"since": {p.Since}}, &p.Refused)
}

// costsPage has the costs of calls by one part.
type costsPage struct {
	By    string
	Parts []string // that costs may be shown by
	Since string
	adminapi.Costs
	Problem string // why the query is refused
}

// costParts are the parts that the page offers. Others can be written into its address.
var costParts = []string{"model", "key", "api_key", "variant", "day"}

func buildCosts(v *visit) (any, error) {
	month := time.Date(v.now.Year(), v.now.Month(), 1, 0, 0, 0, 0, time.UTC)
	p := &costsPage{By: v.spanOf("by", "model"), Parts: costParts, Since: v.spanOf("since", month.Format(time.DateOnly))}
	v.command = "caddy cadenza costs --by " + shellWord(p.By) + " --since " + shellWord(p.Since)
	err := v.ask("costs", url.Values{"by": {p.By}, "since": {p.Since}}, &p.Costs)
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok && refusal.Status < 500 {
		p.Problem, err = refusal.Message, nil
	}
	return p, err
}

// PartOf returns the value of a row's part, or what its absence means.
func (p *costsPage) PartOf(by map[string]string) string {
	if len(by) == 0 {
		return "none"
	}
	var values []string
	for _, part := range p.Costs.By {
		values = append(values, by[part])
	}
	return strings.Join(values, ", ")
}
