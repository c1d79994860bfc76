package caddymodule

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

func init() { keysInterval = 20 * time.Millisecond }

// NewTestHandler makes the handler of all routes for a running app.
func NewTestHandler(app *App) *Handler { return &Handler{appModule{app}} }

// StoreConfig returns the configuration of the only open store. It calls functions for
// its limits, so it stays valid over reloads.
func StoreConfig() (config sqlite.Config) {
	stores.Range(func(_, value any) bool {
		config = value.(*sharedStore).Config()
		return false
	})
	return config
}

// StoreStats returns the statistics of the only open store.
func StoreStats() (stats recorder.Stats) {
	stores.Range(func(_, value any) bool {
		stats = value.(*sharedStore).Recorder.Stats()
		return false
	})
	return stats
}

// OpenConnections returns the number of open connections of callers.
func OpenConnections() int { return callers.Open() }

// SetMaxConnections bounds these connections. undo restores the bound.
func SetMaxConnections(n int) (undo func()) {
	callers.SetLimit(n)
	return func() { callers.SetLimit(0) }
}

// ConfigOf returns the configuration of a workspace of the gateway.
func ConfigOf(app *App, name string) gateway.WorkspaceConfig { return app.Workspaces[name].config }

// OwnSinks are the sinks that a build may lack, with their packages.
var OwnSinks = ownSinks

// RunsAs has the process count as that command of Caddy until the returned function is
// called.
func RunsAs(command string) (undo func()) {
	before := called
	called = func(name string) bool { return name == command }
	return func() { called = before }
}
