package console

import (
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// refusedPage has the requests that were refused before a call: when, why and whose.
type refusedPage struct {
	filter
	Step string // hour, or day for a long time
	Bars []bar
	adminapi.Refused
	Problem string // why the filter is refused
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

// hourBars is the most hours that are shown by the hour.
const hourBars = 7 * 24

func buildRefused(v *visit) (any, error) {
	p := &refusedPage{filter: v.filter(refusedFilters)}
	v.Command = "caddy cadenza refused"
	for _, name := range []string{"since", "api_key", "key"} { // the others are columns of the command
		if p.query.Has(name) {
			v.Command += " --" + strings.ReplaceAll(name, "_", "-") + " " + shellWord(p.query.Get(name))
		}
	}
	var err error
	p.Problem, err = refused(v.ask("refused", p.query, &p.Refused))
	p.Step, p.Bars = refusedBars(p.Hours, p.Since, v.Now)
	return p, err
}

// Narrow returns the address of the page with values of more fields.
func (p *refusedPage) Narrow(pairs ...string) string {
	return prefix + "refused?" + with(p.page, pairs...).Encode()
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
