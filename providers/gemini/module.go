package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

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

// Module is the Caddy module cadenza.providers.gemini: Gemini models of Google
// AI, or of Vertex AI where project and location are given.
type Module struct {
	// The API key, as {env.NAME} or {file.PATH}. A file is read anew every ten
	// seconds. While the variable or the file is empty the provider's targets
	// are skipped.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// In place of an API key: an OAuth 2.0 access token, as {env.NAME} or
	// {file.PATH}. Tokens live for an hour, so it belongs in a file that is
	// renewed from outside; the gateway reads it anew every ten seconds.
	Token secret.Reference `json:"token,omitempty"`

	// The Google Cloud project and the location to call Vertex AI in: a region
	// such as europe-west4, or global, eu or us.
	Project  string `json:"project,omitempty"`
	Location string `json:"location,omitempty"`

	// Where the API is, up to and without /models/. Default: that of Vertex AI
	// where project and location are given, else
	// https://generativelanguage.googleapis.com/v1beta
	BaseURL string `json:"base_url,omitempty"`

	// Let the host of base_url resolve to an address that is not public. A
	// base_url that says localhost or an IP address itself does not need it.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	client *Client
	secret *secret.Rotating // the key or the token, nil where none is sent
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.gemini",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	gemini {
//		api_key       {env.NAME} | {file.PATH}
//		token         {env.NAME} | {file.PATH}
//		project       <id>
//		location      <region> | global | eu | us
//		base_url      <url>
//		allow_private
//		proxy         <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		text := map[string]*string{
			"api_key": (*string)(&m.APIKey), "token": (*string)(&m.Token), "project": &m.Project,
			"location": &m.Location, "base_url": &m.BaseURL, "proxy": &m.Proxy,
		}[name]
		switch {
		case text != nil:
			if *text != "" {
				return d.Errf("%s is given twice", name)
			}
			if !d.NextArg() {
				return d.ArgErr()
			}
			*text = d.Val()
			if *text == "" {
				return d.Errf("%s is empty", name)
			}
		case name == "allow_private":
			m.AllowPrivate = true
		default:
			return d.Errf("unknown option %q of provider gemini: the options are api_key, token, project, location, base_url, allow_private and proxy", name)
		}
		if name == "api_key" || name == "token" {
			if err := secret.Reference(*text).Validate(); err != nil {
				return d.Errf("%s: %v", name, err)
			}
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision checks the options and resolves the key or the token. It connects
// to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	base, err := m.baseURL()
	if err != nil {
		return err
	}
	config := Config{Upstream: upstream.Config{BaseURL: base, AllowPrivate: m.AllowPrivate}}
	if m.Proxy != "" {
		if config.Upstream.Proxy, err = upstream.ParseProxy(m.Proxy); err != nil {
			return err
		}
	}
	// A secret that cannot be had now is no reason not to start: the other
	// providers still answer.
	switch {
	case m.APIKey != "" && m.Token != "":
		return errors.New("api_key and token exclude each other")
	case m.APIKey != "":
		if err := m.APIKey.Validate(); err != nil {
			return fmt.Errorf("api_key: %w", err)
		}
		m.secret = m.APIKey.Rotating(upstream.CheckKey)
		config.Secret = m.secret.Value
	case m.Token != "":
		if err := m.Token.Validate(); err != nil {
			return fmt.Errorf("token: %w", err)
		}
		m.secret = m.Token.Rotating(upstream.CheckKey)
		config.Token = m.secret.Value
	case base.Hostname() == officialHost:
		return errors.New("api_key is required: Google AI answers nothing without one")
	case strings.HasSuffix(base.Hostname(), ".googleapis.com"):
		return errors.New("token is required: Vertex AI answers nothing without one")
	}
	if m.secret != nil && upstream.Unencrypted(base) {
		ctx.Logger().Warn("the key or token is sent without encryption: base_url begins with http://",
			zap.String("host", base.Host))
	}
	m.client, err = New(config)
	return err
}

// baseURL finds out which service is meant.
func (m *Module) baseURL() (*url.URL, error) {
	switch vertex := m.Project != "" || m.Location != ""; {
	case vertex && m.BaseURL != "":
		return nil, errors.New("base_url excludes project and location: it names them itself")
	case vertex && (m.Project == "" || m.Location == ""):
		return nil, errors.New("project and location belong together")
	case vertex:
		text, err := VertexBaseURL(m.Project, m.Location)
		if err != nil {
			return nil, err
		}
		return upstream.ParseBaseURL(text)
	case m.BaseURL != "":
		return upstream.ParseBaseURL(m.BaseURL)
	}
	return upstream.ParseBaseURL(DefaultBaseURL)
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

// Unavailable tells why there is no key or token, nil when there is one or none
// is needed.
func (m *Module) Unavailable() error {
	if m.secret == nil {
		return nil
	}
	_, err := m.secret.Value()
	return err
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
