// Package gemini calls Gemini models: with Google AI by an API key, or with
// Vertex AI by an access token. Both speak generateContent and, streamed,
// streamGenerateContent?alt=sse. It is a thin adapter over the gateway's own
// HTTP client and reader of server-sent events: requests are built and answers
// read here, and an answer counts as complete only when the model named its
// finishReason and the body then ended as HTTP says that it ends, because the
// API has no end marker of its own.
package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// DefaultBaseURL is Google AI, the Gemini API for developers.
const DefaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"

const officialHost = "generativelanguage.googleapis.com"

// Config describes one service.
type Config struct {
	// Name is the provider's name in errors. Default: gemini.
	Name string
	// Key is sent as x-goog-api-key; empty sends none.
	Key string
	// Secret, where set, gives the key of each call in place of Key, for keys
	// that change; Token gives an access token, sent as a bearer token. Their
	// errors fail the call. Several goroutines call them at once.
	Secret, Token func() (string, error)
	// Upstream describes the connection. A nil BaseURL is DefaultBaseURL. The
	// base URL is the URL up to and without /models/.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	upstream.Service

	bearer bool // the secret is a token
	base   *url.URL
}

var (
	// project matches the id of a Google Cloud project (some old ones belong to
	// a domain), or its number.
	project = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.:-]{0,61}[a-z0-9])?$`)
	// location matches a region such as europe-west4, and global, eu and us.
	location = regexp.MustCompile(`^[a-z]+(?:-[a-z]+\d+)?$`)
	// model matches a model's name in a path.
	model = regexp.MustCompile(`^(?:(?:models|tunedModels)/)?[A-Za-z0-9_][A-Za-z0-9._@-]{0,127}$`)
)

// VertexBaseURL is the base URL of Google's models on Vertex AI, for a project
// and a location: a region, global, or the multi-regions eu and us.
func VertexBaseURL(projectID, locationID string) (string, error) {
	if !project.MatchString(projectID) {
		return "", errors.New("project must be the id or the number of a Google Cloud project")
	}
	if !location.MatchString(locationID) {
		return "", errors.New("location must be a region such as europe-west4, or global, eu or us")
	}
	host := locationID + "-aiplatform.googleapis.com"
	switch locationID {
	case "global":
		host = "aiplatform.googleapis.com"
	case "eu", "us":
		host = "aiplatform." + locationID + ".rep.googleapis.com"
	}
	return fmt.Sprintf("https://%s/v1/projects/%s/locations/%s/publishers/google", host, projectID, locationID), nil
}

// New makes a client. It connects to nothing.
func New(config Config) (*Client, error) {
	if config.Name == "" {
		config.Name = "gemini"
	}
	if config.Upstream.BaseURL == nil {
		u, err := upstream.ParseBaseURL(DefaultBaseURL)
		if err != nil {
			return nil, err
		}
		config.Upstream.BaseURL = u
	}
	if (config.Key != "" || config.Secret != nil) && config.Token != nil {
		return nil, errors.New("an API key and an access token exclude each other")
	}
	if config.Token != nil {
		config.Secret = config.Token
	}
	service, err := upstream.NewService(config.Name, config.Key, config.Secret, config.Upstream)
	if err != nil {
		return nil, err
	}
	return &Client{
		Service: service,
		bearer:  config.Token != nil,
		base:    config.Upstream.BaseURL,
	}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	body, leftOut, err := c.body(req)
	if err != nil {
		return nil, err
	}
	target, err := c.target(req)
	if err != nil {
		return nil, err
	}
	k, err := c.Begin()
	if err != nil {
		return nil, err
	}
	r, err := c.Request(ctx, target, body, req.Stream)
	if err != nil {
		return nil, err
	}
	c.authorize(r, k)
	if tier := c.tier(req); tier != "" && tier != standard && c.vertex() {
		r.Header.Set("X-Vertex-AI-LLM-Shared-Request-Type", tier)
	}
	answer, err := c.Send(k, r, describe)
	if err != nil {
		return nil, err
	}
	s := newStream(k, answer, req.Parameters.Logprobs != nil, leftOut)
	s.search.on = req.Parameters.FromCaller().Search != nil
	return s, nil
}

// authorize adds the secret of a call to its request.
func (c *Client) authorize(r *http.Request, k upstream.Call) {
	switch secret := k.Secrets[0]; {
	case c.bearer:
		r.Header.Set("Authorization", "Bearer "+secret)
	case secret != "":
		r.Header.Set("X-Goog-Api-Key", secret)
	}
}

// target is the URL of a call.
func (c *Client) target(req *providers.Request) (*url.URL, error) {
	if !req.Stream {
		return c.method(req.Model, "generateContent", "")
	}
	return c.method(req.Model, "streamGenerateContent", "alt=sse")
}

// method is the URL of a model's method.
func (c *Client) method(name, method, query string) (*url.URL, error) {
	if !model.MatchString(name) {
		return nil, c.Unsendable("%q is no name of a Gemini model", name)
	}
	u := c.base.JoinPath(resource(name) + ":" + method)
	u.RawQuery = query
	return u, nil
}

// resource is the name of a model as the API has it.
func resource(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "models/" + name
}
