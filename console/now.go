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
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// nowPage has the state of the workspace: what needs somebody first.
type nowPage struct {
	Now       time.Time
	Workspace adminapi.WorkspaceStatus
	Limits    []limitRow
	Staves    []stave
	Busiest   []*sqlite.StatsRow // definitions with their traffic, in whole hours
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

// busiestShown is how many definitions the page shows.
const busiestShown = 8

func buildNow(v *visit) (any, error) {
	v.Command = "caddy cadenza status"
	p := &nowPage{Now: v.Now, Workspace: v.Workspace(), Span: lastHour}
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
	end := v.Now.Truncate(p.Span.Step).Add(p.Span.Step)
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

// sums asks for the steps of a span that ends at a time.
func (v *visit) sums(s span, end time.Time) ([]sqlite.StatsRow, error) {
	stats := new(adminapi.Stats)
	err := v.ask("stats", url.Values{
		"since": {end.Add(-time.Duration(s.Steps) * s.Step).Format(time.RFC3339)}, "until": {end.Add(-time.Second).Format(time.RFC3339)}, "interval": {s.Interval},
	}, stats)
	return s.sums(stats, end), err
}

// sums returns the steps that end at a time, the oldest first. Of calls of models alone they
// have how long they took: by the hour, the largest p95 of a variant.
func (s span) sums(stats *adminapi.Stats, end time.Time) []sqlite.StatsRow {
	list := make([]sqlite.StatsRow, s.Steps)
	for i := range stats.Rows {
		row := &stats.Rows[i]
		if row.Kind != "" && row.Kind != trace.KindEndpoint.String() {
			row.Latency, row.FirstToken = sqlite.Quantiles{}, sqlite.Quantiles{}
		}
		if at := s.Steps - int(end.Sub(row.Start)/s.Step); at >= 0 && at < s.Steps {
			merge(&list[at], row)
		}
	}
	return list
}

// merge adds a row of statistics to another. Its p95 is the larger of theirs.
func merge(to, row *sqlite.StatsRow) {
	to.Traces += row.Traces
	to.Errors += row.Errors
	to.Cost += row.Cost
	to.Latency.P95 = max(to.Latency.P95, row.Latency.P95)
	to.FirstToken.P95 = max(to.FirstToken.P95, row.FirstToken.P95)
}

// busiest returns the definitions with the most traces. Their p95 are the largest of their
// variants.
func busiest(s *adminapi.Stats) (list []*sqlite.StatsRow) {
	sums := make(map[[2]string]*sqlite.StatsRow)
	for i := range s.Rows {
		row := &s.Rows[i]
		sum := sums[[2]string{row.Kind, row.Key}]
		switch {
		case row.Traces == 0:
		case sum == nil:
			sums[[2]string{row.Kind, row.Key}] = row
			list = append(list, row)
		default:
			merge(sum, row)
		}
	}
	slices.SortStableFunc(list, func(a, b *sqlite.StatsRow) int { return cmp.Compare(b.Traces, a.Traces) })
	return list[:min(len(list), busiestShown)]
}

// stave is a figure by the minute or hour beside that of a week ago.
type stave struct {
	Name         string
	Last, Before template.HTML // the figure, and that of a week ago
	Bars         []bar
	Table        []staveRow
}

// staveRow is a step of a stave as a row of its table.
type staveRow struct {
	Start         time.Time
	Value, Before template.HTML
}

// figure is what a stave shows.
type figure struct {
	name, filter, class string // filter selects the traces that a bar leads to
	text                func(float64) template.HTML
	of                  func(*sqlite.StatsRow) float64
	last                bool // the whole is the last step that has one, not their sum
}

func newStaves(s span, now, before []sqlite.StatsRow, end time.Time) (staves []stave) {
	number := func(n float64) template.HTML { return amountOf("", n) }
	dollars := func(n float64) template.HTML { return amountOf("money", n) }
	for _, f := range []figure{
		{"Requests", "", "", number, func(r *sqlite.StatsRow) float64 { return float64(r.Traces) }, false},
		{"Errors", "status=error", "bad", number, func(r *sqlite.StatsRow) float64 { return float64(r.Errors) }, false},
		{"Took, p95, last " + s.Interval, "sort=latency", "", millis, func(r *sqlite.StatsRow) float64 { return r.Latency.P95 }, true},
		{"First token, p95, last " + s.Interval, "kind=endpoint", "", millis, func(r *sqlite.StatsRow) float64 { return r.FirstToken.P95 }, true},
		{"Money", "sort=cost", "", dollars, func(r *sqlite.StatsRow) float64 { return r.Cost }, false},
	} {
		staves = append(staves, f.stave(s, now, before, end))
	}
	return staves
}

// values returns the figure of each step, and of all.
func (f *figure) values(list []sqlite.StatsRow) (values []float64, whole float64) {
	for i := range list {
		value := f.of(&list[i])
		values = append(values, value)
		switch {
		case !f.last:
			whole += value
		case value > 0:
			whole = value
		}
	}
	return values, whole
}

func (f *figure) stave(span span, now, before []sqlite.StatsRow, end time.Time) stave {
	values, whole := f.values(now)
	earlier, was := f.values(before)
	most := max(greatest(values), greatest(earlier))
	s := stave{Name: f.name, Last: f.text(whole), Before: f.text(was), Bars: barsOf(values, most)}
	for i, mark := range barsOf(earlier, most) {
		start := end.Add(time.Duration(i-span.Steps) * span.Step)
		query, _ := url.ParseQuery(f.filter) // the filters above can be read
		query.Set("since", start.Format(time.RFC3339))
		query.Set("until", start.Add(span.Step).Format(time.RFC3339))
		b := &s.Bars[i]
		b.Path, b.Class, b.Mark = prefix+"traces?"+query.Encode(), f.class, mark.Y
		if f.class == "" && earlier[i] > 0 && values[i] > 1.25*earlier[i] {
			b.Class = "strong"
		}
		s.Table = append(s.Table, staveRow{start, f.text(values[i]), f.text(earlier[i])})
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
