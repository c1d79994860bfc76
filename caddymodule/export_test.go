package caddymodule

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

func init() { keysInterval = 20 * time.Millisecond }

// NewTestHandler makes the handler of all routes for an app that runs.
func NewTestHandler(app *App) *Handler { return &Handler{appModule{app}} }

// StoreConfig is what the only store that is open runs with. It is asked for
// its limits whenever they matter, so it stays good over reloads.
func StoreConfig() (config sqlite.Config) {
	stores.Range(func(_, value any) bool {
		config = value.(*sharedStore).Config()
		return false
	})
	return config
}

// StoreStats is the account of the only store that is open.
func StoreStats() (stats recorder.Stats) {
	stores.Range(func(_, value any) bool {
		stats = value.(*sharedStore).Recorder.Stats()
		return false
	})
	return stats
}

// OpenConnections is how many connections of callers are open.
func OpenConnections() int { return callers.Open() }

// SetMaxConnections bounds them, and returns what undoes it.
func SetMaxConnections(n int) (undo func()) {
	callers.SetLimit(n)
	return func() { callers.SetLimit(0) }
}

// ConfigOf is what the gateway's workspace of a name is made from.
func ConfigOf(app *App, name string) gateway.WorkspaceConfig { return app.Workspaces[name].config }

// OwnModules are the modules that a build may lack, with their packages.
var OwnModules = ownModules
