package invoke

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

// withShortNames returns the result with its names cut to providers.MaxName. The
// gateway does so for every provider, because others write providers too.
func withShortNames(r providers.Result) providers.Result {
	r.Model = providers.ShortName(r.Model)
	r.FinishReason = providers.FinishReason(providers.ShortName(string(r.FinishReason)))
	if slices.ContainsFunc(r.ToolCalls, func(c providers.ToolCall) bool { return max(len(c.ID), len(c.Name)) > providers.MaxName }) {
		r.ToolCalls = slices.Clone(r.ToolCalls)
		for i := range r.ToolCalls {
			c := &r.ToolCalls[i]
			c.ID, c.Name = providers.ShortName(c.ID), providers.ShortName(c.Name)
		}
	}
	return r
}
