package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// A report on a decision counts once under each of the decision's traces, which may be
// stored before or after it. The cursor of each table passes each row once. So a step
// counts a pair of a report and a trace if it passes one of them, and also passes the other
// or an earlier step did:
//
//	step         1       2       3
//	traces       a       b       c
//	reports              r
//	pairs              ra, rb    rc
//
// A start and the end that replaces it are two rows: only ended traces are in pairs.

// decidedTraces selects the ended traces of a decision, up to a seq.
var decidedTraces = fmt.Sprintf(
	"SELECT t.time_ms, %s FROM traces AS t INDEXED BY sqlite_autoindex_traces_1 WHERE t.id IN (%s) AND t.state = 'ended' AND %s AND t.seq <= ?%d",
	seriesColumns, tracesOfDecision, ofApps, 2*len(kind.All)+2)

// decidedReader reads reports on decisions, and the traces of these decisions.
type decidedReader struct{ report, traces *sql.Stmt }

func openDecided(ctx context.Context, db querier) (d decidedReader, err error) {
	if d.report, err = db.PrepareContext(ctx, "SELECT "+metricsList+" FROM metrics WHERE seq = ?"); err != nil {
		return d, err
	}
	if d.traces, err = db.PrepareContext(ctx, decidedTraces); err != nil {
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

// countOnDecision counts the report with a seq under the traces of its decision, up to the
// seq traces.
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

// pair counts a report on a decision under one of its traces, if the trace shows any of it.
func (t tallies) pair(names string, millis int64, m *trace.Metrics) {
	key := namesOf(names)
	kind, _ := trace.ParseKind(key.kind)
	if shown, shows := reduced(*m, kind); shows && key.workspace == m.Workspace {
		t.at(key, millis).addReport(&shown)
	}
}

// lateReports selects pairs: the traces in a range of seqs, and the reports on their
// decisions up to a seq.
var lateReports = func() string {
	columns := columnsOf(trace.MetricsFields)
	for i := range columns {
		columns[i] = "m." + columns[i]
	}
	return fmt.Sprintf(`
SELECT t.time_ms, %s, %s
FROM traces AS t NOT INDEXED CROSS JOIN metrics AS m INDEXED BY metrics_decision ON m.decision_id = t.decision_id AND %s
WHERE t.seq > ? AND t.seq <= ? AND t.state = 'ended' AND %s AND m.seq <= ?`, seriesColumns, strings.Join(columns, ", "), ofDecision, ofApps)
}()

// countLate counts earlier reports under later traces: under those after from, up to until,
// the reports on their decisions up to the seq metrics. The caller has counted the traces.
func (t tallies) countLate(ctx context.Context, db querier, from, until, metrics int64, where clauses) error {
	first := lastID
	for key := range t { // an id may be of the hour before: it begins with the time of the request
		first = earlier(first, trace.FirstID(hourTime(key.start-1)))
	}
	// Most traces have no such report.
	exists, err := queryInt(ctx, db, "SELECT EXISTS (SELECT 1 FROM metrics AS m INDEXED BY metrics_decision WHERE decision_id >= ? AND seq <= ? AND "+ofDecision+")",
		first[:], metrics)
	if err != nil || exists == 0 {
		return err
	}
	_, err = collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
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
