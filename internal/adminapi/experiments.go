package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Experiments is the answer of GET /cadenza/experiments.
type Experiments struct {
	Experiments []ListedExperiment `json:"experiments"` // by name
}

// ListedExperiment is an experiment in a list, with what experiment.Readout says of it.
type ListedExperiment struct {
	Name  string           `json:"name"`
	On    string           `json:"on"`
	Rule  string           `json:"rule"`
	State experiment.State `json:"state"`
	Says  string           `json:"says"`
	Start time.Time        `json:"start"`
	End   time.Time        `json:"end"`
	Owner string           `json:"owner,omitempty"`
}

// serveExperiments answers GET /cadenza/experiments: those that the workspace has, and what
// can be said of each.
func serveExperiments(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	all, err := reader.Experiments(r.Context(), q.workspace.Name, "")
	if err != nil {
		return q.workspace.unreadable(err)
	}
	answer := Experiments{[]ListedExperiment{}}
	now := time.Now()
	for i := range all {
		e := experiment.Read(&all[i], now)
		answer.Experiments = append(answer.Experiments, ListedExperiment{e.Name, e.On, e.Rule, e.State, e.Says, e.Start, e.End, e.Owner})
	}
	slices.SortFunc(answer.Experiments, func(a, b ListedExperiment) int { return strings.Compare(a.Name, b.Name) })
	return writeJSON(w, answer)
}

// serveExperiment answers GET /cadenza/experiments/NAME: all that can be said of an
// experiment.
func serveExperiment(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	name := strings.TrimPrefix(r.URL.Path, "/cadenza/experiments/")
	found, err := reader.Experiments(r.Context(), q.workspace.Name, name)
	if err != nil {
		return q.workspace.unreadable(err)
	}
	if name == "" || len(found) == 0 {
		return q.workspace.unknownExperiment(r, reader, name)
	}
	now := time.Now()
	readout := experiment.Read(&found[0], now)
	if now.Before(readout.Start) {
		if err := q.workspace.size(r, reader, &found[0].Plans[len(found[0].Plans)-1].Plan, readout); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(q.workspace.Sinks, shares) {
		readout.Warnings = append(readout.Warnings, "the numbers are those that this gateway has stored: a sink collects those of several in PostgreSQL, and the others' are not in them")
	}
	return writeJSON(w, readout)
}

// shares reports whether a sink is of those that collect what several gateways recorded.
func shares(s gateway.Sink) bool {
	module, ok := s.Sink.(caddy.Module)
	return ok && module.CaddyModule().ID == "cadenza.sinks.postgres"
}

// unknownExperiment returns the error for a name of no experiment.
func (w *Workspace) unknownExperiment(r *http.Request, reader *sqlite.Reader, name string) error {
	all, err := reader.Experiments(r.Context(), w.Name, "")
	if err != nil {
		return w.unreadable(err)
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Plans[len(all[i].Plans)-1].Plan.Name)
	}
	if len(names) == 0 {
		return apiError(http.StatusNotFound, "there is no experiment %q: the workspace has none", name)
	}
	slices.Sort(names)
	return apiError(http.StatusNotFound, "there is no experiment %q%s", name, document.DidYouMean(name, names))
}

// TrafficDays is of how many days recorded traffic says how long an experiment takes.
const TrafficDays = 14

// size says how many units an experiment that has not begun needs, by recorded traffic.
func (w *Workspace) size(r *http.Request, reader *sqlite.Reader, p *experiment.Plan, readout *experiment.Readout) error {
	folder, key, _ := strings.Cut(p.On, "/")
	on := kind.InFolder(folder)
	if on == nil {
		return nil
	}
	by, _ := sqlite.ParseGroups("arm")
	stats, err := reader.Stats(r.Context(), sqlite.StatsQuery{
		Workspace: w.Name, Since: time.Now().AddDate(0, 0, -TrafficDays), Kind: on.Trace, Key: key, Interval: sqlite.Overall, By: by, Units: true,
	})
	switch {
	case errors.Is(err, sqlite.ErrTooMany), errors.Is(err, sqlite.ErrTooManyUnits):
		return nil // more units than it can need
	case err != nil:
		return w.unreadable(err)
	}
	oldest, err := reader.Oldest(r.Context())
	if err != nil {
		return w.unreadable(err)
	}
	needed, says := p.Sizes(Traffic(p, stats.Rows, oldest))
	for i, units := range needed {
		readout.Metrics[i].Needed = units
	}
	readout.Says = strings.TrimSuffix(readout.Says, ".") + ": " + strings.Join(says, "; ") + "."
	return nil
}

// Traffic returns what statistics by arm and unit, of TrafficDays, say of an experiment. Those
// of a store whose oldest trace is younger are of fewer days, at least of one.
func Traffic(p *experiment.Plan, rows []sqlite.StatsRow, oldest time.Time) *experiment.Traffic {
	t := &experiment.Traffic{Days: min(max(time.Since(oldest).Hours()/24, 1), TrafficDays), Units: make(map[string]int64), Values: make(map[string]experiment.Reported)}
	for _, row := range rows {
		arm := cmp.Or(row.Arm, experiment.PassedOn)
		t.Units[arm] += row.Units
		if arm != p.Control {
			continue
		}
		t.Answers, t.Errors = row.Traces, row.Errors
		for name, v := range row.Values {
			if v.Deviation != nil {
				t.Values[name] = experiment.Reported{Units: v.Count, Mean: v.Mean, Deviation: *v.Deviation}
			}
		}
	}
	return t
}
