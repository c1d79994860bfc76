package adminapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Models is the answer of GET /cadenza/models.
type Models struct {
	Workspace string    `json:"workspace"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Interval  string    `json:"interval"`
	Models    []Model   `json:"models"` // those with the most attempts first
}

// Model is a provider's model: what its attempts used and took, how it does, and what is
// known of it.
type Model struct {
	sqlite.ModelRow
	gateway.ModelFacts
	// Target is the model as a target of the served definitions; nil: it is none.
	Target *gateway.Target `json:"target,omitempty"`
}

// serveModels answers GET /cadenza/models: the models that were called, and those that the
// served definitions name.
func serveModels(w http.ResponseWriter, r *http.Request, asked *traceQuery, reader *sqlite.Reader) error {
	interval := cmp.Or(asked.values.Get("interval"), "hour")
	if interval != "hour" && interval != "day" {
		return apiError(http.StatusBadRequest, "interval must be hour or day, this is %q", interval)
	}
	rows, err := sqlite.SumModels(r.Context(), sqlite.CostSource{Reader: reader, Workspace: asked.workspace.Name}, asked.filter, interval == "day")
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return asked.workspace.unreadable(err)
	}
	answer := Models{Workspace: asked.workspace.Name, Since: asked.filter.Since.UTC(), Until: asked.filter.Until.UTC(), Interval: interval, Models: []Model{}}
	targets := asked.workspace.Targets()
	for _, row := range rows {
		m := Model{ModelRow: row}
		if i := slices.IndexFunc(targets, func(t gateway.Target) bool { return t.Provider == row.Provider && t.Model == row.Model }); i >= 0 {
			m.Target = &targets[i]
		}
		answer.Models = append(answer.Models, m)
	}
	for i := range targets {
		t := &targets[i]
		if !slices.ContainsFunc(rows, func(row sqlite.ModelRow) bool { return t.Provider == row.Provider && t.Model == row.Model }) {
			answer.Models = append(answer.Models, Model{ModelRow: sqlite.ModelRow{Provider: t.Provider, Model: t.Model, Over: []sqlite.ModelStep{}}, Target: t})
		}
	}
	for i := range answer.Models {
		m := &answer.Models[i]
		m.ModelFacts = asked.workspace.ModelFacts(m.Provider, m.ModelRow.Model)
	}
	return writeJSON(w, answer)
}
