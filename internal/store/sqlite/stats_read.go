package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Interval is the time that a row of statistics covers.
type Interval uint8

// The intervals.
const (
	Hourly Interval = iota
	Daily           // by UTC
	Overall
	Minutely // of the workspace, for the last eight days
)

var intervals = map[string]Interval{"minute": Minutely, "hour": Hourly, "day": Daily, "all": Overall}

// ParseInterval reads "minute", "hour", "day" and "all". It is false for any other name.
func ParseInterval(name string) (Interval, bool) {
	i, ok := intervals[name]
	return i, ok
}

const (
	// MaxStatsRows is the most rows of an answer.
	MaxStatsRows = 10_000

	// These bounds keep an answer within 200 ms of processor time: the hours and days of
	// series, about 5 µs each, and the rows that are not counted yet.
	maxStatsRead = 30_000
	maxStatsTail = 10_000
)

// Groups is the set of parts, in addition to the key, by which statistics are grouped.
type Groups uint8

// The parts. Zero means ByVariant.
const (
	ByVariant Groups = 1 << iota
	ByArm
	ByVersion
)

var groupNames = map[string]Groups{"variant": ByVariant, "arm": ByArm, "version": ByVersion}

// ParseGroups reads names with commas between them: variant, arm and version. It is
// false for any other name.
func ParseGroups(names string) (groups Groups, ok bool) {
	for name := range strings.SplitSeq(names, ",") {
		if groupNames[name] == 0 {
			return 0, false
		}
		groups |= groupNames[name]
	}
	return groups, true
}

// ErrTooMany says that an answer would have too many rows.
var ErrTooMany = errors.New("too many rows of statistics: ask for a shorter time, one key, or longer intervals")

// StatsQuery asks for statistics. Only the workspace is required.
type StatsQuery struct {
	Workspace string

	// Since and Until bound the time of the traces. They are widened to whole
	// hours. Zero: no bound.
	Since, Until time.Time

	Kind     trace.Kind // 0: all
	Key      string     // empty: all
	Interval Interval
	By       Groups

	// Units asks for units, too: Scores, ScoreMean and Values are then of units, of each its
	// mean. The interval must be Overall.
	Units bool
}

// Stats is the answer to a StatsQuery.
type Stats struct {
	Rows []StatsRow // by start, kind, key, variant, arm and version

	// Pending is the number of traces and metrics that are not counted yet, and not in the
	// rows: 0 except after a burst.
	Pending int64
}

// StatsRow has the statistics of the interval that begins at Start, for the traces of one
// variant, arm or version, as the query asked. The variant is one of a prompt or endpoint,
// or the matched row of a remote configuration, "default" if none matched. Metrics count at
// the time of their trace; metrics on a decision count under each of its ended traces. The
// key is empty if the trace of metrics is not stored.
type StatsRow struct {
	Start   time.Time `json:"start,omitzero"` // zero for Overall
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Variant string    `json:"variant,omitempty"`
	Arm     string    `json:"arm,omitempty"`
	Version string    `json:"version,omitempty"` // of the definition
	// PromptVersion is the version of an endpoint's prompt.
	PromptVersion string `json:"prompt_version,omitempty"`

	Traces      int64 `json:"traces"`      // ended or interrupted
	Errors      int64 `json:"errors"`      // with an error code
	Interrupted int64 `json:"interrupted"` // by a crash: the latest 5,000, while their traces are stored
	Cached      int64 `json:"cached"`      // answered by a cache

	// With StatsQuery.Units, Units counts those that the deciding splits of the traces had,
	// each for the first row of its key; other rows of the key answered UnitsMoved of them,
	// too. Unitless counts the traces of the row that no split decided, or whose split has
	// no unit.
	Units      int64 `json:"units,omitempty"`
	UnitsMoved int64 `json:"units_moved,omitempty"`
	Unitless   int64 `json:"unitless,omitempty"`

	FinishReasons FinishReasons `json:"finish_reasons,omitzero"`

	// Of traces and metrics together.
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	TotalTokens      int64   `json:"total_tokens"`
	Cost             float64 `json:"cost_usd"`

	Reports   int64    `json:"reports"` // metrics
	Scores    int64    `json:"scores"`  // reports with a score
	ScoreMean *float64 `json:"score_mean,omitempty"`

	Latency         Quantiles `json:"latency_ms"`
	FirstToken      Quantiles `json:"first_token_ms"`
	ReportedLatency Quantiles `json:"reported_latency_ms"` // of metrics

	// Values are the numbers that metrics report under names of their own. If there are
	// more than 64 names, OtherValues counts the remaining ones together.
	Values      map[string]Values `json:"values,omitempty"`
	OtherValues *Values           `json:"other_values,omitempty"`
}

// Values summarizes the numbers that metrics report under one name. The quantiles are
// rounded to two digits, which is within 5 % of the true ones. Numbers nearer to 0 than
// 1e-9 count as 0.
type Values struct {
	Count     int64    `json:"count"`
	Mean      float64  `json:"mean"`
	Deviation *float64 `json:"deviation,omitempty"` // standard deviation, of a sample; absent for one number
	Min       float64  `json:"min"`
	Max       float64  `json:"max"`
	P50       float64  `json:"p50"`
	P95       float64  `json:"p95"`
	P99       float64  `json:"p99"`
}

func summaryOf(n *histogram.Numbers) Values {
	v := Values{
		Count: n.Count, Mean: n.Mean, Min: n.Min, Max: n.Max,
		P50: n.Quantile(0.5), P95: n.Quantile(0.95), P99: n.Quantile(0.99),
	}
	if n.Count > 1 {
		v.Deviation = new(n.Deviation())
	}
	return v
}

// FinishReasons counts the answers of endpoints by the reason why the model stopped.
type FinishReasons struct {
	Stop          int64 `json:"stop"`
	ToolCalls     int64 `json:"tool_calls"`
	Length        int64 `json:"length"`
	ContentFilter int64 `json:"content_filter"`
}

// Quantiles are quantiles of durations in milliseconds, each within 5 % of the true one.
type Quantiles struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

func quantilesOf(h *histogram.Durations) Quantiles {
	return Quantiles{Count: h.Total(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P95: h.Quantile(0.95), P99: h.Quantile(0.99)}
}

// Stats returns the statistics of a time: the rows that were counted in the background, and
// those written since. It fails with ErrTooMany if that would take too long.
func (r *Reader) Stats(ctx context.Context, q StatsQuery) (Stats, error) {
	if q.Workspace == "" {
		return Stats{}, errors.New("statistics are of a workspace")
	}
	if q.Units && q.Interval != Overall {
		return Stats{}, errors.New("units count once for the whole time")
	}
	found := tallies{}
	stats, err := r.sum(ctx, &q, found)
	if err != nil || q.Interval == Minutely {
		return stats, err
	}
	if q.Units {
		if err := r.countUnits(ctx, &q, found, maxUnits); err != nil {
			return Stats{}, err
		}
	}
	stats.Rows = rowsOf(found, q.Interval)
	return stats, nil
}

// sum sums what was counted. Minutes are rows of its answer already.
func (r *Reader) sum(ctx context.Context, q *StatsQuery, found tallies) (_ Stats, err error) {
	since, until := q.hours()
	// One transaction reads everything: rows that are counted between two reads would count
	// twice, or not at all.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Stats{}, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	if q.Interval == Minutely {
		return q.minutes(ctx, tx)
	}
	if err := q.readStored(ctx, tx, since, until, found); err != nil {
		return Stats{}, err
	}
	pending, err := q.readTail(ctx, tx, since, until, found)
	if err != nil {
		return Stats{}, err
	}
	return Stats{Pending: pending}, nil
}

// hours returns the bounds of the query in hours since 1970; until is exclusive.
func (q *StatsQuery) hours() (since, until int64) {
	until = math.MaxInt32
	if !q.Since.IsZero() {
		since = max(q.Since.UnixMilli(), 0) / hourMillis
	}
	if !q.Until.IsZero() {
		until = (max(q.Until.UnixMilli(), 0) + hourMillis - 1) / hourMillis
	}
	return since, until
}

// slotOf returns the slot of the answer that an hour or a day belongs to.
func (q *StatsQuery) slotOf(s series, start int64) slot {
	by := q.By
	if by == 0 {
		by = ByVariant
	}
	if by&ByVariant == 0 {
		s.variant = ""
	}
	if by&ByArm == 0 {
		s.arm = ""
	}
	if by&ByVersion == 0 {
		s.version = ""
	}
	switch q.Interval {
	case Hourly:
		return slot{s, 1, start}
	case Daily:
		return slot{s, 24, start - start%24}
	}
	return slot{series: s}
}

// readStored adds the stored counts.
func (q *StatsQuery) readStored(ctx context.Context, db querier, since, until int64, answer tallies) error {
	var where clauses
	where.equal("workspace", q.Workspace)
	if q.Kind != 0 {
		where.equal("kind", q.Kind.String())
	}
	where.equal("key", q.Key)
	names := map[int64]series{}
	if _, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
		var id int64
		var s series
		err = scan(&id, &s.workspace, &s.kind, &s.key, &s.variant, &s.version, &s.arm)
		names[id] = s
		return struct{}{}, err
	}, "SELECT id, workspace, kind, key, variant, version, arm FROM stats_series WHERE "+where.and(), where.args...); err != nil {
		return err
	}

	// Whole days are read by the day, the other hours by the hour.
	firstDay, lastDay := (since+23)/24*24, until/24*24
	parts := []struct{ hours, since, until int64 }{{1, since, firstDay}, {24, firstDay, lastDay}, {1, max(firstDay, lastDay), until}}
	if q.Interval == Hourly || firstDay >= lastDay {
		parts = parts[:1]
		parts[0].until = until
	}
	read := 0
	var t tally
	for _, part := range parts {
		if _, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
			if read++; read > maxStatsRead {
				return struct{}{}, ErrTooMany
			}
			var id, start int64
			t = tally{}
			if err := t.scan(scan, &id, &start); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, answer.add(q.slotOf(names[id], start), &t)
		}, fmt.Sprintf("SELECT s.id, h.start, %s FROM stats_series AS s CROSS JOIN stats AS h ON h.series = s.id AND h.hours = ? AND h.start >= ? AND h.start < ? WHERE %s",
			readColumns, where.and()), slices.Concat([]any{part.hours, part.since, part.until}, where.args)...); err != nil {
			return err
		}
	}
	return nil
}

// readTail adds the rows that were not counted yet, up to maxStatsTail of each table, and
// returns how many rows remain.
func (q *StatsQuery) readTail(ctx context.Context, db querier, since, until int64, answer tallies) (int64, error) {
	counted, pending, err := q.countTail(ctx, db)
	if err != nil {
		return 0, err
	}
	for key, t := range counted {
		if key.hours == 0 || key.start < since || key.start >= until || q.Kind != 0 && key.kind != q.Kind.String() || q.Key != "" && key.key != q.Key {
			continue
		}
		if err := answer.add(q.slotOf(key.series, key.start), t); err != nil {
			return 0, err
		}
	}
	return pending, nil
}

// countTail counts the rows that were not counted yet, by the hour and the minute, as
// readTail.
func (q *StatsQuery) countTail(ctx context.Context, db querier) (counted tallies, pending int64, err error) {
	from, err := statsProgress(ctx, db)
	if err != nil {
		return nil, 0, err
	}
	counted = tallies{}
	var to progress
	for _, table := range []struct {
		name string
		from int64
		to   *int64
	}{{"traces", from.traces, &to.traces}, {"metrics", from.metrics, &to.metrics}} {
		if *table.to, err = endOfRows(ctx, db, table.name, table.from, maxStatsTail); err != nil {
			return nil, 0, err
		}
		greatest, err := queryInt(ctx, db, fmt.Sprintf("SELECT coalesce(max(seq), 0) FROM %s", table.name))
		if err != nil {
			return nil, 0, err
		}
		pending += max(greatest-*table.to, 0)
	}
	var ofTraces, ofMetrics clauses
	ofTraces.equal("t.workspace", q.Workspace)
	ofMetrics.equal("m.workspace", q.Workspace)
	if _, err := counted.countTraces(ctx, db, from.traces, to.traces, math.MaxInt, ofTraces); err != nil {
		return nil, 0, err
	}
	if err := counted.countLate(ctx, db, from.traces, to.traces, from.metrics, ofTraces); err != nil {
		return nil, 0, err
	}
	if _, err := counted.countMetrics(ctx, db, from.metrics, to.metrics, to.traces, math.MaxInt, ofMetrics); err != nil {
		return nil, 0, err
	}
	unfolded, err := counted.countAnswers(ctx, db, q.Workspace)
	if err != nil {
		return nil, 0, err
	}
	pending += unfolded
	var where clauses
	where.equal("workspace", q.Workspace)
	if err := counted.countInterrupted(ctx, db, where); err != nil {
		return nil, 0, err
	}
	return counted, pending, nil
}

// add adds to a slot of an answer, and fails if the answer is full. The caller may use
// counted again, but not the memory that it points to.
func (t tallies) add(key slot, counted *tally) error {
	if sum := t[key]; sum != nil {
		sum.merge(counted)
		return nil
	}
	if len(t) >= MaxStatsRows {
		return ErrTooMany
	}
	t[key] = new(*counted)
	return nil
}

func rowsOf(found tallies, interval Interval) []StatsRow {
	rows := make([]StatsRow, 0, len(found))
	for _, key := range slices.SortedFunc(maps.Keys(found), slot.compare) {
		t := found[key]
		version, prompt := versionsOf(key.version)
		row := StatsRow{
			Kind: key.kind, Key: key.key, Variant: key.variant, Arm: key.arm, Version: version, PromptVersion: prompt,
			Traces: t.traces, Errors: t.errors, Interrupted: t.interrupted, Cached: t.cached,
			FinishReasons: FinishReasons{t.finished[0], t.finished[1], t.finished[2], t.finished[3]},
			PromptTokens:  t.promptTokens, CompletionTokens: t.completionTokens, TotalTokens: t.totalTokens, Cost: t.cost,
			Reports: t.reports, Scores: t.scores, Units: t.units, UnitsMoved: t.moved, Unitless: t.unitless,
			Latency: quantilesOf(&t.latency), FirstToken: quantilesOf(&t.firstToken), ReportedLatency: quantilesOf(&t.reportedLatency),
		}
		if interval != Overall {
			row.Start = hourTime(key.start).UTC()
			if interval == Minutely {
				row.Start = time.UnixMilli(key.start * minuteMillis).UTC()
			}
		}
		if t.scores > 0 {
			row.ScoreMean = new(t.scoreSum / float64(t.scores))
		}
		if len(t.values.Names) > 0 {
			row.Values = make(map[string]Values, len(t.values.Names))
		}
		for name, numbers := range t.values.Names {
			row.Values[name] = summaryOf(numbers)
		}
		if t.values.Other.Count > 0 {
			row.OtherValues = new(summaryOf(&t.values.Other))
		}
		rows = append(rows, row)
	}
	return rows
}

// compare orders slots as the rows of an answer.
func (s slot) compare(other slot) int {
	if s.start != other.start {
		return cmp.Compare(s.start, other.start)
	}
	if s.key != other.key || s.kind != other.kind {
		return cmp.Or(strings.Compare(s.kind, other.kind), strings.Compare(s.key, other.key))
	}
	version, prompt := versionsOf(s.version)
	otherVersion, otherPrompt := versionsOf(other.version)
	return cmp.Or(strings.Compare(s.variant, other.variant), strings.Compare(s.arm, other.arm),
		strings.Compare(version, otherVersion), strings.Compare(prompt, otherPrompt))
}
