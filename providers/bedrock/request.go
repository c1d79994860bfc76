package bedrock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// form is what the bodies of requests with the same model, parameters and extra have
// in common.
type form struct {
	client *Client
	// rest are all members but messages and system, from the comma before them to the
	// brace behind them.
	rest []byte
	// messages, system and tools mean that rest has messages, system and toolConfig.
	messages, system, tools bool
	// uncalled is the member toolConfig where no tool may be called, see body.
	uncalled []byte
	leftOut  []string
}

// PrepareRequests makes what the requests of a target have in common, see
// providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) { return c.form(req) }

// formOf returns the form of a request: the one that was prepared for it, if one was.
func (c *Client) formOf(req *providers.Request) (*form, error) {
	if f, ok := req.Prepared.(*form); ok && f.client == c {
		return f, nil
	}
	return c.form(req)
}

// form translates a request but for its messages.
//
// MaxTokens (tokens, from 1), Temperature and TopP (0 to 1) go to
// inferenceConfig. Converse has no TopK: where the model is known to have one
// it goes to additionalModelRequestFields under the model's own name, else it
// is left out. FrequencyPenalty, PresencePenalty, Seed, ParallelToolCalls and
// Logprobs exist nowhere and are left out, and so is the reasoning effort, which
// only some models take.
//
// An answer by a schema is outputConfig.textFormat, always strict; any object
// in JSON does not exist here and is an error. Tools are toolConfig. As there is
// no way to have none of them called, the choice none leaves them out.
//
// Extra members replace derived ones; in inferenceConfig, outputConfig and
// additionalModelRequestFields, which both may fill, it is their members that
// do.
func (c *Client) form(req *providers.Request) (*form, error) {
	if req.Model == "" || req.Model == "." || req.Model == ".." {
		return nil, c.unfit("%q is no model id", req.Model)
	}
	f := &form{client: c}
	members := make(map[string]any)
	f.leftOut = c.sampling(members, req)
	if err := c.format(members, req.Parameters.ResponseFormat); err != nil {
		return nil, err
	}
	if err := c.tools(members, &req.Parameters); err != nil {
		return nil, err
	}
	if choice := req.Parameters.ToolChoice; choice != nil && choice.Mode == providers.ToolsNone && members["toolConfig"] != nil {
		uncalled, err := marshal(members["toolConfig"])
		if err != nil {
			return nil, c.unfit("%v", err)
		}
		f.uncalled = append([]byte(`,"toolConfig":`), uncalled...)
		delete(members, "toolConfig")
	}
	for name, value := range req.Extra {
		merged, err := merge(members[name], name, value)
		if err != nil {
			return nil, c.unfit("extra %s: %v", name, err)
		}
		members[name] = merged
	}
	var err error
	if f.rest, err = marshal(members); err != nil {
		return nil, c.unfit("%v", err)
	}
	if len(members) > 0 {
		f.rest[0] = ','
	} else {
		f.rest = f.rest[1:]
	}
	_, f.messages = members["messages"]
	_, f.system = members["system"]
	_, f.tools = members["toolConfig"]
	return f, nil
}

// marshal writes JSON without escapes for HTML: with them a schema full of markup grows
// severalfold.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return slices.Clip(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// body is the body of a request, with what became of its tools.
type body struct {
	text    []byte
	leftOut []string
	// uncalled means that there are tools of which none may be called. Converse takes
	// no conversation with tool calls without tools, and has no way to say so.
	uncalled bool
}

// body writes the body of a request.
//
// System and developer messages go to the member system. The others become
// turns, which must alternate between user and assistant: messages of one role
// in a row are the blocks of one turn. Texts of white space are left out, because
// Converse rejects them.
func (f *form) body(req *providers.Request) (body, error) {
	size := len(`{"messages":[],"system":[]`) + len(f.rest) + len(f.uncalled)
	for i := range req.Messages {
		// Few characters of most texts need an escape.
		m := &req.Messages[i]
		said := m.Size()
		size += len(`{"role":"assistant","content":[]},`) + said + said/16 + (1+len(m.Parts))*blockSize
	}
	w := writer{client: f.client, body: append(make([]byte, 0, size), '{')}
	if !f.messages {
		if err := w.turns(req.Messages); err != nil {
			return body{}, err
		}
	}
	if !f.system {
		if err := w.system(req.Messages); err != nil {
			return body{}, err
		}
	}
	b := body{leftOut: f.leftOut}
	switch {
	case !w.calls || f.tools:
	case f.uncalled != nil:
		w.body = append(w.body, f.uncalled...)
		b.uncalled = true
	default:
		if names := upstream.ToolNames(req.Messages); len(names) > 0 {
			w.tools(names)
			b.uncalled = true
		}
	}
	if f.uncalled != nil && !b.uncalled {
		b.leftOut = append(b.leftOut[:len(b.leftOut):len(b.leftOut)], "tools")
	}
	if w.detail {
		b.leftOut = append(b.leftOut[:len(b.leftOut):len(b.leftOut)], "detail")
	}
	rest := f.rest
	if len(w.body) == 1 && rest[0] == ',' {
		rest = rest[1:]
	}
	b.text = append(w.body, rest...)
	return b, nil
}

// blockSize is about what a block has beside its text or data, in bytes.
const blockSize = 96

// unfit is the error of a request that the service would reject.
func (c *Client) unfit(format string, arguments ...any) error {
	e := c.Unsendable(format, arguments...)
	e.Code = "ValidationException"
	return e
}

// merge adds an extra member to a derived one.
func merge(derived any, name string, extra json.RawMessage) (any, error) {
	if derived == nil || name != "inferenceConfig" && name != "outputConfig" && name != "additionalModelRequestFields" {
		return extra, nil
	}
	text, err := marshal(derived)
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
