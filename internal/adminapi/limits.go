package adminapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// Limits is the answer of GET /cadenza/limits.
type Limits struct {
	Workspaces map[string]WorkspaceLimits `json:"workspaces"`
}

// WorkspaceLimits is the part of Limits for one workspace.
type WorkspaceLimits struct {
	Limits []gateway.SubjectStatus `json:"limits"`
}

// serveLimits answers GET /cadenza/limits?subject=VALUE: the use of all limits by one
// subject. workspace=NAME picks one workspace, and limit=NAME one limit.
func serveLimits(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"limit", "subject", "workspace"}); err != nil {
		return err
	}
	if !values.Has("subject") {
		return apiError(http.StatusBadRequest, "subject is missing: the name of an API key, the key of an endpoint, or a value of the metadata that a limit counts by; empty for the requests without one")
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	answer := Limits{Workspaces: make(map[string]WorkspaceLimits)}
	wanted, subject := values.Get("limit"), values.Get("subject")
	found, known := false, []string{}
	for name, workspace := range all {
		limits := workspace.SubjectStatus(subject)
		for i := range limits {
			known = append(known, limits[i].Name)
		}
		if values.Has("limit") {
			limits = slices.DeleteFunc(limits, func(l gateway.SubjectStatus) bool { return l.Name != wanted })
		}
		found = found || len(limits) > 0
		answer.Workspaces[name] = WorkspaceLimits{limits}
	}
	if values.Has("limit") && !found {
		return unknownLimit(wanted, known)
	}
	return writeJSON(w, answer)
}

// unknownLimit returns the error for a name of no known limit.
func unknownLimit(name string, known []string) error {
	if len(known) == 0 {
		return apiError(http.StatusNotFound, "there is no limit %q: no limit is configured", name)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if near := document.Nearest(name, known); near != "" {
		return apiError(http.StatusNotFound, "there is no limit %q: did you mean %q? The limits are %s", name, near, strings.Join(known, ", "))
	}
	return apiError(http.StatusNotFound, "there is no limit %q: the limits are %s", name, strings.Join(known, ", "))
}
