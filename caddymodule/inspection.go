package caddymodule

import (
	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	_ "github.com/cadenza-gateway/cadenza/internal/command" // every build that has the app has the commands
)

// Inspect returns the workspaces as the admin API shows them.
func (a *App) Inspect() map[string]*adminapi.Workspace {
	shown := make(map[string]*adminapi.Workspace, len(a.Workspaces))
	for name, w := range a.Workspaces {
		served := a.gateway.Workspace(name)
		shown[name] = &adminapi.Workspace{
			Workspace: served, Definitions: w.source.Source, Strangers: a.gateway.Strangers, Hash: served.HashAudited, Stopping: a.stopping.Done(),
			Calls: w.store.Recorder.Calls, Call: w.store.Recorder.Call, Mark: w.store.Recorder.Mark,
		}
	}
	return shown
}

// Interface guard
var _ adminapi.Gateway = (*App)(nil)
