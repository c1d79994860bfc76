package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxInterrupted bounds the interrupted traces that an answer reads.
const maxInterrupted = 5_000

const hourMillis = int64(time.Hour / time.Millisecond)

// hourTime returns the time of an hour since 1970.
func hourTime(hour int64) time.Time { return time.UnixMilli(hour * hourMillis) }

// series names a series of statistics.
type series struct{ workspace, kind, key, variant, version, arm string }

// slot is one hour, or one day, of a series, or a minute of a workspace.
type slot struct {
	series
	hours int   // 1, or 24; 0: see minuteSlot
	start int64 // in hours since 1970
}

// tally has the counts of a slot.
type tally struct {
	traces, errors, interrupted, cached         int64    // the interrupted ones are not stored
	finished                                    [4]int64 // by the index in trace.FinishReasons
	promptTokens, completionTokens, totalTokens int64
	cost                                        float64
	reports, scores                             int64
	scoreSum                                    float64
	latency, firstToken, reportedLatency        histogram.Durations
	values                                      histogram.Named
	units, moved, unitless                      int64 // of answers to StatsQuery.Units
}

func (t *tally) merge(other *tally) {
	t.traces += other.traces
	t.errors += other.errors
	t.interrupted += other.interrupted
	t.cached += other.cached
	for i, n := range other.finished {
		t.finished[i] += n
	}
	t.promptTokens += other.promptTokens
	t.completionTokens += other.completionTokens
	t.totalTokens += other.totalTokens
	t.cost += other.cost
	t.reports += other.reports
	t.scores += other.scores
	t.scoreSum += other.scoreSum
	t.latency.Merge(other.latency)
	t.firstToken.Merge(other.firstToken)
	t.reportedLatency.Merge(other.reportedLatency)
	t.values.Merge(&other.values)
}

const tallyColumns = `traces, errors, cached, finish_stop, finish_tool_calls, finish_length, finish_content_filter,
	prompt_tokens, completion_tokens, total_tokens, cost, reports, scores, score_sum, latency, first_token, reported_latency, named_values`

// columns returns the values of tallyColumns.
func (t *tally) columns() []any {
	return []any{
		t.traces, t.errors, t.cached, t.finished[0], t.finished[1], t.finished[2], t.finished[3],
		t.promptTokens, t.completionTokens, t.totalTokens, t.cost, t.reports, t.scores, t.scoreSum,
		t.latency.Encode(), t.firstToken.Encode(), t.reportedLatency.Encode(), t.values.Encode(),
	}
}

// readColumns are tallyColumns for reading, in fewer columns: to fetch a column costs more
// than to build a text of several. For most keys the second is NULL.
const readColumns = `traces,
	CASE WHEN errors OR cached OR finish_stop OR finish_tool_calls OR finish_length OR finish_content_filter
		OR prompt_tokens OR completion_tokens OR total_tokens
	THEN concat_ws(' ', errors, cached, finish_stop, finish_tool_calls, finish_length, finish_content_filter,
		prompt_tokens, completion_tokens, total_tokens) END,
	cost, reports, scores, score_sum, latency, first_token, reported_latency, named_values`

// scan reads a row into first and an empty tally, whose columns are readColumns.
func (t *tally) scan(scan func(...any) error, first ...any) (err error) {
	var counts, latency, firstToken, reported, values sql.RawBytes
	if err := scan(append(first, &t.traces, &counts, &t.cost, &t.reports, &t.scores, &t.scoreSum, &latency, &firstToken, &reported, &values)...); err != nil {
		return err
	}
	if counts != nil {
		targets := [...]*int64{
			&t.errors, &t.cached, &t.finished[0], &t.finished[1], &t.finished[2], &t.finished[3],
			&t.promptTokens, &t.completionTokens, &t.totalTokens,
		}
		for i, count := range strings.SplitN(string(counts), " ", len(targets)) {
			if *targets[i], err = strconv.ParseInt(count, 10, 64); err != nil {
				return err
			}
		}
	}
	return errors.Join(t.latency.Decode(latency), t.firstToken.Decode(firstToken), t.reportedLatency.Decode(reported), t.values.Decode(values))
}

// tallies count by the hour.
type tallies map[slot]*tally

func (t tallies) at(s series, millis int64) *tally {
	key := slot{s, 1, millis / hourMillis}
	counted := t[key]
	if counted == nil {
		counted = new(tally)
		t[key] = counted
	}
	return counted
}

// variantColumn is the variant that a trace is counted under.
const variantColumn = "coalesce(t.variant, CASE t.kind WHEN 'remoteconfig' THEN coalesce(t.matched_row, 'default') END, '')"

// countedVersion is the version that a trace is counted under. For an endpoint it includes
// the version of the prompt, whose text may change while the endpoint does not.
const countedVersion = "coalesce(t.version, '') || CASE WHEN t.kind = 'endpoint' AND t.prompt_version <> '' THEN '/' || t.prompt_version ELSE '' END"

// versionsOf splits a counted version into the versions of the definition and of an
// endpoint's prompt.
func versionsOf(counted string) (version, prompt string) {
	version, prompt, _ = strings.Cut(counted, "/")
	return version, prompt
}

// seriesColumns is the series of a trace, as one text.
const seriesColumns = "concat_ws(char(31), t.workspace, t.kind, t.key, " + countedVersion + ", coalesce(t.arm, ''), " + variantColumn + ")"

// ofApps passes the traces that statistics count: not those of the console's playground.
const ofApps = "coalesce(t.api_key, '') NOT GLOB '" + trace.ConsoleKey + "*'"

// traceNumbers selects the counted members of traces in few columns, as fetching a column
// costs more than building it. An array has the members that most traces lack.
var traceNumbers = `
SELECT time_ms, ` + seriesColumns + `,
	(code IS NOT NULL) + 2 * (state = 'interrupted') + 4 * (cached IS NOT NULL)
	+ 8 * CASE WHEN finish_reason IS NULL THEN 0 ` + finishReasonPlaces() + ` ELSE 0 END + 64 * coalesce(latency_us, 0),
	CASE WHEN coalesce(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) IS NOT NULL
	THEN json_array(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) END, seq
FROM traces AS t `

// finishReasonPlaces numbers trace.FinishReasons from 1.
func finishReasonPlaces() string {
	var places strings.Builder
	for i, reason := range trace.FinishReasons {
		fmt.Fprintf(&places, " WHEN finish_reason = '%s' THEN %d", reason, i+1)
	}
	return places.String()
}

// countTraces counts the ended traces with a seq after from, up to until. It stops when
// maxSlots are full, and returns the seq of the last trace.
func (t tallies) countTraces(ctx context.Context, db querier, from, until int64, maxSlots int, where clauses) (last int64, err error) {
	full, last, err := t.countRows(ctx, db, maxSlots, traceNumbers+"NOT INDEXED WHERE seq > ? AND seq <= ? AND state = 'ended' AND "+ofApps+" AND "+where.and()+" ORDER BY seq",
		slices.Concat([]any{from, until}, where.args)...)
	if err != nil || !full {
		return until, err
	}
	return last, nil
}

// countInterrupted counts the latest interrupted traces. Each answer counts them again, as
// one may still end: a process marks the calls of another one as interrupted when it opens
// the file. They are few.
func (t tallies) countInterrupted(ctx context.Context, db querier, where clauses) error {
	_, _, err := t.countRows(ctx, db, math.MaxInt, traceNumbers+"INDEXED BY traces_interrupted WHERE state = 'interrupted' AND "+ofApps+" AND "+where.and()+" ORDER BY id DESC LIMIT ?",
		append(slices.Clone(where.args), maxInterrupted)...)
	return err
}

// countRows counts the rows of a query of traceNumbers. It stops at the first row that
// needs a slot beyond maxSlots, and returns the seq of the row before it.
func (t tallies) countRows(ctx context.Context, db querier, maxSlots int, query string, args ...any) (full bool, last int64, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return false, last, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	type hour struct {
		names string
		start int64
	}
	found := map[hour]*tally{} // by a key that is quicker to look up than a slot
	minutes := minuteTally{tallies: t, since: time.Now().Add(-minutesKept).UnixMilli()}
	var row [5]any // with the driver's types: converting costs as much as reading
	targets := []any{&row[0], &row[1], &row[2], &row[3], &row[4]}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return false, last, err
		}
		millis, _ := row[0].(int64)
		names, _ := row[1].(string)
		flags, _ := row[2].(int64)
		c := found[hour{names, millis / hourMillis}]
		if c == nil {
			if len(t) >= maxSlots {
				return true, last, nil
			}
			c = t.at(namesOf(names), millis)
			found[hour{names, millis / hourMillis}] = c
		}
		last, _ = row[4].(int64)
		minute := minutes.at(names, millis)
		c.traces++
		c.errors += flags & flagFailed
		if minute != nil {
			minute.traces++
			minute.errors += flags & flagFailed
		}
		c.interrupted += flags & flagInterrupted / flagInterrupted
		c.cached += flags & flagCached / flagCached
		if reason := flags & flagsFinish / flagFinish; reason > 0 {
			c.finished[reason-1]++
		}
		if latency := flags / flagsEnd; latency > 0 {
			c.latency.Observe(float64(latency))
			if minute != nil && minutes.isCall(names) {
				minute.latency.Observe(float64(latency))
			}
		}
		if numbers, ok := row[3].(string); ok {
			for _, to := range []*tally{c, minute} {
				if to == nil {
					continue
				}
				if err := to.addNumbers([]byte(numbers)); err != nil {
					return false, last, err
				}
			}
		}
	}
	return false, last, rows.Err()
}

// The flags of traceNumbers. The bits above them are the latency, if it is known.
const (
	flagFailed = 1 << iota
	flagInterrupted
	flagCached
	flagFinish  // times the number of the finish reason, from 1
	flagsEnd    = 1 << 6
	flagsFinish = flagsEnd - flagFinish
)

// nameSeparator separates the names that seriesColumns joins. A key can't contain it, and
// other names hardly do.
const nameSeparator = "\x1f"

// namesOf returns the series of the names that seriesColumns joined.
func namesOf(names string) series {
	part := strings.SplitN(names, nameSeparator, 6)
	part = append(part, make([]string, 6-len(part))...)
	return series{workspace: part[0], kind: part[1], key: part[2], version: part[3], arm: part[4], variant: part[5]}
}

// addNumbers adds the array of traceNumbers.
func (t *tally) addNumbers(array []byte) error {
	var numbers [5]*float64
	if err := json.Unmarshal(array, &numbers); err != nil {
		return err
	}
	value := func(i int) float64 {
		if numbers[i] == nil {
			return 0
		}
		return *numbers[i]
	}
	if numbers[0] != nil {
		t.firstToken.Observe(value(0))
	}
	t.promptTokens += int64(value(1))
	t.completionTokens += int64(value(2))
	t.totalTokens += int64(value(3))
	t.cost += value(4)
	return nil
}

// addReport counts a report.
func (t *tally) addReport(m *trace.Metrics) {
	t.reports++
	for _, n := range [...]struct{ to, from *int64 }{
		{&t.promptTokens, m.PromptTokens}, {&t.completionTokens, m.CompletionTokens}, {&t.totalTokens, m.TotalTokens},
	} {
		if n.from != nil {
			*n.to += *n.from
		}
	}
	if m.Score != nil {
		t.scores++
		t.scoreSum += *m.Score
	}
	if m.Latency != nil {
		t.reportedLatency.Observe(*m.Latency * 1000)
	}
	if len(m.Values) == 0 {
		return
	}
	var values map[string]float64
	if json.Unmarshal(m.Values, &values) != nil {
		return // another program wrote it
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t.values.Observe(name, values[name])
	}
}

// countMetrics counts metrics, each under its trace, within the same bounds as countTraces.
// Reports on units are on no trace, and not counted.
// A report on a decision counts under each of its ended traces that were counted, up to the
// seq traces; countLate counts it under later ones.
func (t tallies) countMetrics(ctx context.Context, db querier, from, until, traces int64, maxSlots int, where clauses) (last int64, err error) {
	decided, err := openDecided(ctx, db)
	if err != nil {
		return 0, err
	}
	defer decided.close()
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`
SELECT m.seq, m.trace_id, m.workspace, %s, t.time_ms, %s, m.score, m.latency_ms, m.prompt_tokens, m.completion_tokens, m.total_tokens, m.named_values
FROM metrics AS m NOT INDEXED LEFT JOIN traces AS t INDEXED BY sqlite_autoindex_traces_1 ON t.id = m.trace_id AND t.workspace = m.workspace
WHERE m.seq > ? AND m.seq <= ? AND m.unit IS NULL AND %s AND %s ORDER BY m.seq`, ofDecision, seriesColumns, ofApps, where.and()),
		slices.Concat([]any{from, until}, where.args)...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if len(t) >= maxSlots {
			return last, nil
		}
		var (
			m          trace.Metrics
			rawID      sql.RawBytes
			onDecision sql.NullBool
			millis     sql.NullInt64
			names      string
		)
		if err := rows.Scan(&last, &rawID, &m.Workspace, &onDecision, &millis, &names, &m.Score, &m.Latency,
			&m.PromptTokens, &m.CompletionTokens, &m.TotalTokens, &m.Values); err != nil {
			return 0, err
		}
		copy(m.TraceID[:], rawID)
		if onDecision.Bool {
			if err := t.countOnDecision(ctx, decided, m.TraceID, last, traces); err != nil {
				return 0, err
			}
			continue
		}
		key := namesOf(names)
		if !millis.Valid {
			key = series{workspace: m.Workspace, kind: m.TraceID.Kind().String()}
			millis.Int64 = m.TraceID.Time().UnixMilli()
		}
		t.at(key, millis.Int64).addReport(&m)
	}
	return until, rows.Err()
}
