package adminapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Gateway is the part of the Caddy app "cadenza" that the admin API uses.
type Gateway interface {
	// Inspect returns the workspaces by name.
	Inspect() map[string]*Workspace
}

// Workspace is a workspace as the admin API asks it.
type Workspace struct {
	*gateway.Workspace
	Definitions *definition.Source
	// Calls calls yield for each call that is under way, in no order, until yield returns
	// false. The record has no content; begun is the mark of the call's begin.
	Calls func(yield func(record *trace.Record, begun int64) bool)
	// Call returns the record of a call that is under way, or nil.
	Call func(trace.ID) *trace.Record
	// Mark returns a mark that comes after the begin of all present calls.
	Mark func() int64
	// Strangers counts the refused requests without a valid API key, of all workspaces.
	Strangers func(since, until time.Time) []gateway.Stranger
	// Hash returns the keyed hash that stands for a value of a caller's in the audit.
	Hash func(value string) string
	// Stopping is closed when Caddy begins to stop the configuration.
	Stopping <-chan struct{}
}

// workspaces are the workspaces of a gateway by name.
type workspaces map[string]*Workspace

// running returns the workspaces of the configuration that runs. A visitor of the console
// gets the workspace of its key.
func running(ctx context.Context) (workspaces, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, apiError(http.StatusNotFound, "cadenza is not part of the running configuration")
	}
	if err != nil {
		return nil, apiError(http.StatusServiceUnavailable, "%v", err)
	}
	all := workspaces(app.(Gateway).Inspect())
	if visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor); ok {
		maps.DeleteFunc(all, func(name string, _ *Workspace) bool { return name != visitor.Workspace })
	}
	return all, nil
}

// names returns the names in ascending order.
func (all workspaces) names() []string { return slices.Sorted(maps.Keys(all)) }

// named finds a workspace. The empty name stands for the only workspace.
func (all workspaces) named(name string) (*Workspace, error) {
	names := all.names()
	if name == "" {
		if len(names) == 1 {
			return all[names[0]], nil
		}
		return nil, apiError(http.StatusBadRequest, "workspace is missing: one of %s", strings.Join(names, ", "))
	}
	w, ok := all[name]
	if !ok {
		return nil, apiError(http.StatusNotFound, "there is no workspace %q%s", name, document.DidYouMean(name, names))
	}
	return w, nil
}

// askedFor returns the workspaces of a request: all, or one with ?workspace=NAME.
func askedFor(r *http.Request) (workspaces, error) {
	all, err := running(r.Context())
	name := r.URL.Query().Get("workspace")
	if err != nil || name == "" {
		return all, err
	}
	one, err := all.named(name)
	return workspaces{name: one}, err
}

// each returns the handler of a route that answers with a part for each workspace, or for
// one with ?workspace=NAME.
func each[T any](part func(*Workspace) T) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := knownParameters(r.URL.Query(), []string{"workspace"}); err != nil {
			return err
		}
		all, err := askedFor(r)
		if err != nil {
			return err
		}
		answer := make(map[string]T, len(all))
		for name, workspace := range all {
			answer[name] = part(workspace)
		}
		return writeJSON(w, map[string]any{"workspaces": answer})
	}
}

// workspaceNamed finds a workspace of the configuration that runs.
func workspaceNamed(ctx context.Context, name string) (*Workspace, error) {
	all, err := running(ctx)
	if err != nil {
		return nil, err
	}
	return all.named(name)
}
