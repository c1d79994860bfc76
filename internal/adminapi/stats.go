package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// serveStats answers GET /cadenza/stats: counts, errors, times, tokens, costs,
// scores and named values per key and variant, arm or version over time.
func serveStats(w http.ResponseWriter, r *http.Request, asked *traceQuery, reader *sqlite.Reader) error {
	q := sqlite.StatsQuery{
		Workspace: asked.workspace.Name, Since: asked.filter.Since, Until: asked.filter.Until, Kind: asked.filter.Kind, Key: asked.filter.Key,
	}
	interval := cmp.Or(asked.values.Get("interval"), "all")
	var known bool
	if q.Interval, known = sqlite.ParseInterval(interval); !known {
		return apiError(http.StatusBadRequest, "interval must be minute, hour, day or all, this is %q", interval)
	}
	if q.Interval == sqlite.Minutely {
		for _, name := range []string{"kind", "key", "by", "variant", "arm", "version"} {
			if asked.values.Has(name) {
				return apiError(http.StatusBadRequest, "interval=minute counts the whole workspace: it can't be combined with %s", name)
			}
		}
		if q.Until.IsZero() {
			q.Until = time.Now()
		}
		if q.Since.IsZero() {
			q.Since = q.Until.Add(-time.Hour)
		}
	}
	if units := asked.values.Get("units"); units != "" {
		if q.Units = units == "true"; !q.Units || q.Interval != sqlite.Overall {
			return apiError(http.StatusBadRequest, "units must be true or left out, and goes with interval=all: a unit counts once for the whole time")
		}
	}
	by := cmp.Or(asked.values.Get("by"), "variant")
	only := map[string]string{"variant": asked.filter.Variant, "arm": asked.filter.Arm, "version": asked.filter.Version}
	for _, group := range []string{"variant", "arm", "version"} {
		if only[group] != "" && !slices.Contains(strings.Split(by, ","), group) {
			by += "," + group // or a row would count others too
		}
	}
	if q.By, known = sqlite.ParseGroups(by); !known {
		return apiError(http.StatusBadRequest, "by must be variant, arm or version, or several of them with commas between, this is %q", asked.values.Get("by"))
	}
	stats, err := reader.Stats(r.Context(), q)
	switch {
	case errors.Is(err, sqlite.ErrTooMany), errors.Is(err, sqlite.ErrTooManyUnits):
		return apiError(http.StatusBadRequest, "%v", err)
	case err != nil:
		return asked.workspace.unreadable(err)
	}
	oldest, err := reader.Oldest(r.Context())
	if err != nil {
		return asked.workspace.unreadable(err)
	}
	rows := slices.DeleteFunc(stats.Rows, func(row sqlite.StatsRow) bool {
		return cmp.Or(only["variant"], row.Variant) != row.Variant || cmp.Or(only["arm"], row.Arm) != row.Arm || cmp.Or(only["version"], row.Version) != row.Version && only["version"] != row.PromptVersion
	})
	return writeJSON(w, Stats{
		Since: q.Since.UTC(), Until: q.Until.UTC(), Oldest: oldest.UTC(), Interval: interval, By: by, Units: q.Units, Pending: stats.Pending, Rows: rows,
	})
}

// Stats is the answer of GET /cadenza/stats. Since and Until are those of the request;
// the rows count the whole hours that contain them. Oldest is the time of the oldest trace.
type Stats struct {
	Since    time.Time         `json:"since,omitzero"`
	Until    time.Time         `json:"until,omitzero"`
	Oldest   time.Time         `json:"oldest,omitzero"`
	Interval string            `json:"interval"`
	By       string            `json:"by"`              // such as "variant" or "arm,version"
	Units    bool              `json:"units,omitempty"` // scores and values are of units
	Pending  int64             `json:"pending"`
	Rows     []sqlite.StatsRow `json:"rows"`
}
