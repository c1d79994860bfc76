package gateway

import (
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// decisions answers a request for prompts and remote configurations from one
// snapshot. Its answer always has the members of both kinds: an app reads the same
// shape whatever it asks for.
func (c *call) decisions() *wire.Error {
	request, err := c.body.Decisions()
	if err != nil {
		return err
	}
	c.context, c.metadata, c.variables = request.Context, request.Metadata, request.Variables
	e, err := c.admitKeys(keyList{kind.Prompt, request.Prompts}, keyList{kind.RemoteConfig, request.RemoteConfigs})
	if err != nil {
		return err
	}
	size, recorded, err := e.pick(kind.Prompt, request.Prompts, true)
	if err != nil {
		return err
	}
	prompts := len(e.picked)
	sizeOfConfigs, recordedOfConfigs, err := e.pick(kind.RemoteConfig, request.RemoteConfigs, true)
	if err != nil {
		return err
	}
	size += wire.DecisionSize(prompts, len(e.picked)-prompts) + sizeOfConfigs
	a, err := e.beginKeys(size, recorded+recordedOfConfigs, "")
	if err != nil {
		return err
	}
	out, err := a.appendAnswers(wire.AppendDecisionStart(c.out, a.named(len(a.picked))), kind.Prompt)
	if err != nil {
		return err
	}
	if out, err = a.appendAnswers(wire.AppendDecisionConfigs(out), kind.RemoteConfig); err != nil {
		return err
	}
	c.out = wire.AppendDecisionEnd(out)
	return a.answerKeys("")
}
