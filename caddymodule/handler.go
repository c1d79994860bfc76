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

// Handler answers all of the gateway's routes: `POST` requests to
// `/v1/prompts`, `/v1/endpoints`, `/v1/remoteconfigs` and `/v1/metrics`, and
// those of `/v2/`. It answers all that its route matches: an unknown path is a
// 404 with a JSON body. It has no options; the app `cadenza` has them.
//
// In a Caddyfile it is the directive `cadenza`, which is ordered after
// `respond` and `metrics` and before `reverse_proxy`:
//
//	gateway.example.com {
//		respond /healthz 200
//		metrics /metrics
//		cadenza
//	}
//
// ### Placeholders
//
// `{cadenza.workspace}`, `{cadenza.route}`, `{cadenza.trace_id}` and
// `{http.auth.user.id}`, as the app `cadenza` describes them.
//
// ### Response headers
//
// Header | Description
// -------|---------------
// `Cadenza-Trace-Id` | The trace id of an answer that has exactly one
// `Cadenza-Revision` | The revision of the definitions that answered
// `Cadenza-Unknown-Keys` | The requested keys that do not exist
// `Cadenza-Served-By` | The provider and the model that answered
// `Cadenza-Attempts` | How many upstream calls an answer took
// `Cache-Status` | Whether an answer is from the cache, as in RFC 9211
// `Idempotent-Replayed` | `true` on an answer that is given again for its `Idempotency-Key`
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
