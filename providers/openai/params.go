package openai

import (
	"bytes"
	"crypto/rand"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// params translates the request but for its messages and the list of its tools. It also
// returns which parameters the service lacks. A lacking parameter that must not be left
// out is an error.
func (c *Client) params(req *providers.Request) (p openai.ChatCompletionNewParams, leftOut []string, err error) {
	p.Model = req.Model
	extra := make(map[string]any, len(req.Extra)+4)
	leftOut = c.sampling(&p, extra, req)
	if err := c.format(&p, req.Parameters.ResponseFormat); err != nil {
		return p, nil, err
	}
	omitted, err := c.tools(&p, &req.Parameters)
	if err != nil {
		return p, nil, err
	}
	if omitted {
		leftOut = append(leftOut, "tools")
	}
	leftOut = append(leftOut, c.rest(&p, &req.Parameters)...)
	if req.Parameters.Caller != nil {
		alone := providers.Parameters{Caller: req.Parameters.Caller}
		lacking, _ := alone.Lacking(c.Name, c.caller(extra, req)...) // none that must not be left out
		leftOut = append(leftOut, lacking...)
	}
	if req.Stream && !c.quirks.NoStreamOptions {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	for name, value := range req.Extra {
		extra[name] = value
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(extra, "stream")
	if req.Stream {
		extra["stream"] = true
	}
	if len(extra) > 0 {
		p.SetExtraFields(extra)
	}
	return p, leftOut, nil
}

// sampling sets how the model goes about its answer. Members that the SDK does
// not know go to extra.
func (c *Client) sampling(p *openai.ChatCompletionNewParams, extra map[string]any, req *providers.Request) (leftOut []string) {
	in := &req.Parameters
	if v := in.Temperature; v != nil {
		p.Temperature = openai.Float(*v)
	}
	if v := in.TopP; v != nil {
		p.TopP = openai.Float(*v)
	}
	if v := in.FrequencyPenalty; v != nil {
		p.FrequencyPenalty = openai.Float(*v)
	}
	if v := in.PresencePenalty; v != nil {
		p.PresencePenalty = openai.Float(*v)
	}
	if v := in.MaxTokens; v != nil {
		if c.quirks.MaxCompletionTokens {
			p.MaxCompletionTokens = openai.Int(*v)
		} else {
			p.MaxTokens = openai.Int(*v)
		}
	}
	if v := in.TopK; v != nil {
		if c.quirks.NoTopK {
			leftOut = append(leftOut, "top_k")
		} else {
			extra["top_k"] = *v
		}
	}
	if v := in.Seed; v != nil {
		switch {
		case c.quirks.NoSeed:
			leftOut = append(leftOut, "seed")
		case c.quirks.RandomSeed:
			extra["random_seed"] = *v
		default:
			p.Seed = openai.Int(*v)
		}
	}
	if len(in.Stop) > 0 {
		p.Stop.OfStringArray = in.Stop
	}
	if in.Thinking != nil {
		// The effort says how much. The API has no budget, and shows what it shows.
		leftOut = append(leftOut, "thinking")
	}
	if in.ReasoningEffort != "" {
		switch effort := c.effort(req.Model, in.ReasoningEffort); {
		case effort == "":
			leftOut = append(leftOut, "reasoning_effort")
		case c.quirks.NoThinking && effort == "none":
			extra["thinking"] = map[string]string{"type": "disabled"}
		default:
			p.ReasoningEffort = shared.ReasoningEffort(effort)
		}
	}
	return leftOut
}

// rest sets whether several tools may be called at once, which the API takes only
// with tools, and asks for log probabilities.
func (c *Client) rest(p *openai.ChatCompletionNewParams, in *providers.Parameters) (leftOut []string) {
	if v := in.ParallelToolCalls; v != nil && len(in.Tools) > 0 {
		if c.quirks.NoParallelToolCalls || c.quirks.NoTools {
			leftOut = append(leftOut, "parallel_tool_calls")
		} else {
			p.ParallelToolCalls = openai.Bool(*v)
		}
	}
	if v := in.Logprobs; v != nil {
		if c.quirks.NoLogprobs {
			return append(leftOut, "logprobs")
		}
		if p.Logprobs = openai.Bool(true); *v > 0 {
			p.TopLogprobs = openai.Int(*v)
		}
	}
	return leftOut
}

// caller sets the members that callers bring and only some services have, which both APIs
// know by the same names. It returns the names of what the service has.
func (c *Client) caller(members map[string]any, req *providers.Request) (has []string) {
	in := req.Parameters.FromCaller()
	if c.quirks.Caches {
		has = append(has, "cache_control")
	}
	set := func(name, value string) {
		if value != "" {
			members[name] = value
		}
		has = append(has, name)
	}
	if c.quirks.CacheKey {
		set("prompt_cache_key", in.CacheKey)
	}
	if c.quirks.Official {
		set("prompt_cache_retention", in.CacheRetention)
		set("safety_identifier", in.User)
		if _, own := req.Extra["service_tier"]; !own {
			set("service_tier", in.Tier)
		}
	}
	return has
}

// effort returns the effort that a model takes for the one that is asked for; empty if it
// takes none.
func (c *Client) effort(model, asked string) string {
	if word, ok := c.quirks.Efforts[asked]; ok {
		asked = word
	}
	if c.quirks.NoEffort != nil && c.quirks.NoEffort.MatchString(model) {
		return ""
	}
	return c.quirks.ModelEfforts.of(model, asked)
}

// format sets the form of the answer.
func (c *Client) format(p *openai.ChatCompletionNewParams, f *providers.ResponseFormat) error {
	if f == nil {
		return nil
	}
	switch f.Type {
	case providers.FormatText:
		// It is the default, which not every service has a word for.
	case providers.FormatJSON:
		if c.quirks.NoJSON {
			return c.LacksParameter("response_format", "%s has no response_format json", c.Name)
		}
		p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	case providers.FormatSchema:
		if c.quirks.NoJSONSchema {
			return c.LacksParameter("response_format", "%s has no response_format json_schema", c.Name)
		}
		schema := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: f.Name, Schema: f.Schema}
		if f.Strict {
			schema.Strict = openai.Bool(true)
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: schema}
	default:
		return c.Unsendable("the response format has the unknown type %q", f.Type)
	}
	return nil
}

// toolsMark is the text that the SDK writes in place of the list of tools. It is
// unguessable, so that no other text of a request is taken for it.
var toolsMark = func() json.RawMessage {
	var digits [32]byte
	_, _ = rand.Read(digits[:]) // it never fails
	for i := range digits {
		digits[i] = '1' + digits[i]%9
	}
	return digits[:]
}()

// writeTools puts the list of tools into a text of the SDK's. Callers bring their own
// tools with each request, and the SDK takes as long for twenty of them as a whole
// call.
func writeTools(text []byte, tools []providers.Tool, responses bool) []byte {
	before, after, ok := bytes.Cut(text, toolsMark)
	if !ok {
		return text // extra has another list
	}
	begin, end, lax := `{"function":{"name":`, `},"type":"function"}`, ""
	if responses { // where a tool is strict unless it says otherwise
		begin, end, lax = `{"name":`, `,"type":"function"}`, `,"strict":false`
	}
	size := len(text)
	for i := range tools {
		t := &tools[i]
		size += len(t.Name) + len(t.Description) + len(t.Description)/16 + len(t.Parameters) + toolSize
	}
	text = append(make([]byte, 0, size), before...)
	for i := range tools {
		if i > 0 {
			text = append(text, ',')
		}
		t := &tools[i]
		text = jsontext.AppendString(append(text, begin...), t.Name)
		if t.Description != "" {
			text = jsontext.AppendString(append(text, `,"description":`...), t.Description)
		}
		parameters := t.Parameters
		if parameters == nil {
			parameters = providers.NoArguments
		}
		text = append(append(text, `,"parameters":`...), parameters...)
		if t.Strict {
			text = append(text, `,"strict":true`...)
		} else {
			text = append(text, lax...)
		}
		text = append(text, end...)
	}
	return append(text, after...)
}

// toolSize estimates the size of a tool without its texts and its schema, in
// bytes.
const toolSize = 128

// tools sets the tools that the model may call, with toolsMark in their place. It
// reports whether tools were left out that must not be called anyway.
func (c *Client) tools(p *openai.ChatCompletionNewParams, in *providers.Parameters) (omitted bool, err error) {
	if len(in.Tools) == 0 {
		return false, nil
	}
	if c.quirks.NoTools {
		if in.ToolChoice != nil && in.ToolChoice.Mode == providers.ToolsNone {
			return true, nil
		}
		return false, c.LacksParameter("tools", "%s has no tools", c.Name)
	}
	p.Tools = []openai.ChatCompletionToolUnionParam{param.Override[openai.ChatCompletionToolUnionParam](toolsMark)}
	if in.ToolChoice == nil {
		return false, nil
	}
	switch choice := in.ToolChoice; choice.Mode {
	case providers.ToolsAuto, providers.ToolsNone, providers.ToolsRequired:
		p.ToolChoice.OfAuto = openai.String(choice.Mode)
	case providers.ToolsNamed:
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: choice.Name})
	default:
		return false, c.Unsendable("the tool choice has the unknown mode %q", choice.Mode)
	}
	return false, nil
}
