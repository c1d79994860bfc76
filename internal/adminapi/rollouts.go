package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// Rollouts is the answer of GET /cadenza/rollouts. Each has the row alone by
// which it is answered.
type Rollouts struct {
	Rollouts []gateway.Rollout `json:"rollouts"` // by name
}

// rolloutRequest is the body of POST /cadenza/rollouts/NAME.
type rolloutRequest struct {
	Do rollout.Kind `json:"do"`
	// By is the person who asks, and stands in the row. A visitor of the console is its own
	// key. Default: local.
	By string `json:"by,omitempty"`
}

// maxBy is the most bytes of the name of a person.
const maxBy = 100

// rolloutKinds is what a person may ask of a rollout.
var rolloutKinds = []string{string(rollout.Hold), string(rollout.Back), string(rollout.Resume), string(rollout.Finish)}

// serveRollouts answers GET /cadenza/rollouts: those of the served definitions.
func serveRollouts(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	answer := Rollouts{append([]gateway.Rollout{}, q.workspace.Rollouts()...)}
	for i := range answer.Rollouts {
		one := &answer.Rollouts[i]
		one.Rows = slices.DeleteFunc(slices.Clone(one.Rows), func(row rollout.Row) bool { return row.Number != one.Row })
	}
	return writeJSON(w, answer)
}

// serveRollout answers GET /cadenza/rollouts/NAME: a rollout with all its rows.
func serveRollout(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	one, err := q.workspace.rollout(rolloutName(r))
	if err != nil {
		return err
	}
	return writeJSON(w, one)
}

// serveAskRollout answers POST /cadenza/rollouts/NAME: it does what a person asks, and answers
// with the rollout as it is then.
func serveAskRollout(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	var request rolloutRequest
	if err := readBody(w, r, maxBody, &request, `JSON such as {"do": "hold"}`); err != nil {
		return err
	}
	switch {
	case !slices.Contains(rolloutKinds, string(request.Do)):
		return apiError(http.StatusBadRequest, "do: %s", document.Unrecognized("move", string(request.Do), rolloutKinds))
	case len(request.By) > maxBy:
		return apiError(http.StatusBadRequest, "by may have %d bytes, it has %d", maxBy, len(request.By))
	}
	by := callerName(r.Context(), cmp.Or(request.By, "local"))
	before, err := q.workspace.rollout(rolloutName(r))
	if err != nil {
		return err
	}
	row, err := q.workspace.AskRollout(r.Context(), before.Name, request.Do, by)
	switch {
	case errors.Is(err, gateway.ErrRolloutConflict):
		return apiError(http.StatusConflict, "%v", err)
	case err != nil:
		return apiError(http.StatusServiceUnavailable, "the row can't be kept: %v", err)
	}
	q.workspace.audited(r.Context(), AuditRollout, before.Name, gateway.ShareText(before.Share), string(row.Kind)+", "+gateway.ShareText(row.Share))
	after, err := q.workspace.rollout(before.Name)
	if err != nil {
		return err
	}
	return writeJSON(w, after)
}

func rolloutName(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/cadenza/rollouts/") }

// rollout returns a rollout of the served definitions.
func (w *Workspace) rollout(name string) (*gateway.Rollout, error) {
	all := w.Rollouts()
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	if len(names) == 0 {
		return nil, apiError(http.StatusNotFound, "there is no rollout %q: no split of the served definitions has a guard", name)
	}
	return nil, apiError(http.StatusNotFound, "there is no rollout %q%s", name, document.DidYouMean(name, names))
}
