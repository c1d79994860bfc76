// Package openai calls chat completions of OpenAI, and of every service that
// speaks its API at a base URL of its own. The official SDK builds the typed
// request; the response is read here, byte by byte, because the SDK takes a
// cut stream for a complete one and loses the status of errors it does not
// understand.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	// KeyHeader is the header that carries Key as it is, for services that
	// want it so. Empty: Authorization, as a bearer token.
	KeyHeader string
	// Token, where set, gives the bearer token of each call, in place of Key,
	// for tokens that expire. Its error fails the call.
	Token func() (string, error)
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
	token  func() (string, error)
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
	if !ValidHeaderValue(config.Key) {
		return nil, errors.New("the API key has a character that a header cannot carry")
	}
	if !ValidHeaderValue(config.Organization) || !ValidHeaderValue(config.Project) {
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
	switch {
	case config.Key == "":
	case config.KeyHeader != "":
		options = append(options, option.WithHeader(config.KeyHeader, config.Key))
	default:
		options = append(options, option.WithAPIKey(config.Key))
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
	}
	return &Client{
		name:   config.Name,
		key:    config.Key,
		token:  config.Token,
		quirks: config.Quirks,
		http:   client,
		chat:   openai.NewChatCompletionService(options...),
	}, nil
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.Close() }

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	params, err := c.params(req)
	if err != nil {
		return nil, err
	}
	accept := "application/json"
	if req.Stream {
		accept = "text/event-stream"
	}
	var resp *http.Response
	options := []option.RequestOption{option.WithHeader("Accept", accept), option.WithResponseBodyInto(&resp)}
	if c.token != nil {
		token, err := c.token()
		if err == nil && !ValidHeaderValue(token) {
			err = errors.New("the token has a character that a header cannot carry")
		}
		if err != nil {
			return nil, &providers.ConnectError{Permanent: true, Err: err}
		}
		options = append(options, option.WithAPIKey(token))
	}
	_, err = c.chat.New(ctx, params, options...)
	if resp == nil {
		return nil, c.unanswered(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		// A body that breaks off says less, but the status stands.
		body, _ := io.ReadAll(resp.Body)
		return nil, c.statusError(resp, body)
	}
	return newStream(c, resp), nil
}

// unanswered explains a call without a response.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*providers.ConnectError](err); ok {
		return e
	}
	if err == nil {
		err = errors.New("no response")
	}
	return &providers.ConnectError{Permanent: true, Err: errors.New(c.redact(err.Error()))}
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

// params translates the request.
func (c *Client) params(req *providers.Request) (openai.ChatCompletionNewParams, error) {
	messages := c.quirks.arrange(req.Messages)
	p := openai.ChatCompletionNewParams{
		Model:    req.Model,
		Messages: make([]openai.ChatCompletionMessageParamUnion, len(messages)),
	}
	for i, m := range messages {
		switch m.Role {
		case "system":
			p.Messages[i] = openai.SystemMessage(m.Content)
		case "developer":
			p.Messages[i] = openai.DeveloperMessage(m.Content)
		case "user":
			p.Messages[i] = openai.UserMessage(m.Content)
		case "assistant":
			p.Messages[i] = openai.AssistantMessage(m.Content)
		default:
			return p, &providers.Error{
				Provider: c.name, Kind: providers.Status, Status: http.StatusBadRequest,
				Message: fmt.Sprintf("message %d has the unknown role %q", i, m.Role),
			}
		}
	}
	extra := make(map[string]any, len(req.Extra)+3)
	if v := req.Parameters.Temperature; v != nil {
		p.Temperature = openai.Float(*v)
	}
	if v := req.Parameters.TopP; v != nil {
		p.TopP = openai.Float(*v)
	}
	if v := req.Parameters.FrequencyPenalty; v != nil {
		p.FrequencyPenalty = openai.Float(*v)
	}
	if v := req.Parameters.PresencePenalty; v != nil {
		p.PresencePenalty = openai.Float(*v)
	}
	if v := req.Parameters.MaxTokens; v != nil {
		if c.quirks.MaxCompletionTokens {
			p.MaxCompletionTokens = openai.Int(*v)
		} else {
			p.MaxTokens = openai.Int(*v)
		}
	}
	if v := req.Parameters.TopK; v != nil && !c.quirks.NoTopK {
		extra["top_k"] = *v
	}
	if req.Stream && !c.quirks.NoStreamOptions {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	for name, value := range req.Extra {
		extra[name] = value
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(extra, "stream")
	if req.Stream {
		extra["stream"] = true
	}
	if len(extra) > 0 {
		p.SetExtraFields(extra)
	}
	return p, nil
}

// redact makes a text of the service fit for the log.
func (c *Client) redact(text string) string {
	key := c.key
	if c.token != nil {
		key, _ = c.token()
	}
	return upstream.Redact(text, key)
}

// ValidHeaderValue tells whether a key can be sent in a header: visible ASCII.
func ValidHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
