package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// costsPage has the costs of calls by one part, those of the month by the day, and what is
// to be expected of both.
type costsPage struct {
	By    string
	Parts []string // that costs may be shown by
	Since string
	adminapi.Costs
	At      time.Time // when they were summed
	Problem string    // why the query is refused
	Month   month
	Budgets []budget
	Why     bool // the parts of the sum are asked for
}

// costParts are the parts that the page offers, and after them the members of metadata that
// limits count by. Others can be written into its address.
var costParts = []string{"model", "key", "api_key", "variant", "version", "day"}

func buildCosts(v *visit) (any, error) {
	first := time.Date(v.Now.Year(), v.Now.Month(), 1, 0, 0, 0, 0, time.UTC)
	p := &costsPage{By: v.spanOf("by", "model"), Parts: slices.Clone(costParts), Since: v.spanOf("since", first.Format(time.DateOnly)), Why: v.query.Get("why") == "total"}
	v.Command = "caddy cadenza costs --by " + shellWord(p.By) + " --since " + shellWord(p.Since)
	for _, l := range v.Workspace().Limits {
		if strings.HasPrefix(l.By, adminapi.MetadataParameter) && !slices.Contains(p.Parts, l.By) {
			p.Parts = append(p.Parts, l.By)
		}
		for _, use := range l.Fullest {
			if use.Measure == "money" {
				p.Budgets = append(p.Budgets, newBudget(limitRow{l.Name, l.By, use}, v.Now))
			}
		}
	}
	var err error
	p.Costs, p.At, err = askSeldom[adminapi.Costs](v, "costs", url.Values{"by": {p.By}, "since": {p.Since}})
	if p.Problem, err = refused(err); err != nil || p.Problem != "" {
		return p, err
	}
	var stats adminapi.Stats
	from := v.Now.Truncate(day).AddDate(0, 0, -pace)
	if first.Before(from) {
		from = first
	}
	err = v.ask("stats", url.Values{"since": {from.Format(time.RFC3339)}, "interval": {"day"}, "kind": {"endpoint"}}, &stats)
	problem, err := refused(err)
	if problem != "" {
		p.Month.Problem = problem // there are too many definitions
		return p, nil
	}
	p.Month = newMonth(&stats, v.Now)
	return p, err
}

// PartOf returns the value of a row's part, or what its absence means.
func (p *costsPage) PartOf(by map[string]string) string {
	if len(by) == 0 {
		return "none"
	}
	var values []string
	for _, part := range p.Costs.By {
		values = append(values, by[part])
	}
	return strings.Join(values, ", ")
}

// Answered returns what the attempts cost that answered.
func (p *costsPage) Answered() float64 { return p.Total.Cost - p.Total.UnansweredCost }

// Address returns the address of the page by a part, with the reasons of its sum or without.
func (p *costsPage) Address(by, why string) string {
	query := url.Values{"by": {by}, "since": {p.Since}}
	if why != "" {
		query.Set("why", why)
	}
	return prefix + "costs?" + query.Encode()
}

// TracesOf returns the address of the traces of a row, or nothing if they can't be selected.
func (p *costsPage) TracesOf(by map[string]string) string {
	query := url.Values{"since": {p.Since}, "kind": {"endpoint"}}
	if len(by) == 0 {
		return ""
	}
	for part, value := range by {
		member, isMember := strings.CutPrefix(part, adminapi.MetadataParameter)
		switch {
		case isMember && !query.Has("metadata"):
			query.Set("metadata", member+"="+value)
		case part == "variant":
			query.Set("arm", value) // of an endpoint, the variant of its prompt
		case part == "day":
			start, err := time.Parse(time.DateOnly, value)
			if err != nil {
				return ""
			}
			query.Set("since", value)
			query.Set("until", start.Add(day).Format(time.DateOnly))
		case slices.Contains([]string{"key", "api_key", "provider", "model"}, part):
			query.Set(part, value)
		default:
			return ""
		}
	}
	return prefix + "traces?" + query.Encode()
}

const (
	day = 24 * time.Hour
	// pace is over how many whole days before today the pace of a month is taken.
	pace = 7
)

// month is what the days of this month (UTC) cost, and what is to be expected of it.
type month struct {
	Name     string
	Days     []costDay
	Bars     []bar
	Sum      float64
	Pace     float64 // a day; 0: no whole day has a cost yet
	Over     int     // the days that the pace is of
	Left     float64 // days
	Expected float64 // the whole month
	Pending  int64
	Problem  string
}

type costDay struct {
	Start time.Time
	Cost  float64
	Past  bool // it has begun
}

// newMonth sums the days of the month, from statistics that begin with it or with the days
// of the pace. The pace is of the days from the first that has a cost.
func newMonth(s *adminapi.Stats, now time.Time) month {
	costs := make(map[time.Time]float64)
	for i := range s.Rows {
		costs[s.Rows[i].Start.UTC()] += s.Rows[i].Cost
	}
	today := now.UTC().Truncate(day)
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	end := first.AddDate(0, 1, 0)
	m := month{Name: now.Month().String(), Left: end.Sub(now).Hours() / 24, Pending: s.Pending}
	for i := pace; i >= 1; i-- {
		cost := costs[today.AddDate(0, 0, -i)]
		if cost > 0 && m.Over == 0 {
			m.Over = i
		}
		m.Pace += cost
	}
	if m.Over > 0 {
		m.Pace /= float64(m.Over)
	}
	var values []float64
	for start := first; start.Before(end); start = start.AddDate(0, 0, 1) {
		past := !start.After(today)
		cost := m.Pace
		if past {
			cost = costs[start]
			m.Sum += cost
		}
		values = append(values, cost)
		m.Days = append(m.Days, costDay{start, cost, past})
	}
	m.Expected = m.Sum + m.Pace*m.Left
	m.Bars = barsOf(values, 0)
	for i := range m.Bars {
		if !m.Days[i].Past {
			m.Bars[i].Class = "expected"
		} else if m.Days[i].Start.Equal(today) {
			m.Bars[i].Class = "strong"
		}
	}
	return m
}

// budget is a subject's use of a limit of money.
type budget struct {
	limitRow
	Expected float64 // by the end of its window, at the pace since its begin; 0: too early to tell
}

func newBudget(use limitRow, now time.Time) budget {
	b := budget{limitRow: use}
	length, passed := use.Resets.Sub(use.Since), now.Sub(use.Since)
	if passed >= length/20 && passed > 0 {
		b.Expected = use.Used * float64(length) / float64(passed)
	}
	return b
}
