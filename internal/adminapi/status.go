package adminapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// Status is the answer of GET /cadenza/status.
type Status struct {
	// Status is ok or degraded. Since is the begin of the first degraded condition.
	Status string    `json:"status"`
	Since  time.Time `json:"since,omitzero"`
	// Version is the version of Cadenza, devel for a build that is no release.
	Version string    `json:"version"`
	Caddy   string    `json:"caddy"`
	Started time.Time `json:"started"` // when the process began

	Workspaces map[string]WorkspaceStatus `json:"workspaces"`
}

// WorkspaceStatus is the part of a Status for one workspace.
type WorkspaceStatus struct {
	Definitions DefinitionsStatus `json:"definitions"`
	gateway.Status
}

// DefinitionsStatus has the definitions that a workspace serves, and the mistakes in
// its directory.
type DefinitionsStatus struct {
	Directory string    `json:"directory"`
	Revision  string    `json:"revision"`
	Loaded    time.Time `json:"loaded"`
	inspect.Counts
	Warnings int `json:"warnings"`
	// Source is the state of the source of bundles; nil: there is a directory.
	Source *gateway.SourceStatus `json:"source,omitempty"`
	// Errors are the present mistakes of the directory. While it has any, the last
	// good definitions are served.
	Errors []inspect.Finding `json:"errors"`
}

// began is the time at which the process began.
var began = time.Now()

// serveStatus answers GET /cadenza/status: the state of all workspaces, or of one with
// ?workspace=NAME.
func serveStatus(w http.ResponseWriter, r *http.Request) error {
	if err := knownParameters(r.URL.Query(), []string{"workspace"}); err != nil {
		return err
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	simple, _ := caddy.Version()
	answer := Status{Status: "ok", Version: strings.TrimPrefix(upstream.UserAgent, "Cadenza/"), Caddy: simple, Started: began.UTC(), Workspaces: make(map[string]WorkspaceStatus)}
	for name, w := range all {
		snapshot := w.Definitions.Snapshot()
		s := WorkspaceStatus{Status: w.Status(), Definitions: DefinitionsStatus{
			Directory: w.Definitions.Dir(), Revision: snapshot.Revision, Loaded: snapshot.Loaded.UTC(),
			Counts: inspect.Count(snapshot), Warnings: definition.CountWarnings(snapshot.Warnings), Errors: w.mistakes(), Source: w.SourceStatus(),
		}}
		for _, c := range s.Degraded {
			answer.Status = "degraded"
			if answer.Since.IsZero() || c.Since.Before(answer.Since) {
				answer.Since = c.Since
			}
		}
		answer.Workspaces[name] = s
	}
	return writeJSON(w, answer)
}
