// Package openai calls chat completions of OpenAI, and of every service that
// speaks its API at a base URL of its own. The official SDK writes the typed
// request but for its messages, once for all requests of a target. OpenAI's models
// that need it are called by the Responses API. The connection
// is the gateway's own, and the response is read here, byte by byte, because the SDK
// takes a cut stream for a complete one and loses the status of errors it does not
// understand.
package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// DefaultBaseURL is OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1"

// isOpenAI reports whether a URL is OpenAI's own, or that of one of its regions, such as
// eu.api.openai.com (https://developers.openai.com/api/docs/guides/data-residency).
func isOpenAI(u *url.URL) bool {
	return strings.HasSuffix("."+strings.ToLower(u.Hostname()), ".api.openai.com")
}

// Config describes one service.
type Config struct {
	// Name is the provider's name in errors. Default: openai.
	Name string
	// Key is sent as a bearer token; empty sends none.
	Key string
	// Secret, where set, gives the key of each call in place of Key, for keys
	// that change. An error fails the call. Several goroutines call it at once.
	Secret func() (string, error)
	// KeyHeader is the header that carries the key as it is. Empty:
	// Authorization, as a bearer token.
	KeyHeader string
	// Organization and Project are sent as OpenAI-Organization and
	// OpenAI-Project where set.
	Organization, Project string
	// API is APIChat or APIResponses for the API that all calls go to. Empty: chat
	// completions, and where Quirks.Responses is set, the API that the model needs.
	API string
	// Quirks are the service's quirks. With OpenAI's own host they are known.
	Quirks Quirks
	// Upstream describes the connection. A nil BaseURL is DefaultBaseURL.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	upstream.Service

	header string // that carries the secret, empty for a bearer token
	api    string
	quirks Quirks
	items  *Quirks // where the Responses API is called
	// The URLs of the APIs.
	chat, responses, embeddings *url.URL
}

// New makes a client. It connects to nothing.
func New(config Config) (*Client, error) {
	if config.Name == "" {
		config.Name = "openai"
	}
	if config.Upstream.BaseURL == nil {
		u, err := upstream.ParseBaseURL(DefaultBaseURL)
		if err != nil {
			return nil, err
		}
		config.Upstream.BaseURL = u
	}
	if !upstream.ValidHeaderValue(config.Organization) || !upstream.ValidHeaderValue(config.Project) {
		return nil, errors.New("organization and project must be visible ASCII without spaces")
	}
	if err := checkAPI(config.API); err != nil {
		return nil, err
	}
	service, err := upstream.NewService(config.Name, config.Key, config.Secret, config.Upstream)
	if err != nil {
		return nil, err
	}
	if config.Organization != "" {
		service.Header.Set("OpenAI-Organization", config.Organization)
	}
	if config.Project != "" {
		service.Header.Set("OpenAI-Project", config.Project)
	}
	if isOpenAI(config.Upstream.BaseURL) {
		config.Quirks.MaxCompletionTokens = config.Quirks.MaxCompletionTokens || officialQuirks.MaxCompletionTokens
		config.Quirks.NoTopK = config.Quirks.NoTopK || officialQuirks.NoTopK
		config.Quirks.Caches, config.Quirks.CacheKey, config.Quirks.Official = true, true, true
		config.Quirks.NoEffort, config.Quirks.ModelEfforts = officialQuirks.NoEffort, officialQuirks.ModelEfforts
		config.Quirks.Responses = officialQuirks.Responses
		config.Quirks.Embeddings = officialEmbeddings
	}
	return &Client{
		Service:   service,
		header:    config.KeyHeader,
		api:       config.API,
		quirks:    config.Quirks,
		items:     config.Quirks.byResponses(),
		chat:      config.Upstream.BaseURL.JoinPath("chat/completions"),
		responses: config.Upstream.BaseURL.JoinPath("responses"),

		embeddings: config.Upstream.BaseURL.JoinPath("embeddings"),
	}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	form, err := c.formOf(req)
	if err != nil {
		return nil, err
	}
	body, leftOut, err := c.body(form, req.Messages)
	if err != nil {
		return nil, err
	}
	k, err := c.Begin()
	if err != nil {
		return nil, err
	}
	to := c.chat
	if form.responses {
		to = c.responses
	}
	r, err := c.Request(ctx, to, body, req.Stream)
	if err != nil {
		return nil, err
	}
	if !form.fixed {
		defer upstream.Lend(r, body)()
	}
	c.authorize(r, k)
	answer, err := c.Send(k, r, describe)
	if err != nil {
		return nil, err
	}
	if form.responses {
		s := newResponseStream(k, answer, leftOut)
		s.searches = req.Parameters.FromCaller().Search != nil
		return s, nil
	}
	return newStream(k, answer, leftOut), nil
}

// authorize adds the key of a call to its request.
func (c *Client) authorize(r *http.Request, k upstream.Call) {
	switch key := k.Secrets[0]; {
	case key == "":
	case c.header != "":
		r.Header.Set(c.header, key)
	default:
		r.Header["Authorization"] = []string{"Bearer " + key}
	}
}
