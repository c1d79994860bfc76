// Package acme calls the models of Acme, a service that exists only here.
package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// Client is a provider. It is safe for concurrent use.
type Client struct {
	key  func() (string, error)
	url  string
	http *upstream.Client
}

// New makes a client. It connects to nothing.
func New(base *url.URL, key func() (string, error)) (*Client, error) {
	client, err := upstream.NewClient(upstream.Config{BaseURL: base})
	if err != nil {
		return nil, err
	}
	return &Client{key: key, url: base.JoinPath("generate").String(), http: client}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	key, err := c.key()
	if err != nil {
		return nil, &providers.ConnectError{Permanent: true, Err: err}
	}
	leftOut, err := req.Parameters.Lacking("acme", "temperature", "max_tokens")
	if err != nil {
		return nil, err
	}
	members := map[string]any{"model": req.Model, "messages": req.Messages, "stream": req.Stream}
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
		return nil, fail(providers.Status, http.StatusBadRequest, "", err.Error())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, &providers.ConnectError{Permanent: true, Err: err}
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		// The client says what failed, within an error that names the URL.
		if e, ok := errors.AsType[*providers.ConnectError](err); ok {
			return nil, e
		}
		return nil, &providers.ConnectError{Err: err}
	case resp.StatusCode != http.StatusOK:
		defer resp.Body.Close()
		return nil, statusError(resp, key)
	}
	return newStream(resp.Body, key, providers.Result{Model: req.Model, LeftOut: leftOut}), nil
}

// statusError reads {"code":…,"message":…}.
func statusError(resp *http.Response, key string) error {
	body, _ := io.ReadAll(resp.Body) // the client bounds it
	var said struct{ Code, Message string }
	if json.Unmarshal(body, &said) != nil {
		said.Message = string(body)
	}
	e := fail(providers.Status, resp.StatusCode, upstream.Redact(said.Code, key), upstream.Redact(said.Message, key))
	e.RetryAfter = upstream.RetryAfter(resp.Header, time.Now())
	return e
}

// fail makes an error. Its text must be fit for the log.
func fail(kind providers.ErrorKind, status int, code, message string) *providers.Error {
	return &providers.Error{Provider: "acme", Kind: kind, Status: status, Code: code, Message: message}
}
