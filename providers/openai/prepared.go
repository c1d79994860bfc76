package openai

import (
	"slices"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// prepared is the part that the requests of a target have in common.
type prepared struct {
	client        *Client
	whole, stream func() (*form, error)
}

// form is the body of a request but for its messages.
type form struct {
	// responses means that it is a request of the Responses API, which calls the
	// messages its input.
	responses bool
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
	if c.responds(req) {
		if _, _, err := c.responsesMembers(req); err != nil {
			return nil, err
		}
	} else if _, _, err := c.params(req); err != nil {
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

// form writes the request but for its messages.
func (c *Client) form(req *providers.Request) (*form, error) {
	f, input := &form{responses: c.responds(req)}, "messages"
	var text []byte
	var err error
	if f.responses {
		input = "input"
		text, f.leftOut, err = c.responsesText(req)
	} else {
		text, f.leftOut, err = c.chatText(req)
	}
	if err != nil {
		return nil, err
	}
	if len(req.Parameters.Tools) > 0 {
		text = writeTools(text, req.Parameters.Tools, f.responses)
	}
	_, fixed := req.Extra[input]
	if !fixed {
		if text[0] = ','; len(text) == len("{}") {
			text = text[1:]
		}
	}
	f.rest, f.fixed = text, fixed
	return f, nil
}

// chatText has the SDK write the members of a request of chat completions.
func (c *Client) chatText(req *providers.Request) (text []byte, leftOut []string, err error) {
	params, leftOut, err := c.params(req)
	if err != nil {
		return nil, nil, err
	}
	if text, err = params.MarshalJSON(); err != nil {
		return nil, nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	return text, leftOut, nil
}

// body writes the body of a request, and returns what is left out of it.
func (c *Client) body(f *form, messages []providers.Message) (text []byte, leftOut []string, err error) {
	if f.fixed {
		return f.rest, f.leftOut, nil
	}
	quirks, begin := &c.quirks, beforeMessages
	if f.responses {
		quirks, begin, messages = c.items, beforeInput, upstream.Joined(messages)
	}
	if err := c.checkMessages(messages, quirks); err != nil {
		return nil, nil, err
	}
	messages, unshown := quirks.showResults(messages)
	messages = quirks.arrange(messages)
	size := len(begin) + len("]") + len(f.rest)
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
	body := append(buffers.Get(size), begin...)
	for i := range messages {
		if f.responses {
			body = quirks.appendItems(body, &messages[i])
			if name := "filename of a URL"; namesURL(messages[i].Parts) && !slices.Contains(unshown, name) {
				unshown = append(unshown, name)
			}
		} else {
			body = quirks.appendMessage(body, &messages[i])
		}
	}
	if body[len(body)-1] == ',' {
		body = body[:len(body)-1]
	}
	return append(append(body, ']'), f.rest...), append(slices.Clip(f.leftOut), unshown...), nil
}

const (
	beforeMessages = `{"messages":[`
	beforeInput    = `{"input":[`
)
