package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxUnits bounds the units that an answer counts, and also the means of what they
// reported: some 150 MB.
const maxUnits = 1_000_000

// ErrTooManyUnits says that more than maxUnits would be counted.
var ErrTooManyUnits = fmt.Errorf("there are more than %d units, or values that units reported under a name: narrow since and until, or choose a key", maxUnits)

// unitCounter counts the units of traces: the hashes that the splits which decided have. A
// unit counts for the first series of a key that answered it. Of it count the reports on
// the traces of this series, as their mean.
//
//	traces of c-7    arm a, arm a, arm b        arm a: a unit, which another arm answered too
//	their reports    1      0, 0   1            arm a: (1 + 0 + 0) / 3
//
// A report that names the unit counts for each key that has answered it by the time that
// the report gives.
type unitCounter struct {
	q      *StatsQuery
	max    int
	answer tallies
	parser fastjson.Parser
	seed   maphash.Seed
	series map[string]*unitSeries // by what seriesColumns has
	keys   map[string]*unitSeries // one of each key, by its kind and name
	units  []unitCount
	places map[uint64]int32 // in units, by the hash of key and unit
	means  []unitMean
	named  map[unitValue]int32 // in means
	// subjects are the traces of a window that count, and their decisions, with their units.
	subjects map[trace.ID][]int32
}

type unitSeries struct {
	*tally
	kind trace.Kind
	key  string
}

// id tells the keys of all kinds apart.
func (s *unitSeries) id() string { return s.kind.String() + s.key }

type unitCount struct {
	first *unitSeries
	since int64 // Unix time in milliseconds
	moved bool
}

// unitValue is what a unit reports under a name. The score's is empty, which no value's is.
type unitValue struct {
	unit int32
	name string
}

type unitMean struct {
	unitValue
	sum   float64
	count int64
}

// countUnits adds the units to the answer, and replaces scores and values by those of units.
// It reads the traces as SumCosts does.
func (r *Reader) countUnits(ctx context.Context, q *StatsQuery, answer tallies, most int) error {
	c := &unitCounter{
		q: q, max: most, answer: answer, seed: maphash.MakeSeed(), series: map[string]*unitSeries{}, keys: map[string]*unitSeries{},
		places: map[uint64]int32{}, named: map[unitValue]int32{}, subjects: map[trace.ID][]int32{},
	}
	for _, t := range answer {
		t.scores, t.scoreSum, t.values = 0, 0, histogram.Named{}
	}
	since, until := q.hours()
	f := trace.Filter{Workspace: q.Workspace, Kind: q.Kind, Key: q.Key, Since: hourTime(since)}
	if !q.Until.IsZero() {
		f.Until = hourTime(until)
	}
	var where clauses
	where.add("state <> 'started' AND " + ofTraces(ofApps))
	columns := "id, coalesce(decision_id, id), " + ofTraces(seriesColumns) + ", coalesce(prompt, key, ''), coalesce(matched_row, ''), coalesce(CASE reason WHEN 'split' THEN splits END, '')"
	err := readWindows(ctx, r.db, &f, columns, where, func(query string, args []any) error {
		clear(c.subjects)
		if _, err := collect(ctx, r.db, c.readTrace, query, args...); err != nil || len(c.subjects) == 0 {
			return err
		}
		subjects := slices.Collect(maps.Keys(c.subjects))
		first, last := slices.MinFunc(subjects, compareIDs), slices.MaxFunc(subjects, compareIDs)
		_, err := collect(ctx, r.db, c.readReport, `SELECT trace_id, score, named_values FROM metrics INDEXED BY metrics_trace_id
			WHERE trace_id BETWEEN ? AND ? AND workspace = ? AND coalesce(score, named_values) IS NOT NULL`, first[:], last[:], q.Workspace)
		return err
	})
	if err == nil && len(c.units) > 0 {
		_, err = collect(ctx, r.db, c.readUnitReport, `SELECT unit, happened_ms, named_values FROM metrics INDEXED BY metrics_unit
			WHERE unit IS NOT NULL AND workspace = ? AND happened_ms BETWEEN ? AND ?`, q.Workspace, hourTime(since).UnixMilli(), hourTime(until).UnixMilli()-1)
	}
	for i := range c.means {
		m := &c.means[i]
		t, mean := c.units[m.unit].first, m.sum/float64(m.count)
		if m.name != "" {
			t.values.Observe(m.name, mean)
			continue
		}
		t.scores++
		t.scoreSum += mean
	}
	return err
}

// ofTraces replaces the alias of traces in a part of a query by the table's name.
func ofTraces(sql string) string { return strings.ReplaceAll(sql, "t.", "traces.") }

func (c *unitCounter) hash(of *unitSeries, unit string) uint64 {
	return maphash.Comparable(c.seed, [2]string{of.id(), unit})
}

// readTrace counts the unit of a trace.
func (c *unitCounter) readTrace(scan func(...any) error) (_ struct{}, err error) {
	var id, decision []byte
	var names, decided, rule, splits string
	if err := scan(&id, &decision, &names, &decided, &rule, &splits); err != nil {
		return struct{}{}, err
	}
	s := c.series[names]
	if s == nil {
		of := namesOf(names)
		key := c.q.slotOf(of, 0)
		if err := c.answer.add(key, new(tally)); err != nil {
			return struct{}{}, err
		}
		s = &unitSeries{tally: c.answer[key], key: of.key}
		s.kind, _ = trace.ParseKind(of.kind)
		c.series[names], c.keys[s.id()] = s, s
	}
	unit := c.unitOf(s.kind, decided, rule, splits)
	if unit == "" {
		s.unitless++
		return struct{}{}, nil
	}
	hash := c.hash(s, unit)
	place, known := c.places[hash]
	if !known {
		if len(c.units) >= c.max {
			return struct{}{}, ErrTooManyUnits
		}
		place = int32(len(c.units))
		c.places[hash] = place
		c.units = append(c.units, unitCount{first: s, since: trace.ID(id).Time().UnixMilli()})
		s.units++
	}
	switch u := &c.units[place]; {
	case u.first.tally == s.tally:
		var subjects [2]trace.ID
		copy(subjects[0][:], id)
		copy(subjects[1][:], decision)
		for _, subject := range slices.Compact(subjects[:]) { // a trace may have no decision
			c.subjects[subject] = append(c.subjects[subject], place)
		}
	case !u.moved:
		u.moved = true
		u.first.moved++
	}
	return struct{}{}, nil
}

// unitOf returns the unit of the split that decided a trace, empty if there is none or it was
// not recorded. decided is the key of the definition whose row decided.
func (c *unitCounter) unitOf(of trace.Kind, decided, rule, splits string) string {
	folder := kind.Prompt.Folder // an endpoint's row is its prompt's
	if of == trace.KindRemoteConfig {
		folder = kind.RemoteConfig.Folder
	}
	list, err := c.parser.Parse(splits)
	if err != nil {
		return "" // no split decided, or another program wrote it
	}
	for _, split := range list.GetArray() {
		experiment := split.Get("experiment")
		if string(experiment.GetStringBytes("rule")) == rule && string(experiment.GetStringBytes("definition")) == folder+"/"+decided {
			return string(split.GetStringBytes("unit"))
		}
	}
	return ""
}

// readReport adds a report on a trace or a decision to the means of units.
func (c *unitCounter) readReport(scan func(...any) error) (_ struct{}, err error) {
	var subject []byte
	var m trace.Metrics
	if err := scan(&subject, &m.Score, &m.Values); err != nil {
		return struct{}{}, err
	}
	copy(m.TraceID[:], subject)
	for _, unit := range c.subjects[m.TraceID] {
		shown := m
		shown.Reduce(c.units[unit].first.kind)
		if err := c.observe(unit, &shown); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

// readUnitReport adds a report on a unit to its means.
func (c *unitCounter) readUnitReport(scan func(...any) error) (_ struct{}, err error) {
	var unit string
	var happened int64
	var m trace.Metrics
	if err := scan(&unit, &happened, &m.Values); err != nil {
		return struct{}{}, err
	}
	for _, of := range c.keys {
		place, known := c.places[c.hash(of, unit)]
		if !known || happened < c.units[place].since {
			continue
		}
		c.units[place].first.reports++
		if err := c.observe(place, &m); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

// observe adds the numbers of a report to the means of a unit.
func (c *unitCounter) observe(unit int32, m *trace.Metrics) error {
	values := map[string]float64{}
	if len(m.Values) > 0 {
		_ = json.Unmarshal(m.Values, &values) // another program may have written it
	}
	if m.Score != nil {
		values[""] = *m.Score
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		of := unitValue{unit, name}
		i, known := c.named[of]
		if !known {
			if len(c.means) >= c.max {
				return ErrTooManyUnits
			}
			i = int32(len(c.means))
			c.named[of] = i
			c.means = append(c.means, unitMean{unitValue: of})
		}
		c.means[i].sum += values[name]
		c.means[i].count++
	}
	return nil
}
