// Package acme calls the models of Acme, a service that exists only here.
package acme

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// Client is a provider. It is safe for concurrent use.
type Client struct {
	upstream.Service
	url *url.URL
}

// New makes a client. It connects to nothing.
func New(config upstream.Config, key func() (string, error)) (*Client, error) {
	service, err := upstream.NewService("acme", "", key, config)
	if err != nil {
		return nil, err
	}
	return &Client{service, config.BaseURL.JoinPath("generate")}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	leftOut, err := req.Parameters.Lacking(c.Name, "temperature", "max_tokens")
	if err != nil {
		return nil, err
	}
	messages := make([]providers.Message, len(req.Messages))
	for i := range req.Messages {
		m := &req.Messages[i]
		for j := range m.Parts {
			switch kind := m.Parts[j].Kind; kind {
			case providers.PartText, providers.PartThinking:
			default:
				return nil, providers.LacksPart(c.Name, i, kind.String())
			}
		}
		messages[i] = providers.Message{Role: m.Role, Content: m.Text()}
	}
	members := map[string]any{"model": req.Model, "messages": messages, "stream": req.Stream}
	if v := req.Parameters.Temperature; v != nil {
		members["temperature"] = *v
	}
	if v := req.Parameters.MaxTokens; v != nil {
		members["limit"] = *v // Acme's name for it
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	call, err := c.Begin()
	if err != nil {
		return nil, err
	}
	r, err := c.Request(ctx, c.url, body, req.Stream)
	if err != nil {
		return nil, err
	}
	if key := call.Secrets[0]; key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := c.Send(call, r, describe)
	if err != nil {
		return nil, err
	}
	return newStream(call, answer, providers.Result{Model: req.Model, LeftOut: leftOut}), nil
}

// describe reads {"code":…,"message":…}.
func describe(call upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	e.Code, e.Message = call.Text(v.Get("code")), call.Text(v.Get("message"))
	return e.Code != "" || e.Message != ""
}
