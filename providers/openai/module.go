package openai

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
)

func init() {
	for i := range services {
		caddy.RegisterModule(Module{service: &services[i]})
	}
}

// Module is the Caddy module cadenza.providers.openai: OpenAI's chat completions,
// or those of a service that speaks the same API at a base_url of its own. Its
// base_url is the URL up to and without /chat/completions, by default
// https://api.openai.com/v1. With OpenAI itself api_key is required.
type Module struct {
	httpmodule.Options

	// Do not ask for the token usage of streams, for services that reject
	// stream_options.
	NoStreamOptions bool `json:"no_stream_options,omitempty"`

	// The organization and the project to bill, sent as OpenAI-Organization
	// and OpenAI-Project. Of the module openai only.
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`

	service *Service // nil is openai
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
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	service := m.known()
	if service.Name != "openai" && (m.Organization != "" || m.Project != "") {
		return fmt.Errorf("organization and project are OpenAI's: provider %s has neither", service.Name)
	}
	config := Config{
		Name:         service.Name,
		Organization: m.Organization,
		Project:      m.Project,
		Quirks:       service.Quirks,
	}
	config.Quirks.NoStreamOptions = config.Quirks.NoStreamOptions || m.NoStreamOptions
	var err error
	if config.Upstream, config.Secret, err = m.Prepare(ctx, "", service.BaseURL); err != nil {
		return err
	}
	host := config.Upstream.BaseURL
	if config.Secret == nil && (host.Hostname() == officialHost || m.BaseURL == "" && !service.Keyless) {
		return fmt.Errorf("api_key is required: %s answers nothing without one", host.Host)
	}
	return m.Serve(New(config))
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
