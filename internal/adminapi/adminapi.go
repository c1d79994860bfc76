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
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/rules"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API is the Caddy module that serves the paths below /cadenza of the admin
// API. It holds nothing: Caddy makes one for every configuration, also for one
// that then fails, so the running gateway is looked up for each request.
type API struct{}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.cadenza",
		New: func() caddy.Module { return new(API) },
	}
}

// Routes are the paths below Caddy's admin address.
func (*API) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/cadenza/definitions", Handler: caddy.AdminHandlerFunc(serveDefinitions)},
		{Pattern: "/cadenza/evaluate", Handler: caddy.AdminHandlerFunc(serveEvaluate)},
		{Pattern: "/cadenza/traces", Handler: caddy.AdminHandlerFunc(serveTraces)},
		{Pattern: "/cadenza/traces/", Handler: caddy.AdminHandlerFunc(serveTrace)},
		{Pattern: "/cadenza/stats", Handler: caddy.AdminHandlerFunc(serveStats)},
		{Pattern: "/cadenza/export", Handler: caddy.AdminHandlerFunc(serveExport)},
	}
}

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// loadedWorkspace is what a workspace serves.
type loadedWorkspace struct {
	Directory   string            `json:"directory"`
	Revision    string            `json:"revision"`
	Loaded      time.Time         `json:"loaded"`
	Definitions []inspect.Summary `json:"definitions"`
	Warnings    []inspect.Finding `json:"warnings"`
	// Errors are why the directory as it is now is not served; the definitions
	// are those of the last good set.
	Errors []inspect.Finding `json:"errors"`
}

// serveDefinitions answers GET /cadenza/definitions, of one workspace with
// ?workspace=NAME.
func serveDefinitions(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	all, err := running()
	if err != nil {
		return err
	}
	if name := r.URL.Query().Get("workspace"); name != "" {
		one, err := all.named(name)
		if err != nil {
			return err
		}
		all = workspaces{name: one}
	}
	answer := make(map[string]loadedWorkspace, len(all))
	for name, w := range all {
		answer[name] = w.loaded()
	}
	return writeAdminJSON(w, map[string]any{"workspaces": answer})
}

func (w *Workspace) loaded() loadedWorkspace {
	s := w.Definitions.Snapshot()
	l := loadedWorkspace{
		Directory: w.Definitions.Dir(), Revision: s.Revision, Loaded: s.Loaded.UTC(),
		Definitions: inspect.Summaries(s), Warnings: inspect.Findings(s.Warnings), Errors: []inspect.Finding{},
	}
	err := w.Definitions.LastError()
	if mistakes, ok := inspect.Mistakes(err); ok {
		l.Errors = mistakes
	} else if err != nil {
		l.Errors = append(l.Errors, inspect.Finding{File: l.Directory, Message: err.Error()})
	}
	return l
}

// serveEvaluate answers POST /cadenza/evaluate: what a request would be
// answered, and why. Nothing is recorded.
func serveEvaluate(w http.ResponseWriter, r *http.Request) error {
	if err := requireMethod(w, r, http.MethodPost); err != nil {
		return err
	}
	var body struct {
		Workspace string          `json:"workspace"`
		Key       string          `json:"key"`
		Kind      string          `json:"kind"`
		Context   json.RawMessage `json:"context"`
		Variables json.RawMessage `json:"variables"`
		At        string          `json:"at"`
		Explain   bool            `json:"explain"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return adminError(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
		}
		return adminError(http.StatusBadRequest, "the body must be a JSON object with key, and as wanted workspace, kind, context, variables, at and explain: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return adminError(http.StatusBadRequest, "something follows the JSON object")
	}
	if body.Key == "" {
		return adminError(http.StatusBadRequest, "key is missing: it names the definition to evaluate")
	}
	q := inspect.Query{Key: body.Key, Explain: body.Explain}
	var err error
	if q.Kind, err = inspect.ParseKind(body.Kind); err != nil {
		return adminError(http.StatusBadRequest, "%v", err)
	}
	if q.At, err = inspect.ParseInstant(body.At); err != nil {
		return adminError(http.StatusBadRequest, "%v", err)
	}
	if q.Context, err = inspect.ParseObject("context", body.Context); err != nil {
		return adminError(http.StatusBadRequest, "%v", err)
	}
	if q.Variables, err = inspect.ParseObject("variables", body.Variables); err != nil {
		return adminError(http.StatusBadRequest, "%v", err)
	}
	all, err := running()
	if err != nil {
		return err
	}
	workspace, err := all.named(body.Workspace)
	if err != nil {
		return err
	}
	answer, err := inspect.Evaluate(workspace.Definitions.Snapshot(), q)
	if err != nil {
		if _, ok := errors.AsType[*rules.BindError](err); ok {
			return adminError(http.StatusBadRequest, "%v", err)
		}
		return adminError(http.StatusNotFound, "%v", err)
	}
	return writeAdminJSON(w, answer)
}

func requireMethod(w http.ResponseWriter, r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return adminError(http.StatusMethodNotAllowed, "this path takes %s", methods[0])
}

// adminError is an error as Caddy's admin API answers it: {"error": message}.
func adminError(status int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return caddy.APIError{HTTPStatus: status, Err: err, Message: err.Error()}
}

func writeAdminJSON(w http.ResponseWriter, answer any) error {
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
