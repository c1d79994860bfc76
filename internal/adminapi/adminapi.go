// Package adminapi is the part of Caddy's admin API that shows what a gateway
// has loaded and recorded, evaluates its definitions and erases traces. The
// command line asks it.
package adminapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API is the Caddy module that serves the paths below /cadenza of the admin
// API. It holds nothing, because Caddy makes an API for every configuration, even
// for one that then fails. Each request looks up the running gateway.
type API struct{}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.cadenza",
		New: func() caddy.Module { return new(API) },
	}
}

// Routes returns the paths below Caddy's admin address.
func (*API) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		route("/cadenza/status", serveStatus, http.MethodGet, http.MethodHead),
		route("/cadenza/definitions", serveDefinitions, http.MethodGet, http.MethodHead),
		route("/cadenza/revisions", serveRevisions, http.MethodGet, http.MethodHead),
		route("/cadenza/revisions/", serveRevision, http.MethodGet, http.MethodHead),
		route("/cadenza/targets", serveTargets, http.MethodGet, http.MethodHead),
		route("/cadenza/limits", serveLimits, http.MethodGet, http.MethodHead),
		route("/cadenza/evaluate", serveEvaluate, http.MethodPost),
		route("/cadenza/traces", serveTraces, http.MethodGet, http.MethodHead, http.MethodDelete),
		route("/cadenza/traces/", serveTrace, http.MethodGet, http.MethodHead),
		route("/cadenza/stats", serveStats, http.MethodGet, http.MethodHead),
		route("/cadenza/costs", serveCosts, http.MethodGet, http.MethodHead),
		route("/cadenza/refused", serveRefused, http.MethodGet, http.MethodHead),
		route("/cadenza/export", serveExport, http.MethodGet),
	}
}

// route returns a path that takes the given methods. The error for another method
// names the first of them.
func route(path string, serve func(http.ResponseWriter, *http.Request) error, methods ...string) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: path, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			return apiError(http.StatusMethodNotAllowed, "this path takes %s", methods[0])
		}
		return serve(w, r)
	})}
}

// apiError returns an error that Caddy's admin API answers with a status and
// {"error": message}.
func apiError(status int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return caddy.APIError{HTTPStatus: status, Err: err, Message: err.Error()}
}

func writeJSON(w http.ResponseWriter, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}

// Interface guards
var (
	_ caddy.Module      = (*API)(nil)
	_ caddy.AdminRouter = (*API)(nil)
)
