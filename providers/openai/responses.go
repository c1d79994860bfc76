package openai

import (
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// responsesMembers returns the members of a request of the Responses API but for its
// input, with toolsMark in place of the list of tools, and which parameters the API
// lacks. A lacking parameter that must not be left out is an error.
//
// OpenAI keeps nothing of the call. So it is asked for the thoughts of a model that
// reasons in encrypted form: they come back with the next call.
func (c *Client) responsesMembers(req *providers.Request) (map[string]any, []string, error) {
	p := &req.Parameters
	members := map[string]any{"model": req.Model, "store": false}
	has := append(c.caller(members, req), "temperature", "max_tokens", "top_p", "parallel_tool_calls", "response_format", "tools", "web_search", "max_uses", "user_location", "search_context_size")
	has = append(has, c.reasoning(members, req)...)
	leftOut, err := p.Lacking(c.Name, has...)
	if err != nil {
		return nil, nil, err
	}
	var include []string
	if reasons(req.Model) {
		include = append(include, "reasoning.encrypted_content")
	}
	search := p.FromCaller().Search
	if search != nil {
		members["max_tool_calls"] = search.MaxUses
		if search.Sources {
			include = append(include, "web_search_call.action.sources")
		}
	}
	if include != nil {
		members["include"] = include
	}
	upstream.Set(members, "temperature", p.Temperature)
	upstream.Set(members, "top_p", p.TopP)
	upstream.Set(members, "max_output_tokens", p.MaxTokens)
	if err := c.responsesFormat(members, p.ResponseFormat); err != nil {
		return nil, nil, err
	}
	if err := c.responsesTools(members, p); err != nil {
		return nil, nil, err
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(members, "stream")
	if req.Stream {
		members["stream"] = true
	}
	return members, leftOut, nil
}

// reasoning sets how much the model thinks, and whether the answer sums its thoughts up. It
// returns the names of the parameters that have an effect. The effort stands for a budget.
func (c *Client) reasoning(members map[string]any, req *providers.Request) (has []string) {
	p, asked := &req.Parameters, map[string]string{}
	if p.ReasoningEffort != "" {
		if effort := c.effort(req.Model, p.ReasoningEffort); effort != "" {
			asked["effort"] = effort
			has = append(has, "reasoning_effort")
		}
	}
	if t := p.Thoughts(); t.Display == providers.DisplaySummarized && reasons(req.Model) {
		asked["summary"] = "auto"
		if t.Budget == 0 {
			has = append(has, "thinking")
		}
	}
	if len(asked) > 0 {
		members["reasoning"] = asked
	}
	return has
}

// responsesText writes the members of a request of the Responses API.
func (c *Client) responsesText(req *providers.Request) (text []byte, leftOut []string, err error) {
	members, leftOut, err := c.responsesMembers(req)
	if err != nil {
		return nil, nil, err
	}
	if text, err = upstream.Marshal(members); err != nil {
		return nil, nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	return text, leftOut, nil
}

// responsesFormat sets the form of the answer.
func (c *Client) responsesFormat(members map[string]any, f *providers.ResponseFormat) error {
	if f == nil {
		return nil
	}
	var format map[string]any
	switch f.Type {
	case providers.FormatText: // the default
		return nil
	case providers.FormatJSON:
		format = map[string]any{"type": "json_object"}
	case providers.FormatSchema:
		format = map[string]any{"type": "json_schema", "name": f.Name, "schema": f.Schema, "strict": f.Strict}
	default:
		return c.Unsendable("the response format has the unknown type %q", f.Type)
	}
	members["text"] = map[string]any{"format": format}
	return nil
}

// responsesTools sets the tools that the model may call.
func (c *Client) responsesTools(members map[string]any, p *providers.Parameters) error {
	var list []any
	search := p.FromCaller().Search
	if search != nil {
		list = append(list, newSearchTool(search))
	}
	if len(p.Tools) > 0 {
		list = append(list, toolsMark)
		upstream.Set(members, "parallel_tool_calls", p.ParallelToolCalls)
	}
	if list == nil {
		return nil
	}
	members["tools"] = list
	if p.ToolChoice == nil {
		return nil
	}
	switch choice := p.ToolChoice; choice.Mode {
	case providers.ToolsAuto, providers.ToolsNone, providers.ToolsRequired:
		members["tool_choice"] = choice.Mode
	case providers.ToolsNamed:
		members["tool_choice"] = map[string]string{"type": "function", "name": choice.Name}
	case providers.ToolsSearch:
		only := []any{map[string]string{"type": search.TypeOf(providers.APIResponses, webSearch)}}
		members["tool_choice"] = map[string]any{"type": "allowed_tools", "mode": "required", "tools": only}
	default:
		return c.Unsendable("the tool choice has the unknown mode %q", choice.Mode)
	}
	return nil
}
