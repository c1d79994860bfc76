package bedrock

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// PrepareRequests makes the form of a target's requests, see providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) { return c.form(req) }

// form translates a request but for its messages.
//
// MaxTokens (tokens, from 1), Temperature and TopP (0 to 1) go to
// inferenceConfig. Converse has no TopK: if the model is known to have one
// it goes to additionalModelRequestFields under the model's own name, else it
// is left out, and so does the reasoning effort of the models whose words for it
// are known. FrequencyPenalty, PresencePenalty, Seed, ParallelToolCalls and
// Logprobs exist nowhere and are left out.
//
// An answer by a schema is outputConfig.textFormat, always strict; any object
// in JSON does not exist here and is an error. Tools are toolConfig. As there is
// no way to have none of them called, the choice none leaves them out: see body.
//
// Extra members replace derived ones; in inferenceConfig, outputConfig and
// additionalModelRequestFields, which both may fill, it is their members that
// do.
func (c *Client) form(req *providers.Request) (*upstream.Form, error) {
	if req.Model == "" || req.Model == "." || req.Model == ".." {
		return nil, c.Unsendable("%q is no model id", req.Model)
	}
	req, leftOut := upstream.Unforced(req)
	members := make(map[string]any)
	leftOut = append(leftOut, c.sampling(members, req)...)
	if err := c.format(members, req.Parameters.ResponseFormat); err != nil {
		return nil, err
	}
	config, err := c.tools(req)
	if err != nil {
		return nil, err
	}
	if config != nil && !unused(req) {
		members["toolConfig"] = config
	}
	for name, value := range req.Extra {
		merged, err := merge(members[name], name, value)
		if err != nil {
			return nil, c.Unsendable("extra %s: %v", name, err)
		}
		members[name] = merged
	}
	return c.NewForm(members, leftOut)
}

// unused reports whether a request has tools of which none may be called.
func unused(req *providers.Request) bool {
	choice := req.Parameters.ToolChoice
	return len(req.Parameters.Tools) > 0 && choice != nil && choice.Mode == providers.ToolsNone
}

// body writes the body of a request. It also returns the names of the parameters
// that it left out, and whether there are tools of which none may be called:
// Converse takes no conversation with tool calls without tools, and has no way to
// say so.
func (c *Client) body(req *providers.Request) (text []byte, leftOut []string, uncalled bool, err error) {
	req, lost := upstream.Thoughtless(req)
	f, err := c.FormOf(req, c.form)
	if err != nil {
		return nil, nil, false, err
	}
	var tools []byte
	if unused(req) {
		config, err := c.tools(req)
		if err != nil {
			return nil, nil, false, err
		}
		if tools, err = upstream.Marshal(config); err != nil {
			return nil, nil, false, c.Unsendable("%v", err)
		}
		tools = append([]byte(`,"toolConfig":`), tools...)
	}
	w := writer{Blocks: upstream.Blocks{BlockFormat: &format, Service: &c.Service, Bound: upstream.ClaudeOf(req.Model).Bound}}
	if req.Parameters.FromCaller().Marks && caches(req.Model) != cachesNone {
		own := format
		own.Marks = marksOf(req.Model)
		w.BlockFormat, w.Marked = &own, true
	}
	w.Media, w.Apart = w.media, apart(req.Model)
	if err := w.Write(f, req.Messages, tools); err != nil {
		return nil, nil, false, err
	}
	leftOut = append(f.LeftOut, lost...)
	if tools != nil && !w.Uncalled {
		leftOut = append(leftOut, "tools")
	}
	leftOut = append(leftOut, w.LeftOut...)
	if w.Detail {
		leftOut = append(leftOut, "detail")
	}
	return f.End(w.Body), leftOut, w.Uncalled, nil
}

// merge adds an extra member to a derived one.
func merge(derived any, name string, extra json.RawMessage) (any, error) {
	if derived == nil || name != "inferenceConfig" && name != "outputConfig" && name != "additionalModelRequestFields" {
		return extra, nil
	}
	text, err := upstream.Marshal(derived)
	if err != nil {
		return nil, err
	}
	var base, over map[string]json.RawMessage
	if err := json.Unmarshal(text, &base); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(extra, &over); err != nil {
		return nil, fmt.Errorf("must be an object: %w", err)
	}
	maps.Copy(base, over)
	return base, nil
}
