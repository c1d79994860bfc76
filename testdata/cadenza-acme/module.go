package acme

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(Module{})
}

// Module is the Caddy module cadenza.providers.acme.
type Module struct {
	// The API key, as {env.NAME} or {file.PATH}.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// Where the API is. Default: https://api.acme.example
	BaseURL string `json:"base_url,omitempty"`

	client *Client
	key    *secret.Rotating
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.acme",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	acme {
//		api_key  {env.NAME} | {file.PATH}
//		base_url <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	for d.NextBlock(0) {
		option := d.Val()
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch option {
		case "api_key":
			m.APIKey = secret.Reference(value)
		case "base_url":
			m.BaseURL = value
		default:
			return d.Errf("unknown option %q of provider acme: the options are api_key and base_url", option)
		}
	}
	return nil
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(caddy.Context) error {
	if m.APIKey == "" {
		return errors.New("api_key is required")
	}
	if err := m.APIKey.Validate(); err != nil {
		return err
	}
	if m.BaseURL == "" {
		m.BaseURL = "https://api.acme.example"
	}
	base, err := upstream.ParseBaseURL(m.BaseURL)
	if err != nil {
		return err
	}
	// A key that cannot be had now is no reason not to start, and one in a file
	// may be replaced at any time.
	m.key = m.APIKey.Rotating(upstream.CheckKey)
	m.client, err = New(base, m.key.Value)
	return err
}

// Invoke calls the model.
func (m *Module) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return m.client.Invoke(ctx, req)
}

// Host is the host and port that requests are sent to.
func (m *Module) Host() string { return m.client.http.Host() }

// Unavailable tells why there is no key, nil when there is one.
func (m *Module) Unavailable() error {
	_, err := m.key.Value()
	return err
}

// Cleanup closes idle connections. Calls that still run keep theirs.
func (m *Module) Cleanup() error {
	if m.client != nil {
		m.client.http.Close()
	}
	return nil
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
