package console

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/trace"
)

// nowPage has the state of the workspace: what needs somebody first.
type nowPage struct {
	Now       time.Time
	Workspace adminapi.WorkspaceStatus
	Limits    []limitRow
	Staves    []stave
	Busiest   []busy
	Span      span
	Since     string // when the span begins
	Pending   int64  // records that the statistics do not count yet
}

// Nearly reports whether a limit is nearly used up.
func (p *nowPage) Nearly() bool { return len(p.Limits) > 0 && p.Limits[0].Percent >= nearlyUsed }

// nearlyUsed is the percentage from which a limit needs somebody.
const nearlyUsed = 80

// limitRow is the fullest subject of a limit.
type limitRow struct {
	Name, By string
	gateway.LimitUse
}

// busy is a definition with its traffic, in whole hours.
type busy struct {
	Kind, Key          string
	Traces, Errors     int64
	Cost               float64
	Latency, FirstText float64 // the largest p95 of its variants, in milliseconds
}

// busiestShown is how many definitions the page shows.
const busiestShown = 8

func buildNow(v *visit) (any, error) {
	v.command = "caddy cadenza status"
	p := &nowPage{Now: v.now, Workspace: v.workspace(), Span: lastHour}
	for _, l := range p.Workspace.Limits {
		for _, use := range l.Fullest {
			p.Limits = append(p.Limits, limitRow{l.Name, l.By, use})
		}
	}
	slices.SortStableFunc(p.Limits, func(a, b limitRow) int { return cmp.Compare(b.Percent, a.Percent) })
	p.Limits = p.Limits[:min(len(p.Limits), 5)]

	if v.query.Get("last") == "day" {
		p.Span = lastDay
	}
	end := v.now.Truncate(p.Span.Step).Add(p.Span.Step)
	now, err := v.sums(p.Span, end)
	if err != nil {
		return nil, err
	}
	before, err := v.sums(p.Span, end.Add(-week))
	if err != nil {
		return nil, err
	}
	p.Staves = newStaves(p.Span, now, before, end)
	p.Since = end.Add(-time.Duration(p.Span.Steps) * p.Span.Step).Format(time.RFC3339)
	stats := new(adminapi.Stats)
	err = v.ask("stats", url.Values{"since": {p.Since}, "interval": {"all"}}, stats)
	p.Pending = stats.Pending
	p.Busiest = busiest(stats)
	return p, err
}

const week = 7 * 24 * time.Hour

// span is what the staves show: so many steps of time.
type span struct {
	Name, Interval string
	Step           time.Duration
	Steps          int
}

var (
	lastHour = span{"hour", "minute", time.Minute, 60}
	lastDay  = span{"day", "hour", time.Hour, 24}
)

// sum is what a step of time adds up to.
type sum struct {
	traces, errors      int64
	cost                float64
	latency, firstToken float64 // p95 of calls of models in milliseconds; by the hour, the largest of a variant
}

// sums asks for the steps of a span that ends at a time.
func (v *visit) sums(s span, end time.Time) ([]sum, error) {
	stats := new(adminapi.Stats)
	err := v.ask("stats", url.Values{
		"since": {end.Add(-time.Duration(s.Steps) * s.Step).Format(time.RFC3339)}, "until": {end.Add(-time.Second).Format(time.RFC3339)}, "interval": {s.Interval},
	}, stats)
	return s.sums(stats, end), err
}

// sums returns the steps that end at a time, the oldest first.
func (s span) sums(stats *adminapi.Stats, end time.Time) []sum {
	list := make([]sum, s.Steps)
	for i := range stats.Rows {
		row := &stats.Rows[i]
		at := s.Steps - int(end.Sub(row.Start)/s.Step)
		if at < 0 || at >= s.Steps {
			continue
		}
		to := &list[at]
		to.traces += row.Traces
		to.errors += row.Errors
		to.cost += row.Cost
		if row.Kind == "" || row.Kind == trace.KindEndpoint.String() {
			to.latency = max(to.latency, row.Latency.P95)
			to.firstToken = max(to.firstToken, row.FirstToken.P95)
		}
	}
	return list
}

// busiest returns the definitions with the most traces.
func busiest(s *adminapi.Stats) []busy {
	at := make(map[[2]string]int)
	var list []busy
	for i := range s.Rows {
		row := &s.Rows[i]
		if row.Traces == 0 {
			continue
		}
		name := [2]string{row.Kind, row.Key}
		place, known := at[name]
		if !known {
			place = len(list)
			at[name] = place
			list = append(list, busy{Kind: row.Kind, Key: row.Key})
		}
		b := &list[place]
		b.Traces += row.Traces
		b.Errors += row.Errors
		b.Cost += row.Cost
		b.Latency = max(b.Latency, row.Latency.P95)
		b.FirstText = max(b.FirstText, row.FirstToken.P95)
	}
	slices.SortStableFunc(list, func(a, b busy) int { return cmp.Compare(b.Traces, a.Traces) })
	return list[:min(len(list), busiestShown)]
}

// stave is a figure by the minute or hour beside that of a week ago.
type stave struct {
	Name, Last, Before string // the figure, and that of a week ago
	Width              int
	Bars               []bar
	Table              []staveRow
}

// staveRow is a step of a stave as a row of its table.
type staveRow struct {
	Start         time.Time
	Path          string // of its traces
	Value, Before string
}

// staveHeight is the height of a stave's picture.
const staveHeight = 24

func newStaves(s span, now, before []sum, end time.Time) []stave {
	number := func(n float64) string { return count(int64(n)) }
	millis := func(ms float64) string { return took(time.Duration(ms * float64(time.Millisecond))) }
	build := func(name, filter, class string, text func(float64) string, of func(*sum) float64, whole func([]sum) float64) stave {
		return newStave(s, name, filter, class, text, now, before, end, of, whole)
	}
	added := func(of func(*sum) float64) func([]sum) float64 {
		return func(list []sum) (n float64) {
			for i := range list {
				n += of(&list[i])
			}
			return n
		}
	}
	// last is the figure of the last step that has one.
	last := func(of func(*sum) float64) func([]sum) float64 {
		return func(list []sum) float64 {
			for i := range slices.Backward(list) {
				if n := of(&list[i]); n > 0 {
					return n
				}
			}
			return 0
		}
	}
	traces, errors, cost := func(s *sum) float64 { return float64(s.traces) }, func(s *sum) float64 { return float64(s.errors) }, func(s *sum) float64 { return s.cost }
	latency, first := func(s *sum) float64 { return s.latency }, func(s *sum) float64 { return s.firstToken }
	return []stave{
		build("Requests", "", "", number, traces, added(traces)),
		build("Errors", "status=error", "bad", number, errors, added(errors)),
		build("Took, p95, last "+s.Interval, "sort=latency", "", millis, latency, last(latency)),
		build("First token, p95, last "+s.Interval, "kind=endpoint", "", millis, first, last(first)),
		build("Money", "sort=cost", "", dollars, cost, added(cost)),
	}
}

func newStave(span span, name, filter, class string, text func(float64) string, now, before []sum, end time.Time, of func(*sum) float64, whole func([]sum) float64) stave {
	s := stave{Name: name, Last: text(whole(now)), Before: text(whole(before)), Width: 10 * span.Steps}
	var most float64
	for i := range now {
		most = max(most, of(&now[i]), of(&before[i]))
	}
	height := func(value float64) int {
		if value <= 0 || most == 0 {
			return 0
		}
		return max(int(value/most*staveHeight), 1)
	}
	for i := range now {
		value, was := of(&now[i]), of(&before[i])
		start := end.Add(time.Duration(i-span.Steps) * span.Step)
		query, _ := url.ParseQuery(filter) // the filters above can be read
		query.Set("since", start.Format(time.RFC3339))
		query.Set("until", start.Add(span.Step).Format(time.RFC3339))
		b := bar{X: 10 * i, Y: staveHeight - height(value), Height: height(value), Mark: staveHeight - height(was), Class: class, Path: prefix + "traces?" + query.Encode()}
		if class == "" && was > 0 && value > 1.25*was {
			b.Class = "strong"
		}
		s.Bars = append(s.Bars, b)
		s.Table = append(s.Table, staveRow{start, b.Path, text(value), text(was)})
	}
	return s
}

// targetTrouble returns warn for a target that is not called, or that fails.
func targetTrouble(t gateway.Target) string {
	if t.Down || t.State != gateway.TargetUntried && t.State != string(invoke.TargetOK) {
		return "warn"
	}
	return ""
}

// usedOf returns what is used of a ceiling or set aside.
func usedOf(l *gateway.LimitUse) template.HTML { return amountOf(l.Measure, l.Used+l.Reserved) }

func amountOf(measure string, amount float64) template.HTML {
	if measure == "money" {
		return data(amount, dollars(amount))
	}
	return data(amount, count(int64(amount)))
}
