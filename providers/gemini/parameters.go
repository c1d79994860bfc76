package gemini

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// generation returns the members of generationConfig, and the names of the
// parameters that the API, or the model, does not have.
func (c *Client) generation(req *providers.Request) (members map[string]any, leftOut []string, err error) {
	members = map[string]any{}
	p := &req.Parameters
	upstream.Set(members, "temperature", p.Temperature)
	upstream.Set(members, "maxOutputTokens", p.MaxTokens)
	upstream.Set(members, "topP", p.TopP)
	upstream.Set(members, "topK", p.TopK)
	upstream.Set(members, "frequencyPenalty", p.FrequencyPenalty)
	upstream.Set(members, "presencePenalty", p.PresencePenalty)
	if p.Seed != nil {
		if *p.Seed <= math.MaxInt32 {
			members["seed"] = *p.Seed
		} else {
			leftOut = append(leftOut, "seed")
		}
	}
	if len(p.Stop) > 0 {
		members["stopSequences"] = p.Stop
	}
	if p.ReasoningEffort != "" || p.Thinking != nil {
		thinking := thinkingConfig(req.Model, p)
		if len(thinking) > 0 {
			members["thinkingConfig"] = thinking
		}
		if thinking == nil && p.ReasoningEffort != "" && p.ReasoningEffort != "none" {
			leftOut = append(leftOut, "reasoning_effort")
		}
		if thinking == nil && p.Thinking != nil {
			leftOut = append(leftOut, "thinking")
		}
	}
	if p.Caller != nil {
		alone := providers.Parameters{Caller: p.Caller}
		has := []string{"cache_control", "web_search"}
		if c.tier(req) != "" {
			has = append(has, "service_tier")
		}
		lacking, _ := alone.Lacking(c.Name, has...) // none of them must not be left out
		leftOut = append(leftOut, lacking...)
	}
	if p.FromCaller().Marks && !strings.HasPrefix(nameOf(req.Model), "gemini-2.5-") && generationOf(req.Model) < 3 {
		leftOut = append(leftOut, "cache_control") // later models cache by themselves
	}
	if p.Logprobs != nil {
		if c.hasLogprobs(req.Model) {
			members["responseLogprobs"] = true
			if *p.Logprobs > 0 {
				members["logprobs"] = *p.Logprobs
			}
		} else {
			leftOut = append(leftOut, "logprobs")
		}
	}
	if f := p.ResponseFormat; f != nil {
		switch f.Type {
		case providers.FormatText:
		case providers.FormatSchema:
			members["responseJsonSchema"] = f.Schema
			fallthrough
		case providers.FormatJSON:
			members["responseMimeType"] = "application/json"
		default:
			return nil, nil, c.Unsendable("the response format has the unknown type %q", f.Type)
		}
	}
	raw, ok := req.Extra[generationConfig]
	if !ok {
		return members, leftOut, nil
	}
	var extra map[string]json.RawMessage
	if err := json.Unmarshal(raw, &extra); err != nil {
		return nil, nil, c.Unsendable("generationConfig in extra is no JSON object")
	}
	for name, value := range extra {
		members[name] = value
	}
	return members, leftOut, nil
}

// budgets are the thoughts of Gemini 2.5 by effort, in tokens: the budget that
// Google's own OpenAI-compatible URL sets, and the least that a model takes if
// it thinks little.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// levels are the thoughts from Gemini 3 on by effort, in the words of the API's
// ThinkingLevel.
var levels = map[string]string{"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH"}

// The budgets of Gemini 2.5: Pro cannot help thinking, and has the larger most.
const (
	leastThought       = 128
	mostThought        = 24576
	mostThoughtOfPro   = 32768
	thinkingOn         = -1 // as much as the model finds right
	includeThoughts    = "includeThoughts"
	thinkingBudgetName = "thinkingBudget"
)

// thinkingConfig is what is asked of thoughts in the words of the model's generation, nil
// if the model does not think: a level from Gemini 3 on, of which Flash alone has
// minimal, a budget of tokens for 2.5. Thoughts that a caller wants are summed up in the
// answer, unless it wants them left out.
func thinkingConfig(model string, p *providers.Parameters) map[string]any {
	model = nameOf(model)
	pro, old := strings.Contains(model, "-pro"), strings.HasPrefix(model, "gemini-2.5-")
	if !old && generationOf(model) < 3 {
		return nil
	}
	asked, effort, config := p.Thoughts(), p.ReasoningEffort, map[string]any{}
	if p.Thinking != nil && effort != "none" && asked.Display != providers.DisplayOmitted {
		config[includeThoughts] = true
	}
	budget, known := budgets[effort]
	switch {
	case !known && effort != "":
		return nil
	case effort == "" && !asked.On:
	case old && asked.Budget == 0 && effort == "":
		config[thinkingBudgetName] = thinkingOn
	case old:
		least, most := 0, mostThought
		if pro {
			least, most = leastThought, mostThoughtOfPro
		}
		if asked.Budget > 0 && effort != "none" {
			budget = int(min(asked.Budget, mostThoughtOfPro))
		}
		config[thinkingBudgetName] = min(max(budget, least), most)
	case effort == "": // the level is the model's own
	case pro && levels[effort] == "MINIMAL":
		config["thinkingLevel"] = "LOW"
	default:
		config["thinkingLevel"] = levels[effort]
	}
	return config
}

// nameOf returns a model's name without its path.
func nameOf(model string) string { return model[strings.LastIndexByte(model, '/')+1:] }

// generationOf returns the generation of a model: 3 for gemini-3-pro-preview, and for
// names such as gemini-flash-latest, whose models have long been of that one. It is 0
// if the name does not say it.
func generationOf(model string) int {
	rest, ok := strings.CutPrefix(nameOf(model), "gemini-")
	if !ok {
		return 0
	}
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	n, _ := strconv.Atoi(rest[:digits])
	if digits == 0 && strings.HasSuffix(rest, "-latest") {
		n = 3
	}
	return n
}

// hasLogprobs reports whether the API has log probabilities of a model: that of Vertex
// AI has them before Gemini 3, and Google AI refuses requests that ask for them.
func (c *Client) hasLogprobs(model string) bool {
	return c.vertex() && generationOf(model) == 2
}

// vertex reports whether the API is that of Vertex AI.
func (c *Client) vertex() bool { return strings.Contains(c.base.Path, "/publishers/google") }

// standard is the API's usual class of service.
const standard = "standard"

// tier returns a caller's class of service in the API's words; empty if the API does not
// have it, or extra has one. Vertex AI passes over classes in regions
// (https://docs.cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo).
func (c *Client) tier(req *providers.Request) string {
	_, location, _ := strings.Cut(c.base.Path, "/locations/")
	location, _, _ = strings.Cut(location, "/")
	switch tier := req.Parameters.FromCaller().Tier; {
	case req.Extra["serviceTier"] != nil || req.Extra["service_tier"] != nil:
	case tier == "default":
		return standard
	case tier == "flex" && (location == "" || location == "global"),
		tier == "priority" && (location == "" || location == "global" || location == "eu" || location == "us"):
		return tier
	}
	return ""
}

// declaration is a function that the model may call.
type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// callingModes are the API's words for the modes of choosing.
var callingModes = map[string]string{
	providers.ToolsAuto: "AUTO", providers.ToolsNone: "NONE", providers.ToolsRequired: "ANY", providers.ToolsNamed: "ANY",
}

// tools sets the tools that the model may call. A choice of functions beside a search is
// VALIDATED where it would be AUTO, which the API does not have there.
func (c *Client) tools(members map[string]any, p *providers.Parameters, leftOut *[]string) error {
	var tools []map[string]any
	search, config := searches(p), map[string]any{}
	if search != nil {
		tools = append(tools, map[string]any{"googleSearch": searchTool{search.Blocked}})
		members["tools"] = tools
		if p.ToolChoice != nil && (p.ToolChoice.Mode == providers.ToolsSearch || len(p.Tools) == 0 && p.ToolChoice.Mode == providers.ToolsRequired) {
			*leftOut = append(*leftOut, "tool_choice")
		}
	}
	if len(p.Tools) == 0 {
		return nil
	}
	if search != nil {
		config["includeServerSideToolInvocations"] = true
		members["toolConfig"] = config
	}
	list := make([]declaration, len(p.Tools))
	strict := false
	for i, t := range p.Tools {
		list[i] = declaration{t.Name, t.Description, t.Parameters}
		strict = strict || t.Strict
	}
	if strict {
		*leftOut = append(*leftOut, "tools.strict")
	}
	if p.ParallelToolCalls != nil && !*p.ParallelToolCalls {
		*leftOut = append(*leftOut, "parallel_tool_calls")
	}
	members["tools"] = append(tools, map[string]any{"functionDeclarations": list})
	if p.ToolChoice == nil || search != nil && p.ToolChoice.Mode == providers.ToolsSearch {
		return nil
	}
	mode, ok := callingModes[p.ToolChoice.Mode]
	if !ok {
		return c.Unsendable("the tool choice has the unknown mode %q", p.ToolChoice.Mode)
	}
	if search != nil && p.ToolChoice.Mode == providers.ToolsAuto {
		mode = "VALIDATED"
	}
	calling := map[string]any{"mode": mode}
	if p.ToolChoice.Mode == providers.ToolsNamed {
		calling["allowedFunctionNames"] = []string{p.ToolChoice.Name}
	}
	config["functionCallingConfig"] = calling
	members["toolConfig"] = config
	return nil
}
