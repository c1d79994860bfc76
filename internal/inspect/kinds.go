package inspect

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// inspections are the questions that tools ask about definitions, by kind.
var inspections = map[*kind.Kind]struct {
	// evaluate completes the answer of a definition, and returns the table that
	// decided with its decision.
	evaluate func(a *Answer, s *definition.Snapshot, key string, b *rules.Binding, q Query) (*rules.Table, rules.Decision)
	// prove adds the tables that decided an answer to the prover.
	prove func(p *prover, key string)
	// reads adds to a change the changes of the definitions that this one refers to.
	// seen has these by kind and key.
	reads func(c *Change, before, after *definition.Snapshot, seen map[*kind.Kind]map[string]Change)
}{
	kind.Prompt:       {evaluatePrompt, provePrompt, readsConfigs},
	kind.Endpoint:     {evaluateEndpoint, proveEndpoint, readsPrompt},
	kind.RemoteConfig: {evaluateConfig, proveConfig, readsNothing},
}

func evaluatePrompt(a *Answer, s *definition.Snapshot, key string, b *rules.Binding, q Query) (*rules.Table, rules.Decision) {
	p := s.Prompts[key]
	_, decision := a.render(s, p, b, q.Variables)
	return p.Table(), decision
}

func evaluateEndpoint(a *Answer, s *definition.Snapshot, key string, b *rules.Binding, q Query) (*rules.Table, rules.Decision) {
	e := s.Endpoints[key]
	a.Accept = e.Accept.JSON()
	variant, decision := a.render(s, e.Prompt, b, q.Variables)
	if e.Embedding != nil { // the prompt is no definition, and says nothing
		a.Accept = nil
		a.Value, _ = json.Marshal(map[string]string{"task": "embedding", "space": e.Embedding.Space})
	}
	how := e.Default()
	if own := e.Table(); own != nil {
		d := own.Evaluate(b)
		how = e.Policy(d)
		a.EndpointVariant, a.EndpointReason = how.Key, d.Reason.String()
		a.EndpointRow, a.EndpointPosition = rowID(own, d), positionOf(own, d)
		if q.Explain {
			a.EndpointRows = explain(own.Explain(b))
		}
	}
	for i, t := range how.Targets(variant) {
		target := Target{Provider: t.Provider, Model: t.Model}
		if how.Weights != nil {
			target.Weight = how.Weights[i]
		}
		a.Targets = append(a.Targets, target)
	}
	slices.SortStableFunc(a.Targets, func(a, b Target) int { return cmp.Compare(min(b.Weight, 1), min(a.Weight, 1)) })
	return e.Prompt.Table(), decision
}

func evaluateConfig(a *Answer, s *definition.Snapshot, key string, b *rules.Binding, _ Query) (_ *rules.Table, decision rules.Decision) {
	c := s.RemoteConfigs[key]
	a.Type = c.Type()
	a.Value, decision = c.Evaluate(b)
	return c.Table(), decision
}

func provePrompt(p *prover, key string) { p.decidedBy(p.s.Prompts[key], false) }

func proveEndpoint(p *prover, key string) {
	e := p.s.Endpoints[key]
	if p.t.Prompt != e.Prompt.Key || p.t.PromptVersion != e.Prompt.Version {
		p.differ("the endpoint's prompt is %s, version %s, and recorded is %s, version %s", e.Prompt.Key, e.Prompt.Version, p.t.Prompt, p.t.PromptVersion)
	}
	p.decidedBy(e.Prompt, true)
	if e.Table() != nil {
		p.tables = append(p.tables, proved{e.Table(), func(d rules.Decision) string { return e.Policy(d).Key }, func(d *Decided, _, row, arm string) {
			d.EndpointRow, d.EndpointVariant = row, arm
		}})
	}
}

func proveConfig(p *prover, key string) {
	table := p.s.RemoteConfigs[key].Table()
	p.tables = []proved{{table, table.Arm, (*Decided).set}}
}

func readsConfigs(c *Change, _, after *definition.Snapshot, seen map[*kind.Kind]map[string]Change) {
	c.Configs = changedConfigs(after.Prompts[c.Key], seen[kind.RemoteConfig])
}

func readsPrompt(c *Change, before, after *definition.Snapshot, seen map[*kind.Kind]map[string]Change) {
	p := after.Endpoints[c.Key].Prompt.Key
	if seen[kind.Prompt][p].Change != "" || before.Endpoints[c.Key].Prompt.Key != p {
		c.Prompt = p
	}
}

func readsNothing(*Change, *definition.Snapshot, *definition.Snapshot, map[*kind.Kind]map[string]Change) {
}
