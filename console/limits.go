package console

import (
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
	Now     time.Time
	Limits  []limitView
	Subject *subjectView // nil: all subjects
}

// limitView is a limit with its subjects.
type limitView struct {
	gateway.LimitStatus
	Subjects []subjectRow
	Refused  int64 // requests of the last day
}

// subjectRow is a subject's use of a limit.
type subjectRow struct {
	limitRow
	Link    string // to the subject
	Refused int64
}

// subjectView is one subject.
type subjectView struct {
	Name   string
	Traces string // the address of its traces; empty: they can't be selected
	Limits []subjectLimit
	Rows   []sqlite.RefusalRow
}

// subjectLimit is a subject's use of a limit, with its history.
type subjectLimit struct {
	gateway.SubjectStatus
	Uses  []subjectUse
	Bars  []bar
	Peaks []sqlite.PeakRow // the latest first
}

type subjectUse struct {
	limitRow
	Left float64
}

// history is how far back the page looks for a subject's peaks.
const history = 7 * 24 * time.Hour

func buildLimits(v *visit) (any, error) {
	var refused adminapi.Refused
	if err := v.ask("refused", url.Values{"since": {"24h"}}, &refused); err != nil {
		return nil, err
	}
	p := &limitsPage{Now: v.now}
	if v.query.Has("subject") {
		subject := v.query.Get("subject")
		v.command = "caddy cadenza limits " + shellWord(subject)
		err := p.fill(v, subject, refused.Rows)
		return p, err
	}
	v.command = "caddy cadenza status"
	var answer adminapi.LimitList
	if err := v.ask("limits", nil, &answer); err != nil {
		return nil, err
	}
	for _, l := range answer.Workspaces[v.visitor.Workspace].Limits {
		view := limitView{LimitStatus: l}
		for _, use := range l.Fullest {
			row := subjectRow{limitRow: limitRow{l.Name, l.By, use}, Link: prefix + "limits?" + url.Values{"subject": {use.Subject}}.Encode()}
			for i := range refused.Rows {
				if r := &refused.Rows[i]; r.Limit == l.Name && r.Subject == use.Subject {
					row.Refused += r.Count
				}
			}
			view.Subjects = append(view.Subjects, row)
		}
		for i := range refused.Rows {
			if r := &refused.Rows[i]; r.Limit == l.Name {
				view.Refused += r.Count
			}
		}
		p.Limits = append(p.Limits, view)
	}
	return p, nil
}

// fill fills in one subject.
func (p *limitsPage) fill(v *visit, subject string, refused []sqlite.RefusalRow) error {
	p.Subject = &subjectView{Name: subject}
	v.title = "Limits of " + subject
	if subject == "" {
		v.title = "Limits of all together, and of requests without a value"
	}
	for i := range refused {
		if refused[i].Limit != "" && refused[i].Subject == subject {
			p.Subject.Rows = append(p.Subject.Rows, refused[i])
		}
	}
	var answer adminapi.Limits
	if err := v.ask("limits", url.Values{"subject": {subject}}, &answer); err != nil {
		return err
	}
	var peaks adminapi.Peaks
	if err := v.ask("peaks", url.Values{"subject": {subject}, "since": {v.now.Add(-history).Format(time.RFC3339)}}, &peaks); err != nil {
		return err
	}
	for _, l := range answer.Workspaces[v.visitor.Workspace].Limits {
		view := subjectLimit{SubjectStatus: l, Peaks: slices.DeleteFunc(slices.Clone(peaks.Rows), func(r sqlite.PeakRow) bool { return r.Limit != l.Name })}
		if l.Percent == 0 && len(view.Peaks) == 0 {
			continue // the limit does not count by what this is a value of
		}
		for _, use := range l.Ceilings {
			view.Uses = append(view.Uses, subjectUse{limitRow{l.Name, l.By, use.LimitUse}, use.Left})
		}
		view.Bars = peakBars(view.Peaks, v.now)
		slices.Reverse(view.Peaks)
		p.Subject.Limits = append(p.Subject.Limits, view)
		if selects := tracesOf(l.By, subject); selects != nil {
			p.Subject.Traces = prefix + "traces?" + selects.Encode()
		}
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

// barHeight is the height of the bars of a chart.
const barHeight = 60

// barsOf returns the bars of values, of which the highest that is shown is most; 0: the
// greatest of them.
func barsOf(values []float64, most float64) []bar {
	if most == 0 {
		most = greatest(values)
	}
	bars := make([]bar, len(values))
	for i, value := range values {
		bars[i].X = 10 * i
		if value > 0 {
			bars[i].Height = min(max(int(value/most*barHeight), 1), barHeight)
		}
		bars[i].Y = barHeight - bars[i].Height
	}
	return bars
}

// greatest returns the greatest of some values, at least zero.
func greatest(values []float64) (most float64) {
	for _, value := range values {
		most = max(most, value)
	}
	return most
}

// chartWidth returns the width of a chart's picture.
func chartWidth(bars []bar) int { return 10 * len(bars) }
