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
	traces, errors, interrupted, cached         int64 // the interrupted ones are not stored
	promptTokens, completionTokens, totalTokens int64
	cost                                        float64
	reports, scores                             int64
	scoreSum                                    float64
	latency, firstToken, reportedLatency        histogram
}

func (t *tally) merge(other *tally) {
	t.traces += other.traces
	t.errors += other.errors
	t.interrupted += other.interrupted
	t.cached += other.cached
	t.promptTokens += other.promptTokens
	t.completionTokens += other.completionTokens
	t.totalTokens += other.totalTokens
	t.cost += other.cost
	t.reports += other.reports
	t.scores += other.scores
	t.scoreSum += other.scoreSum
	t.latency.merge(other.latency)
	t.firstToken.merge(other.firstToken)
	t.reportedLatency.merge(other.reportedLatency)
}

const tallyColumns = `traces, errors, cached, prompt_tokens, completion_tokens, total_tokens, cost,
	reports, scores, score_sum, latency, first_token, reported_latency`

// values are those of tallyColumns.
func (t *tally) values() []any {
	return []any{
		t.traces, t.errors, t.cached, t.promptTokens, t.completionTokens, t.totalTokens, t.cost,
		t.reports, t.scores, t.scoreSum, t.latency.encode(), t.firstToken.encode(), t.reportedLatency.encode(),
	}
}

// scanTally reads tallyColumns. Before them stand the columns that go to first.
func scanTally(scan func(...any) error, first ...any) (*tally, error) {
	var t tally
	var latency, firstToken, reported sql.RawBytes
	if err := scan(append(first, &t.traces, &t.errors, &t.cached, &t.promptTokens, &t.completionTokens, &t.totalTokens, &t.cost,
		&t.reports, &t.scores, &t.scoreSum, &latency, &firstToken, &reported)...); err != nil {
		return nil, err
	}
	return &t, errors.Join(t.latency.decode(latency), t.firstToken.decode(firstToken), t.reportedLatency.decode(reported))
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
const traceNumbers = `
SELECT seq, time_ms, concat_ws(char(31), workspace, kind, key, ` + variantColumn + `),
	(code IS NOT NULL) + 2 * (state = 'interrupted') + 4 * (cached IS NOT NULL), latency_us,
	CASE WHEN coalesce(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) IS NOT NULL
	THEN json_array(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) END
FROM traces AS t `

// countTraces counts the traces that ended, of seq after from until until, or as
// many as fill maxSlots, and returns the seq of the last.
func (t tallies) countTraces(ctx context.Context, on querier, from, until int64, maxSlots int, where clauses) (last int64, err error) {
	full, last, err := t.countRows(ctx, on, maxSlots, traceNumbers+"NOT INDEXED WHERE seq > ? AND seq <= ? AND state = 'ended' AND "+where.and()+" ORDER BY seq",
		slices.Concat([]any{from, until}, where.args)...)
	if !full {
		last = until
	}
	return last, err
}

// countInterrupted counts the latest traces that were interrupted. They are few
// and are not counted for good: a call that was given up for dead, because
// another process opened the file, may end after all.
func (t tallies) countInterrupted(ctx context.Context, on querier, where clauses) error {
	_, _, err := t.countRows(ctx, on, math.MaxInt, traceNumbers+"INDEXED BY traces_interrupted WHERE state = 'interrupted' AND "+where.and()+" ORDER BY id DESC LIMIT ?",
		append(slices.Clone(where.args), maxInterrupted)...)
	return err
}

// countRows counts the rows of a query of traceNumbers. It stops at the first
// that has no place in maxSlots, and returns the seq of the last before it.
func (t tallies) countRows(ctx context.Context, on querier, maxSlots int, query string, args ...any) (full bool, last int64, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return false, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	type hour struct {
		names string
		start int64
	}
	found := map[hour]*tally{} // by what is quicker to look up than a slot
	var row [6]any             // as the driver has them: converting them costs as much as reading them
	into := []any{&row[0], &row[1], &row[2], &row[3], &row[4], &row[5]}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return false, 0, err
		}
		seq, _ := row[0].(int64)
		millis, _ := row[1].(int64)
		names, _ := row[2].(string)
		flags, _ := row[3].(int64)
		c := found[hour{names, millis / hourMillis}]
		if c == nil {
			if len(t) >= maxSlots {
				return true, last, nil
			}
			c = t.at(seriesOf(names), millis)
			found[hour{names, millis / hourMillis}] = c
		}
		last = seq
		c.traces++
		c.errors += flags & 1
		c.interrupted += flags >> 1 & 1
		c.cached += flags >> 2 & 1
		if latency, known := row[4].(int64); known {
			c.latency.observe(float64(latency))
		}
		if numbers, some := row[5].(string); some {
			if err := c.addNumbers([]byte(numbers)); err != nil {
				return false, 0, err
			}
		}
	}
	return false, last, rows.Err()
}

// seriesOf splits the names that traceNumbers joined.
func seriesOf(names string) series {
	part := strings.SplitN(names, "\x1f", 4)
	part = append(part, make([]string, 4-len(part))...)
	return series{part[0], part[1], part[2], part[3]}
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
		t.firstToken.observe(value(0))
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
			s.kind, millis.Int64 = kindOf(id).String(), id.Time().UnixMilli()
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
			c.reportedLatency.observe(latency.Float64 * 1000)
		}
	}
	return until, rows.Err()
}
