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
	"github.com/cadenza-gateway/cadenza/trace"
)

// facetShown is how many values of a facet a page has.
const facetShown = 8

// overview counts the traces of a list's time, kind and key, by the statistics: they know
// no other filter, and count whole hours or days.
type overview struct {
	Traces, Errors int64
	Step           string // hour or day
	Bars, Failed   []bar
	Facets         []facet
}

// facet is a property by which the list can be narrowed.
type facet struct {
	Name   string
	Values []facetValue
}

type facetValue struct {
	Value, Path string // Path is the address of the list with the value, or without it if it is chosen
	Count       int64
	Chosen      bool
}

// overview returns nil if the statistics can't count the time of the list.
func (p *tracesPage) overview(v *visit, query url.Values) *overview {
	since, err := adminapi.ParsePast("since", query.Get("since"), v.now)
	if err != nil {
		return nil
	}
	o, step := &overview{Step: "hour"}, time.Hour
	if since.IsZero() || v.now.Sub(since) > 3*day {
		o.Step, step = "day", day
	}
	asked := url.Values{"interval": {o.Step}, "by": {"variant,arm"}}
	for _, name := range []string{"since", "until", "kind", "key"} {
		if query.Get(name) != "" {
			asked.Set(name, query.Get(name))
		}
	}
	var stats adminapi.Stats
	if v.ask("stats", asked, &stats) != nil || len(stats.Rows) == 0 {
		return nil // the list says what is wrong with the filter
	}
	byStart := func(a, b sqlite.StatsRow) int { return a.Start.Compare(b.Start) }
	first, last := slices.MinFunc(stats.Rows, byStart).Start, slices.MaxFunc(stats.Rows, byStart).Start
	traces := make([]float64, last.Sub(first)/step+1)
	failed := make([]float64, len(traces))
	names := []string{"status", "kind", "key", "row", "variant", "arm"}
	counts := make(map[string]map[string]int64)
	for _, name := range names {
		counts[name] = make(map[string]int64)
	}
	for i := range stats.Rows {
		row := &stats.Rows[i]
		o.Traces += row.Traces
		o.Errors += row.Errors
		at := row.Start.Sub(first) / step
		traces[at] += float64(row.Traces)
		failed[at] += float64(row.Errors)
		variant := "variant"
		if row.Kind == trace.KindRemoteConfig.String() {
			variant = "row"
		}
		for name, value := range map[string]string{"kind": row.Kind, "key": row.Key, "arm": row.Arm, variant: row.Variant} {
			counts[name][value] += row.Traces
		}
	}
	counts["status"]["ok"], counts["status"]["error"] = o.Traces-o.Errors, o.Errors
	for _, name := range names {
		if f := p.facet(name, query.Get(name), counts[name]); len(f.Values) > 0 {
			o.Facets = append(o.Facets, f)
		}
	}
	o.Bars, o.Failed = barsOf(traces, 0), barsOf(failed, greatest(traces))
	for i := range o.Bars {
		start := first.Add(time.Duration(i) * step)
		o.Bars[i].Path = p.address("sort", p.Sort, "since", start.Format(time.RFC3339), "until", start.Add(step).Format(time.RFC3339))
	}
	return o
}

// facet returns the values with the greatest counts.
func (p *tracesPage) facet(name, chosen string, counts map[string]int64) facet {
	f := facet{Name: name}
	for _, value := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	}) {
		if value == "" || counts[value] == 0 || len(f.Values) == facetShown {
			continue
		}
		to := value
		if value == chosen {
			to = ""
		}
		f.Values = append(f.Values, facetValue{value, p.address("sort", p.Sort, name, to), counts[value], value == chosen})
	}
	return f
}
