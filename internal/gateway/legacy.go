package gateway

import "github.com/cadenza-gateway/cadenza/internal/wire"

// flatPrompts and flatRules parse the bodies of /v2, also those of June 2023.
func (c *call) flatPrompts() (wire.Evaluation, *wire.Error) {
	return c.body.Flattened("prompts", true, c.snapshot.Model.HasMember)
}

func (c *call) flatRules() (wire.Evaluation, *wire.Error) {
	return c.body.Flattened("rules", false, c.snapshot.Model.HasMember)
}
