package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
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

// tallyOf returns the counts of a row of statistics.
func tallyOf(r *sqlite.StatsRow) tally {
	t := tally{Calls: r.Traces, Errors: r.Errors, scores: r.Scores}
	if r.ScoreMean != nil {
		t.sum = *r.ScoreMean * float64(r.Scores)
	}
	return t
}

// figures are the answers of today, and of the last seven days (UTC).
type figures struct {
	Today, Week tally
	whole       int64 // the answers of today of which these are a part
}

// Share returns the part of today's answers.
func (f figures) Share() string { return tenth(f.Today.Calls, f.whole) }

// Width returns the same in thousandths.
func (f figures) Width() int64 { return 1000 * f.Today.Calls / max(f.whole, 1) }

func (f figures) plus(o figures) figures {
	return figures{f.Today.plus(o.Today), f.Week.plus(o.Week), f.whole}
}

// part is what statistics count by: the variant of a prompt, or the row of a remote
// configuration, with the arm.
type part struct{ Name, Arm string }

// definitionTraffic is the traffic of one definition.
type definitionTraffic struct {
	Problem  string // why it is not known
	parts    map[part]figures
	Names    map[string]figures // by variant or row
	Versions map[string]figures
	all      figures
}

// mostCallers bounds the endpoints whose calls are added to those of their prompt.
const mostCallers = 20

// countDefinition counts the answers of a definition. The calls of an endpoint count for its
// prompt, too.
func (v *visit) countDefinition(p *definitionPage) (*definitionTraffic, error) {
	c := &definitionTraffic{parts: map[part]figures{}, Names: map[string]figures{}, Versions: map[string]figures{}}
	callers := []inspect.Use{{Kind: p.Kind, Key: p.Key}}
	if p.Kind == "prompt" {
		callers = append(callers, p.UsedBy[:min(len(p.UsedBy), mostCallers)]...)
	}
	known := make(map[string]bool)
	for _, version := range p.Versions {
		known[version.Version] = true
	}
	today := v.Now.Truncate(day)
	for _, caller := range callers {
		var s adminapi.Stats
		err := v.stats(&s, 6, url.Values{"kind": {caller.Kind}, "key": {caller.Key}, "by": {"variant,arm,version"}, "interval": {"day"}})
		problem, err := refused(err)
		if err != nil {
			return nil, err
		}
		c.Problem = cmp.Or(c.Problem, problem)
		for i := range s.Rows {
			r := &s.Rows[i]
			version, key := r.Version, part{r.Variant, r.Arm}
			if caller.Kind != p.Kind {
				if version = r.PromptVersion; !known[version] {
					continue // it called another prompt then
				}
			}
			if key.Arm == key.Name {
				key.Arm = ""
			}
			f := figures{Week: tallyOf(r)}
			if !r.Start.Before(today) {
				f.Today = f.Week
			}
			c.parts[key] = c.parts[key].plus(f)
			c.Names[r.Variant] = c.Names[r.Variant].plus(f)
			c.Versions[version] = c.Versions[version].plus(f)
			c.all = c.all.plus(f)
		}
	}
	return c, nil
}

// stats asks for the statistics since the beginning of a day (UTC).
func (v *visit) stats(s *adminapi.Stats, daysAgo int, query url.Values) error {
	query.Set("since", v.Now.Truncate(24*time.Hour).AddDate(0, 0, -daysAgo).Format(time.RFC3339))
	return v.ask("stats", query, s)
}

// trafficRow is the traffic of a variant, or of a row and its arm.
type trafficRow struct {
	part
	figures
}

// mostParts bounds the parts that a page lists.
const mostParts = 100

// Rows lists the parts, those with the most answers first.
func (c *definitionTraffic) Rows() (list []trafficRow) {
	for key, f := range c.parts {
		f.whole = c.all.Today.Calls
		list = append(list, trafficRow{key, f})
	}
	slices.SortFunc(list, func(a, b trafficRow) int {
		return cmp.Or(cmp.Compare(b.Week.Calls, a.Week.Calls), strings.Compare(a.Name, b.Name), strings.Compare(a.Arm, b.Arm))
	})
	return list[:min(len(list), mostParts)]
}

// tenth returns a part as a percentage with one decimal, or nothing of nothing.
func tenth(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

// addTo gives the rows of a grid their share of today's answers. Statistics of a prompt are
// by variant: rows that answer the same variant have their figures together.
func (c *definitionTraffic) addTo(p *definitionPage) {
	whole := len(p.Table.Rows) == p.Rows
	if c.all.Week.Calls == 0 || p.Kind == "endpoint" || p.Kind == "prompt" && !whole {
		return
	}
	answers := make([][]string, len(p.Grid))
	for i := range p.Grid {
		if p.Kind == "remoteconfig" {
			answers[i] = []string{p.Grid[i].Row}
			continue
		}
		for _, a := range p.Grid[i].Answers {
			if name := plain(a.Value); !slices.Contains(answers[i], name) {
				answers[i] = append(answers[i], name)
			}
		}
	}
	for i := range p.Grid {
		r := &p.Grid[i]
		for _, name := range answers[i] {
			r.figures = r.plus(c.Names[name])
		}
		r.whole = c.all.Today.Calls
		var with []string
		for j := range p.Grid {
			if j != i && slices.ContainsFunc(answers[i], func(name string) bool { return slices.Contains(answers[j], name) }) {
				with = append(with, p.Grid[j].Row)
			}
		}
		r.With = strings.Join(with, ", ")
	}
}
