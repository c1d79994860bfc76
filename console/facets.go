package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/trace"
)

// facetShown is how many values of a facet a page has.
const facetShown = 8

// overview counts the traces of a list's time, kind and key, by the statistics: they know
// no other filter, and count whole hours or days.
type overview struct {
	Traces, Errors int64
	Step           string // hour or day
	Bars           []bar
	Width          int
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
	o := &overview{Step: "hour"}
	step := time.Hour
	if since.IsZero() || v.now.Sub(since) > 3*24*time.Hour {
		o.Step, step = "day", 24*time.Hour
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
	counts := make(map[string]map[string]int64)
	sums := make(map[time.Time]*sum)
	add := func(name, value string, n int64) {
		if counts[name] == nil {
			counts[name] = make(map[string]int64)
		}
		if value != "" {
			counts[name][value] += n
		}
	}
	for i := range stats.Rows {
		row := &stats.Rows[i]
		o.Traces += row.Traces
		o.Errors += row.Errors
		add("kind", row.Kind, row.Traces)
		add("key", row.Key, row.Traces)
		add("arm", row.Arm, row.Traces)
		if row.Kind == trace.KindRemoteConfig.String() {
			add("row", row.Variant, row.Traces)
		} else {
			add("variant", row.Variant, row.Traces)
		}
		if sums[row.Start] == nil {
			sums[row.Start] = new(sum)
		}
		sums[row.Start].traces += row.Traces
		sums[row.Start].errors += row.Errors
	}
	add("status", "ok", o.Traces-o.Errors)
	add("status", "error", o.Errors)
	for _, name := range []string{"status", "kind", "key", "row", "variant", "arm"} {
		if f := p.facet(name, query.Get(name), counts[name]); len(f.Values) > 0 {
			o.Facets = append(o.Facets, f)
		}
	}
	o.draw(p, sums, step)
	return o
}

// facet returns the values with the greatest counts.
func (p *tracesPage) facet(name, chosen string, counts map[string]int64) facet {
	f := facet{Name: name}
	for value, n := range counts {
		if n > 0 {
			f.Values = append(f.Values, facetValue{value, p.address("sort", p.Sort, name, value), n, value == chosen})
		}
	}
	slices.SortFunc(f.Values, func(a, b facetValue) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Value, b.Value))
	})
	for i := range f.Values {
		if f.Values[i].Chosen {
			f.Values[i].Path = p.address("sort", p.Sort, name, "")
		}
	}
	f.Values = f.Values[:min(len(f.Values), facetShown)]
	return f
}

// draw makes two bars of each step: its traces, and its errors before them.
func (o *overview) draw(p *tracesPage, sums map[time.Time]*sum, step time.Duration) {
	starts := slices.SortedFunc(maps.Keys(sums), time.Time.Compare)
	first, most := starts[0], int64(1)
	for _, s := range sums {
		most = max(most, s.traces)
	}
	for _, start := range starts {
		s, x := sums[start], 10*int(start.Sub(first)/step)
		path := p.address("sort", p.Sort, "since", start.Format(time.RFC3339), "until", start.Add(step).Format(time.RFC3339))
		for _, part := range []struct {
			n     int64
			class string
		}{{s.traces, ""}, {s.errors, "bad"}} {
			if height := int((part.n*staveHeight + most - 1) / most); height > 0 {
				o.Bars = append(o.Bars, bar{X: x, Y: staveHeight - height, Height: height, Class: part.class, Path: path})
			}
		}
		o.Width = x + 10
	}
}
