package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// limitsPage has the limits with their fullest subjects, or one subject's use of them.
type limitsPage struct {
	Limits  []gateway.LimitStatus
	Refused []sqlite.RefusalRow // of the last day
	One     bool                // one subject is shown
	Subject []subjectLimit      // its limits
}

// subjectLimit is a subject's use of a limit, with its history.
type subjectLimit struct {
	gateway.SubjectStatus
	Traces string // the address of the subject's traces; empty: they can't be selected
	Bars   []bar
	Peaks  []sqlite.PeakRow // the latest first
}

// history is how far back the page looks for a subject's peaks.
const history = 7 * 24 * time.Hour

func buildLimits(v *visit) (any, error) {
	query := url.Values{"since": {"24h"}}
	subject := v.query.Get("subject")
	if v.query.Has("subject") {
		query.Set("subject", subject)
	}
	var refused adminapi.Refused
	if err := v.ask("refused", query, &refused); err != nil {
		return nil, err
	}
	p := &limitsPage{One: v.query.Has("subject"), Refused: slices.DeleteFunc(refused.Rows, func(r sqlite.RefusalRow) bool { return r.Limit == "" })}
	if p.One {
		v.Command = "caddy cadenza limits " + shellWord(subject)
		return p, p.fill(v, subject)
	}
	v.Command = "caddy cadenza status"
	var answer adminapi.LimitList
	err := v.ask("limits", nil, &answer)
	p.Limits = answer.Workspaces[v.Visitor.Workspace].Limits
	return p, err
}

// RefusedBy returns how many requests a limit refused, of one subject if it is given.
func (p *limitsPage) RefusedBy(limit string, subject ...string) (n int64) {
	for i := range p.Refused {
		if r := &p.Refused[i]; r.Limit == limit && (len(subject) == 0 || subject[0] == r.Subject) {
			n += r.Count
		}
	}
	return n
}

// whose names a subject of a limit.
func whose(by, subject string) string {
	if subject == "" && by != "workspace" {
		return "without a value"
	}
	return cmp.Or(subject, "all")
}

// fill fills in one subject.
func (p *limitsPage) fill(v *visit, subject string) error {
	v.Title = "Limits of " + subject
	if subject == "" {
		v.Title = "Limits of all together, and of requests without a value"
	}
	var answer adminapi.Limits
	if err := v.ask("limits", url.Values{"subject": {subject}}, &answer); err != nil {
		return err
	}
	var peaks adminapi.Peaks
	if err := v.ask("peaks", url.Values{"subject": {subject}, "since": {v.Now.Add(-history).Format(time.RFC3339)}}, &peaks); err != nil {
		return err
	}
	for _, l := range answer.Workspaces[v.Visitor.Workspace].Limits {
		view := subjectLimit{SubjectStatus: l, Peaks: slices.DeleteFunc(slices.Clone(peaks.Rows), func(r sqlite.PeakRow) bool { return r.Limit != l.Name })}
		if l.Percent == 0 && len(view.Peaks) == 0 {
			continue // the limit does not count by what this is a value of
		}
		view.Bars = peakBars(view.Peaks, v.Now)
		slices.Reverse(view.Peaks)
		if selects := tracesOf(l.By, subject); selects != nil {
			view.Traces = prefix + "traces?" + selects.Encode()
		}
		p.Subject = append(p.Subject, view)
	}
	return nil
}

// peakBars returns the bars of the hours before now.
func peakBars(peaks []sqlite.PeakRow, now time.Time) []bar {
	values := make([]float64, history/time.Hour)
	for i := range peaks {
		if at := len(values) - 1 - int(now.Truncate(time.Hour).Sub(peaks[i].Hour)/time.Hour); at >= 0 && at < len(values) {
			values[at] = float64(peaks[i].Percent)
		}
	}
	bars := barsOf(values, 100)
	for i := range bars {
		if values[i] >= nearlyUsed {
			bars[i].Class = "warn"
		}
	}
	return bars
}

// tracesOf returns the filters that select the traces of a subject, or nil.
func tracesOf(by, subject string) url.Values {
	member, isMember := strings.CutPrefix(by, "metadata.")
	switch {
	case subject == "":
	case isMember:
		return url.Values{"metadata": {member + "=" + subject}}
	case by == "api_key":
		return url.Values{"api_key": {subject}}
	case by == "endpoint":
		return url.Values{"kind": {"endpoint"}, "key": {subject}}
	}
	return nil
}
