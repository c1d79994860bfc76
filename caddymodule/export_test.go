package caddymodule

import "time"

// NewTestHandler makes the handler of all routes for an app that runs.
func NewTestHandler(app *App) *Handler { return &Handler{appModule{app}} }

// CurrentRetention is the retention of the only store that is open.
func CurrentRetention() (retention time.Duration) {
	stores.Range(func(_, value any) bool {
		retention = value.(*sharedStore).limits.current().retention
		return false
	})
	return retention
}
