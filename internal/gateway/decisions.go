package gateway

import "github.com/cadenza-gateway/cadenza/internal/wire"

// What keys begin with beside those of other kinds.
const (
	promptsFolder = "prompts/"
	configsFolder = "remoteconfigs/"
)

// decisions answers a request for prompts and remote configurations from one
// snapshot. Its answer always has the members of both kinds: an app reads the same
// shape whatever it asks for.
func (c *call) decisions() *wire.Error {
	request, err := c.request.Decisions()
	if err != nil {
		return err
	}
	c.asksKeys(request.Prompts, request.RemoteConfigs)
	c.context, c.metadata, c.variables = request.Context, request.Metadata, request.Variables
	if err := c.admitLate("", c.knowsOne(request.Prompts, request.RemoteConfigs)); err != nil {
		return err
	}
	if err := c.bind(request.Context); err != nil {
		return err
	}

	size, recorded, err := c.pickPrompts(request.Prompts, promptsFolder)
	if err != nil {
		return err
	}
	prompts := len(c.picked)
	ofConfigs, recordedOfConfigs := c.pickConfigs(request.RemoteConfigs, configsFolder)
	size += wire.DecisionSize(prompts, len(c.picked)-prompts) + ofConfigs
	if err := c.makeRoom(size, recorded+recordedOfConfigs, ""); err != nil {
		return err
	}
	c.beginDecision(len(c.picked))
	out, err := c.appendPrompts(wire.AppendDecisionStart(c.out, c.decisionID))
	if err != nil {
		return err
	}
	c.out = wire.AppendDecisionEnd(c.appendConfigs(wire.AppendDecisionConfigs(out)))
	return c.answerKeys("")
}
