// Package bedrock calls models on Amazon Bedrock by its operations Converse
// and ConverseStream, which are the same for all models that chat. Requests
// are signed with Signature Version 4, or carry an API key of Bedrock.
package bedrock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// Config describes one account's access in one region.
type Config struct {
	// Name is the provider's name in errors. Default: bedrock.
	Name string
	// Region is the AWS region, us-east-1 for one. Requests are signed for it.
	Region string
	// APIKey gives the API key of each call. It goes before Credentials.
	APIKey func() (string, error)
	// Credentials provides the credentials that sign each call.
	Credentials func() (aws.Credentials, error)
	// Upstream describes the connection. A nil BaseURL is the region's
	// endpoint.
	Upstream upstream.Config
}

// Client is a provider. It is safe for concurrent use.
type Client struct {
	upstream.Service

	region      string
	base        *url.URL
	apiKey      func() (string, error)
	credentials func() (aws.Credentials, error)
	signer      *v4.Signer
}

var regionName = regexp.MustCompile(`^[a-z]{2,}(-[a-z0-9]+)+$`)

// BaseURL is the endpoint of a region.
func BaseURL(region string) (*url.URL, error) {
	if !regionName.MatchString(region) {
		return nil, errors.New("region must be the name of an AWS region, such as us-east-1")
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return &url.URL{Scheme: "https", Host: "bedrock-runtime." + region + "." + domain}, nil
}

// New makes a client. It connects to nothing.
func New(config Config) (*Client, error) {
	if config.Name == "" {
		config.Name = "bedrock"
	}
	endpoint, err := BaseURL(config.Region)
	if err != nil {
		return nil, err
	}
	if config.Upstream.BaseURL == nil {
		config.Upstream.BaseURL = endpoint
	}
	if config.APIKey == nil && config.Credentials == nil {
		return nil, errors.New("an API key or credentials are required")
	}
	service, err := upstream.NewService(config.Name, "", nil, config.Upstream)
	if err != nil {
		return nil, err
	}
	service.RejectionCode = "ValidationException"
	return &Client{
		Service:     service,
		region:      config.Region,
		base:        config.Upstream.BaseURL,
		apiKey:      config.APIKey,
		credentials: config.Credentials,
		signer:      v4.NewSigner(),
	}, nil
}

// Invoke sends the request and returns once the response's headers are there.
func (c *Client) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	body, leftOut, uncalled, err := c.body(req)
	if err != nil {
		return nil, err
	}
	operation, accept := "converse", ""
	if req.Stream {
		operation, accept = "converse-stream", "application/vnd.amazon.eventstream"
	}
	k, answer, _, err := c.send(ctx, req.Model, operation, body, accept)
	if err != nil {
		return nil, err
	}
	s := newStream(k, answer, req.Model, leftOut)
	s.uncalled = uncalled
	return s, nil
}

// send sends the request of a model's operation. It returns the body and the header of an
// answer of status 200; others are errors. An empty accept is JSON.
func (c *Client) send(ctx context.Context, model, operation string, body []byte, accept string) (k upstream.Call, answer io.ReadCloser, header http.Header, err error) {
	k.Provider = c.Name
	r, err := c.Request(ctx, c.url(model, operation), body, false)
	if err != nil {
		return k, nil, nil, err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	if k.Secrets, err = c.authorize(r, body); err != nil {
		return k, nil, nil, &providers.ConnectError{Permanent: true, Err: errors.New(k.Redact(err.Error()))}
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return k, nil, nil, k.Unanswered(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		e := k.StatusError(resp, describe)
		if word := errorWord(resp.Header.Get("X-Amzn-Errortype")); word != "" {
			e.Code = k.Redact(word)
		}
		return k, nil, nil, e
	}
	return k, resp.Body, resp.Header, nil
}

// url returns the address of a model's operation. A model's id may be an ARN:
// its colons and slashes are encoded, as AWS's own clients do.
func (c *Client) url(model, operation string) *url.URL {
	u := *c.base
	prefix := strings.TrimSuffix(c.base.Path, "/")
	u.Path = prefix + "/model/" + model + "/" + operation
	u.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + "/model/" + escape(model) + "/" + operation
	return &u
}

// escape encodes all but the unreserved characters of RFC 3986
// (https://www.rfc-editor.org/rfc/rfc3986#section-2.3).
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
