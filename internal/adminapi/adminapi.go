// Package adminapi is the part of Caddy's admin API that shows what a gateway
// has loaded and recorded, evaluates its definitions and erases traces. The
// command line asks it.
package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
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

// route is a path of the API for some methods.
type route struct {
	path    string // below /cadenza/; one that ends in a slash takes what follows
	methods []string
	role    gateway.Role // the least that a visitor of the console needs
	serve   handler
}

// reads are the methods of a route that changes nothing.
var reads = []string{http.MethodGet, http.MethodHead}

// routes are all routes. Caddy's admin API and the console serve the same.
var routes = []route{
	{"status", reads, gateway.RoleViewer, serveStatus},
	{"definitions", reads, gateway.RoleViewer, each((*Workspace).loaded)},
	{"definitions/", reads, gateway.RoleViewer, reading(serveDefinition, "workspace", "row", "versions")},
	{"compare", reads, gateway.RoleViewer, reading(serveCompare, "workspace", "from", "to")},
	{"revisions", reads, gateway.RoleViewer, reading(serveRevisions, "workspace")},
	{"revisions/", reads, gateway.RoleViewer, reading(serveRevision, "workspace")},
	{"revisions/", []string{http.MethodPost}, gateway.RoleAdmin, serveAgain},
	{"pull", []string{http.MethodPost}, gateway.RoleEditor, servePull},
	{"targets", reads, gateway.RoleViewer, each((*Workspace).targets)},
	{"models", reads, gateway.RoleViewer, reading(serveModels, "workspace", "since", "until", "interval")},
	{"limits", reads, gateway.RoleViewer, serveLimits},
	{"peaks", reads, gateway.RoleViewer, reading(servePeaks, "workspace", "since", "until", "limit", "subject")},
	{"evaluate", []string{http.MethodPost}, gateway.RoleViewer, serveEvaluate},
	{"edit", reads, gateway.RoleViewer, serveEditedFile},
	{"edit", []string{http.MethodPost}, gateway.RoleEditor, serveEdit},
	{"words", reads, gateway.RoleViewer, serveWords},
	{"review", []string{http.MethodPost}, gateway.RoleEditor, serveReview},
	{"plan", []string{http.MethodPost}, gateway.RoleEditor, servePlan},
	{"play", reads, gateway.RoleEditor, servePlayable},
	{"play", []string{http.MethodPost}, gateway.RoleEditor, servePlay},
	{"traces", reads, gateway.RoleViewer, serveTraces},
	{"traces", []string{http.MethodDelete}, gateway.RoleAdmin, serveErase},
	{"traces/", reads, gateway.RoleViewer, serveTrace},
	{"traces/", []string{http.MethodPost}, gateway.RoleEditor, serveLabel},
	{"reports", []string{http.MethodPost}, gateway.RoleEditor, serveReports},
	{"find", reads, gateway.RoleViewer, reading(serveFind, "workspace", "id")},
	{"stats", reads, gateway.RoleViewer, reading(serveStats, "workspace", "since", "until", "kind", "key", "interval", "by", "units", "variant", "arm", "version")},
	{"experiments", reads, gateway.RoleViewer, reading(serveExperiments, "workspace")},
	{"experiments/", reads, gateway.RoleViewer, reading(serveExperiment, "workspace")},
	{"rollouts", reads, gateway.RoleViewer, serveRollouts},
	{"rollouts/", reads, gateway.RoleViewer, serveRollout},
	{"rollouts/", []string{http.MethodPost}, gateway.RoleEditor, serveAskRollout},
	{"costs", reads, gateway.RoleViewer, serveCosts},
	{"refused", reads, gateway.RoleViewer, reading(serveRefused, "workspace", "since", "until", "api_key", "key", "code", "limit", "subject")},
	{"export", []string{http.MethodGet}, gateway.RoleAdmin, reading(serveExport, append([]string{"verify"}, filterParameters...)...)},
	{"keys", reads, gateway.RoleViewer, reading(serveKeys, "workspace")},
	{"keys", []string{http.MethodPost}, gateway.RoleAdmin, serveMakeKey},
	{"keys/", []string{http.MethodDelete}, gateway.RoleAdmin, serveRevokeKey},
	{"audit", []string{http.MethodGet}, gateway.RoleAdmin, reading(serveAudit, "workspace", "since", "until", "by", "action", "limit", "before", "format")},
}

// Routes returns the paths below Caddy's admin address. Who reaches it needs no role.
func (*API) Routes() []caddy.AdminRoute {
	var list []caddy.AdminRoute
	for i := range routes {
		path := routes[i].path
		if i > 0 && path == routes[i-1].path {
			continue
		}
		list = append(list, caddy.AdminRoute{Pattern: "/cadenza/" + path, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) (err error) {
			Aside(r, func() { err = serve(w, r, path, gateway.RoleAdmin) })
			return err
		})})
	}
	return list
}

// serve answers a request for a path of routes. The error for another method names the
// first that the path takes.
func serve(w http.ResponseWriter, r *http.Request, path string, role gateway.Role) error {
	var allowed []string
	for i := range routes {
		to := &routes[i]
		switch {
		case to.path != path:
		case !slices.Contains(to.methods, r.Method):
			allowed = append(allowed, to.methods...)
		case !role.Covers(to.role):
			return apiError(http.StatusForbidden, "this needs the role %s, the API key has the role %s", to.role, role)
		default:
			return to.serve(w, r)
		}
	}
	if len(allowed) == 0 {
		return apiError(http.StatusNotFound, "there is no path %s", strings.TrimPrefix(r.URL.Path, "/cadenza/"))
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return apiError(http.StatusMethodNotAllowed, "this path takes %s", allowed[0])
}

// apiError returns an error that Caddy's admin API answers with a status and
// {"error": message}.
func apiError(status int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return caddy.APIError{HTTPStatus: status, Err: err, Message: err.Error()}
}

// readBody decodes the body of a request, of at most so many bytes. must says what the body
// must be.
func readBody(w http.ResponseWriter, r *http.Request, most int64, body any, must string) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return apiError(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
		}
		return apiError(http.StatusBadRequest, "the body must be %s: %v", must, err)
	}
	// Read to its end, so that net/http notices when the caller leaves.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return apiError(http.StatusBadRequest, "something follows the JSON object")
	}
	return nil
}

// writeStatus answers with a status and JSON.
func writeStatus(w http.ResponseWriter, status int, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return writeJSON(w, answer)
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
