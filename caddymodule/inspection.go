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
			Name: name, Definitions: w.source.Source, Log: served.Log, Store: w.store.Path, Flush: w.store.Recorder.Flush, Logger: w.logger,
			Calls: w.store.Recorder.Calls, Call: w.store.Recorder.Call, Mark: w.store.Recorder.Mark,
			Committed: w.store.Committed, Waiting: w.store.Waiting, Stopping: a.stopping.Done(),
			VerifySeal: served.VerifySeal,
			Report:     served.Report, HashInput: served.HashInput,
			Targets: served.Targets, ModelFacts: served.ModelFacts, Status: served.Status,
			Strangers: a.gateway.Strangers, SubjectStatus: served.SubjectStatus, LimitStatus: served.LimitStatus,
			EraseSubject: served.EraseSubject, Playable: served.Playable, Play: served.Play, Hash: served.HashAudited,
			KeysFile: served.KeysFile, Keys: served.Keys, EditKeys: served.EditKeys,
		}
	}
	return shown
}

// Interface guard
var _ adminapi.Gateway = (*App)(nil)
