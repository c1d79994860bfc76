package adminapi

import (
	"net/http"

	"github.com/cadenza-gateway/cadenza/internal/bundle/download"
)

// Pulled is the answer of POST /cadenza/pull.
type Pulled struct {
	Workspace string `json:"workspace"`
	Result    string `json:"result"` // new, unchanged or refused
	URL       string `json:"url"`    // of the source that answered
	// Bundle and Serial are the revision and the serial of the bundle that is served now,
	// and Revision is that of its definitions.
	Bundle   string `json:"bundle,omitempty"`
	Serial   int64  `json:"serial,omitempty"`
	Revision string `json:"revision,omitempty"`
	Refused  string `json:"refused,omitempty"` // why it was refused
}

// servePull answers POST /cadenza/pull: it fetches the bundle of a workspace now, also one
// that was refused.
func servePull(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	if q.workspace.Bundle == nil {
		return apiError(http.StatusConflict, "the definitions of this workspace are in the directory %s, which is watched: there is nothing to pull", q.workspace.Definitions.Dir())
	}
	o, err := q.workspace.Bundle.Pull(r.Context())
	if err != nil {
		return apiError(http.StatusBadGateway, "nothing was fetched: %v", err)
	}
	return writeJSON(w, Pulled{q.workspace.Name, o.Result, o.URL, o.Revision, o.Serial, q.workspace.Definitions.Snapshot().Revision, o.Reason})
}

// IsRefused reports whether the bundle was refused.
func (p *Pulled) IsRefused() bool { return p.Result == download.Refused }
