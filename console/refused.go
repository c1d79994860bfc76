package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// refusedPage has the requests that were refused before a call: when, why and whose.
type refusedPage struct {
	filter
	Step   string // hour, or day for a long time
	Bars   []bar
	Groups []refusedGroup
	adminapi.Refused
}

// refusedGroup has the counts by one property.
type refusedGroup struct {
	Name string
	Rows []*refusedSum
}

type refusedSum struct {
	Name, Link string
	Count      int64
	Last       time.Time
}

// refusedFilters are the fields of the form.
var refusedFilters = []filterField{
	{"since", "since", "24h", "90m, 7d or 2026-01-31"},
	{"code", "code", "", "rate_limited"},
	{"api_key", "API key", "", "app"},
	{"key", "key", "", "support_chat"},
	{"limit", "limit", "", ""},
	{"subject", "subject", "", ""},
}

const (
	// hourBars is the most hours that are shown by the hour.
	hourBars = 7 * 24
	// sumsShown is the most rows of a refusedGroup.
	sumsShown = 10
)

func buildRefused(v *visit) (any, error) {
	p := &refusedPage{filter: v.filter(refusedFilters)}
	v.command = "caddy cadenza refused"
	for _, name := range []string{"since", "api_key", "key"} { // the others are columns of the command
		if p.query.Has(name) {
			v.command += " --" + strings.ReplaceAll(name, "_", "-") + " " + shellWord(p.query.Get(name))
		}
	}
	if err := v.ask("refused", p.query, &p.Refused); err != nil {
		return nil, err
	}
	p.Step, p.Bars = refusedBars(p.Hours, p.Since, v.now)
	group := func(name string, of func(*sqlite.RefusalRow) (string, url.Values)) {
		p.Groups = append(p.Groups, refusedGroup{name, sumRefused(p.Rows, p.query, of)})
	}
	group("code", func(r *sqlite.RefusalRow) (string, url.Values) { return r.Code, url.Values{"code": {r.Code}} })
	group("API key", func(r *sqlite.RefusalRow) (string, url.Values) {
		if r.APIKey == "" {
			return "no valid key, all workspaces", nil
		}
		return r.APIKey, url.Values{"api_key": {r.APIKey}}
	})
	group("limit, subject", func(r *sqlite.RefusalRow) (string, url.Values) {
		if r.Limit == "" {
			return "", nil
		}
		return r.Limit + ", " + cmp.Or(r.Subject, "all"), url.Values{"limit": {r.Limit}, "subject": {r.Subject}}
	})
	return p, nil
}

// refusedBars returns the bars of hours, or of days where there are many, since a time. A
// zero time is that of the first hour.
func refusedBars(hours []sqlite.RefusalHour, since, now time.Time) (string, []bar) {
	if len(hours) == 0 {
		return "", nil
	}
	name, step := "hour", time.Hour
	if since.IsZero() {
		since = hours[0].Start
	}
	if now.Sub(since) > hourBars*time.Hour {
		name, step = "day", day
	}
	first := since.Truncate(step)
	values := make([]float64, max(int(now.Sub(first)/step), 0)+1)
	for _, h := range hours {
		if at := int(h.Start.Sub(first) / step); at >= 0 && at < len(values) {
			values[at] += float64(h.Count)
		}
	}
	return name, barsOf(values, 0)
}

// sumRefused sums rows by a property, the greatest counts first. A row without a name does
// not count; a link narrows the page to what its row counts.
func sumRefused(rows []sqlite.RefusalRow, query url.Values, of func(*sqlite.RefusalRow) (string, url.Values)) (list []*refusedSum) {
	sums := make(map[string]*refusedSum)
	for i := range rows {
		name, narrow := of(&rows[i])
		if name == "" {
			continue
		}
		sum := sums[name]
		if sum == nil {
			sum = &refusedSum{Name: name}
			if narrow != nil {
				all := maps.Clone(query)
				maps.Copy(all, narrow)
				sum.Link = prefix + "refused?" + all.Encode()
			}
			sums[name], list = sum, append(list, sum)
		}
		sum.Count += rows[i].Count
		if rows[i].Last.After(sum.Last) {
			sum.Last = rows[i].Last
		}
	}
	slices.SortStableFunc(list, func(a, b *refusedSum) int { return cmp.Compare(b.Count, a.Count) })
	return list[:min(len(list), sumsShown)]
}
