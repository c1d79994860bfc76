package adminapi

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Refused is the answer of GET /cadenza/refused. Since and Until are those of the
// request; the rows count the whole hours that contain them.
type Refused struct {
	Workspace string               `json:"workspace"`
	Since     time.Time            `json:"since,omitzero"`
	Until     time.Time            `json:"until,omitzero"`
	Rows      []sqlite.RefusalRow  `json:"rows"`  // the greatest counts first
	Hours     []sqlite.RefusalHour `json:"hours"` // those that have any, by time
}

// serveRefused answers GET /cadenza/refused: the requests that were refused before a
// call, by reason and by hour. Rows for requests without a valid API key have no api_key,
// and count the requests to all workspaces.
func serveRefused(w http.ResponseWriter, r *http.Request, asked *traceQuery, reader *sqlite.Reader) error {
	f := &asked.filter
	q := &sqlite.RefusalQuery{Filter: *f, Limit: asked.values.Get("limit")}
	if asked.values.Has("subject") {
		q.Subject = new(asked.values.Get("subject"))
	}
	answer := Refused{Workspace: f.Workspace, Since: f.Since.UTC(), Until: f.Until.UTC()}
	var err error
	if answer.Rows, err = reader.Refusals(r.Context(), q); err == nil {
		answer.Hours, err = reader.RefusalHours(r.Context(), q)
	}
	if err != nil {
		return asked.workspace.unreadable(err)
	}
	if f.APIKey == "" && f.Key == "" && q.Limit == "" && q.Subject == nil {
		for _, s := range asked.workspace.Strangers(f.Since, f.Until) {
			if f.Code == "" || f.Code == s.Code {
				answer.add(&s)
			}
		}
		slices.SortStableFunc(answer.Rows, func(a, b sqlite.RefusalRow) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Code, b.Code))
		})
		slices.SortFunc(answer.Hours, func(a, b sqlite.RefusalHour) int { return a.Start.Compare(b.Start) })
	}
	if answer.Rows == nil {
		answer.Rows = []sqlite.RefusalRow{}
	}
	if answer.Hours == nil {
		answer.Hours = []sqlite.RefusalHour{}
	}
	return writeJSON(w, answer)
}

// add adds the requests of an hour that had no valid API key.
func (a *Refused) add(s *gateway.Stranger) {
	i := slices.IndexFunc(a.Rows, func(r sqlite.RefusalRow) bool {
		return r.APIKey == "" && r.Route == s.Route && r.Status == s.Status && r.Code == s.Code
	})
	if i < 0 {
		i = len(a.Rows)
		a.Rows = append(a.Rows, sqlite.RefusalRow{Route: s.Route, Status: s.Status, Code: s.Code})
	}
	row := &a.Rows[i]
	row.Count += s.Count
	if s.Last.After(row.Last) {
		row.Last = s.Last.UTC()
	}
	i = slices.IndexFunc(a.Hours, func(h sqlite.RefusalHour) bool { return h.Start.Equal(s.Hour) })
	if i < 0 {
		i = len(a.Hours)
		a.Hours = append(a.Hours, sqlite.RefusalHour{Start: s.Hour})
	}
	a.Hours[i].Count += s.Count
}
