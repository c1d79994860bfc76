package definition

import (
	"encoding/json"
	"maps"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The members that set parameters, in both spellings.
var parameterNames = []string{
	"temperature",
	"max_tokens", "maxTokens",
	"top_p", "topP",
	"top_k", "topK",
	"frequency_penalty", "frequencyPenalty",
	"presence_penalty", "presencePenalty",
	"seed",
	"stop",
	"reasoning_effort", "reasoningEffort",
	"response_format", "responseFormat",
	"tools",
	"tool_choice", "toolChoice",
}

// maxSeed is the largest whole number that every JSON parser reads exactly.
const maxSeed = 1<<53 - 1

// maxStop is how many stop texts a request may have.
const maxStop = 4

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// decodeParameters reads the parameters in n over those in p. The ranges are the
// widest that a known provider accepts.
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
	whole(&p.Seed, 0, maxSeed, "seed")
	if m := n.Get("stop"); m != nil {
		p.Stop = decodeStop(m, errs)
	}
	if m := spelled(n, errs, []string{"reasoning_effort", "reasoningEffort"}); m != nil {
		p.ReasoningEffort, _ = m.ReadWord(errs, "reasoning_effort", efforts...)
	}
	if m := spelled(n, errs, []string{"response_format", "responseFormat"}); m != nil {
		p.ResponseFormat = decodeResponseFormat(m, errs)
	}
	if m := n.Get("tools"); m != nil {
		p.Tools = decodeTools(m, errs)
	}
	if m := spelled(n, errs, []string{"tool_choice", "toolChoice"}); m != nil {
		p.ToolChoice = decodeToolChoice(m, errs)
	}
}

// decodeStop reads a text or a list of texts. An empty list is not nil: it removes
// the inherited texts.
func decodeStop(n *document.Node, errs *document.Errors) []string {
	items := []*document.Node{n}
	if n.Shape == document.Sequence {
		items = n.Items
	}
	if len(items) > maxStop {
		errs.Add(n, "stop has %d texts, at most %d are possible", len(items), maxStop)
	}
	stop := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.ReadString(errs, "stop")
		if ok && text == "" {
			errs.Add(item, "a text that ends the answer can't be empty")
		}
		stop = append(stop, text)
	}
	return stop
}

// spelled finds a member by its spellings, of which only one may be used.
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
// API and their values as JSON.
func eachParameter(p *providers.Parameters, f func(name, value string)) {
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
	whole("seed", p.Seed)
	if p.Stop != nil {
		f("stop", string(canonicalJSON(p.Stop)))
	}
	if p.ReasoningEffort != "" {
		f("reasoningEffort", quoted(p.ReasoningEffort))
	}
	if p.ResponseFormat != nil {
		f("responseFormat", responseFormatJSON(p.ResponseFormat))
	}
	if p.Tools != nil {
		f("tools", toolsJSON(p.Tools))
	}
	if p.ToolChoice != nil {
		f("toolChoice", toolChoiceJSON(p.ToolChoice))
	}
}

// inherit returns p with the parameters of from where p sets none. Without tools it
// takes over no tool choice.
func inherit(p, from providers.Parameters) providers.Parameters {
	if p.ToolChoice == nil && (p.Tools == nil || len(p.Tools) > 0) {
		p.ToolChoice = from.ToolChoice
	}
	for _, v := range []struct{ into, from **float64 }{
		{&p.Temperature, &from.Temperature}, {&p.TopP, &from.TopP},
		{&p.FrequencyPenalty, &from.FrequencyPenalty}, {&p.PresencePenalty, &from.PresencePenalty},
	} {
		if *v.into == nil {
			*v.into = *v.from
		}
	}
	for _, v := range []struct{ into, from **int64 }{
		{&p.MaxTokens, &from.MaxTokens}, {&p.TopK, &from.TopK}, {&p.Seed, &from.Seed},
	} {
		if *v.into == nil {
			*v.into = *v.from
		}
	}
	if p.Stop == nil {
		p.Stop = from.Stop
	}
	if p.ReasoningEffort == "" {
		p.ReasoningEffort = from.ReasoningEffort
	}
	if p.ResponseFormat == nil {
		p.ResponseFormat = from.ResponseFormat
	}
	if p.Tools == nil {
		p.Tools = from.Tools
	}
	return p
}

// decodeExtra reads raw parameters for a provider over the inherited ones.
// Their places go into o.
func decodeExtra(n *document.Node, inherited map[string]json.RawMessage, o *origin, errs *document.Errors) map[string]json.RawMessage {
	if n.IsNull() {
		return inherited
	}
	if n.Shape != document.Mapping {
		errs.Add(n, "extra must be a mapping of the provider's own parameters, this is %s", n.Shape)
		return inherited
	}
	extra := maps.Clone(inherited)
	if o.extra = maps.Clone(o.extra); extra == nil {
		extra, o.extra = make(map[string]json.RawMessage, len(n.Members)), make(map[string]document.Position, len(n.Members))
	}
	for _, m := range n.Members {
		extra[m.Key.Text], o.extra[m.Key.Text] = m.Value.AppendJSON(nil, errs), m.Key.Pos
	}
	return extra
}

// content returns the target for a definition's content.
func (t Target) content() content {
	c := content{}
	if t.Provider != "" {
		c["provider"] = t.Provider
	}
	if t.Model != "" {
		c["model"] = t.Model
	}
	// In the order of the file: a model may fill a schema's properties in the
	// order in which it reads them.
	eachParameter(&t.Parameters, func(name, value string) { c[name] = json.RawMessage(value) })
	if len(t.Extra) > 0 {
		extra := make(content, len(t.Extra))
		for name, raw := range t.Extra {
			extra[name] = freeValue(raw)
		}
		c["extra"] = extra
	}
	return c
}

// size estimates the bytes of the target's content.
func (t *Target) size() int {
	size := 0
	for name, value := range t.Extra {
		size += len(name) + len(value)
	}
	for _, tool := range t.Parameters.Tools {
		size += len(tool.Description) + len(tool.Parameters)
	}
	return size
}
