// Package azure calls chat completions of Azure OpenAI and of other models on
// Microsoft Foundry, at the URL where they speak OpenAI's API:
// {endpoint}/openai/v1/. A request's model is the name of a deployment.
package azure

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
	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(Module{})
}

// quirks are those of Azure: the bound of an answer is max_completion_tokens,
// which its reasoning models want, and there is no top_k.
var quirks = openai.Quirks{MaxCompletionTokens: true, NoTopK: true}

// Module is the Caddy module cadenza.providers.azure. Either api_key or token
// is given.
type Module struct {
	// The resource's endpoint, https://RESOURCE.openai.azure.com for one. The
	// path /openai/v1 is added where it is missing.
	Endpoint string `json:"endpoint,omitempty"`

	// A key of the resource, as {env.NAME} or {file.PATH}, sent in the header
	// api-key.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// A token of Microsoft Entra ID, as {file.PATH} or {env.NAME}, sent as a
	// bearer token. Tokens expire: something else has to renew the file, which
	// is read anew every ten seconds.
	Token secret.Reference `json:"token,omitempty"`

	// Let the endpoint's host resolve to an address that is not public, such
	// as that of a private endpoint.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	client *openai.Client
	secret *secret.Rotating
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.azure",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	azure {
//		endpoint      <url>
//		api_key       {env.NAME} | {file.PATH}
//		token         {file.PATH} | {env.NAME}
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
		reference := map[string]*secret.Reference{"api_key": &m.APIKey, "token": &m.Token}[name]
		text := map[string]*string{"endpoint": &m.Endpoint, "proxy": &m.Proxy}[name]
		if reference != nil {
			text = (*string)(reference)
		}
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
			return d.Errf("unknown option %q of provider azure: the options are endpoint, api_key, token, allow_private and proxy", name)
		}
		if reference != nil {
			if err := reference.Validate(); err != nil {
				return d.Errf("%s: %v", name, err)
			}
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision checks the options and reads the secret. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	config := openai.Config{Name: "azure", Quirks: quirks, Upstream: upstream.Config{AllowPrivate: m.AllowPrivate}}
	var err error
	if config.Upstream.BaseURL, err = baseURL(m.Endpoint); err != nil {
		return err
	}
	if m.Proxy != "" {
		if config.Upstream.Proxy, err = upstream.ParseProxy(m.Proxy); err != nil {
			return err
		}
	}
	if err := m.authorization(&config); err != nil {
		return err
	}
	if upstream.Unencrypted(config.Upstream.BaseURL) {
		ctx.Logger().Warn("the key is sent without encryption: endpoint begins with http://",
			zap.String("host", config.Upstream.BaseURL.Host))
	}
	m.client, err = openai.New(config)
	return err
}

// authorization checks which of the two secrets is given.
func (m *Module) authorization(config *openai.Config) error {
	reference, name := m.APIKey, "api_key"
	switch {
	case m.APIKey != "" && m.Token != "":
		return errors.New("either api_key or token is given, not both")
	case m.APIKey == "" && m.Token == "":
		return errors.New("api_key or token is required: Azure answers nothing without one")
	case m.Token != "":
		reference, name = m.Token, "token"
	}
	if err := reference.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.secret = reference.Rotating(upstream.CheckKey)
	config.Secret = m.secret.Value
	if name == "api_key" {
		config.KeyHeader = "api-key"
	}
	return nil
}

// baseURL is the endpoint with the path of the API.
func baseURL(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		return nil, errors.New("endpoint is required, such as https://RESOURCE.openai.azure.com")
	}
	const api = "/openai/v1"
	endpoint = strings.TrimSuffix(strings.TrimRight(endpoint, "/"), api)
	u, err := upstream.ParseBaseURL(endpoint + api)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return u, nil
}

// Cleanup closes idle connections. Calls that still run keep theirs.
func (m *Module) Cleanup() error {
	if m.client != nil {
		m.client.Close()
	}
	return nil
}

// Invoke calls the deployment.
func (m *Module) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return m.client.Invoke(ctx, req)
}

// Host is the host and port that requests are sent to.
func (m *Module) Host() string { return m.client.Host() }

// Unavailable tells why there is no key or token, nil when there is one.
func (m *Module) Unavailable() error {
	_, err := m.secret.Value()
	return err
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
