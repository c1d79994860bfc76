package gemini

import (
	"errors"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(new(Module))
}

// Module is the Caddy module cadenza.providers.gemini: Gemini models of Google
// AI, or of Vertex AI where project and location are given. Its base_url is the
// URL up to and without /models/, by default that of Vertex AI where project and
// location are given, else https://generativelanguage.googleapis.com/v1beta.
type Module struct {
	httpmodule.Options

	// In place of an API key: an OAuth 2.0 access token, as {env.NAME} or
	// {file.PATH}. Tokens live for an hour, so it belongs in a file that is
	// renewed from outside; the gateway reads it again every ten seconds.
	Token secret.Reference `json:"token,omitempty"`

	// The Google Cloud project and the location to call Vertex AI in: a region
	// such as europe-west4, or global, eu or us.
	Project  string `json:"project,omitempty"`
	Location string `json:"location,omitempty"`
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
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and resolves the key or the token. It connects
// to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	base, err := m.baseURL()
	if err != nil {
		return err
	}
	var config Config
	if config.Upstream, err = m.Connect(ctx, base); err != nil {
		return err
	}
	switch {
	case m.APIKey != "" && m.Token != "":
		return errors.New("api_key and token exclude each other")
	case m.APIKey != "":
		config.Secret, err = m.Secret("api_key", m.APIKey, upstream.CheckKey)
	case m.Token != "":
		config.Token, err = m.Secret("token", m.Token, upstream.CheckKey)
	case base.Hostname() == officialHost:
		return errors.New("api_key is required: Google AI answers nothing without one")
	case strings.HasSuffix(base.Hostname(), ".googleapis.com"):
		return errors.New("token is required: Vertex AI answers nothing without one")
	}
	if err != nil {
		return err
	}
	return m.Serve(New(config))
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

// Interface guards
var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
