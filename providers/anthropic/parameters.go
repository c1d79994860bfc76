package anthropic

import (
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// sampling sets the parameters of sampling. It returns the names of the
// parameters that the API, or the model, does not have.
func (c *Client) sampling(members map[string]any, p *providers.Parameters, samples []string) (leftOut []string) {
	upstream.Set(members, "max_tokens", p.MaxTokens)
	if len(p.Stop) > 0 {
		members["stop_sequences"] = p.Stop
	}
	for _, name := range samples {
		switch name {
		case "temperature":
			upstream.Set(members, name, p.Temperature)
		case "top_p":
			upstream.Set(members, name, p.TopP)
		case "top_k":
			upstream.Set(members, name, p.TopK)
		}
	}
	if word := tiers[p.FromCaller().Tier]; word != "" {
		members["service_tier"] = word
		samples = append(samples, "service_tier")
	}
	if c.official {
		samples = append(samples, "attribution")
	}
	has := append(samples, "betas", "max_tokens", "stop", "reasoning_effort", "thinking", "response_format", "tools", "parallel_tool_calls", "cache_control", "web_search", "max_uses", "user_location")
	leftOut, _ = p.Lacking(c.Name, has...) // no other parameter must not be left out
	return leftOut
}

// tiers are the API's words for classes of service. It has no others.
var tiers = map[string]string{"auto": "auto", "default": "standard_only"}

// textFormat is the form of an answer's text.
type textFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// outputConfig is the member output_config.
type outputConfig struct {
	Effort string      `json:"effort,omitempty"`
	Format *textFormat `json:"format,omitempty"`
}

// output sets the form of the answer, and how much the model thinks of it. It returns the
// parameters of sampling that go with that, and the names of the parameters that have no
// effect.
func (c *Client) output(members map[string]any, req *providers.Request) (samples, leftOut []string, err error) {
	p := &req.Parameters
	most := c.maxTokens
	if p.MaxTokens != nil {
		most = *p.MaxTokens
	}
	_ = json.Unmarshal(req.Extra["max_tokens"], &most) // extra wins; the API judges it
	model := upstream.ClaudeOf(req.Model)
	thinking, effort, leftOut := model.Think(p, most)
	if own, ok := req.Extra["thinking"]; ok {
		if thinking = nil; p.Thinking != nil && !slices.Contains(leftOut, "thinking") {
			leftOut = append(leftOut, "thinking")
		}
		_ = json.Unmarshal(own, &thinking) // the API judges it
	} else if thinking != nil {
		members["thinking"] = thinking
	}
	config := outputConfig{Effort: effort}
	if f := p.ResponseFormat; f != nil {
		switch f.Type {
		case providers.FormatText:
		case providers.FormatSchema:
			config.Format = &textFormat{"json_schema", f.Schema}
		case providers.FormatJSON:
			return nil, nil, c.LacksParameter("response_format", "Anthropic's API has no response_format json: give it a json_schema")
		default:
			return nil, nil, c.Unsendable("the response format has the unknown type %q", f.Type)
		}
	}
	if config != (outputConfig{}) {
		members["output_config"] = config
	}
	return model.Samples(p, thinking.Thinks()), leftOut, nil
}

// tool is a tool of the caller's.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
	Cache       *cacheControl   `json:"cache_control,omitempty"`
}

// cacheControl marks the end of what is to be cached, as format.Marks does.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

var cacheControls = [...]*cacheControl{providers.CacheShort: {Type: "ephemeral"}, providers.CacheHour: {Type: "ephemeral", TTL: "1h"}}

// toolChoices are the API's words for the modes of choosing.
var toolChoices = map[string]string{
	providers.ToolsAuto: "auto", providers.ToolsNone: "none", providers.ToolsRequired: "any", providers.ToolsNamed: "tool", providers.ToolsSearch: "tool",
}

// tools sets the tools that the model may call.
func (c *Client) tools(members map[string]any, p *providers.Parameters) error {
	search := p.FromCaller().Search
	if len(p.Tools) == 0 && search == nil {
		return nil
	}
	list := make([]any, 0, len(p.Tools)+1)
	for _, t := range p.Tools {
		if t.Parameters == nil {
			t.Parameters = providers.NoArguments
		}
		list = append(list, tool{t.Name, t.Description, t.Parameters, t.Strict, cacheControls[t.Cache]})
	}
	if search != nil {
		list = append(list, newSearchTool(search))
	}
	members["tools"] = list
	var choice toolChoice
	if p.ToolChoice != nil {
		var ok bool
		if choice.Type, ok = toolChoices[p.ToolChoice.Mode]; !ok {
			return c.Unsendable("the tool choice has the unknown mode %q", p.ToolChoice.Mode)
		}
		if p.ToolChoice.Mode == providers.ToolsNamed {
			choice.Name = p.ToolChoice.Name
		} else if p.ToolChoice.Mode == providers.ToolsSearch {
			choice.Name = webSearch
		}
	}
	if p.ParallelToolCalls != nil && !*p.ParallelToolCalls && choice.Type != "none" {
		choice.One = true
		if choice.Type == "" {
			choice.Type = "auto"
		}
	}
	if choice.Type != "" {
		members["tool_choice"] = choice
	}
	return nil
}

// toolChoice is the member tool_choice.
type toolChoice struct {
	// One keeps the model from calling several tools at once.
	One  bool   `json:"disable_parallel_tool_use,omitempty"`
	Name string `json:"name,omitempty"`
	Type string `json:"type"`
}
