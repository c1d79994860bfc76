package definition

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
)

// Endpoint is a prompt that the gateway sends to a model, whose answer it returns.
// It is immutable and safe for concurrent use.
type Endpoint struct {
	Definition
	Prompt *Prompt
	// Embedding is nil if the endpoint answers in words.
	Embedding *Embedding
	// Idempotency has the answer to a request with an idempotency key stored, and
	// sent again where the request is repeated.
	Idempotency bool
	// Accept is what callers may bring.
	Accept Accept
	// Versions are the keys of the prompt's variants, by an alias that is the id of a
	// prompt at OpenAI, and by a version of that prompt.
	Versions map[string]map[string]string

	policies  []*Policy
	byOutcome []*Policy
	fallback  *Policy // if no row matches
}

// Policy returns the policy of a decision of Table.
func (e *Endpoint) Policy(d rules.Decision) *Policy {
	if d.Outcome < 0 {
		return e.fallback
	}
	return e.byOutcome[d.Outcome]
}

// Default returns the policy for a context that no row matches: of an endpoint
// without variants, the only one.
func (e *Endpoint) Default() *Policy { return e.fallback }

// remembers reports whether an answer may be remembered.
func (e *Endpoint) remembers() bool {
	return slices.ContainsFunc(e.policies, func(p *Policy) bool { return p.CacheTTL > 0 })
}

// Named yields the targets that a call may have, without what fallbacks have from
// a variant: the own target of each variant of the prompt, then the fallbacks of
// each policy, inherited ones once.
func (e *Endpoint) Named() iter.Seq[Target] {
	return func(yield func(Target) bool) {
		for _, v := range e.Prompt.variants {
			if !yield(v.target()) {
				return
			}
		}
		for t := range e.fallbacks() {
			if !yield(*t) {
				return
			}
		}
	}
}

// Called yields the targets that a call may have, with what fallbacks have from a
// variant: the targets of each policy with each variant of the prompt.
func (e *Endpoint) Called() iter.Seq[Target] {
	return func(yield func(Target) bool) {
		for _, v := range e.Prompt.variants {
			if !yield(v.target()) {
				return
			}
			for _, p := range e.policies {
				for i := range p.Fallback {
					if !yield(p.Target(v, 1+i)) {
						return
					}
				}
			}
		}
	}
}

// fallbacks yields the fallbacks of all policies, inherited ones once.
func (e *Endpoint) fallbacks() iter.Seq[*Target] {
	return func(yield func(*Target) bool) {
		seen := make(map[*Target]bool)
		for _, p := range e.policies {
			for i := range p.Fallback {
				t := &p.Fallback[i]
				if !seen[t] && !yield(t) {
					return
				}
				seen[t] = true
			}
		}
	}
}

// Target is a model at a provider.
type Target struct {
	Provider string // the provider's instance name
	Model    string
	// Parameters are those of the target itself; Policy.Target adds those of the
	// variant.
	Parameters providers.Parameters
	// Extra are raw parameters for this provider. It must not be changed.
	Extra map[string]json.RawMessage

	origin origin
}

// endpointMembers are the members of an endpoint except its policy, its table and
// commonMembers.
var endpointMembers = []string{"task", "prompt", "idempotency", "accept", "variants", "default"}

func decodeEndpoint(l *loader, d *doc, errs *document.Errors) *Endpoint {
	e := &Endpoint{Definition: d.common(errs)}
	if task := d.node.Get("task"); task != nil {
		task.ReadWord(errs, "task", taskChat, taskEmbedding)
	}
	if embeds(d.node) {
		return e.decodeEmbedding(l, d, errs)
	}
	if n := d.node.Get("idempotency"); !n.IsNull() {
		e.Idempotency, _ = n.ReadBool(errs, "idempotency")
	}
	e.decodeAccept(d.node.Get("accept"), errs)
	known := slices.Concat(policyMembers, endpointMembers, rules.TableMembers, commonMembers)
	mistakes := errs.Len()
	if targets := d.node.Get("targets"); targets != nil {
		known = append(known, "targets")
		errs.Report("unknown-member", targets.Pos, "targets are for task: embedding: the targets of other endpoints are that of the prompt and the fallbacks")
	}
	d.node.CheckMembers(errs, "an endpoint", known...)
	misspelt := errs.Len() > mistakes
	if !misspelt || d.node.Get("prompt") != nil { // an unknown member may be the prompt
		e.Prompt = l.prompt(d, errs)
	}
	e.prompt = e.Prompt
	r := &policyReader{loader: l, errs: errs, refused: make(map[*document.Node]bool), idle: make(map[*document.Node]*idleMember)}
	outside := r.read(nil, d.node)
	if d.node.Get("variants") == nil {
		if !misspelt {
			refuseTable(d.node, errs)
		}
		e.policies = []*Policy{r.finish(outside)}
		e.fallback = e.policies[0]
	} else {
		e.decodeVariants(l, d, r, outside)
	}
	r.giveWarnings()
	e.readVersions(d, errs)
	e.checkTargets(l, d.node.Get("prompt"), errs)
	before := errs.Len()
	e.checkHistory(d.node.Get("accept"), d.node.Get("prompt"), errs)
	if errs.Len() == before {
		e.warnAccept(l, d.node.Get("accept"))
	}
	e.sealEndpoint(d)
	return e
}

// refuseTable reports the members of a table in an endpoint without variants.
func refuseTable(n *document.Node, errs *document.Errors) {
	if m := n.Get("tests"); m != nil {
		errs.Add(m, "an endpoint has no table to test: put the tests into its prompt")
	}
	for _, m := range n.Members {
		if name := m.Key.Text; name == "default" || slices.Contains(rules.TableMembers, name) {
			errs.Add(m.Key, "%s is about variants, and the endpoint has none: add variants that say how to call, or put the table into its prompt", name)
			return
		}
	}
}

// prompt resolves the prompt an endpoint refers to.
func (l *loader) prompt(d *doc, errs *document.Errors) *Prompt {
	n := d.node.Get("prompt")
	if n == nil {
		errs.Add(d.node, "prompt is missing: it names the prompt this endpoint renders")
		return nil
	}
	key, ok := n.ReadString(errs, "prompt")
	if !ok {
		return nil
	}
	p := l.snapshot.Prompts[key]
	l.refer(d, kind.Prompt, n, p != nil)
	if p == nil && l.missing(kind.Prompt, key) {
		errs.Report("unknown-prompt", n.Pos, "there is no prompt %q%s", key, l.didYouMean(kind.Prompt, key))
	}
	return p
}

// checkTargets checks that each variant of the prompt can be called by each policy.
func (e *Endpoint) checkTargets(l *loader, at *document.Node, errs *document.Errors) {
	if e.Prompt == nil {
		return
	}
	var called []*Variant
	for _, v := range e.Prompt.variants {
		switch {
		case v.origin.broken: // whose mistakes are the cause of the missing members
		case v.Provider == "":
			errs.Report("missing-provider", at.Pos, "the variant %s of the prompt %s (%s) names no provider, which an endpoint needs", v.Key, e.Prompt.Key, v.origin.pos)
		default:
			called = append(called, v)
		}
	}
	for t := range e.fallbacks() {
		if t.Parameters.Tools == nil && t.Parameters.ToolChoice == nil {
			continue // it has the variant's parameters, which are checked with it
		}
		for _, v := range called {
			if l.stopped() {
				return
			}
			p := inherit(t.Parameters, v.Parameters)
			if problem := mischosen(&p); problem != "" {
				errs.Add(at, "the fallback %s cannot answer for the variant %s: tool_choice: %s", t.Provider, v.Key, problem)
			}
		}
	}
}

// sealEndpoint gives the endpoint its content and version: its policies with all
// they inherit and the defaults filled in, and the key, not the content, of its
// prompt.
func (e *Endpoint) sealEndpoint(d *doc) {
	c := content{}
	if e.table == nil {
		c = e.fallback.content()
	} else {
		variants := make(content, len(e.policies))
		for _, p := range e.policies {
			variants[p.Key] = p.content()
		}
		c["variants"], c["default"] = variants, e.fallback.Key
		c.members(d.node, rules.TableMembers...)
	}
	c.members(d.node, "prompt")
	if e.Idempotency {
		c["idempotency"] = true
	}
	if accept := e.Accept.content(); accept != nil {
		c["accept"] = accept
	}
	if len(e.Versions) > 0 {
		c["versions"] = e.Versions
	}
	e.seal(c)
}
