package definition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
)

// Written is an element of a variant's messages as its file has it, with the place of its
// text. Of the place for the caller's messages, and of a message of parts, it has no text.
type Written struct {
	Role    string `json:"role,omitempty"`
	Text    string `json:"text,omitempty"`
	Place   string `json:"place,omitempty"`
	History bool   `json:"history,omitempty"`
	Parts   bool   `json:"parts,omitempty"`
}

// Written returns the variant's messages, also those that it inherited.
func (v *Variant) Written() []Written {
	list := make([]Written, len(v.messages))
	for i := range v.messages {
		m := &v.messages[i]
		list[i] = Written{Role: m.role, Text: m.source, History: m.history != nil, Parts: m.parts != nil}
		if m.text != nil {
			list[i].Place = m.pos.String()
		}
	}
	return list
}

// Edited returns a copy of a variant of the prompt in which texts[i] replaces the text of
// message i, unless it is nil.
func (p *Prompt) Edited(v *Variant, texts []*string) (*Variant, error) {
	if len(texts) > len(v.messages) {
		return nil, fmt.Errorf("there are %d texts, and the variant %s has %d messages", len(texts), v.Key, len(v.messages))
	}
	edited := *v
	edited.messages = append([]message(nil), v.messages...)
	for i, text := range texts {
		m := &edited.messages[i]
		switch {
		case text == nil:
			continue
		case m.text == nil:
			return nil, fmt.Errorf("texts[%d]: this message is no text, and stays as it is", i)
		}
		var errs document.Errors
		m.text, m.source = prompt.Compile(&document.Node{Shape: document.Scalar, Text: *text, Quoted: true}, p.vars, &errs), *text
		if list := errs.List(); len(list) > 0 {
			return nil, fmt.Errorf("texts[%d]: %s", i, list[0].Message)
		}
	}
	edited.finish()
	return &edited, nil
}

// Aimed returns a copy of the variant that is sent to the endpoint's target of that
// provider and model, with the target's own parameters. A target of other endpoints alone
// gives its name, and gets the variant's parameters.
func (e *Endpoint) Aimed(v *Variant, provider, model string) *Variant {
	if v.Provider == provider && v.Model == model {
		return v
	}
	aimed := *v
	aimed.Provider, aimed.Model, aimed.Extra = provider, model, nil
	for t := range e.Named() {
		if t.Provider == provider && t.Model == model {
			aimed.Parameters, aimed.Extra = inherit(t.Parameters, v.Parameters), t.Extra
			break
		}
	}
	return &aimed
}

// Played returns the endpoint as the playground calls it: with change's copies of the
// prompt's variants, any of which a call may name, and without remembered answers. alone
// leaves the fallbacks out. Its tables decide as those of the endpoint.
func (e *Endpoint) Played(alone bool, change func(*Variant) (*Variant, error)) (*Endpoint, error) {
	played, p := *e, *e.Prompt
	changed := make(map[*Variant]*Variant)
	p.variants = nil
	var errs []error
	for _, v := range e.Prompt.variants {
		next, err := change(v)
		errs = append(errs, err)
		changed[v] = next
		p.variants = append(p.variants, next)
	}
	p.fallback, p.byOutcome = changed[p.fallback], nil
	for _, v := range e.Prompt.byOutcome {
		p.byOutcome = append(p.byOutcome, changed[v])
	}
	policies := make(map[*Policy]*Policy)
	policy := func(of *Policy) *Policy {
		if policies[of] == nil {
			next := *of
			next.CacheTTL = 0
			if alone {
				next.Fallback, next.Weights, next.HedgeAfter = nil, nil, 0
			}
			policies[of] = &next
		}
		return policies[of]
	}
	played.Prompt, played.prompt = &p, &p
	played.Accept.Variants, played.Idempotency = true, false
	played.fallback, played.byOutcome = policy(e.fallback), nil
	for _, of := range e.byOutcome {
		played.byOutcome = append(played.byOutcome, policy(of))
	}
	return &played, errors.Join(errs...)
}

// Alone returns an endpoint that calls the prompt, which no file has: under the prompt's
// key and log policy, with the default policy.
func (p *Prompt) Alone() *Endpoint {
	e := &Endpoint{
		Definition: Definition{Kind: kind.Endpoint, Key: p.Key, Log: p.Log, Pos: p.Pos, prompt: p}, Prompt: p,
		fallback: &Policy{MaxAttempts: invoke.DefaultMaxAttempts, Timeout: Timeout{invoke.DefaultTotal, invoke.DefaultFirstToken, invoke.DefaultIdle}},
	}
	e.policies = []*Policy{e.fallback}
	for _, v := range p.variants {
		e.Accept.History = e.Accept.History || v.takesHistory
	}
	return e
}

// Calls reports whether a decision may have the endpoint call in this way.
func (e *Endpoint) Calls(how *Policy) bool {
	return how == e.fallback || slices.Contains(e.byOutcome, how)
}
