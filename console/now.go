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
)

// nowPage has the state of the workspace: what needs somebody first.
type nowPage struct {
	Now       time.Time
	Workspace adminapi.WorkspaceStatus
	Limits    []limitRow
	Staves    []stave
	Busiest   []busy
	Pending   int64 // records that the statistics do not count yet
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

// busy is a definition with its traffic of the last day.
type busy struct {
	Kind, Key          string
	Traces, Errors     int64
	Cost               float64
	Latency, FirstText float64 // the largest p95 of its variants, in milliseconds
}

// hours is how many hours the staves show.
const hours = 24

// busiestShown is how many definitions the page shows.
const busiestShown = 8

func buildNow(v *visit) (any, error) {
	v.command = "caddy cadenza status"
	p := &nowPage{Now: v.now, Workspace: v.workspace()}
	for _, l := range p.Workspace.Limits {
		for _, use := range l.Fullest {
			p.Limits = append(p.Limits, limitRow{l.Name, l.By, use})
		}
	}
	slices.SortStableFunc(p.Limits, func(a, b limitRow) int { return cmp.Compare(b.Percent, a.Percent) })
	p.Limits = p.Limits[:min(len(p.Limits), 5)]

	end := v.now.Truncate(time.Hour).Add(time.Hour)
	today, err := v.hourly(end)
	if err != nil {
		return nil, err
	}
	before, err := v.hourly(end.Add(-7 * 24 * time.Hour))
	if err != nil {
		return nil, err
	}
	p.Pending = today.Pending
	p.Staves = newStaves(sums(today, end), sums(before, end.Add(-7*24*time.Hour)), end)
	p.Busiest = busiest(today)
	return p, nil
}

// hourly asks for the statistics of the hours that end at a time.
func (v *visit) hourly(end time.Time) (*adminapi.Stats, error) {
	stats := new(adminapi.Stats)
	err := v.ask("stats", url.Values{
		"since": {end.Add(-hours * time.Hour).Format(time.RFC3339)}, "until": {end.Add(-time.Second).Format(time.RFC3339)}, "interval": {"hour"},
	}, stats)
	return stats, err
}

// hour is the sum of an hour.
type hour struct {
	traces, errors int64
	cost           float64
}

// sums returns the sums of the hours before end, the oldest first.
func sums(s *adminapi.Stats, end time.Time) (list [hours]hour) {
	for i := range s.Rows {
		row := &s.Rows[i]
		at := hours - int(end.Sub(row.Start)/time.Hour)
		if at < 0 || at >= hours {
			continue
		}
		list[at].traces += row.Traces
		list[at].errors += row.Errors
		list[at].cost += row.Cost
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

// stave is a figure by the hour beside that of a week ago.
type stave struct {
	Name, Last, Before string // the sum of the day, and of the day a week ago
	Bars               []bar
	Table              []staveRow
}

// staveRow is an hour of a stave as a row of its table.
type staveRow struct {
	Start         time.Time
	Value, Before string
}

// bar is an hour of a stave as a picture: a height and the mark of a week ago, of 24.
type bar struct {
	X, Y, Height, Mark int
	Class              string
}

// staveHeight is the height of a stave's picture.
const staveHeight = 24

func newStaves(now, before [hours]hour, end time.Time) []stave {
	number := func(n float64) string { return count(int64(n)) }
	return []stave{
		newStave("Requests", number, "", now, before, end, func(h hour) float64 { return float64(h.traces) }),
		newStave("Errors", number, "bad", now, before, end, func(h hour) float64 { return float64(h.errors) }),
		newStave("Money", dollars, "", now, before, end, func(h hour) float64 { return h.cost }),
	}
}

func newStave(name string, text func(float64) string, class string, now, before [hours]hour, end time.Time, of func(hour) float64) stave {
	s := stave{Name: name}
	var sum, sumBefore, most float64
	for i := range now {
		sum += of(now[i])
		sumBefore += of(before[i])
		most = max(most, of(now[i]), of(before[i]))
	}
	s.Last, s.Before = text(sum), text(sumBefore)
	height := func(value float64) int {
		if value <= 0 || most == 0 {
			return 0
		}
		return max(int(value/most*staveHeight), 1)
	}
	for i := range now {
		h := height(of(now[i]))
		b := bar{X: 10 * i, Y: staveHeight - h, Height: h, Mark: staveHeight - height(of(before[i])), Class: class}
		if class == "" && of(now[i]) > 1.25*of(before[i]) && sumBefore > 0 {
			b.Class = "strong"
		}
		s.Bars = append(s.Bars, b)
		s.Table = append(s.Table, staveRow{end.Add(time.Duration(i-hours) * time.Hour), text(of(now[i])), text(of(before[i]))})
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

// Meter returns the width of a meter's bar, of 100.
func (l *limitRow) Meter() int { return min(l.Percent, 100) }

// Amount returns what is used or set aside.
func (l *limitRow) Amount() template.HTML { return l.In(l.Used + l.Reserved) }

// In returns an amount of the limit's measure.
func (l *limitRow) In(amount float64) template.HTML { return amountOf(l.Measure, amount) }

func amountOf(measure string, amount float64) template.HTML {
	if measure == "money" {
		return data(amount, dollars(amount))
	}
	return data(amount, count(int64(amount)))
}
