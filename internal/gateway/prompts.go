package gateway

import (
	"errors"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// prompts answers a request for prompts.
func (c *call) prompts() *wire.Error {
	request, err := c.request.Prompts()
	if err != nil {
		return err
	}
	c.asksKeys(request.Keys, nil)
	c.context, c.metadata, c.variables = request.Context, request.Metadata, request.Variables
	if err := c.admitLate("", c.knowsOne(request.Keys, nil)); err != nil {
		return err
	}
	if err := c.bind(request.Context); err != nil {
		return err
	}

	size, recorded, err := c.pickPrompts(request.Keys, "")
	if err != nil {
		return err
	}
	if err := c.makeRoom(wire.AnswersSize+size, recorded, "keys"); err != nil {
		return err
	}
	c.beginDecision(len(c.picked))
	out, err := c.appendPrompts(wire.AppendAnswersStart(c.out))
	if err != nil {
		return err
	}
	c.out = wire.AppendAnswersEnd(out)
	return c.answerKeys("keys")
}

// pickPrompts picks the prompts of the keys. It returns how many bytes they add to
// the answer, and their traces to what is recorded. folder names what is unknown, as
// in wire.MissingKey.
func (c *call) pickPrompts(keys []string, folder string) (size, recorded int, err *wire.Error) {
	for _, key := range keys {
		p := c.snapshot.Prompt(key)
		if p == nil {
			c.unknown = append(c.unknown, wire.MissingKey{Folder: folder, Key: key})
			continue
		}
		decision := c.decide(trace.KindPrompt, &p.Definition, p.Table())
		if err := c.bindVariables(p, p.Variant(decision)); err != nil {
			return 0, 0, err
		}
		value, tooLarge := p.Variant(decision).Size(&c.values)
		if tooLarge != nil {
			return 0, 0, refuseMessages(tooLarge, "The prompt "+key, "")
		}
		size += wire.AnswerSize(key, value, "")
		if c.logs(&p.Definition) == definition.LogContent {
			recorded += value
		}
		c.picked = append(c.picked, picked{name: p.AskedAs(key), prompt: p, decision: decision})
	}
	return size, recorded, nil
}

// appendPrompts appends the prompts that were picked, and begins their traces.
func (c *call) appendPrompts(out []byte) ([]byte, *wire.Error) {
	for i := range c.picked {
		p, decision := c.picked[i].prompt, c.picked[i].decision
		if p == nil {
			continue
		}
		variant := p.Variant(decision)
		if err := c.bindVariables(p, variant); err != nil {
			return nil, err
		}
		out = wire.AppendAnswerStart(out, c.picked[i].name)
		valueAt := len(out)
		out, _ = variant.AppendJSON(out, &c.values) // Size has checked that it fits
		record := c.newRecord(trace.KindPrompt, &p.Definition, p.Table(), decision)
		if c.logs(&p.Definition) == definition.LogContent {
			record.Response = append(record.Response[:0], out[valueAt:]...)
		}
		record.Variant, record.Arm, record.Provider, record.Model = variant.Key, variant.Key, variant.Provider, variant.Model
		c.noteAlias(record, &p.Definition, c.picked[i].name)
		c.noteVariables(record, &p.Definition)
		out = wire.AppendAnswerEnd(out, "", record.ID)
		c.keep(record, &p.Definition)
	}
	return out, nil
}

// bindVariables binds the caller's variables to those of a prompt, for the variant
// that its table has picked, unless they are bound already.
func (c *call) bindVariables(p *definition.Prompt, variant *definition.Variant) *wire.Error {
	if c.values.BoundTo(p.Variables()) {
		return nil
	}
	err := p.Bind(variant, c.variables, &c.binding, &c.values)
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*prompt.MissingError](err); ok {
		return wire.Errorf(wire.MissingVariable, "variables."+missing.Name,
			"The prompt %s requires the variable %q. Send it in \"variables\".", p.Key, missing.Name)
	}
	return wire.Errorf(wire.InvalidRequest, "variables", "%v", err)
}
