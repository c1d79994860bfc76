package adminapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Limits is the answer of GET /cadenza/limits.
type Limits struct {
	Workspaces map[string]WorkspaceLimits `json:"workspaces"`
}

// WorkspaceLimits is the part of Limits for one workspace.
type WorkspaceLimits struct {
	Limits []gateway.SubjectStatus `json:"limits"`
}

// LimitList is the answer of GET /cadenza/limits without a subject.
type LimitList struct {
	Workspaces map[string]WorkspaceLimitList `json:"workspaces"`
}

// WorkspaceLimitList is the part of LimitList for one workspace.
type WorkspaceLimitList struct {
	Limits []gateway.LimitStatus `json:"limits"`
}

const (
	// usualSubjects is how many subjects of each limit are listed if top says nothing.
	usualSubjects = 20
	// MaxLimitSubjects is the most that top may ask for.
	MaxLimitSubjects = 1000
)

// serveLimits answers GET /cadenza/limits?subject=VALUE: the use of all limits by one
// subject. Without a subject it answers with the limits, and those of their subjects that
// use the largest shares. workspace=NAME picks one workspace, and limit=NAME one limit.
func serveLimits(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"limit", "subject", "top", "workspace"}); err != nil {
		return err
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	top, err := strconv.Atoi(cmp.Or(values.Get("top"), strconv.Itoa(usualSubjects)))
	if err != nil || top < 1 || top > MaxLimitSubjects || values.Has("top") && values.Has("subject") {
		return apiError(http.StatusBadRequest, "top must be a number from 1 to %d, this is %q; it is for a list, without subject", MaxLimitSubjects, values.Get("top"))
	}
	list, answer := LimitList{make(map[string]WorkspaceLimitList)}, Limits{make(map[string]WorkspaceLimits)}
	wanted, subject := values.Get("limit"), values.Get("subject")
	found, known := false, []string{}
	for name, workspace := range all {
		if !values.Has("subject") {
			limits := slices.DeleteFunc(workspace.LimitStatus(top), func(l gateway.LimitStatus) bool {
				known = append(known, l.Name)
				return values.Has("limit") && l.Name != wanted
			})
			found = found || len(limits) > 0
			list.Workspaces[name] = WorkspaceLimitList{limits}
			continue
		}
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
	if !values.Has("subject") {
		return writeJSON(w, list)
	}
	return writeJSON(w, answer)
}

// Peaks is the answer of GET /cadenza/peaks.
type Peaks struct {
	Workspace string           `json:"workspace"`
	Since     time.Time        `json:"since,omitzero"`
	Until     time.Time        `json:"until,omitzero"`
	Rows      []sqlite.PeakRow `json:"rows"` // by limit, subject and hour
}

// servePeaks answers GET /cadenza/peaks: the largest shares of limits that their fullest
// subjects used, by the hour. subject=VALUE picks one subject, and limit=NAME one limit.
func servePeaks(w http.ResponseWriter, r *http.Request, asked *traceQuery, reader *sqlite.Reader) error {
	f := &asked.filter
	q := sqlite.PeakQuery{Workspace: f.Workspace, Since: f.Since, Until: f.Until, Limit: asked.values.Get("limit")}
	if asked.values.Has("subject") {
		q.Subject = new(asked.values.Get("subject"))
	}
	rows, err := reader.Peaks(r.Context(), q)
	if err != nil {
		return asked.workspace.unreadable(err)
	}
	return writeJSON(w, Peaks{Workspace: f.Workspace, Since: f.Since.UTC(), Until: f.Until.UTC(), Rows: rows})
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
