package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// A report on a decision counts once under each of its traces, which may be stored
// before it or after it. The cursor of each table passes each row once. So a step
// counts the pairs of a report and a trace of which it passes one, and had passed the
// other, or passes it too:
//
//	step         1       2       3
//	traces       a       b       c
//	reports              r
//	pairs              ra, rb    rc
//
// A start that is replaced by its end is two rows: only what ended is in a pair.

// decidedTraces is the query of the traces of a decision that ended, up to a seq.
var decidedTraces = fmt.Sprintf(
	"SELECT t.time_ms, %s FROM traces AS t INDEXED BY sqlite_autoindex_traces_1 WHERE t.id IN (%s) AND t.state = 'ended' AND t.seq <= ?%d",
	seriesColumns, tracesOfDecision, 2*len(decidedKinds)+2)

// decidedReader reads reports on decisions, and the traces of these.
type decidedReader struct{ report, traces *sql.Stmt }

func openDecided(ctx context.Context, on querier) (d decidedReader, err error) {
	if d.report, err = on.PrepareContext(ctx, "SELECT "+metricsList+" FROM metrics WHERE seq = ?"); err != nil {
		return d, err
	}
	if d.traces, err = on.PrepareContext(ctx, decidedTraces); err != nil {
		d.close()
	}
	return d, err
}

func (d decidedReader) close() {
	for _, stmt := range []*sql.Stmt{d.report, d.traces} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
}

// countOnDecision counts the report of a seq under the traces of the decision up to
// a seq of theirs.
func (t tallies) countOnDecision(ctx context.Context, d decidedReader, decision trace.ID, seq, traces int64) (err error) {
	m, err := scanReport(d.report.QueryRowContext(ctx, seq).Scan)
	if err != nil {
		return err
	}
	rows, err := d.traces.QueryContext(ctx, append(rangesOf(decision), traces)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var millis int64
		var names string
		if err := rows.Scan(&millis, &names); err != nil {
			return err
		}
		t.pair(names, millis, &m)
	}
	return rows.Err()
}

// pair counts a report on a decision under one of its traces, if that shows any of it.
func (t tallies) pair(names string, millis int64, m *trace.Metrics) {
	of := namesOf(names)
	kind, _ := trace.ParseKind(of.kind)
	if shown, some := reduced(*m, kind); some && of.workspace == m.Workspace {
		t.at(of, millis).addReport(&shown)
	}
}

// lateReports is the query of the pairs of traces of some seqs, and the reports on
// their decisions up to a seq.
var lateReports = func() string {
	columns := columnsOf(trace.MetricsFields)
	for i := range columns {
		columns[i] = "m." + columns[i]
	}
	return fmt.Sprintf(`
SELECT t.time_ms, %s, %s
FROM traces AS t NOT INDEXED CROSS JOIN metrics AS m INDEXED BY metrics_decision ON m.decision_id = t.decision_id AND %s
WHERE t.seq > ? AND t.seq <= ? AND t.state = 'ended' AND m.seq <= ?`, seriesColumns, strings.Join(columns, ", "), ofDecision)
}()

// countLate counts, for the traces of seq after from until until, the reports on
// their decisions of a seq up to metrics: those that had been counted before. The
// traces were counted already.
func (t tallies) countLate(ctx context.Context, on querier, from, until, metrics int64, where clauses) error {
	first := lastID
	for at := range t { // ids may be of an hour before: they begin with the time of the request
		first = earlier(first, trace.FirstID(hourTime(at.start-1)))
	}
	// Most traces have none.
	some, err := queryInt(ctx, on, "SELECT EXISTS (SELECT 1 FROM metrics AS m INDEXED BY metrics_decision WHERE decision_id >= ? AND seq <= ? AND "+ofDecision+")",
		first[:], metrics)
	if err != nil || some == 0 {
		return err
	}
	_, err = collect(ctx, on, func(scan func(...any) error) (_ struct{}, err error) {
		var millis int64
		var names string
		m, err := scanMetrics(scan, &millis, &names)
		if err == nil {
			t.pair(names, millis, &m)
		}
		return struct{}{}, err
	}, lateReports+" AND "+where.and(), slices.Concat([]any{from, until, metrics}, where.args)...)
	return err
}
