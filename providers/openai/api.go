package openai

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The APIs of Config.API: chat completions, and the Responses API.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// checkAPI returns the error of a value of Config.API.
func checkAPI(api string) error {
	switch api {
	case "", APIChat, APIResponses:
		return nil
	}
	return fmt.Errorf("api is %s or %s, not %q", APIChat, APIResponses, api)
}

// need says when a model needs the Responses API.
type need uint8

const (
	always         need = iota // it has no other
	toolsAndEffort             // with tools beside a reasoning effort, whichever it is
	toolsUnlessOff             // with tools, unless the effort is none: the model reasons by itself
)

// needs are OpenAI's models that need the Responses API; the first row that matches
// decides. Other models do with chat completions all that they do. As of 2026-11-27:
//
//   - Models that are on the Responses API alone: what OpenAI's SDK for Go, v3.95.0, has
//     in AllModels and not in ChatModel, and Codex, "only supported in v1/responses and
//     not in v1/chat/completions" (github.com/alvinunreal/tmuxai/issues/82).
//   - The others refuse function tools beside reasoning_effort on chat completions:
//     "Function tools with reasoning_effort are not supported for gpt-5.6-sol in
//     /v1/chat/completions. To use function tools, use /v1/responses or set
//     reasoning_effort to 'none'." GPT-5.2 and 5.4 do so where the effort is named, none
//     included (github.com/openai/openai-openapi/issues/541,
//     github.com/livekit/agents/issues/5084 and pull/5088). Those from 5.5 on do so
//     unless it is none (github.com/jeffdafoe/llm-memory-api/pull/178,
//     github.com/BerriAI/litellm/pull/34569, github.com/onyx-dot-app/onyx/issues/15008).
var needs = []struct {
	models *regexp.Regexp
	need   need
}{
	{regexp.MustCompile(`^(?:ft:)?(?:(?:gpt-[5-9]|o[13]).*-(?:pro|codex)(?:[-:]|$)|codex-|computer-use-|gpt-daybreak-|gpt-rosalind-|gpt-6-rosalind|gpt-5[.-]6-cyber|o[34].*-deep-research)`), always},
	{regexp.MustCompile(`^(?:ft:)?gpt-5[.-][24](?:-(?:mini|nano))?(?:-\d{4}-\d\d-\d\d)?(?::|$)`), toolsAndEffort},
	{regexp.MustCompile(`^(?:ft:)?gpt-(?:5[.-][5-9]|[6-9]|\d\d)(?:[.:-]|$)`), toolsUnlessOff},
}

// chatMembers are members of chat completions that the Responses API does not have, or
// has in another form.
var chatMembers = []string{
	"messages", "tools", "tool_choice", "functions", "function_call", "reasoning_effort", "verbosity", "response_format",
	"max_tokens", "max_completion_tokens", "stop", "n", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs",
	"modalities", "audio", "prediction", "web_search_options",
}

// responds reports whether a request goes to the Responses API.
func (c *Client) responds(req *providers.Request) bool {
	if c.api != "" || !c.quirks.Responses {
		return c.api == APIResponses
	}
	if req.Parameters.FromCaller().Search != nil && len(req.Parameters.Stop) == 0 && !speaksChat(req.Extra) {
		return true // chat completions search with models for that alone
	}
	for i := range needs {
		if needs[i].models.MatchString(req.Model) {
			return needs[i].need == always || c.toolsNeed(needs[i].need, req)
		}
	}
	return false
}

// toolsNeed reports whether chat completions would refuse the tools of a request. A
// target whose extra speaks the language of chat completions stays with it.
func (c *Client) toolsNeed(n need, req *providers.Request) bool {
	effort := req.Parameters.ReasoningEffort
	if len(req.Parameters.Tools) == 0 || n == toolsAndEffort && effort == "" || n == toolsUnlessOff && effort == "none" {
		return false
	}
	return reasons(req.Model) && !speaksChat(req.Extra)
}

// speaksChat reports whether extra has a member of chat completions alone.
func speaksChat(extra map[string]json.RawMessage) bool {
	for _, name := range chatMembers {
		if _, ok := extra[name]; ok {
			return true
		}
	}
	return false
}

// reasons reports whether a model may think before it answers. The others refuse to be
// asked for their thoughts.
func reasons(model string) bool { return !older.MatchString(model) && !chatty.MatchString(model) }

// chatty matches the models of ChatGPT, which do not reason.
var chatty = regexp.MustCompile(`^(?:ft:)?gpt-5.*-chat(?:-|$)`)
