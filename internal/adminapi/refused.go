package adminapi

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Refused is the answer of GET /cadenza/refused. Since and Until are those of the
// request; the rows count the whole hours that contain them.
type Refused struct {
	Workspace string              `json:"workspace"`
	Since     time.Time           `json:"since,omitzero"`
	Until     time.Time           `json:"until,omitzero"`
	Rows      []sqlite.RefusalRow `json:"rows"` // the greatest counts first
}

// serveRefused answers GET /cadenza/refused: the requests that were refused before a
// call, by reason. Rows for requests without a valid API key have no api_key, and count
// the requests to all workspaces.
func serveRefused(w http.ResponseWriter, r *http.Request) error {
	asked, err := newTraceQuery(r, "workspace", "since", "until", "api_key", "key")
	if err != nil {
		return err
	}
	reader, err := asked.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	f := &asked.filter
	rows, err := reader.Refusals(r.Context(), f)
	if err != nil {
		return asked.workspace.unreadable(err)
	}
	if f.APIKey == "" && f.Key == "" {
		for _, s := range asked.workspace.Strangers(f.Since, f.Until) {
			rows = append(rows, sqlite.RefusalRow{
				Route: s.Route, Status: s.Status, Code: s.Code, Count: s.Count, Last: s.Last.UTC(),
			})
		}
		slices.SortStableFunc(rows, func(a, b sqlite.RefusalRow) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Code, b.Code))
		})
	}
	if rows == nil {
		rows = []sqlite.RefusalRow{}
	}
	return writeJSON(w, Refused{Workspace: asked.workspace.Name, Since: f.Since.UTC(), Until: f.Until.UTC(), Rows: rows})
}
