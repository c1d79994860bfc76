package postgres

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	options "github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/sinks"
)

func init() {
	caddy.RegisterModule(Module{})
}

// Module is the Caddy module cadenza.sinks.postgres. It copies traces and
// metrics to a PostgreSQL database, which several gateways may share. Rows wait
// in the store while the database is away. The workspace needs a trace_key. In a
// Caddyfile, within the global option cadenza:
//
//	trace_key {env.CADENZA_TRACE_KEY}
//	sink postgres {env.DATABASE_URL} {
//		schema cadenza
//		limits local
//	}
//
// or, under a name of its own, as a second database:
//
//	sink archive postgres {env.ARCHIVE_URL}
type Module struct {
	// The connection string, as {env.NAME} or {file.PATH}: a URL, or words like
	// host=… user=…. Several hosts may be given; the one that accepts writes is
	// used. A file is read again for each connection. Required.
	DSN secret.Reference `json:"dsn,omitempty"`

	// The schema of the tables, which is created if it is missing. Default:
	// cadenza.
	Schema string `json:"schema,omitempty"`

	// Whose the workspace's limits are: shared by the gateways that write to the
	// database, or local to each gateway. Default: shared.
	Limits string `json:"limits,omitempty"`

	*Sink `json:"-"`
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.sinks.postgres",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the sink's options:
//
//	postgres {env.NAME} | {file.PATH} {
//		schema <name>
//		limits shared|local
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if !d.NextArg() {
		return d.Err("sink postgres needs its connection string, as {env.NAME} or {file.PATH}")
	}
	m.DSN = secret.Reference(d.Val())
	if err := m.DSN.Validate(); err != nil {
		return d.Errf("sink postgres: %v", err)
	}
	if d.NextArg() {
		return d.Err("sink postgres takes one argument, its connection string as {env.NAME} or {file.PATH}")
	}
	for d.NextBlock(0) {
		switch option := d.Val(); option {
		case "schema":
			if m.Schema != "" {
				return d.Err("schema is given twice")
			}
			if !d.AllArgs(&m.Schema) {
				return d.Err("schema takes one name")
			}
			if m.Schema == "" {
				return d.Err("schema is empty")
			}
		case "limits":
			if m.Limits != "" {
				return d.Err("limits is given twice")
			}
			if !d.AllArgs(&m.Limits) || m.checkLimits() != nil || m.Limits == "" {
				return d.Err("limits takes one word, shared or local")
			}
		default:
			return d.Err(options.Unrecognized("postgres sink option", option, []string{"limits", "schema"}))
		}
	}
	return nil
}

func (m *Module) checkLimits() error {
	switch m.Limits {
	case "", "shared", "local":
		return nil
	}
	return fmt.Errorf("sink postgres: limits %q must be shared or local", m.Limits)
}

// Provision checks the options and reads the secret. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	if err := m.DSN.Validate(); err != nil {
		return fmt.Errorf("sink postgres: dsn: %w", err)
	}
	err := m.checkLimits()
	if err != nil {
		return err
	}
	m.Sink, err = New(Config{DSN: m.DSN.RotatingText(nil).Value, Schema: m.Schema, LocalLimits: m.Limits == "local", Logger: ctx.Slogger()})
	if err != nil {
		return fmt.Errorf("sink postgres with dsn %s: %w", m.DSN, err)
	}
	return nil
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ sinks.Sink            = (*Module)(nil)
)
