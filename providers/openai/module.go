package openai

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	for i := range services {
		caddy.RegisterModule(Module{service: &services[i]})
	}
}

// Module is the Caddy module cadenza.providers.openai, OpenAI's chat
// completions or those of a service that speaks the same API, and the modules
// of such services that are known: cadenza.providers.groq and the others of
// Services. They differ in the default of base_url and in what the service
// does its own way.
type Module struct {
	// The API key, as {env.NAME} or {file.PATH}. A file is read anew every ten
	// seconds. Required at a service's own address, if the service wants one at
	// all; without it no key is sent. While the variable or the file is empty
	// the provider's targets are skipped.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// Where the API is, up to and without /chat/completions. Default: where
	// the service is, https://api.openai.com/v1 for openai.
	BaseURL string `json:"base_url,omitempty"`

	// Let the host of base_url resolve to an address that is not public. A
	// base_url that says localhost or an IP address itself does not need it.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// Do not ask for the token usage of streams, for services that reject
	// stream_options.
	NoStreamOptions bool `json:"no_stream_options,omitempty"`

	// The organization and the project to bill, sent as OpenAI-Organization
	// and OpenAI-Project. Of the module openai only.
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	service *Service // nil is openai
	client  *Client
	key     *secret.Rotating // nil where no key is sent
}

// CaddyModule returns the module's registration.
func (m Module) CaddyModule() caddy.ModuleInfo {
	service := m.known()
	return caddy.ModuleInfo{
		ID:  caddy.ModuleID("cadenza.providers." + service.Name),
		New: func() caddy.Module { return &Module{service: service} },
	}
}

func (m *Module) known() *Service {
	if m.service == nil {
		return &services[0]
	}
	return m.service
}

// UnmarshalCaddyfile reads the provider's options, the same for all services
// but for organization and project, which are OpenAI's:
//
//	<service> {
//		api_key           {env.NAME} | {file.PATH}
//		base_url          <url>
//		allow_private
//		no_stream_options
//		organization      <id>
//		project           <id>
//		proxy             <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		text := map[string]*string{
			"api_key": (*string)(&m.APIKey), "base_url": &m.BaseURL, "organization": &m.Organization,
			"project": &m.Project, "proxy": &m.Proxy,
		}[name]
		flag := map[string]*bool{
			"allow_private": &m.AllowPrivate, "no_stream_options": &m.NoStreamOptions,
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
		case flag != nil:
			*flag = true
		default:
			return d.Errf("unknown option %q of provider %s: the options are api_key, base_url, allow_private, no_stream_options, proxy and, with openai, organization and project", name, m.known().Name)
		}
		if name == "api_key" {
			if err := m.APIKey.Validate(); err != nil {
				return d.Errf("api_key: %v", err)
			}
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	service := m.known()
	config := Config{
		Name:         service.Name,
		Organization: m.Organization,
		Project:      m.Project,
		Quirks:       service.Quirks,
		Upstream:     upstream.Config{AllowPrivate: m.AllowPrivate},
	}
	config.Quirks.NoStreamOptions = config.Quirks.NoStreamOptions || m.NoStreamOptions
	if service.Name != "openai" && (m.Organization != "" || m.Project != "") {
		return fmt.Errorf("organization and project are OpenAI's: provider %s has neither", service.Name)
	}
	base := m.BaseURL
	if base == "" {
		base = service.BaseURL
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
	case config.Upstream.BaseURL.Hostname() == officialHost, m.BaseURL == "" && !service.Keyless:
		return fmt.Errorf("api_key is required: %s answers nothing without one", config.Upstream.BaseURL.Host)
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
