package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// form is what the bodies of requests with the same model, parameters and extra have
// in common.
type form struct {
	client *Client
	// rest are all members but messages, system and stream, from the comma before them
	// to the brace behind them.
	rest []byte
	// messages and system mean that extra has these members, which are in rest then.
	messages, system bool
	// tools means that rest says which tools there are.
	tools   bool
	leftOut []string
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

// form makes the members of a request but for its messages:
//
//   - max_tokens is required and counts tokens of thinking and answer; where
//     the request has none it is Config.MaxTokens.
//   - temperature (0 to 1), top_p (0 to 1) and top_k (a count of tokens) go out
//     as they are, but not to models that take no sampling parameters.
//     Frequency and presence penalty, seed and log probabilities do not exist here
//     and are left out.
//   - stop goes out as stop_sequences. An answer by a schema is
//     output_config.format, always strict; any object in JSON does not exist
//     here and is an error.
//   - the reasoning effort is output_config.effort, where minimal is low; none
//     turns thinking off. Models without effort think only when Extra says so;
//     it is left out for them.
//   - tools are the API's, their parameters input_schema. That no two are to be called
//     at once is a member of tool_choice.
//   - the members of Extra replace the members above, except stream.
func (c *Client) form(req *providers.Request) (*form, error) {
	members := make(map[string]any, 8+len(req.Extra))
	members["model"] = req.Model
	members["max_tokens"] = c.maxTokens
	leftOut := c.sampling(members, req)
	if err := c.output(members, req, &leftOut); err != nil {
		return nil, err
	}
	if err := c.tools(members, &req.Parameters); err != nil {
		return nil, err
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(members, "stream")
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	// Escaped for HTML, a schema full of markup grows severalfold.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	rest := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	rest[0] = ','
	f := &form{client: c, rest: slices.Clip(rest), leftOut: slices.Clip(leftOut)}
	_, f.messages = members["messages"]
	_, f.system = members["system"]
	_, f.tools = members["tools"]
	return f, nil
}

// body writes the body of a request, the messages first. It also returns the names of
// what it left out.
func (f *form) body(req *providers.Request) ([]byte, []string, error) {
	size := len(`{"messages":[],"system":[],"stream":true`) + len(f.rest)
	for i := range req.Messages {
		// Few characters of most texts need an escape.
		m := &req.Messages[i]
		said := m.Size()
		size += len(`{"role":"assistant","content":[]},`) + said + said/16 + (1+len(m.Parts))*blockSize
	}
	w := writer{client: f.client, body: append(make([]byte, 0, size), '{')}
	if !f.messages {
		if err := w.turns(req.Messages); err != nil {
			return nil, nil, err
		}
	}
	if !f.system {
		if err := w.system(req.Messages); err != nil {
			return nil, nil, err
		}
	}
	if w.calls && !f.tools {
		w.tools(req.Messages)
	}
	rest := f.rest
	if len(w.body) == 1 {
		rest = rest[1:]
	}
	body := append(w.body, rest...)
	if req.Stream {
		body = append(body[:len(body)-1], `,"stream":true}`...)
	}
	leftOut := f.leftOut
	if w.detail {
		leftOut = append(leftOut, "detail")
	}
	return body, leftOut, nil
}

// blockSize is about what a block has beside its text or data, in bytes.
const blockSize = 96

// tools appends the tools that the conversation has calls of, where the request has
// none: the API takes no such conversation without them. None of them may be called.
func (w *writer) tools(messages []providers.Message) {
	names := upstream.ToolNames(messages)
	if len(names) == 0 {
		return
	}
	w.body = append(w.body, `,"tool_choice":{"type":"none"},"tools":[`...)
	for i, name := range names {
		if i > 0 {
			w.body = append(w.body, ',')
		}
		w.body = jsontext.AppendString(append(w.body, `{"name":`...), name)
		w.body = append(append(append(w.body, `,"input_schema":`...), providers.NoArguments...), '}')
	}
	w.body = append(w.body, ']')
}
