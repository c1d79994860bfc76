// Package anthropic calls Anthropic's Messages API, or a service that speaks
// it at a base URL of its own. It is a thin adapter over the gateway's own HTTP
// client and reader of server-sent events: requests are built and answers read
// here, and an answer counts as complete only when message_stop was seen.
package anthropic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

const (
	// DefaultBaseURL is Anthropic's own service.
	DefaultBaseURL = "https://api.anthropic.com/v1"
	// DefaultMaxTokens is sent where a definition sets no max_tokens: the API
	// requires the member. It bounds a model's thinking and its answer together.
	DefaultMaxTokens = 8192

	// apiVersion is the version of the wire format that this package reads.
	apiVersion = "2023-06-01"
)

// Config describes one service.
type Config struct {
	// Name stands in errors. Default: anthropic.
	Name string
	// Key is sent as x-api-key; empty sends none.
	Key string
	// Secret, where set, gives the key of each call in place of Key, for keys
	// that change. Its error fails the call. It is called by several goroutines
	// at once.
	Secret func() (string, error)
	// MaxTokens is sent where a request sets none. Default: DefaultMaxTokens.
	MaxTokens int64
	// Beta are the names of preview features, sent as anthropic-beta.
	Beta []string
	// Upstream describes the connection. A nil BaseURL is DefaultBaseURL.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	name      string
	key       string
	secret    func() (string, error)
	maxTokens int64
	url       string
	json      http.Header // of a request for a whole answer
	stream    http.Header // of one for a stream
	http      *upstream.Client
}

// New makes a client. It connects to nothing.
func New(config Config) (*Client, error) {
	if config.Name == "" {
		config.Name = "anthropic"
	}
	if config.MaxTokens == 0 {
		config.MaxTokens = DefaultMaxTokens
	}
	if config.MaxTokens < 0 {
		return nil, errors.New("max_tokens must be at least 1")
	}
	if config.Upstream.BaseURL == nil {
		u, err := upstream.ParseBaseURL(DefaultBaseURL)
		if err != nil {
			return nil, err
		}
		config.Upstream.BaseURL = u
	}
	if !upstream.ValidHeaderValue(config.Key) {
		return nil, errors.New("the API key has a character that a header cannot carry")
	}
	for _, name := range config.Beta {
		if name == "" || !upstream.ValidHeaderValue(name) || strings.Contains(name, ",") {
			return nil, errors.New("beta takes names of visible ASCII without spaces and commas")
		}
	}
	client, err := upstream.NewClient(config.Upstream)
	if err != nil {
		return nil, err
	}
	c := &Client{
		name:      config.Name,
		key:       config.Key,
		secret:    config.Secret,
		maxTokens: config.MaxTokens,
		url:       strings.TrimRight(config.Upstream.BaseURL.String(), "/") + "/messages",
		http:      client,
	}
	c.json = c.headers("application/json", config.Beta)
	c.stream = c.headers("text/event-stream", config.Beta)
	return c, nil
}

func (c *Client) headers(accept string, beta []string) http.Header {
	h := http.Header{}
	h.Set("Accept", accept)
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", upstream.UserAgent)
	h.Set("Anthropic-Version", apiVersion)
	if len(beta) > 0 {
		h.Set("Anthropic-Beta", strings.Join(beta, ","))
	}
	return h
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.Close() }

// Host is the host and port that requests are sent to.
func (c *Client) Host() string { return c.http.Host() }

// call is what the reading of one answer needs: the client, and the key that was
// sent, which the log must not show.
type call struct {
	*Client
	key string
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	body, leftOut, err := c.body(req)
	if err != nil {
		return nil, err
	}
	k := call{c, c.key}
	if c.secret != nil {
		if k.key, err = c.secret(); err != nil {
			return nil, &providers.ConnectError{Permanent: true, Err: err}
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, upstream.Unanswered(ctx, err, k.key)
	}
	header := c.json
	if req.Stream {
		header = c.stream
	}
	r.Header = header.Clone()
	if k.key != "" {
		r.Header.Set("X-Api-Key", k.key)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, upstream.Unanswered(ctx, err, k.key)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		// A body that breaks off says less, but the status stands.
		said, _ := io.ReadAll(resp.Body)
		return nil, k.statusError(resp, said)
	}
	return newStream(k, resp.Body, leftOut), nil
}

func (k call) statusError(resp *http.Response, body []byte) *providers.Error {
	e := &providers.Error{
		Provider:   k.name,
		Kind:       providers.Status,
		Status:     resp.StatusCode,
		Advice:     upstream.Advice(resp.Header),
		RetryAfter: upstream.RetryAfter(resp.Header, time.Now()),
	}
	k.describe(e, body)
	return e
}
