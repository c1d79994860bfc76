package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// serveStats answers GET /cadenza/stats: counts, errors, times, tokens, costs
// and scores per key and variant over time.
func serveStats(w http.ResponseWriter, r *http.Request) error {
	asked, err := newTraceQuery(r, "workspace", "since", "until", "kind", "key", "interval")
	if err != nil {
		return err
	}
	q := sqlite.StatsQuery{
		Workspace: asked.workspace.Name, Since: asked.filter.Since, Until: asked.filter.Until, Kind: asked.filter.Kind, Key: asked.filter.Key,
	}
	interval := asked.values.Get("interval")
	if interval == "" {
		interval = "all"
	}
	var known bool
	if q.Interval, known = sqlite.ParseInterval(interval); !known {
		return apiError(http.StatusBadRequest, "interval must be hour, day or all, this is %q", interval)
	}
	reader, err := asked.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	stats, err := reader.Stats(r.Context(), q)
	switch {
	case errors.Is(err, sqlite.ErrTooMany):
		return apiError(http.StatusBadRequest, "%v", err)
	case err != nil:
		return asked.workspace.unreadable(err)
	}
	return writeJSON(w, Stats{
		Since: q.Since.UTC(), Until: q.Until.UTC(), Interval: interval, Pending: stats.Pending, Rows: stats.Rows,
	})
}

// Stats is the answer of GET /cadenza/stats. Since and Until are as asked; the
// rows count the whole hours that contain them.
type Stats struct {
	Since    time.Time         `json:"since,omitzero"`
	Until    time.Time         `json:"until,omitzero"`
	Interval string            `json:"interval"`
	Pending  int64             `json:"pending"`
	Rows     []sqlite.StatsRow `json:"rows"`
}
