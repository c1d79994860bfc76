package bedrock

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// inference is the member inferenceConfig.
type inference struct {
	MaxTokens     *int64   `json:"maxTokens,omitempty"`
	Temperature   *float64 `json:"temperature,omitempty"`
	TopP          *float64 `json:"topP,omitempty"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

// sampling sets the parameters of sampling, and how much the model thinks. It returns the
// names of the parameters that Converse, or the model, does not have.
func (c *Client) sampling(members map[string]any, req *providers.Request) (leftOut []string) {
	p := req.Parameters
	fields, has, lacking := thoughts(req)
	if p.TopK != nil && slices.Contains(has, "top_k") {
		if own := topK(req.Model, *p.TopK); own != nil {
			maps.Copy(fields, own)
		} else {
			lacking = append(lacking, "top_k")
		}
	}
	if betas := p.FromCaller().Betas; len(betas) > 0 && strings.Contains(req.Model, "anthropic.claude") {
		var own map[string]json.RawMessage
		_ = json.Unmarshal(req.Extra["additionalModelRequestFields"], &own) // merge judges it
		if own["anthropic_beta"] == nil {
			fields["anthropic_beta"] = betas
			has = append(has, "betas")
		}
	}
	if len(fields) > 0 {
		members["additionalModelRequestFields"] = fields
	}
	if !slices.Contains(has, "temperature") {
		p.Temperature = nil
	}
	if !slices.Contains(has, "top_p") {
		p.TopP = nil
	}
	if p.MaxTokens != nil || p.Temperature != nil || p.TopP != nil || len(p.Stop) > 0 {
		members["inferenceConfig"] = inference{p.MaxTokens, p.Temperature, p.TopP, p.Stop}
	}
	_, own := req.Extra["serviceTier"]
	if tier := req.Parameters.FromCaller().Tier; !own && (tier == "default" || tier == "flex" || tier == "priority") {
		members["serviceTier"] = map[string]string{"type": tier}
		has = append(has, "service_tier")
	}
	// Any other parameter may always be left out.
	if caches(req.Model) != cachesNone {
		has = append(has, "cache_control")
	}
	leftOut, _ = req.Parameters.Lacking(c.Name, append(has, "max_tokens", "stop", "response_format", "tools")...)
	return append(lacking, leftOut...)
}

// Models with a top_k, by a part of their id, and the name they know it by.
var topKNames = []struct{ model, name string }{
	{"anthropic.", "top_k"},
	{"mistral.", "top_k"},
	{"cohere.command-r", "k"},
}

// topK is top_k in the words of the model, or nil if it has none.
func topK(model string, k int64) map[string]any {
	if strings.Contains(model, "amazon.nova") {
		return map[string]any{"inferenceConfig": map[string]any{"topK": k}}
	}
	for _, known := range topKNames {
		if strings.Contains(model, known.model) {
			return map[string]any{known.name: k}
		}
	}
	return nil
}

// schema is the schema of an answer, as text within the request's JSON.
type schema struct {
	Name   string `json:"name"`
	Schema string `json:"schema"`
}

// format sets the form of the answer.
func (c *Client) format(members map[string]any, f *providers.ResponseFormat) error {
	if f == nil || f.Type == providers.FormatText {
		return nil
	}
	switch f.Type {
	case providers.FormatSchema:
		members["outputConfig"] = map[string]any{"textFormat": map[string]any{
			"type": "json_schema", "structure": map[string]any{"jsonSchema": schema{f.Name, string(f.Schema)}},
		}}
		return nil
	case providers.FormatJSON:
		return c.LacksParameter("response_format", "Converse has no response_format json: give it a json_schema")
	}
	return c.Unsendable("the response format has the unknown type %q", f.Type)
}

// toolSpec is a tool of the caller's.
type toolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	InputSchema inputSchema `json:"inputSchema"`
	Strict      bool        `json:"strict,omitempty"`
}

type inputSchema struct {
	JSON json.RawMessage `json:"json"`
}

// tools returns the member toolConfig, the tools that the model may call, or nil.
func (c *Client) tools(req *providers.Request) (map[string]any, error) {
	p := &req.Parameters
	if len(p.Tools) == 0 {
		return nil, nil
	}
	list := make([]any, 0, len(p.Tools))
	for _, t := range p.Tools {
		if t.Parameters == nil {
			t.Parameters = providers.NoArguments
		}
		list = append(list, map[string]toolSpec{"toolSpec": {t.Name, t.Description, inputSchema{t.Parameters}, t.Strict}})
		if t.Cache != 0 && caches(req.Model) == cachesAll {
			list = append(list, json.RawMessage(marksOf(req.Model)[t.Cache]))
		}
	}
	config := map[string]any{"tools": list}
	if choice := p.ToolChoice; choice != nil {
		none := struct{}{}
		switch choice.Mode {
		case providers.ToolsNone: // Converse has no such choice
		case providers.ToolsAuto:
			config["toolChoice"] = map[string]any{"auto": none}
		case providers.ToolsRequired:
			config["toolChoice"] = map[string]any{"any": none}
		case providers.ToolsNamed:
			config["toolChoice"] = map[string]any{"tool": map[string]string{"name": choice.Name}}
		default:
			return nil, c.Unsendable("the tool choice has the unknown mode %q", choice.Mode)
		}
	}
	return config, nil
}
