package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/cadenza-gateway/cadenza/internal/command"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// startsAnyway reports whether the configuration that is being provisioned may start with
// invalid definitions if the store holds valid ones. Only the first configuration of
// `caddy run` may. A reload fails instead and leaves the running configuration alone.
// `caddy validate`, which never starts, and programs that embed Caddy fail too.
func startsAnyway() bool { return called("run") && !cadenzaRuns() }

// cadenzaRuns reports whether the running configuration has Cadenza.
func cadenzaRuns() bool {
	running, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	return err == nil && running != nil
}

// called reports whether the process is the given command of Caddy. `caddy start` starts a
// `caddy run`. Tests replace it.
var called = command.Called

// checkReload loads the definitions of all workspaces, for their providers, if the process
// is `caddy reload`. Caddy does not load an unchanged configuration again, so after an edit
// of the definitions alone the command would succeed without a check. checkReload skips
// directories that this process can't see, such as those of a gateway on another machine:
// the gateway checks them.
//
// The first directive of a Caddyfile calls it, because the providers are known only after
// all global options have been read.
func checkReload(h httpcaddyfile.Helper) error {
	const done = "cadenza.definitions_checked"
	option, configured := h.Option("cadenza").(httpcaddyfile.App)
	if !called("reload") || !configured || h.State[done] != nil {
		return nil
	}
	h.State[done] = true
	var app App
	if err := json.Unmarshal(option.Value, &app); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(app.Workspaces)) {
		if err := app.Workspaces[name].checkReload(); err != nil {
			return fmt.Errorf("workspace %s: %w", name, err)
		}
	}
	return nil
}

// checkReload loads the workspace's definitions, if they are there.
func (w *Workspace) checkReload() error {
	if w.DefinitionsBundle != nil {
		return nil
	}
	dir, err := resolvePath(w.Definitions)
	if err != nil {
		return nil
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil
	}
	known, err := w.configuration()
	if err != nil {
		return err
	}
	if _, err := definition.Load(dir, known); err != nil {
		return fmt.Errorf("definitions %s:\n%w", w.Definitions, visible.Error(err))
	}
	return nil
}
