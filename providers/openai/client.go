// Package openai calls chat completions of OpenAI, and of every service that
// speaks its API at a base URL of its own. The official SDK builds the typed
// request; the response is read here, byte by byte, because the SDK takes a
// cut stream for a complete one and loses the status of errors it does not
// understand.
package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// DefaultBaseURL is OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1"

const officialHost = "api.openai.com"

// Config describes one service.
type Config struct {
	// Name stands in errors. Default: openai.
	Name string
	// Key is sent as a bearer token; empty sends none.
	Key string
	// Secret, where set, gives the key of each call in place of Key, for keys
	// that change. Its error fails the call. It is called by several goroutines
	// at once.
	Secret func() (string, error)
	// KeyHeader is the header that carries the key as it is. Empty:
	// Authorization, as a bearer token.
	KeyHeader string
	// Organization and Project are sent as OpenAI-Organization and
	// OpenAI-Project where set.
	Organization, Project string
	// Quirks are those of the service. With OpenAI's own host they are known.
	Quirks Quirks
	// Upstream describes the connection. A nil BaseURL is DefaultBaseURL.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	name   string
	key    string
	secret func() (string, error)
	header string // that carries the key, empty for a bearer token
	quirks Quirks
	http   *upstream.Client
	chat   openai.ChatCompletionService
}

// The SDK's own headers tell the upstream about this machine.
var sdkHeaders = []string{
	"X-Stainless-Lang", "X-Stainless-Package-Version", "X-Stainless-OS", "X-Stainless-Arch",
	"X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Retry-Count", "X-Stainless-Timeout",
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
	if !upstream.ValidHeaderValue(config.Key) {
		return nil, errBadKey
	}
	if !upstream.ValidHeaderValue(config.Organization) || !upstream.ValidHeaderValue(config.Project) {
		return nil, errors.New("organization and project must be visible ASCII without spaces")
	}
	client, err := upstream.NewClient(config.Upstream)
	if err != nil {
		return nil, err
	}
	// A service value, other than the SDK's client, takes nothing from the
	// environment: no key meant for one service reaches another.
	options := []option.RequestOption{
		option.WithBaseURL(config.Upstream.BaseURL.String()),
		option.WithHTTPClient(client.Client),
		option.WithMaxRetries(0),
		option.WithHeader("User-Agent", upstream.UserAgent),
	}
	for _, name := range sdkHeaders {
		options = append(options, option.WithHeaderDel(name))
	}
	if config.Key != "" {
		options = append(options, withKey(config.KeyHeader, config.Key))
	}
	if config.Organization != "" {
		options = append(options, option.WithHeader("OpenAI-Organization", config.Organization))
	}
	if config.Project != "" {
		options = append(options, option.WithHeader("OpenAI-Project", config.Project))
	}
	if config.Upstream.BaseURL.Hostname() == officialHost {
		config.Quirks.MaxCompletionTokens = config.Quirks.MaxCompletionTokens || officialQuirks.MaxCompletionTokens
		config.Quirks.NoTopK = config.Quirks.NoTopK || officialQuirks.NoTopK
		config.Quirks.NoEffort = officialQuirks.NoEffort
	}
	return &Client{
		name:   config.Name,
		key:    config.Key,
		secret: config.Secret,
		header: config.KeyHeader,
		quirks: config.Quirks,
		http:   client,
		chat:   openai.NewChatCompletionService(options...),
	}, nil
}

func withKey(header, key string) option.RequestOption {
	if header != "" {
		return option.WithHeader(header, key)
	}
	return option.WithAPIKey(key)
}

var errBadKey = errors.New("the API key has a character that a header cannot carry")

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.Close() }

// Host is the host and port that requests are sent to.
func (c *Client) Host() string { return c.http.Host() }

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	params, leftOut, err := c.params(req)
	if err != nil {
		return nil, err
	}
	accept := "application/json"
	if req.Stream {
		accept = "text/event-stream"
	}
	var resp *http.Response
	options := []option.RequestOption{option.WithHeader("Accept", accept), option.WithResponseBodyInto(&resp)}
	call := c
	if c.secret != nil {
		key, err := c.secret()
		if err == nil && !upstream.ValidHeaderValue(key) {
			err = errBadKey
		}
		if err != nil {
			return nil, &providers.ConnectError{Permanent: true, Err: err}
		}
		options = append(options, withKey(c.header, key))
		// The log must not show the key that was sent, whatever it is by then.
		sent := *c
		sent.key, sent.secret = key, nil
		call = &sent
	}
	_, err = c.chat.New(ctx, params, options...)
	if resp == nil {
		return nil, upstream.Unanswered(ctx, err, call.key)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		// A body that breaks off says less, but the status stands.
		body, _ := io.ReadAll(resp.Body)
		return nil, call.statusError(resp, body)
	}
	return newStream(call, resp, leftOut), nil
}

func (c *Client) statusError(resp *http.Response, body []byte) *providers.Error {
	e := &providers.Error{
		Provider:   c.name,
		Kind:       providers.Status,
		Status:     resp.StatusCode,
		Advice:     upstream.Advice(resp.Header),
		RetryAfter: upstream.RetryAfter(resp.Header, time.Now()),
	}
	c.describe(e, body)
	return e
}

// redact makes a text of the service fit for the log.
func (c *Client) redact(text string) string { return upstream.Redact(text, c.key) }
