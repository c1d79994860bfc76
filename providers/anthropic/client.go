// Package anthropic calls Anthropic's Messages API, or a service that speaks
// it at a base URL of its own. It is a thin adapter over the gateway's own HTTP
// client and reader of server-sent events: requests are built and answers read
// here, and an answer counts as complete only when message_stop was seen.
package anthropic

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

const (
	// DefaultBaseURL is Anthropic's own service.
	DefaultBaseURL = "https://api.anthropic.com/v1"
	officialHost   = "api.anthropic.com"
	// DefaultMaxTokens is sent if a definition sets no max_tokens: the API
	// requires the member. It bounds a model's thinking and its answer together.
	DefaultMaxTokens = 8192

	// apiVersion is the version of the wire format that this package reads.
	apiVersion = "2023-06-01"
)

// Config describes one service.
type Config struct {
	// Name is the provider's name in errors. Default: anthropic.
	Name string
	// Key is sent as x-api-key; empty sends none.
	Key string
	// Secret, where set, gives the key of each call in place of Key, for keys
	// that change. An error fails the call. Several goroutines call it at once.
	Secret func() (string, error)
	// MaxTokens is sent if a request sets none. Default: DefaultMaxTokens.
	MaxTokens int64
	// Beta are the names of preview features, sent as anthropic-beta.
	Beta []string
	// Upstream describes the connection. A nil BaseURL is DefaultBaseURL.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	upstream.Service

	maxTokens int64
	url       *url.URL
	official  bool // the service is Anthropic's own
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
	for _, name := range config.Beta {
		if name == "" || !upstream.ValidHeaderValue(name) || strings.Contains(name, ",") {
			return nil, errors.New("beta takes names of visible ASCII without spaces and commas")
		}
	}
	service, err := upstream.NewService(config.Name, config.Key, config.Secret, config.Upstream)
	if err != nil {
		return nil, err
	}
	service.Header.Set("Anthropic-Version", apiVersion)
	if len(config.Beta) > 0 {
		service.Header.Set("Anthropic-Beta", strings.Join(config.Beta, ","))
	}
	return &Client{
		Service:   service,
		maxTokens: config.MaxTokens,
		url:       config.Upstream.BaseURL.JoinPath("messages"),
		official:  config.Upstream.BaseURL.Hostname() == officialHost,
	}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	body, leftOut, err := c.body(req)
	if err != nil {
		return nil, err
	}
	k, err := c.Begin()
	if err != nil {
		return nil, err
	}
	r, err := c.Request(ctx, c.url, body, req.Stream)
	if err != nil {
		return nil, err
	}
	if key := k.Secrets[0]; key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	if betas := req.Parameters.FromCaller().Betas; len(betas) > 0 {
		r.Header["Anthropic-Beta"] = []string{strings.Join(slices.Concat(r.Header["Anthropic-Beta"], betas), ",")}
	}
	answer, err := c.Send(k, r, describe)
	if err != nil {
		return nil, err
	}
	s := newStream(k, answer, leftOut)
	s.search.on = req.Parameters.FromCaller().Search != nil
	return s, nil
}
