package adminapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// LimitsAnswer is an answer of GET /cadenza/limits: by the workspace, the use of each limit.
type LimitsAnswer[T any] struct {
	Workspaces map[string]WorkspaceLimits[T] `json:"workspaces"`
}

// WorkspaceLimits is the part of a LimitsAnswer for one workspace.
type WorkspaceLimits[T any] struct {
	Limits []T `json:"limits"`
}

// Limits is the answer with a subject.
type Limits = LimitsAnswer[gateway.SubjectStatus]

// LimitList is the answer without a subject.
type LimitList = LimitsAnswer[gateway.LimitStatus]

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
	if values.Has("subject") {
		return answerLimits(w, values, all, func(w *Workspace) []gateway.SubjectStatus { return w.SubjectStatus(values.Get("subject")) }, func(l gateway.SubjectStatus) string { return l.Name })
	}
	return answerLimits(w, values, all, func(w *Workspace) []gateway.LimitStatus { return w.LimitStatus(top) }, func(l gateway.LimitStatus) string { return l.Name })
}

// answerLimits answers with the limits of workspaces, or with those of the name limit.
func answerLimits[T any](w http.ResponseWriter, values url.Values, all workspaces, of func(*Workspace) []T, nameOf func(T) string) error {
	answer := LimitsAnswer[T]{make(map[string]WorkspaceLimits[T])}
	wanted := values.Get("limit")
	found, known := !values.Has("limit"), []string{}
	for name, workspace := range all {
		limits := slices.DeleteFunc(of(workspace), func(l T) bool {
			known = append(known, nameOf(l))
			return values.Has("limit") && nameOf(l) != wanted
		})
		found = found || len(limits) > 0
		answer.Workspaces[name] = WorkspaceLimits[T]{limits}
	}
	if !found {
		return unknownLimit(wanted, known)
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
