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

// startsAnyway reports whether a configuration that is provisioned now starts with
// definitions that are invalid, where the store holds others: it is that of `caddy
// run`, and Cadenza does not run yet. A reload fails, and leaves what runs alone. So
// does `caddy validate`, which never starts, and a program that has Caddy built in.
func startsAnyway() bool { return called("run") && !cadenzaRuns() }

// cadenzaRuns reports whether the configuration that runs has Cadenza.
func cadenzaRuns() bool {
	running, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	return err == nil && running != nil
}

// called reports which of Caddy's commands the process is. `caddy start` starts a `caddy
// run`. Tests replace it.
var called = command.Called

// checkReload loads the definitions of all workspaces, for their providers, where the
// process is `caddy reload`. An edit of them changes no configuration, and one that is
// unchanged Caddy does not pass on: nothing would be checked, and the command would
// succeed. What this process can't see, such as the directory of a gateway on another
// machine, it leaves to the gateway.
//
// The first directive of a Caddyfile calls it: only when all global options are read
// are the providers known.
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
