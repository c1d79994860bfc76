package definition

import (
	"encoding/json"
	"strconv"

	"github.com/cadenza-gateway/cadenza/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The members that set sampling parameters, in both spellings.
var parameterNames = []string{
	"temperature",
	"max_tokens", "maxTokens",
	"top_p", "topP",
	"top_k", "topK",
	"frequency_penalty", "frequencyPenalty",
	"presence_penalty", "presencePenalty",
}

// decodeParameters reads the parameters n gives over those p has. The ranges
// are the widest that any known provider accepts.
func decodeParameters(n *document.Node, p *providers.Parameters, errs *document.Errors) {
	float := func(into **float64, lo, hi float64, spellings ...string) {
		if m := spelled(n, errs, spellings); m != nil {
			if v, ok := m.ReadFloat(errs, spellings[0], lo, hi); ok {
				*into = &v
			}
		}
	}
	whole := func(into **int64, lo, hi int64, spellings ...string) {
		if m := spelled(n, errs, spellings); m != nil {
			if v, ok := m.ReadInt(errs, spellings[0], lo, hi); ok {
				*into = &v
			}
		}
	}
	float(&p.Temperature, 0, 2, "temperature")
	whole(&p.MaxTokens, 1, 100_000_000, "max_tokens", "maxTokens")
	float(&p.TopP, 0, 1, "top_p", "topP")
	whole(&p.TopK, 0, 1_000_000, "top_k", "topK")
	float(&p.FrequencyPenalty, -2, 2, "frequency_penalty", "frequencyPenalty")
	float(&p.PresencePenalty, -2, 2, "presence_penalty", "presencePenalty")
}

// spelled finds a member by any of its spellings, of which only one may be
// given.
func spelled(n *document.Node, errs *document.Errors, spellings []string) *document.Node {
	var found *document.Node
	for _, name := range spellings {
		m := n.Get(name)
		if m == nil {
			continue
		}
		if found != nil {
			errs.Add(m, "%s is %s in another spelling: give it once", name, spellings[0])
			continue
		}
		found = m
	}
	return found
}

// eachParameter calls f for the parameters that are set, by their names in the
// API and their values as JSON numbers.
func eachParameter(p *providers.Parameters, f func(name, number string)) {
	float := func(name string, v *float64) {
		if v != nil {
			f(name, strconv.FormatFloat(*v, 'f', -1, 64))
		}
	}
	whole := func(name string, v *int64) {
		if v != nil {
			f(name, strconv.FormatInt(*v, 10))
		}
	}
	float("temperature", p.Temperature)
	whole("maxTokens", p.MaxTokens)
	float("topP", p.TopP)
	whole("topK", p.TopK)
	float("frequencyPenalty", p.FrequencyPenalty)
	float("presencePenalty", p.PresencePenalty)
}

// decodeExtra reads raw parameters for a provider over those inherited.
func decodeExtra(n *document.Node, inherited map[string]json.RawMessage, errs *document.Errors) map[string]json.RawMessage {
	if n.IsNull() {
		return inherited
	}
	if n.Kind != document.Mapping {
		errs.Add(n, "extra must be a mapping of the provider's own parameters, this is %s", n.Kind)
		return inherited
	}
	extra := make(map[string]json.RawMessage, len(inherited)+len(n.Members))
	for name, raw := range inherited {
		extra[name] = raw
	}
	for _, m := range n.Members {
		extra[m.Key.Text] = m.Value.AppendJSON(nil, errs)
	}
	return extra
}

// content is a target as part of a definition's content.
func (t Target) content() content {
	c := content{}
	if t.Provider != "" {
		c["provider"] = t.Provider
	}
	if t.Model != "" {
		c["model"] = t.Model
	}
	eachParameter(&t.Parameters, func(name, number string) { c[name] = json.Number(number) })
	if len(t.Extra) > 0 {
		extra := make(content, len(t.Extra))
		for name, raw := range t.Extra {
			extra[name] = freeValue(raw)
		}
		c["extra"] = extra
	}
	return c
}
