package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxInterrupted bounds what an answer reads of the traces that were interrupted.
const maxInterrupted = 5_000

const hourMillis = int64(time.Hour / time.Millisecond)

// series is what statistics are kept of.
type series struct{ workspace, kind, key, variant string }

// slot is one hour, or one day, of a series.
type slot struct {
	series
	hours int   // 1, or 24
	start int64 // in hours since 1970
}

// tally is what is counted of a slot.
type tally struct {
	traces, errors, interrupted, cached         int64    // the interrupted ones are not stored
	finished                                    [4]int64 // by the place in trace.FinishReasons
	promptTokens, completionTokens, totalTokens int64
	cost                                        float64
	reports, scores                             int64
	scoreSum                                    float64
	latency, firstToken, reportedLatency        histogram.Histogram
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
}

const tallyColumns = `traces, errors, cached, finish_stop, finish_tool_calls, finish_length, finish_content_filter,
	prompt_tokens, completion_tokens, total_tokens, cost, reports, scores, score_sum, latency, first_token, reported_latency`

// values are those of tallyColumns.
func (t *tally) values() []any {
	return []any{
		t.traces, t.errors, t.cached, t.finished[0], t.finished[1], t.finished[2], t.finished[3],
		t.promptTokens, t.completionTokens, t.totalTokens, t.cost, t.reports, t.scores, t.scoreSum,
		t.latency.Encode(), t.firstToken.Encode(), t.reportedLatency.Encode(),
	}
}

// scanTally reads a row of the columns of first and of tallyColumns.
func scanTally(scan func(...any) error, first ...any) (*tally, error) {
	var t tally
	var latency, firstToken, reported sql.RawBytes
	if err := scan(append(first, &t.traces, &t.errors, &t.cached, &t.finished[0], &t.finished[1], &t.finished[2], &t.finished[3],
		&t.promptTokens, &t.completionTokens, &t.totalTokens, &t.cost, &t.reports, &t.scores, &t.scoreSum, &latency, &firstToken, &reported)...); err != nil {
		return nil, err
	}
	return &t, errors.Join(t.latency.Decode(latency), t.firstToken.Decode(firstToken), t.reportedLatency.Decode(reported))
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

// variantColumn is what a trace is counted under beside its key.
const variantColumn = "coalesce(t.variant, CASE t.kind WHEN 'remoteconfig' THEN coalesce(t.matched_row, 'default') END, '')"

// traceNumbers is what is counted of traces, in few columns: handing a column
// over costs more than making it. What most traces do not have is an array.
var traceNumbers = `
SELECT id, time_ms, concat_ws(char(31), workspace, kind, key, coalesce(api_key, ''), ` + variantColumn + `),
	(code IS NOT NULL) + 4 * (cached IS NOT NULL) + CASE state WHEN 'ended' THEN 0 WHEN 'interrupted' THEN 2 ELSE 8 END
	+ 16 * CASE WHEN finish_reason IS NULL THEN 0 ` + finishReasonPlaces() + ` ELSE 0 END + 128 * coalesce(latency_us, 0),
	CASE WHEN coalesce(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) IS NOT NULL
	THEN json_array(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) END
FROM traces AS t `

// finishReasonPlaces gives each of trace.FinishReasons its place, from 1 on.
func finishReasonPlaces() string {
	var places strings.Builder
	for i, reason := range trace.FinishReasons {
		fmt.Fprintf(&places, " WHEN finish_reason = '%s' THEN %d", reason, i+1)
	}
	return places.String()
}

// countTraces counts the traces that ended, of seq after from until until, or as
// many as fill maxSlots, and returns the seq of the last. Where posted is given,
// it puts all of them there.
func (t tallies) countTraces(ctx context.Context, on querier, from, until int64, maxSlots int, where clauses, posted postings) (last int64, err error) {
	if posted == nil {
		where.add("state = 'ended'")
	}
	full, lastID, err := t.countRows(ctx, on, maxSlots, posted, traceNumbers+"NOT INDEXED WHERE seq > ? AND seq <= ? AND "+where.and()+" ORDER BY seq",
		slices.Concat([]any{from, until}, where.args)...)
	if err != nil || !full {
		return until, err
	}
	return queryInt(ctx, on, "SELECT seq FROM traces WHERE id = ?", lastID[:])
}

// countInterrupted counts the latest interrupted traces. Each answer counts them
// again: a call that was taken for interrupted, because another process opened the
// file, may still end. They are few.
func (t tallies) countInterrupted(ctx context.Context, on querier, where clauses) error {
	_, _, err := t.countRows(ctx, on, math.MaxInt, nil, traceNumbers+"INDEXED BY traces_interrupted WHERE state = 'interrupted' AND "+where.and()+" ORDER BY id DESC LIMIT ?",
		append(slices.Clone(where.args), maxInterrupted)...)
	return err
}

// traceGroup is what traces of the same names and the same hour belong to.
type traceGroup struct {
	tally       *tally      // nil until one of them is counted
	key, apiKey *[]trace.ID // nil: they are not posted
}

// countRows counts the rows of a query of traceNumbers and, where posted is
// given, puts them there, of which it counts only those that ended. It stops at
// the first that has no place in maxSlots, and returns the id of the last before
// it.
func (t tallies) countRows(ctx context.Context, on querier, maxSlots int, posted postings, query string, args ...any) (full bool, last trace.ID, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return false, last, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	type hour struct {
		names string
		start int64
	}
	found := map[hour]*traceGroup{} // by what is quicker to look up than a slot
	uncounted := int64(0)
	if posted != nil {
		uncounted = flagInterrupted | flagStarted
	}
	var (
		id  sql.RawBytes
		row [4]any // as the driver has them: converting them costs as much as reading them
	)
	into := []any{&id, &row[0], &row[1], &row[2], &row[3]}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return false, last, err
		}
		millis, _ := row[0].(int64)
		names, _ := row[1].(string)
		flags, _ := row[2].(int64)
		group := found[hour{names, millis / hourMillis}]
		if group == nil {
			of, apiKey := namesOf(names)
			group = &traceGroup{
				key:    posted.of(listName{of.workspace, postedKey, of.key}),
				apiKey: posted.of(listName{of.workspace, postedAPIKey, apiKey}),
			}
			found[hour{names, millis / hourMillis}] = group
		}
		c := group.tally
		if c == nil && flags&uncounted == 0 {
			if len(t) >= maxSlots {
				return true, last, nil
			}
			of, _ := namesOf(names)
			c = t.at(of, millis)
			group.tally = c
		}
		copy(last[:], id)
		if group.key != nil {
			*group.key = append(*group.key, last)
		}
		if group.apiKey != nil {
			*group.apiKey = append(*group.apiKey, last)
		}
		if flags&uncounted != 0 {
			continue
		}
		c.traces++
		c.errors += flags & flagFailed
		c.interrupted += flags & flagInterrupted / flagInterrupted
		c.cached += flags & flagCached / flagCached
		if reason := flags & flagsFinish / flagFinish; reason > 0 {
			c.finished[reason-1]++
		}
		if latency := flags / flagsEnd; latency > 0 {
			c.latency.Observe(float64(latency))
		}
		if numbers, some := row[3].(string); some {
			if err := c.addNumbers([]byte(numbers)); err != nil {
				return false, last, err
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
	flagStarted
	flagFinish  // times the place of the finish reason, from 1 on
	flagsEnd    = 1 << 7
	flagsFinish = flagsEnd - flagFinish
)

// nameSeparator is between the names that traceNumbers joins. A key can't hold it,
// and other names hardly do.
const nameSeparator = "\x1f"

// namesOf splits the names that traceNumbers joined.
func namesOf(names string) (of series, apiKey string) {
	part := strings.SplitN(names, nameSeparator, 5)
	part = append(part, make([]string, 5-len(part))...)
	return series{part[0], part[1], part[2], part[4]}, part[3]
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

// countMetrics counts metrics as countTraces does traces, each under its trace.
func (t tallies) countMetrics(ctx context.Context, on querier, from, until int64, maxSlots int, where clauses) (last int64, err error) {
	rows, err := on.QueryContext(ctx, fmt.Sprintf(`
SELECT m.seq, m.trace_id, m.workspace, t.time_ms, t.kind, t.key, %s, m.score, m.latency_ms, m.prompt_tokens, m.completion_tokens, m.total_tokens
FROM metrics AS m NOT INDEXED LEFT JOIN traces AS t INDEXED BY sqlite_autoindex_traces_1 ON t.id = m.trace_id AND t.workspace = m.workspace
WHERE m.seq > ? AND m.seq <= ? AND %s ORDER BY m.seq`, variantColumn, where.and()),
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
			rawID                                sql.RawBytes
			s                                    series
			millis                               sql.NullInt64
			kind, key, variant                   sql.NullString
			score, latency                       sql.NullFloat64
			promptTokens, completionTokens, sums sql.NullInt64
		)
		if err := rows.Scan(&last, &rawID, &s.workspace, &millis, &kind, &key, &variant, &score, &latency,
			&promptTokens, &completionTokens, &sums); err != nil {
			return 0, err
		}
		s.kind, s.key, s.variant = kind.String, key.String, variant.String
		if !millis.Valid {
			var id trace.ID
			copy(id[:], rawID)
			s.kind, millis.Int64 = id.Kind().String(), id.Time().UnixMilli()
		}
		c := t.at(s, millis.Int64)
		c.reports++
		c.promptTokens += promptTokens.Int64
		c.completionTokens += completionTokens.Int64
		c.totalTokens += sums.Int64
		if score.Valid {
			c.scores++
			c.scoreSum += score.Float64
		}
		if latency.Valid {
			c.reportedLatency.Observe(latency.Float64 * 1000)
		}
	}
	return until, rows.Err()
}
