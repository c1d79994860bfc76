package jsonlines

import (
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/configpath"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/sinks"
)

func init() {
	caddy.RegisterModule(StdoutModule{})
	caddy.RegisterModule(FileModule{})
}

// StdoutModule is the Caddy module cadenza.sinks.stdout. It writes traces and
// metrics to the standard output, one JSON object a line. It has no options. In
// a Caddyfile, within the global option cadenza:
//
//	sink stdout
type StdoutModule struct {
	*Stream `json:"-"`
}

// CaddyModule returns the module's registration.
func (StdoutModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.sinks.stdout",
		New: func() caddy.Module { return new(StdoutModule) },
	}
}

// UnmarshalCaddyfile reads the sink, which has no options:
//
//	stdout
func (m *StdoutModule) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.Err("sink stdout takes no argument")
	}
	if d.NextBlock(0) {
		return d.Err(document.Unrecognized("stdout sink option", d.Val(), nil))
	}
	return nil
}

// Provision makes the sink ready.
func (m *StdoutModule) Provision(caddy.Context) error {
	m.Stream = NewStream(os.Stdout)
	return nil
}

// FileModule is the Caddy module cadenza.sinks.file. It appends traces and
// metrics to a file, one JSON object a line. Rotating the file is left to
// others, such as logrotate: it may be renamed, or copied and emptied, at any
// time. In a Caddyfile, within the global option cadenza:
//
//	sink file /var/log/cadenza/traces.jsonl
//
// or, under a name of its own, as a second file:
//
//	sink audit file /srv/audit/traces.jsonl
type FileModule struct {
	// The file, which is created with mode 0600 if it is missing. Required.
	// Placeholders are replaced.
	Path string `json:"path,omitempty"`

	*File `json:"-"`
}

// CaddyModule returns the module's registration.
func (FileModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.sinks.file",
		New: func() caddy.Module { return new(FileModule) },
	}
}

// UnmarshalCaddyfile reads the sink:
//
//	file <path>
func (m *FileModule) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if !d.NextArg() {
		return d.Err("sink file needs the path of its file")
	}
	if m.Path = d.Val(); m.Path == "" {
		return d.Err("the path of sink file is empty")
	}
	var err error
	if m.Path, err = configpath.Resolve(d.File(), m.Path); err != nil {
		return d.WrapErr(err)
	}
	if d.NextArg() {
		return d.Err("sink file takes one path: write one that has spaces in quotes")
	}
	if d.NextBlock(0) {
		return d.Err(document.Unrecognized("file sink option", d.Val(), nil))
	}
	return nil
}

// Provision checks the path. It opens nothing.
func (m *FileModule) Provision(ctx caddy.Context) error {
	path, err := caddy.NewReplacer().ReplaceOrErr(m.Path, true, true)
	if err == nil {
		m.File, err = NewFile(path)
	}
	if err != nil {
		return fmt.Errorf("sink file: %w", err)
	}
	m.Logger = ctx.Slogger()
	return nil
}

var (
	_ caddy.Provisioner     = (*StdoutModule)(nil)
	_ caddyfile.Unmarshaler = (*StdoutModule)(nil)
	_ sinks.Sink            = (*StdoutModule)(nil)
	_ caddy.Provisioner     = (*FileModule)(nil)
	_ caddyfile.Unmarshaler = (*FileModule)(nil)
	_ sinks.Sink            = (*FileModule)(nil)
)
