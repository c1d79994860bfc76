package caddymodule

// NewTestHandler makes the handler of all routes for an app that runs.
func NewTestHandler(app *App) *Handler { return &Handler{appModule{app}} }
