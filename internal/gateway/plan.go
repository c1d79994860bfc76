package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
)

// asked is an admitted request for an endpoint: its limits have counted it, and the
// endpoint accepts its messages and parameters.
type asked struct {
	*call
	endpoint *definition.Endpoint
	brought  *dialect.Call
}

// parseCall reads a request for an endpoint, and admits it.
func (c *call) parseCall() (q asked, err *wire.Error) {
	q.call = c
	if q.brought, c.writer, err = dialect.Parse(c.route.dialect, c.body); err != nil {
		return q, err
	}
	if c.route.dialect == messages.Dialect {
		for _, list := range c.r.Header["Anthropic-Beta"] {
			for name := range strings.SplitSeq(list, ",") {
				q.brought.Betas = append(q.brought.Betas, strings.TrimSpace(name))
			}
		}
	}
	err = q.admit()
	c.info.endpoint = q.endpoint
	return q, err
}

// admit finds the endpoint, and refuses a request that the endpoint does not accept. The
// limits count the request first, so that mistakes give a caller no additional requests.
func (q *asked) admit() *wire.Error {
	request := q.brought
	q.context, q.metadata, q.variables = request.Context, request.Metadata, request.Variables
	q.addUser(request)
	q.endpoint = q.snapshot.Endpoint(request.Endpoint)
	if q.endpoint == nil {
		// The request counts neither by its key nor by its metadata, which may be anything.
		if err := q.admitLate("", false); err != nil {
			return err
		}
		return unknownEndpoint(request)
	}
	// The name is a view of the body, which is released before a model answers.
	request.Endpoint = q.endpoint.AskedAs(request.Endpoint)
	q.asks(&q.endpoint.Definition)
	if err := q.admitLate(q.endpoint.Key, true); err != nil {
		return err
	}
	if err := q.checkTask(); err != nil {
		return err
	}
	distinctCalls(request.Turns)
	if err := q.checkBrought(q.endpoint, request); err != nil || request.Version == "" {
		return err
	}
	variant, ok := q.endpoint.Versions[request.Endpoint][request.Version]
	if !ok {
		return wire.Errorf(wire.InvalidRequest, "prompt.version", "\"prompt.version\" is %q, for which the endpoint of %s names no variant. Leave it out, or write into the endpoint's file: %s", printable(request.Version), printable(request.Endpoint), aliasLine(request))
	}
	request.Variant = variant
	return nil
}

// aliasLine returns the line of an endpoint's file that maps a prompt of OpenAI's.
func aliasLine(request *dialect.Call) string {
	id := printable(request.Endpoint)
	if request.Version == "" {
		return "aliases: [ " + id + " ]"
	}
	return fmt.Sprintf("aliases: [ { id: %s, versions: { %q: VARIANT } } ]", id, printable(request.Version))
}

// plan is the outcome of the tables for a request for an endpoint: the targets of the call
// and its messages.
type plan struct {
	asked
	eval     *evaluation
	decision rules.Decision // of the prompt's table
	variant  *definition.Variant
	named    bool // the caller names the variant
	policy   *definition.Policy
	chosen   rules.Decision // of the endpoint's own table, if it has one
	targets  []invoke.Target
	pinned   bool // the caller's messages have data of the only target that may be called
	messages []providers.Message
}

// plan decides in the request's context, and renders the messages. If a table asks for a
// budget of tokens or money that the call itself uses, plan chooses twice: first with an
// unknown budget, which shows what the call would set aside, and then with a budget that
// includes this amount. So a rule at 80 percent acts before a call that needs 30 percent
// is refused because it finds no room:
//
//	used   set aside   budget   the rule at 80..
//	49 %   30 %        79       does not act
//	50 %   30 %        80       gives the call another target
//
// The amount to set aside does not depend on the use so far, so more use never leads back
// to the first choice.
func (q asked) plan() (plan, *wire.Error) {
	e, err := q.bind(q.brought.Context)
	if err != nil {
		return plan{}, ofMetadata(err, q.brought)
	}
	e.asked = q.endpoint.Key
	e.weighing = q.meter != nil && q.meter.metered
	turns, ignored := q.brought.Turns, len(q.brought.Ignored)
	if e.weighing {
		turns = withOwnData(turns)
	}
	p, err := q.choose(e)
	if e.weighing = false; !e.asksBudget {
		return p, err
	}
	if err == nil {
		e.own = q.meter.weigh(p.targets, p.messages)
	}
	e.binding.AskAgain()
	e.values.Reset()
	// The first choice has unsealed the data in the messages, and removed that of others.
	q.brought.Turns, q.brought.Ignored = turns, q.brought.Ignored[:ignored]
	return q.choose(e)
}

// choose decides the targets of the call and its messages.
func (q asked) choose(e *evaluation) (plan, *wire.Error) {
	p := plan{asked: q, eval: e}
	prompt := q.endpoint.Prompt
	p.decision = e.decide(&prompt.Definition)
	p.variant, p.named = prompt.Variant(p.decision), q.brought.Variant != ""
	if p.named {
		if p.variant = variantOf(prompt, q.brought.Variant); p.variant == nil {
			return p, unknownVariant(q.brought)
		}
	}
	p.policy = q.endpoint.Default()
	if q.endpoint.Table() != nil {
		p.chosen = e.decide(&q.endpoint.Definition)
		p.policy = q.endpoint.Policy(p.chosen)
	}
	if err := e.bindVariables(prompt, p.variant); err != nil {
		return p, ofPrompt(err, q.brought)
	}
	targets, err := merged(q.workspace.targets(q.snapshot, p.policy, p.variant), q.brought)
	if err != nil {
		return p, err
	}
	if q.brought.Embedding != nil {
		p.targets, p.messages = targets, inputMessages(q.brought.Embedding)
		return p, nil
	}
	p.targets, p.pinned = pin(q.workspace.sealer(), targets, q.brought)
	messages, unrendered := p.variant.Messages(&e.values, q.brought.Turns)
	if unrendered != nil {
		return p, refuseMessages(unrendered, "The endpoint's prompt", q.brought.TurnsParam)
	}
	p.messages = messages
	return p, nil
}

// unknownEndpoint returns the error for a key that no endpoint has. OpenAI's clients
// name it as a model, and know the error by its code.
func unknownEndpoint(request *dialect.Call) *wire.Error {
	if request.EndpointParam == "prompt.id" {
		return wire.Errorf(wire.ModelNotFound, "prompt.id", "There is no endpoint for the prompt %s. Write into the file of the one that answers it: %s", printable(request.Endpoint), aliasLine(request))
	}
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
