package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Interval is what a row of statistics covers.
type Interval uint8

// The intervals.
const (
	Hourly Interval = iota
	Daily           // by UTC
	Overall
)

// ParseInterval reads "hour", "day" and "all". It is false for any other name.
func ParseInterval(name string) (Interval, bool) {
	switch name {
	case "hour":
		return Hourly, true
	case "day":
		return Daily, true
	case "all":
		return Overall, true
	}
	return 0, false
}

const (
	// MaxStatsRows is how many rows an answer has at most.
	MaxStatsRows = 10_000

	// What is looked at for one answer, which keeps it within 200 ms of a
	// processor: so many hours and days of series, at some 5 µs each, and so many
	// rows that were not counted yet.
	maxStatsRead = 30_000
	maxStatsTail = 10_000
)

// Groups is what rows of statistics are of beside their key: any of the parts.
type Groups uint8

// The parts. None is ByVariant.
const (
	ByVariant Groups = 1 << iota
	ByArm
	ByVersion
)

// ParseGroups reads names with commas between them: variant, arm and version. It is
// false for any other name.
func ParseGroups(names string) (groups Groups, ok bool) {
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "variant":
			groups |= ByVariant
		case "arm":
			groups |= ByArm
		case "version":
			groups |= ByVersion
		default:
			return 0, false
		}
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
}

// Stats is the answer to a StatsQuery.
type Stats struct {
	Rows []StatsRow // by start, kind, key, variant, arm and version

	// Pending is how many traces and metrics have not been counted yet, and are
	// not in the rows: 0 but after a burst, and for a while in a file of a
	// version without statistics.
	Pending int64
}

// StatsRow is what happened in an interval that began at Start with the traces
// of one variant, arm or version, as was asked for. The variant is that of a prompt
// or endpoint that has variants, or the matched row of a remote configuration,
// "default" where none matched. Metrics count at the time of their trace, those on a
// decision under each of its traces that ended. The key is empty where the trace of
// metrics is not kept. What was counted by a version without arms has no arm and no
// version.
type StatsRow struct {
	Start   time.Time `json:"start,omitzero"` // zero for Overall
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Variant string    `json:"variant,omitempty"`
	Arm     string    `json:"arm,omitempty"`
	Version string    `json:"version,omitempty"` // of the definition
	// PromptVersion is that of an endpoint's prompt.
	PromptVersion string `json:"prompt_version,omitempty"`

	Traces      int64 `json:"traces"`      // those that ended or were interrupted
	Errors      int64 `json:"errors"`      // those with an error code
	Interrupted int64 `json:"interrupted"` // those that a crash cut off: of the latest 5,000, while their traces are kept
	Cached      int64 `json:"cached"`      // those that a cache answered

	FinishReasons FinishReasons `json:"finish_reasons,omitzero"`

	// Of traces and metrics together.
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	TotalTokens      int64   `json:"total_tokens"`
	Cost             float64 `json:"cost_usd"`

	Reports   int64    `json:"reports"` // metrics
	Scores    int64    `json:"scores"`  // those of them with a score
	ScoreMean *float64 `json:"score_mean,omitempty"`

	Latency         Quantiles `json:"latency_ms"`
	FirstToken      Quantiles `json:"first_token_ms"`
	ReportedLatency Quantiles `json:"reported_latency_ms"` // of metrics

	// Values are what metrics report by names of their own. Of more than 64 names
	// the others are counted together, as OtherValues.
	Values      map[string]Values `json:"values,omitempty"`
	OtherValues *Values           `json:"other_values,omitempty"`
}

// Values are of the numbers that metrics report under one name. The quantiles are
// rounded to two digits, and so within 5 % of the true ones; those nearer to 0 than
// 1e-9 are 0.
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

// FinishReasons counts the answers of endpoints by why their models stopped.
type FinishReasons struct {
	Stop          int64 `json:"stop"`
	ToolCalls     int64 `json:"tool_calls"`
	Length        int64 `json:"length"`
	ContentFilter int64 `json:"content_filter"`
}

// Quantiles are of durations in milliseconds, each within 5 % of the true one.
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

// Stats returns the statistics of a time: what was counted in the background,
// and what was written since. It fails with ErrTooMany where that would take
// too long.
func (r *Reader) Stats(ctx context.Context, q StatsQuery) (_ Stats, err error) {
	if q.Workspace == "" {
		return Stats{}, errors.New("statistics are of a workspace")
	}
	since, until := q.hours()
	// Everything is read in one state of the file: what is counted between two
	// would count twice, or not at all.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Stats{}, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	found := tallies{}
	if err := q.readStored(ctx, tx, since, until, found); err != nil {
		return Stats{}, err
	}
	pending, err := q.readTail(ctx, tx, since, until, found)
	if err != nil {
		return Stats{}, err
	}
	return Stats{Rows: rowsOf(found, q.Interval), Pending: pending}, nil
}

// hours are the bounds of the query, the first inclusive and the second not, in
// hours since 1970.
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

// slotOf is the slot of the answer that an hour or a day belongs to.
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

// readStored adds what was counted.
func (q *StatsQuery) readStored(ctx context.Context, on querier, since, until int64, into tallies) error {
	var where clauses
	where.equal("workspace", q.Workspace)
	if q.Kind != 0 {
		where.equal("kind", q.Kind.String())
	}
	where.equal("key", q.Key)
	names := map[int64]series{}
	if _, err := collect(ctx, on, func(scan func(...any) error) (_ struct{}, err error) {
		var id int64
		var s series
		err = scan(&id, &s.workspace, &s.kind, &s.key, &s.variant, &s.version, &s.arm)
		names[id] = s
		return struct{}{}, err
	}, "SELECT id, workspace, kind, key, variant, version, arm FROM stats_series WHERE "+where.and(), where.args...); err != nil {
		return err
	}

	// Whole days by the day, what is left by the hour.
	firstDay, lastDay := (since+23)/24*24, until/24*24
	parts := []struct{ hours, since, until int64 }{{1, since, firstDay}, {24, firstDay, lastDay}, {1, max(firstDay, lastDay), until}}
	if q.Interval == Hourly || firstDay >= lastDay {
		parts = parts[:1]
		parts[0].until = until
	}
	read := 0
	var t tally
	for _, part := range parts {
		if _, err := collect(ctx, on, func(scan func(...any) error) (_ struct{}, err error) {
			if read++; read > maxStatsRead {
				return struct{}{}, ErrTooMany
			}
			var id, start int64
			t = tally{}
			if err := t.scan(scan, &id, &start); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, into.add(q.slotOf(names[id], start), &t)
		}, fmt.Sprintf("SELECT s.id, h.start, %s FROM stats_series AS s CROSS JOIN stats AS h ON h.series = s.id AND h.hours = ? AND h.start >= ? AND h.start < ? WHERE %s",
			readColumns, where.and()), slices.Concat([]any{part.hours, part.since, part.until}, where.args)...); err != nil {
			return err
		}
	}
	return nil
}

// readTail adds what was not counted yet, up to maxStatsTail rows, and returns how
// many rows are left.
func (q *StatsQuery) readTail(ctx context.Context, on querier, since, until int64, into tallies) (pending int64, err error) {
	from, err := statsProgress(ctx, on)
	if err != nil {
		return 0, err
	}
	counted := tallies{}
	var to progress
	for _, table := range []struct {
		name string
		from int64
		to   *int64
	}{{"traces", from.traces, &to.traces}, {"metrics", from.metrics, &to.metrics}} {
		if *table.to, err = endOfRows(ctx, on, table.name, table.from, maxStatsTail); err != nil {
			return 0, err
		}
		greatest, err := queryInt(ctx, on, fmt.Sprintf("SELECT coalesce(max(seq), 0) FROM %s", table.name))
		if err != nil {
			return 0, err
		}
		pending += max(greatest-*table.to, 0)
	}
	var ofTraces, ofMetrics clauses
	ofTraces.equal("t.workspace", q.Workspace)
	ofMetrics.equal("m.workspace", q.Workspace)
	if _, err := counted.countTraces(ctx, on, from.traces, to.traces, math.MaxInt, ofTraces, nil); err != nil {
		return 0, err
	}
	if err := counted.countLate(ctx, on, from.traces, to.traces, from.metrics, ofTraces); err != nil {
		return 0, err
	}
	if _, err := counted.countMetrics(ctx, on, from.metrics, to.metrics, to.traces, math.MaxInt, ofMetrics); err != nil {
		return 0, err
	}
	var where clauses
	where.equal("workspace", q.Workspace)
	if err := counted.countInterrupted(ctx, on, where); err != nil {
		return 0, err
	}
	for at, t := range counted {
		if at.start < since || at.start >= until || q.Kind != 0 && at.kind != q.Kind.String() || q.Key != "" && at.key != q.Key {
			continue
		}
		if err := into.add(q.slotOf(at.series, at.start), t); err != nil {
			return 0, err
		}
	}
	return pending, nil
}

// add adds to a slot of an answer, which may become full. The caller may use counted
// again, but not what it points to.
func (t tallies) add(at slot, counted *tally) error {
	if sum := t[at]; sum != nil {
		sum.merge(counted)
		return nil
	}
	if len(t) >= MaxStatsRows {
		return ErrTooMany
	}
	t[at] = new(*counted)
	return nil
}

func rowsOf(found tallies, interval Interval) []StatsRow {
	rows := make([]StatsRow, 0, len(found))
	for at, t := range found {
		version, prompt := versionsOf(at.version)
		row := StatsRow{
			Kind: at.kind, Key: at.key, Variant: at.variant, Arm: at.arm, Version: version, PromptVersion: prompt,
			Traces: t.traces, Errors: t.errors, Interrupted: t.interrupted, Cached: t.cached,
			FinishReasons: FinishReasons{t.finished[0], t.finished[1], t.finished[2], t.finished[3]},
			PromptTokens:  t.promptTokens, CompletionTokens: t.completionTokens, TotalTokens: t.totalTokens, Cost: t.cost,
			Reports: t.reports, Scores: t.scores,
			Latency: quantilesOf(&t.latency), FirstToken: quantilesOf(&t.firstToken), ReportedLatency: quantilesOf(&t.reportedLatency),
		}
		if interval != Overall {
			row.Start = hourTime(at.start).UTC()
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
	slices.SortFunc(rows, func(a, b StatsRow) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key),
			strings.Compare(a.Variant, b.Variant), strings.Compare(a.Arm, b.Arm), strings.Compare(a.Version, b.Version), strings.Compare(a.PromptVersion, b.PromptVersion))
	})
	return rows
}
