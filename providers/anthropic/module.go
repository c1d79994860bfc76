package anthropic

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(Module{})
}

// Module is the Caddy module cadenza.providers.anthropic: Anthropic's Messages
// API, or that of a service which speaks the same API.
type Module struct {
	// The API key, as {env.NAME} or {file.PATH}. A file is read anew every ten
	// seconds. Required with Anthropic itself; without it no key is sent. While
	// the variable or the file is empty the provider's targets are skipped.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// Where the API is, up to and without /messages. Default:
	// https://api.anthropic.com/v1
	BaseURL string `json:"base_url,omitempty"`

	// The most tokens of an answer, the model's thinking included, where a
	// definition sets no max_tokens: the API requires a number. Default: 8192.
	MaxTokens int64 `json:"max_tokens,omitempty"`

	// The preview features to turn on, sent as anthropic-beta.
	Beta []string `json:"beta,omitempty"`

	// Let the host of base_url resolve to an address that is not public. A
	// base_url that says localhost or an IP address itself does not need it.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	client *Client
	key    *secret.Rotating // nil where no key is sent
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.anthropic",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	anthropic {
//		api_key       {env.NAME} | {file.PATH}
//		base_url      <url>
//		max_tokens    <count>
//		beta          <name...>
//		allow_private
//		proxy         <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{}
	for d.NextBlock(0) {
		name := d.Val()
		if seen[name] {
			return d.Errf("%s is given twice", name)
		}
		seen[name] = true
		args := d.RemainingArgs()
		switch name {
		case "allow_private":
			if len(args) != 0 {
				return d.ArgErr()
			}
			m.AllowPrivate = true
			continue
		case "beta":
			if len(args) == 0 {
				return d.ArgErr()
			}
			m.Beta = args
			continue
		case "api_key", "base_url", "max_tokens", "proxy":
		default:
			return d.Errf("unknown option %q of provider anthropic: the options are api_key, base_url, max_tokens, beta, allow_private and proxy", name)
		}
		if len(args) != 1 {
			return d.ArgErr()
		}
		if args[0] == "" {
			return d.Errf("%s is empty", name)
		}
		switch name {
		case "api_key":
			m.APIKey = secret.Reference(args[0])
			if err := m.APIKey.Validate(); err != nil {
				return d.Errf("api_key: %v", err)
			}
		case "base_url":
			m.BaseURL = args[0]
		case "max_tokens":
			n, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || n < 1 {
				return d.Errf("max_tokens must be a whole number of at least 1, not %q", args[0])
			}
			m.MaxTokens = n
		case "proxy":
			m.Proxy = args[0]
		}
	}
	return nil
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	config := Config{
		MaxTokens: m.MaxTokens,
		Beta:      m.Beta,
		Upstream:  upstream.Config{AllowPrivate: m.AllowPrivate},
	}
	base := m.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	var err error
	if config.Upstream.BaseURL, err = upstream.ParseBaseURL(base); err != nil {
		return err
	}
	if m.Proxy != "" {
		if config.Upstream.Proxy, err = upstream.ParseProxy(m.Proxy); err != nil {
			return err
		}
	}
	switch {
	case m.APIKey != "":
		if err := m.APIKey.Validate(); err != nil {
			return fmt.Errorf("api_key: %w", err)
		}
		// A key that cannot be had now is no reason not to start: the other
		// providers still answer.
		m.key = m.APIKey.Rotating(upstream.CheckKey)
		config.Secret = m.key.Value
	case config.Upstream.BaseURL.Hostname() == officialHost:
		return errors.New("api_key is required: Anthropic answers nothing without one")
	}
	if m.key != nil && upstream.Unencrypted(config.Upstream.BaseURL) {
		ctx.Logger().Warn("the API key is sent without encryption: base_url begins with http://",
			zap.String("host", config.Upstream.BaseURL.Host))
	}
	m.client, err = New(config)
	return err
}

// Cleanup closes idle connections. Calls that still run keep theirs.
func (m *Module) Cleanup() error {
	if m.client != nil {
		m.client.Close()
	}
	return nil
}

// Invoke calls the model.
func (m *Module) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return m.client.Invoke(ctx, req)
}

// Host is the host and port that requests are sent to.
func (m *Module) Host() string { return m.client.Host() }

// Unavailable tells why there is no key, nil when there is one or none is
// needed.
func (m *Module) Unavailable() error {
	if m.key == nil {
		return nil
	}
	_, err := m.key.Value()
	return err
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
