package bedrock

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// defaultMaxTokens is about how many tokens a model may say at most that thinks within a
// budget: Converse lets it where the request does not bound them.
const defaultMaxTokens = 64_000

// openEfforts are the efforts of OpenAI's open models, by ours.
var openEfforts = map[string]string{"none": "low", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

// thoughts returns the fields of the model's own that say how much it thinks, which may be
// none, the parameters of sampling and of thoughts that it has then, and the ones of
// those that have no effect. Converse has no word for thoughts: those of Claude are known,
// and the effort of OpenAI's open models.
func thoughts(req *providers.Request) (fields map[string]any, has, lacking []string) {
	p, fields := &req.Parameters, map[string]any{}
	has = []string{"temperature", "top_p", "top_k"}
	switch {
	case strings.Contains(req.Model, "anthropic.claude"):
		most := int64(defaultMaxTokens)
		if p.MaxTokens != nil {
			most = *p.MaxTokens
		}
		model := upstream.ClaudeOf(req.Model)
		thinking, effort, lacking := model.Think(p, most)
		if thinking != nil {
			fields["thinking"] = thinking
		}
		if effort != "" && model.Adaptive { // before, Bedrock has it as a preview
			fields["output_config"] = map[string]string{"effort": effort}
		}
		return fields, append(model.Samples(p, thinking.Thinks()), "reasoning_effort", "thinking"), lacking
	case strings.Contains(req.Model, "openai.gpt-oss"):
		if word := openEfforts[p.ReasoningEffort]; word != "" {
			fields["reasoning_effort"] = word
		}
		has = append(has, "reasoning_effort")
	}
	return fields, has, nil
}
