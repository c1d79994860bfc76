package anthropic

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
)

func init() {
	caddy.RegisterModule(new(Module))
}

// Module is the Caddy module cadenza.providers.anthropic: Anthropic's Messages
// API, or that of a service which speaks the same API. Its base_url is the URL
// up to and without /messages, by default https://api.anthropic.com/v1. With
// Anthropic itself api_key is required.
type Module struct {
	httpmodule.Options

	// The most tokens of an answer, the model's thinking included, if a
	// definition sets no max_tokens: the API requires a number. Default: 8192.
	MaxTokens int64 `json:"max_tokens,omitempty"`

	// The preview features to turn on, sent as anthropic-beta.
	Beta []string `json:"beta,omitempty"`
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
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	config := Config{MaxTokens: m.MaxTokens, Beta: m.Beta}
	var err error
	if config.Upstream, config.Secret, err = m.Prepare(ctx, "Anthropic", DefaultBaseURL); err != nil {
		return err
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
