package gateway

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// readiness is the body of /healthz and /readyz. Everyone may read it: it has names from
// the configuration, but no messages and no names of workspaces, which may be customers'
// names.
type readiness struct {
	Status   string        `json:"status"` // ok, degraded, unready, starting or stopping
	Since    time.Time     `json:"since,omitzero"`
	Degraded []degradation `json:"degraded,omitempty"`
	// Limits are the limits that are used up, or nearly. They do not make the gateway
	// degraded.
	Limits []limitShare `json:"limits,omitempty"`
}

// limitShare is the largest share of a limit that a subject of any workspace has used.
type limitShare struct {
	Name    string `json:"name"`
	Percent int    `json:"percent"`
}

// degradation is a condition with its subjects in all workspaces.
type degradation struct {
	Code     string    `json:"code"`
	Since    time.Time `json:"since"`
	Count    int       `json:"count"`
	Subjects []string  `json:"subjects"` // maxSubjects at most
}

// maxSubjects bounds the subjects of one condition in an answer that needs no key.
const maxSubjects = 20

// ServeHealth answers /healthz and /readyz, and reports whether the path was one of
// them. /readyz is 200 from Start until stopping, when the caller knows that the
// server or the process is about to stop, unless a workspace is unready.
func (g *Gateway) ServeHealth(w http.ResponseWriter, r *http.Request, stopping bool) bool {
	var body readiness
	switch r.URL.Path {
	case "/healthz":
		body.Status = "ok"
	case "/readyz":
		body = g.readiness(stopping)
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		err := wire.Errorf(wire.MethodNotAllowed, "", "This route takes GET.")
		err.Allow = "GET, HEAD"
		wire.WriteError(w, err)
		return true
	}
	text, _ := json.Marshal(body) // texts, numbers and times can't fail
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Set("Cache-Control", "no-store")
	if slices.Contains([]string{"starting", "stopping", "unready"}, body.Status) {
		header.Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(text) // an error means that the prober is gone
	}
	return true
}

// readiness returns the body of /readyz.
func (g *Gateway) readiness(stopping bool) readiness {
	select {
	case <-g.started:
	default:
		return readiness{Status: "starting"}
	}
	if stopping {
		return readiness{Status: "stopping"}
	}
	found := make(map[string]*degradation)
	for _, name := range slices.Sorted(maps.Keys(g.workspaces)) {
		for _, c := range g.workspaces[name].Conditions() {
			d := found[c.Code]
			if d == nil {
				d = &degradation{Code: c.Code, Since: c.Since}
				found[c.Code] = d
			}
			if c.Since.Before(d.Since) {
				d.Since = c.Since
			}
			if d.Count++; len(d.Subjects) < maxSubjects && !slices.Contains(d.Subjects, c.Subject) {
				d.Subjects = append(d.Subjects, c.Subject)
			}
		}
	}
	if len(found) == 0 {
		return readiness{Status: "ok", Since: g.process.okSince.Load().UTC(), Limits: g.nearLimits()}
	}
	body := readiness{Status: "degraded", Limits: g.nearLimits()}
	for _, code := range conditionCodes {
		if d := found[code]; d != nil {
			body.Degraded = append(body.Degraded, *d)
			if body.Since.IsZero() || d.Since.Before(body.Since) {
				body.Since = d.Since
			}
		}
	}
	for _, w := range g.workspaces {
		if w.unready() {
			body.Status = "unready"
		}
	}
	return body
}

// nearLimits returns the limits of which a subject has used at least nearlyUsed percent,
// sorted by name.
func (g *Gateway) nearLimits() []limitShare {
	now := time.Now()
	most := make(map[string]int)
	for _, w := range g.workspaces {
		for _, l := range w.CallLimits {
			if percent := w.usedPercent(l, now); percent >= nearlyUsed {
				most[l.Name] = max(most[l.Name], percent)
			}
		}
	}
	var list []limitShare
	for _, name := range slices.Sorted(maps.Keys(most)) {
		list = append(list, limitShare{name, most[name]})
	}
	return list
}
