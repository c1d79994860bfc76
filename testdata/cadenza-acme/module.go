package acme

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
)

func init() {
	caddy.RegisterModule(new(Module))
}

// Module is the Caddy module cadenza.providers.acme. Its base_url is by default
// https://api.acme.example.
type Module struct {
	httpmodule.Options
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
//		api_key       {env.NAME} | {file.PATH}
//		base_url      <url>
//		allow_private
//		proxy         <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	config, key, err := m.Prepare(ctx, "Acme", "https://api.acme.example")
	if err != nil {
		return err
	}
	return m.Serve(New(config, key))
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
