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

// maxInterrupted bounds what an answer reads of the traces that were interrupted.
const maxInterrupted = 5_000

const hourMillis = int64(time.Hour / time.Millisecond)

// hourTime is the time of an hour since 1970.
func hourTime(hour int64) time.Time { return time.UnixMilli(hour * hourMillis) }

// series is what statistics are kept of.
type series struct{ workspace, kind, key, variant, version, arm string }

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
	latency, firstToken, reportedLatency        histogram.Durations
	values                                      histogram.Named
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

// columns are the values of tallyColumns.
func (t *tally) columns() []any {
	return []any{
		t.traces, t.errors, t.cached, t.finished[0], t.finished[1], t.finished[2], t.finished[3],
		t.promptTokens, t.completionTokens, t.totalTokens, t.cost, t.reports, t.scores, t.scoreSum,
		t.latency.Encode(), t.firstToken.Encode(), t.reportedLatency.Encode(), t.values.Encode(),
	}
}

// readColumns are tallyColumns as they are read: handing a column over costs more
// than making it. Most keys have nothing in the second.
const readColumns = `traces,
	CASE WHEN errors OR cached OR finish_stop OR finish_tool_calls OR finish_length OR finish_content_filter
		OR prompt_tokens OR completion_tokens OR total_tokens
	THEN concat_ws(' ', errors, cached, finish_stop, finish_tool_calls, finish_length, finish_content_filter,
		prompt_tokens, completion_tokens, total_tokens) END,
	cost, reports, scores, score_sum, latency, first_token, reported_latency, named_values`

// scan reads a row of the columns of first and of readColumns into an empty tally.
func (t *tally) scan(scan func(...any) error, first ...any) (err error) {
	var counts, latency, firstToken, reported, values sql.RawBytes
	if err := scan(append(first, &t.traces, &counts, &t.cost, &t.reports, &t.scores, &t.scoreSum, &latency, &firstToken, &reported, &values)...); err != nil {
		return err
	}
	if counts != nil {
		into := [...]*int64{
			&t.errors, &t.cached, &t.finished[0], &t.finished[1], &t.finished[2], &t.finished[3],
			&t.promptTokens, &t.completionTokens, &t.totalTokens,
		}
		for i, count := range strings.SplitN(string(counts), " ", len(into)) {
			if *into[i], err = strconv.ParseInt(count, 10, 64); err != nil {
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

// variantColumn is what a trace is counted under beside its key.
const variantColumn = "coalesce(t.variant, CASE t.kind WHEN 'remoteconfig' THEN coalesce(t.matched_row, 'default') END, '')"

// countedVersion is the version that a trace is counted under: of an endpoint also that of
// its prompt, whose text may change without a change of the endpoint.
const countedVersion = "coalesce(t.version, '') || CASE WHEN t.kind = 'endpoint' AND t.prompt_version <> '' THEN '/' || t.prompt_version ELSE '' END"

// versionsOf are a definition's version and that of an endpoint's prompt, of a counted
// version.
func versionsOf(counted string) (version, prompt string) {
	version, prompt, _ = strings.Cut(counted, "/")
	return version, prompt
}

// seriesColumns are what a trace is counted under, and the name of its API key, as
// one text.
const seriesColumns = "concat_ws(char(31), t.workspace, t.kind, t.key, coalesce(t.api_key, ''), " + countedVersion + ", coalesce(t.arm, ''), " + variantColumn + ")"

// traceNumbers is what is counted of traces, in few columns: handing a column
// over costs more than making it. What most traces do not have is an array.
var traceNumbers = `
SELECT id, time_ms, ` + seriesColumns + `,
	(code IS NOT NULL) + 2 * (state = 'interrupted') + 4 * (cached IS NOT NULL)
	+ 8 * CASE WHEN finish_reason IS NULL THEN 0 ` + finishReasonPlaces() + ` ELSE 0 END + 64 * coalesce(latency_us, 0),
	CASE WHEN coalesce(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) IS NOT NULL
	THEN json_array(first_token_us, prompt_tokens, completion_tokens, total_tokens, cost) END, seq, %s, %s
FROM traces AS t `

// countOnly and countAndPost are traceNumbers without and with what is posted.
var (
	countOnly    = fmt.Sprintf(traceNumbers, "NULL", "NULL")
	countAndPost = fmt.Sprintf(traceNumbers, postedColumns,
		"CASE WHEN t.shared IS NULL THEN t.metadata ELSE (SELECT d.metadata FROM decisions AS d WHERE d.id = t.decision_id) END")
)

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
func (t tallies) countTraces(ctx context.Context, on querier, from, until int64, maxSlots int, where clauses, posted *posting) (last int64, err error) {
	columns := countAndPost
	if posted == nil {
		where.add("state = 'ended'")
		columns = countOnly
	}
	full, last, err := t.countRows(ctx, on, maxSlots, posted, columns+"NOT INDEXED WHERE seq > ? AND seq <= ? AND "+where.and()+" ORDER BY seq",
		slices.Concat([]any{from, until}, where.args)...)
	if err != nil || !full {
		return until, err
	}
	return last, nil
}

// countInterrupted counts the latest interrupted traces. Each answer counts them
// again: a call that was taken for interrupted, because another process opened the
// file, may still end. They are few.
func (t tallies) countInterrupted(ctx context.Context, on querier, where clauses) error {
	_, _, err := t.countRows(ctx, on, math.MaxInt, nil, countOnly+"INDEXED BY traces_interrupted WHERE state = 'interrupted' AND "+where.and()+" ORDER BY id DESC LIMIT ?",
		append(slices.Clone(where.args), maxInterrupted)...)
	return err
}

// traceGroup is what traces of the same names and the same hour belong to.
type traceGroup struct {
	workspace string
	tally     *tally       // nil until one of them is counted
	posted    *postedNames // nil: they are not posted
}

// countRows counts the rows of a query of traceNumbers and, where posted is
// given, puts them there, of which it counts only those that ended. It stops at
// the first that has no place in maxSlots, and returns the seq of the last before
// it.
func (t tallies) countRows(ctx context.Context, on querier, maxSlots int, posted *posting, query string, args ...any) (full bool, last int64, err error) {
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
		uncounted = flagInterrupted
	}
	var (
		id  sql.RawBytes
		row [7]any // as the driver has them: converting them costs as much as reading them
	)
	into := []any{&id, &row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6]}
	type joinedNames struct{ workspace, names string }
	others := map[joinedNames]*postedNames{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return false, last, err
		}
		millis, _ := row[0].(int64)
		names, _ := row[1].(string)
		flags, _ := row[2].(int64)
		group := found[hour{names, millis / hourMillis}]
		if group == nil {
			group = &traceGroup{workspace: namesOf(names).workspace}
			if posted != nil {
				group.posted = namesOfColumns(group.workspace, names, seriesFields)
			}
			found[hour{names, millis / hourMillis}] = group
		}
		c := group.tally
		if c == nil && flags&uncounted == 0 {
			if len(t) >= maxSlots {
				return true, last, nil
			}
			c = t.at(namesOf(names), millis)
			group.tally = c
		}
		last, _ = row[4].(int64)
		if posted != nil {
			other, _ := row[5].(string)
			metadata, _ := row[6].(string)
			at := joinedNames{group.workspace, other}
			if others[at] == nil {
				others[at] = namesOfColumns(group.workspace, other, otherFields)
			}
			posted.add(last, trace.ID(id), group.workspace, metadata, group.posted, others[at])
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
	flagFinish  // times the place of the finish reason, from 1 on
	flagsEnd    = 1 << 6
	flagsFinish = flagsEnd - flagFinish
)

// nameSeparator is between the names that seriesColumns joins. A key can't hold it,
// and other names hardly do.
const nameSeparator = "\x1f"

// namesOf is the series of the names that seriesColumns joined.
func namesOf(names string) series {
	part := strings.SplitN(names, nameSeparator, 7)
	part = append(part, make([]string, 7-len(part))...)
	return series{workspace: part[0], kind: part[1], key: part[2], version: part[4], arm: part[5], variant: part[6]}
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

// countMetrics counts metrics as countTraces does traces, each under its trace. One
// on a decision counts under each of the decision's traces that ended and that were
// counted, which are those of a seq up to traces; countLate counts it for others.
func (t tallies) countMetrics(ctx context.Context, on querier, from, until, traces int64, maxSlots int, where clauses) (last int64, err error) {
	decided, err := openDecided(ctx, on)
	if err != nil {
		return 0, err
	}
	defer decided.close()
	rows, err := on.QueryContext(ctx, fmt.Sprintf(`
SELECT m.seq, m.trace_id, m.workspace, %s, t.time_ms, %s, m.score, m.latency_ms, m.prompt_tokens, m.completion_tokens, m.total_tokens, m.named_values
FROM metrics AS m NOT INDEXED LEFT JOIN traces AS t INDEXED BY sqlite_autoindex_traces_1 ON t.id = m.trace_id AND t.workspace = m.workspace
WHERE m.seq > ? AND m.seq <= ? AND %s ORDER BY m.seq`, ofDecision, seriesColumns, where.and()),
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
		of := namesOf(names)
		if !millis.Valid {
			of = series{workspace: m.Workspace, kind: m.TraceID.Kind().String()}
			millis.Int64 = m.TraceID.Time().UnixMilli()
		}
		t.at(of, millis.Int64).addReport(&m)
	}
	return until, rows.Err()
}
