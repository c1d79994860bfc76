package gateway

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// plan is what a request for an endpoint comes to: which targets may be asked, and what
// they are asked. It is made without a call of any.
type plan struct {
	decision rules.Decision // of the prompt's table
	variant  *definition.Variant
	named    bool // the caller names the variant
	policy   *definition.Policy
	chosen   rules.Decision // of the endpoint's own table, if it has one
	targets  []invoke.Target
	pinned   bool // the caller's messages have data of the one target that is asked
	messages []providers.Message
}

// parseCall reads a request for an endpoint, and counts it for its limits. What the
// caller brings is what the endpoint accepts.
func (c *call) parseCall() (*definition.Endpoint, *dialect.Call, *wire.Error) {
	request, writer, err := c.route.dialect.Parse(c.request)
	c.writer = writer
	if err != nil {
		return nil, nil, err
	}
	endpoint, err := c.admitted(request)
	c.info.endpoint = endpoint
	return endpoint, request, err
}

// admitted returns the endpoint that a request asks for, nil where there is none of its
// key, and why the request is refused. Its limits count it before its mistakes are
// looked for: a caller who makes them has no more requests than others.
func (c *call) admitted(request *dialect.Call) (*definition.Endpoint, *wire.Error) {
	c.context, c.metadata, c.variables = request.Context, request.Metadata, request.Variables
	c.addUser(request)
	endpoint := c.snapshot.Endpoint(request.Endpoint)
	if endpoint == nil {
		// Not by the key that it names, nor by its metadata: those may be anything.
		if err := c.admitLate("", false); err != nil {
			return nil, err
		}
		return nil, unknownEndpoint(request)
	}
	// That of the request is a view of its body, which is released before a model answers.
	request.Endpoint = endpoint.AskedAs(request.Endpoint)
	c.asks(&endpoint.Definition)
	if err := c.admitLate(endpoint.Key, true); err != nil {
		return endpoint, err
	}
	return endpoint, c.checkBrought(endpoint, request)
}

// plan decides in the request's context, and renders the messages. Where a table asks
// for a budget of tokens or money that the call itself uses, the call is planned twice:
// at first as if the budget were not known, which tells what it would set aside, and
// then with that. So a rule at 80 percent acts before a call that needs 30 of them is
// refused for want of room:
//
//	used   set aside   budget   the rule at 80..
//	49 %   30 %        79       does not act
//	50 %   30 %        80       gives the call another target
//
// What is set aside does not depend on what is used, so more use never leads back to
// the first plan.
func (c *call) plan(endpoint *definition.Endpoint, request *dialect.Call) (p plan, err *wire.Error) {
	if err := c.bind(request.Context); err != nil {
		return p, ofMetadata(err, request)
	}
	c.asked = endpoint.Key
	c.weighing = c.meter != nil && c.meter.metered
	p, err = c.choose(endpoint, request)
	if c.weighing = false; !c.asksBudget {
		return p, err
	}
	if err == nil {
		c.own = c.meter.weigh(p.targets, p.messages)
	}
	c.binding.AskAgain()
	c.values.Reset()
	return c.choose(endpoint, request)
}

// choose decides which targets may be asked, and what.
func (c *call) choose(endpoint *definition.Endpoint, request *dialect.Call) (p plan, err *wire.Error) {
	p.decision = c.decide(trace.KindPrompt, &endpoint.Prompt.Definition, endpoint.Prompt.Table())
	p.variant, p.named = endpoint.Prompt.Variant(p.decision), request.Variant != ""
	if p.named {
		if p.variant = variantOf(endpoint.Prompt, request.Variant); p.variant == nil {
			return p, unknownVariant(request)
		}
	}
	p.policy, p.chosen = c.choosePolicy(endpoint)
	if err := c.bindVariables(endpoint.Prompt, p.variant); err != nil {
		return p, err
	}
	targets, err := merged(c.workspace.targets(c.snapshot, p.policy, p.variant), request)
	if err != nil {
		return p, err
	}
	p.targets, p.pinned = pin(c.workspace.sealer(), targets, request)
	messages, unrendered := p.variant.Messages(&c.values, request.Turns)
	if unrendered != nil {
		return p, refuseMessages(unrendered, "The endpoint's prompt", request.TurnsParam)
	}
	p.messages = messages
	return p, nil
}

// choosePolicy returns how an endpoint calls in the request's context, and the
// decision of the endpoint's table on it, if it has one.
func (c *call) choosePolicy(endpoint *definition.Endpoint) (how *definition.Policy, chosen rules.Decision) {
	table := endpoint.Table()
	if table == nil {
		return endpoint.Default(), chosen
	}
	chosen = c.decide(trace.KindEndpoint, &endpoint.Definition, table)
	return endpoint.Policy(chosen), chosen
}

// unknownEndpoint returns the error for a key that no endpoint has. OpenAI's clients
// name it as a model, and know the error by its code.
func unknownEndpoint(request *dialect.Call) *wire.Error {
	if request.EndpointParam == "model" {
		return wire.Errorf(wire.ModelNotFound, "model", "There is no endpoint %s, which the model names. GET /v1/models lists those that there are.", printable(request.Endpoint))
	}
	return wire.Errorf(wire.UnknownEndpoint, request.EndpointParam, "There is no endpoint %s.", printable(request.Endpoint))
}

// unknownVariant returns the error for a variant that the prompt of a known endpoint does
// not have.
func unknownVariant(request *dialect.Call) *wire.Error {
	code := wire.UnknownEndpoint
	if request.EndpointParam == "model" {
		code = wire.ModelNotFound
	}
	return wire.Errorf(code, request.EndpointParam, "The endpoint %s has no variant %s. Name one of its prompt's, or leave it out.", printable(request.Endpoint), printable(request.Variant))
}

// variantOf returns the prompt's variant with the key, or nil.
func variantOf(p *definition.Prompt, key string) *definition.Variant {
	variants := p.Variants()
	i := slices.IndexFunc(variants, func(v *definition.Variant) bool { return v.Key == key })
	if i < 0 {
		return nil
	}
	return variants[i]
}
