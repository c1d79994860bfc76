package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// tally counts answers.
type tally struct {
	Calls, Errors int64
	scores        int64
	sum           float64
}

func (t tally) plus(o tally) tally {
	return tally{t.Calls + o.Calls, t.Errors + o.Errors, t.scores + o.scores, t.sum + o.sum}
}

// Score returns the mean of the reported scores.
func (t tally) Score() string {
	if t.scores == 0 {
		return ""
	}
	return strconv.FormatFloat(t.sum/float64(t.scores), 'f', 1, 64)
}

// eachTally calls f with the counts of each row of statistics, by the row's index.
func eachTally(s *adminapi.Stats, f func(i int, t tally)) {
	for i := range s.Rows {
		r := &s.Rows[i]
		t := tally{Calls: r.Traces, Errors: r.Errors, scores: r.Scores}
		if r.ScoreMean != nil {
			t.sum = *r.ScoreMean * float64(r.Scores)
		}
		f(i, t)
	}
}

// add adds to an element of a map.
func add[K comparable](to map[K]tally, key K, t tally) { to[key] = to[key].plus(t) }

// part is what statistics count by: the variant of a prompt, or the row of a remote
// configuration, with the arm.
type part struct{ name, arm string }

// definitionTraffic is the traffic of one definition, today and in the last seven days (UTC).
type definitionTraffic struct {
	problem  string // why it is not known
	today    map[string]tally
	week     map[string]tally // by variant or row
	parts    map[part][2]tally
	versions map[string]tally // of the week
	all      [2]tally
}

// spans are how many days before today the figures of a definition begin.
var spans = [2]int{0, 6}

// mostCallers bounds the endpoints whose calls are added to those of their prompt.
const mostCallers = 20

// countDefinition counts the answers of a definition. The calls of an endpoint count for its
// prompt, too.
func (v *visit) countDefinition(p *definitionPage) (*definitionTraffic, error) {
	c := &definitionTraffic{today: map[string]tally{}, week: map[string]tally{}, parts: map[part][2]tally{}, versions: map[string]tally{}}
	callers := []reference{{Name: p.Key, As: p.Kind}}
	for _, u := range p.UsedBy {
		if p.Kind == "prompt" && len(callers) <= mostCallers {
			callers = append(callers, reference{Name: u.Key, As: u.Kind})
		}
	}
	known := make(map[string]bool)
	for _, version := range p.Definition.Versions {
		known[version.Version] = true
	}
	for _, caller := range callers {
		for span, days := range spans {
			var s adminapi.Stats
			problem, err := refused(v.stats(&s, days, url.Values{"kind": {caller.As}, "key": {caller.Name}, "by": {"variant,arm,version"}}))
			if err != nil {
				return nil, err
			}
			if problem != "" {
				c.problem = problem
				continue
			}
			eachTally(&s, func(i int, t tally) {
				r := &s.Rows[i]
				version := r.Version
				if caller.As != p.Kind {
					if version = r.PromptVersion; !known[version] {
						return // it called another prompt then
					}
				}
				c.all[span] = c.all[span].plus(t)
				if span == 0 {
					add(c.today, r.Variant, t)
				} else {
					add(c.week, r.Variant, t)
					add(c.versions, version, t)
				}
				key := part{r.Variant, r.Arm}
				if r.Arm == r.Variant {
					key.arm = ""
				}
				both := c.parts[key]
				both[span] = both[span].plus(t)
				c.parts[key] = both
			})
		}
	}
	return c, nil
}

// stats asks for the statistics since the beginning of a day (UTC).
func (v *visit) stats(s *adminapi.Stats, daysAgo int, query url.Values) error {
	query.Set("since", v.now.Truncate(24*time.Hour).AddDate(0, 0, -daysAgo).Format(time.RFC3339))
	return v.ask("stats", query, s)
}

// trafficRow is the traffic of a variant, or of a row and its arm.
type trafficRow struct {
	Name, Arm   string
	Today, Week tally
	Share       string // of today's
}

// mostParts bounds the parts that a page lists.
const mostParts = 100

// rows lists the parts, those with the most answers first.
func (c *definitionTraffic) rows() (list []trafficRow) {
	for _, key := range slices.SortedFunc(maps.Keys(c.parts), func(a, b part) int {
		return cmp.Or(cmp.Compare(c.parts[b][1].Calls, c.parts[a][1].Calls), strings.Compare(a.name, b.name), strings.Compare(a.arm, b.arm))
	}) {
		both := c.parts[key]
		row := trafficRow{Name: key.name, Arm: key.arm, Today: both[0], Week: both[1]}
		if c.all[0].Calls > 0 {
			row.Share = tenth(both[0].Calls, c.all[0].Calls)
		}
		list = append(list, row)
	}
	return list[:min(len(list), mostParts)]
}

func tenth(part, whole int64) string {
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

// addTo gives the rows of a grid their share of today's answers. Statistics of a prompt are
// by variant: rows that answer the same variant have their figures together.
func (c *definitionTraffic) addTo(p *definitionPage) {
	whole := p.Earlier == "" && p.Later == ""
	if c.all[1].Calls == 0 || p.Kind == "endpoint" || p.Kind == "prompt" && !whole {
		return
	}
	answers := func(r *gridRow) (names []string) {
		if p.Kind == "remoteconfig" {
			return []string{r.Head.Text}
		}
		for _, a := range r.Answers {
			if !slices.Contains(names, a.Text) {
				names = append(names, a.Text)
			}
		}
		return names
	}
	owners := make(map[string][]string)
	for i := range p.Rows {
		for _, name := range answers(&p.Rows[i]) {
			owners[name] = append(owners[name], p.Rows[i].Head.Text)
		}
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		var today, week tally
		var with []string
		for _, name := range answers(r) {
			today, week = today.plus(c.today[name]), week.plus(c.week[name])
			for _, other := range owners[name] {
				if other != r.Head.Text && !slices.Contains(with, other) {
					with = append(with, other)
				}
			}
		}
		if c.all[0].Calls > 0 {
			r.Share, r.Width = tenth(today.Calls, c.all[0].Calls), int(1000*today.Calls/c.all[0].Calls)
		}
		r.Score, r.With = week.Score(), strings.Join(with, ", ")
	}
}
