package gateway

import (
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// countTokens answers how many tokens the messages and tools of a request's call would
// have, as an estimate. It calls no model and leaves no trace.
func (c *call) countTokens() outcome {
	request, writer, err := c.route.dialect.Parse(c.request)
	c.writer = writer
	if err != nil {
		return refused(err)
	}
	endpoint, err := c.admitted(request)
	if err != nil {
		return refused(err)
	}
	if err := c.bind(request.Context); err != nil {
		return refused(ofMetadata(err, request))
	}
	c.asked = endpoint.Key
	variant := endpoint.Prompt.Variant(c.decide(trace.KindPrompt, &endpoint.Prompt.Definition, endpoint.Prompt.Table()))
	if request.Variant != "" {
		if variant = variantOf(endpoint.Prompt, request.Variant); variant == nil {
			return refused(unknownVariant(request))
		}
	}
	if err := c.bindVariables(endpoint.Prompt, variant); err != nil {
		return refused(err)
	}
	how, _ := c.choosePolicy(endpoint)
	targets, err := merged(c.workspace.targets(c.snapshot, how, variant), request)
	if err != nil {
		return refused(err)
	}
	targets, _ = pin(targets, request)
	rendered, unrendered := variant.Messages(&c.values, request.Turns)
	if unrendered != nil {
		return refused(refuseMessages(unrendered, "The endpoint's prompt", request.TurnsParam))
	}
	h := c.w.Header()
	c.nameIgnored(request.Ignored)
	h[wire.HeaderUsage] = estimated
	h[wire.HeaderRevision] = []string{c.snapshot.Revision}
	h[c.route.requestID] = []string{newRequestID()}
	c.out = messages.AppendCount(c.out[:0], invoke.CountTokens(rendered, targets[0].Parameters.Tools, targets[0].Parameters.Beside()...))
	c.write(c.out)
	return outcome{end: answered}
}
