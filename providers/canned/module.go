package canned

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

func init() {
	caddy.RegisterModule(Module{})
}

// Module is the Caddy module cadenza.providers.canned: a provider without a
// network, for first steps and for tests.
type Module struct {
	// The answer if the definition gives none and asks for no echo.
	// Default: nothing; a target then needs an answer, tool_calls, call_tool,
	// turns, fail or echo: true in its extra.
	Answer string `json:"answer,omitempty"`

	// The time between two words of a stream. Default: 20ms.
	Pace *caddy.Duration `json:"pace,omitempty"`

	Provider `json:"-"`
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.canned",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	canned {
//		answer <text>
//		pace   <duration>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		switch option := d.Val(); option {
		case "answer":
			if !d.NextArg() {
				return d.ArgErr()
			}
			m.Answer = d.Val()
		case "pace":
			if !d.NextArg() {
				return d.ArgErr()
			}
			pace, err := caddy.ParseDuration(d.Val())
			if err != nil {
				return d.Errf("pace %s: must be a number with its unit from 0s to 1m, such as 20ms", d.Val())
			}
			m.Pace = (*caddy.Duration)(&pace)
		default:
			return d.Err(document.Unrecognized("canned provider option", option, []string{"answer", "pace"}))
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision checks the options.
func (m *Module) Provision(caddy.Context) error {
	m.Provider = Provider{Answer: m.Answer, Pace: DefaultPace}
	if m.Pace != nil {
		m.Provider.Pace = time.Duration(*m.Pace)
		if m.Provider.Pace < 0 || m.Provider.Pace > script.MaxWait {
			return fmt.Errorf("pace %s: must be 0 to %s", m.Provider.Pace, script.MaxWait)
		}
	}
	return nil
}

// Host is empty: there is no network.
func (*Module) Host() string { return "" }

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
