package openai

import (
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/providers"
)

// prepared is the part that the requests of a target have in common.
type prepared struct {
	client        *Client
	whole, stream func() (*form, error)
}

// form is the body of a request but for its messages.
type form struct {
	// rest is the body after the list of messages, the comma included.
	rest []byte
	// fixed means that the body is rest alone: extra has messages of its own.
	fixed   bool
	leftOut []string
}

// PrepareRequests makes the part that the requests of a target have in common, see
// providers.Prepare. The SDK writes it once, with the first request, because it takes
// as long as all else that the gateway does for a call.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) {
	if _, _, err := c.params(req); err != nil {
		return nil, err
	}
	write := func(stream bool) func() (*form, error) {
		r := providers.Request{Model: req.Model, Parameters: req.Parameters, Extra: req.Extra, Stream: stream}
		return sync.OnceValues(func() (*form, error) { return c.form(&r) })
	}
	return &prepared{c, write(false), write(true)}, nil
}

// formOf returns the form of a request: the one that was prepared for it, if one was.
func (c *Client) formOf(req *providers.Request) (*form, error) {
	p, ok := req.Prepared.(*prepared)
	switch {
	case !ok || p.client != c:
		return c.form(req)
	case req.Stream:
		return p.stream()
	}
	return p.whole()
}

// form has the SDK write the request but for its messages.
func (c *Client) form(req *providers.Request) (*form, error) {
	params, leftOut, err := c.params(req)
	if err != nil {
		return nil, err
	}
	text, err := params.MarshalJSON()
	if err != nil {
		return nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	if params.Tools != nil {
		text = writeTools(text, req.Parameters.Tools)
	}
	_, fixed := req.Extra["messages"]
	if !fixed {
		if text[0] = ','; len(text) == len("{}") {
			text = text[1:]
		}
	}
	return &form{text, fixed, leftOut}, nil
}

// body writes the body of a request.
func (c *Client) body(f *form, messages []providers.Message) ([]byte, error) {
	if f.fixed {
		return f.rest, nil
	}
	if err := c.checkMessages(messages); err != nil {
		return nil, err
	}
	messages = c.quirks.arrange(messages)
	size := len(beforeMessages) + len("]") + len(f.rest)
	for i := range messages {
		m := &messages[i]
		// Few characters of most texts need an escape. The escapes of large texts are
		// counted: memory that grows with a text takes a multiple of it.
		if text := m.Size(); text > buffers.Smallest {
			escaped, _ := m.EscapedSize()
			size += escaped
		} else {
			size += len(`{"content":"","role":"assistant"},`) + text + text/16 + len(m.Parts)*providers.PartSize
		}
	}
	body := append(buffers.Get(size), beforeMessages...)
	for i := range messages {
		body = c.quirks.appendMessage(body, &messages[i])
	}
	if body[len(body)-1] == ',' {
		body = body[:len(body)-1]
	}
	return append(append(body, ']'), f.rest...), nil
}

const beforeMessages = `{"messages":[`
