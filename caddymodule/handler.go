package caddymodule

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("cadenza", parseHandler(func() caddyhttp.MiddlewareHandler { return new(Handler) }))
}

// Handler answers all of the gateway's routes. It tells them apart by one
// switch on the path, which costs less than a matcher for each, and answers
// whatever reaches it: an unknown path is a 404 with a JSON body.
type Handler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.cadenza",
		New: func() caddy.Module { return new(Handler) },
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	to, traceID := routeOf(r.URL.Path)
	h.app.serve(w, r, to, traceID)
	return nil
}

// appModule is a handler's tie to the app.
type appModule struct {
	app *App
}

// Provision finds the app.
func (m *appModule) Provision(ctx caddy.Context) error {
	app, err := ctx.App("cadenza")
	if err != nil {
		return err
	}
	m.app = app.(*App)
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		m.app.guard(server)
	}
	return nil
}

// route is one of the gateway's routes.
type route uint8

const (
	routeNone route = iota
	routePrompts
	routeEndpoints
	routeRemoteConfigs
	routeMetrics
	// The metrics of a trace that the path names, with its kind.
	routePromptMetrics
	routeRemoteConfigMetrics
)

// routeNames are the routes' names in metrics, logs and placeholders.
var routeNames = [...]string{
	routeNone:                "none",
	routePrompts:             "prompts",
	routeEndpoints:           "endpoints",
	routeRemoteConfigs:       "remoteconfigs",
	routeMetrics:             "metrics",
	routePromptMetrics:       "metrics",
	routeRemoteConfigMetrics: "metrics",
}

func (r route) String() string { return routeNames[r] }

// routeOf finds the route of a path, with the trace id that the path names.
func routeOf(path string) (to route, traceID string) {
	switch path {
	case "/v1/prompts", "/v2/prompts":
		return routePrompts, ""
	case "/v1/endpoints":
		return routeEndpoints, ""
	case "/v1/remoteconfigs", "/v2/remoteconfigs":
		return routeRemoteConfigs, ""
	case "/v1/metrics":
		return routeMetrics, ""
	}
	if rest, ok := strings.CutPrefix(path, "/v2/"); ok {
		return traceMetrics(rest)
	}
	return routeNone, ""
}

// traceMetrics finds the kind and the trace id in
// {prompts|remoteconfigs}/{trace_id}/metrics.
func traceMetrics(path string) (to route, traceID string) {
	path, ok := strings.CutSuffix(path, "/metrics")
	if !ok {
		return routeNone, ""
	}
	entity, traceID, ok := strings.Cut(path, "/")
	if !ok || traceID == "" || strings.Contains(traceID, "/") {
		return routeNone, ""
	}
	switch entity {
	case "prompts":
		return routePromptMetrics, traceID
	case "remoteconfigs":
		return routeRemoteConfigMetrics, traceID
	}
	return routeNone, ""
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
