// Package httpmodule is the half that the Caddy modules of all providers over
// HTTP share. A module embeds Options, or Connection if it names its address
// or its secrets in its own way, and reads its block of a Caddyfile by
// Unmarshal. The embedded struct gives it the methods that the gateway looks
// for: Invoke, Host, Unavailable, Stale and Cleanup.
package httpmodule

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

// Options are the options of a provider that has a base URL and an API key.
type Options struct {
	// The API key, as {env.NAME} or {file.PATH}. A file is read again every ten
	// seconds. Required at a service's own address, if the service wants a key
	// at all; without it no key is sent. While the variable or the file is empty
	// the provider's targets are skipped.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// The address of the API: http or https, without a query. Default: the
	// address of the service itself.
	BaseURL string `json:"base_url,omitempty"`

	Connection
}

// Connection holds the options of a provider's connection, and its client.
type Connection struct {
	// Allows the host to resolve to an address that is not public, such as that
	// of a private endpoint. A URL that says localhost or an IP address itself
	// does not need it.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	logger  *zap.Logger
	base    *url.URL
	client  Client
	secrets []*secret.Rotating
}

// Client is a provider over HTTP: that of a package on top of
// providers/upstream.
type Client interface {
	providers.Provider
	// Host is the host and port that requests are sent to, see providers.Host.
	Host() string
	// Close closes the connections that no call uses.
	Close()
}

// Prepare checks the options of a service that is at the URL official where
// base_url says nothing else. It returns the settings of a client: the
// connection, and the key of each call, nil where none is sent. At the host of
// official a key is required; the error calls the service by its name. An empty
// name requires none.
func (o *Options) Prepare(ctx caddy.Context, name, official string) (config upstream.Config, key func() (string, error), err error) {
	own, err := upstream.ParseBaseURL(official)
	if err != nil {
		return config, nil, err
	}
	base, err := upstream.ParseBaseURL(cmp.Or(o.BaseURL, official))
	if err != nil {
		return config, nil, err
	}
	if base.Host == own.Host && strings.Trim(base.Path, "/") == "" && own.Path != "" {
		return config, nil, fmt.Errorf("base_url must end in %s at %s, or be left out: it is the default", own.Path, own.Host)
	}
	if config, err = o.Connect(ctx, base); err != nil {
		return config, nil, err
	}
	if o.APIKey != "" {
		key, err = o.Secret("api_key", o.APIKey, upstream.CheckKey)
	} else if name != "" && base.Hostname() == own.Hostname() {
		err = fmt.Errorf("api_key is required: %s answers nothing without one", name)
	}
	return config, key, err
}

// Connect checks the options of the connection to base. It connects to nothing.
func (c *Connection) Connect(ctx caddy.Context, base *url.URL) (upstream.Config, error) {
	c.logger, c.base = ctx.Logger(), base
	config := upstream.Config{BaseURL: base, AllowPrivate: c.AllowPrivate}
	if c.Proxy == "" {
		return config, nil
	}
	var err error
	config.Proxy, err = upstream.ParseProxy(c.Proxy)
	return config, err
}

// Secret checks the secret of an option and follows it: the function returns it
// as it was at most ten seconds ago. While it cannot be had, or check refuses
// it, the provider is unavailable. That is no error: the other providers of the
// gateway still answer.
func (c *Connection) Secret(option string, r secret.Reference, check func(string) error) (func() (string, error), error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	rotating := r.Rotating(check)
	rotating.Report(func(stale error) {
		if c.logger == nil {
			return // it is not Connect that made the connection
		}
		fields := []zap.Field{zap.String("host", c.base.Host), zap.String("option", option), zap.String("secret", string(r))}
		if stale == nil {
			c.logger.Info("a secret can be read again", fields...)
			return
		}
		c.logger.Error("a secret can't be read again, the last one stays", append(fields, zap.Error(stale))...)
	})
	c.secrets = append(c.secrets, rotating)
	return rotating.Value, nil
}

// Serve takes the client that calls go to, and passes on the error of making it.
// It is called once, after Connect and Secret.
func (c *Connection) Serve(client Client, err error) error {
	if err != nil {
		return err
	}
	if c.base != nil && len(c.secrets) > 0 && upstream.Unencrypted(c.base) {
		c.logger.Warn("secrets are sent without encryption: the URL begins with http://", zap.String("host", c.base.Host))
	}
	c.client = client
	return nil
}

// Invoke calls the model.
func (c *Connection) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return c.client.Invoke(ctx, req)
}

// PrepareRequests prepares requests if the client does, see providers.Prepare.
func (c *Connection) PrepareRequests(req *providers.Request) (any, error) {
	return providers.Prepare(c.client, req)
}

// SearchAPI returns the client's, see providers.SearchAPI.
func (c *Connection) SearchAPI(req *providers.Request) string {
	return providers.SearchAPI(c.client, req)
}

// Embedder returns the client if it makes vectors, see providers.EmbedderOf.
func (c *Connection) Embedder() providers.Embedder {
	e, _ := c.client.(providers.Embedder)
	return e
}

// Host is the host and port that requests are sent to.
func (c *Connection) Host() string { return c.client.Host() }

// Unavailable returns why a secret cannot be had, nil when all can.
func (c *Connection) Unavailable() error {
	for _, s := range c.secrets {
		if _, err := s.Value(); err != nil {
			return err
		}
	}
	return nil
}

// Stale returns the first secret whose file cannot be used any more: why, and since
// when its last value stays.
func (c *Connection) Stale() (since time.Time, err error) {
	for _, s := range c.secrets {
		if since, err = s.Stale(); err != nil {
			return since, err
		}
	}
	return time.Time{}, nil
}

// Cleanup closes idle connections. Calls that still run keep theirs.
func (c *Connection) Cleanup() error {
	if c.client != nil {
		c.client.Close()
	}
	return nil
}

// Interface guards
var (
	_ providers.Provider = (*Connection)(nil)
	_ caddy.CleanerUpper = (*Connection)(nil)
)
