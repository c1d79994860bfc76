package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// One read of an export looks at exportWindow traces and takes at most exportRows of
	// them, with about exportBytes of traces and of reports on them. Only the reports on
	// one trace, which come together, may be larger.
	exportWindow = 4096
	exportRows   = 200
	exportBytes  = 4 << 20
)

// Export calls yield with each trace that the filter selects, oldest first, with its
// content and its metrics in the order of their reports. Metrics whose trace is not stored
// come at their time with a nil record, unless the filter asks for members that only traces
// have. For them, the filter's conversation, chain, API key and metadata select by members
// of the metrics. Export ends with the first error of yield.
//
// Export reads the file a little at a time, and not while yield runs: a long export blocks
// no checkpoint and no writer. Rows that are written or deleted meanwhile may be exported
// or not.
func (r *Reader) Export(ctx context.Context, f trace.Filter, yield func(*trace.Record, []trace.Metrics) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	where, err := conditions(&f)
	if err != nil {
		return err
	}
	sources := listSources{index: sourceOf(&f), order: oldestFirst}
	if err := sources.find(ctx, r.db, &f); err != nil {
		return err
	}
	end, start := bounds(&f, trace.ID{})
	attached := &exportCursor[*trace.Record]{at: before(start), end: before(end)}
	records := exportedRecords{Reader: r, sources: sources, where: where, limit: attached.end}
	attached.read = func(cursor trace.ID) ([]*trace.Record, trace.ID, bool, error) { return records.read(ctx, cursor) }
	lone := &exportCursor[trace.ID]{at: before(start), end: before(end), done: onlyTraces(&f)}
	loneWhere, err := metricsConditions(&f)
	if err != nil {
		return err
	}
	lone.read = func(cursor trace.ID) ([]trace.ID, trace.ID, bool, error) {
		return r.exportLone(ctx, &f, loneWhere, cursor, lone.end)
	}

	var metrics map[trace.ID][]trace.Metrics
	for ready := 0; ; { // the number of records read whose metrics are complete
		if err := attached.fill(lastID); err != nil {
			return err
		}
		if ready == 0 {
			if metrics, ready, err = r.metricsOf(ctx, attached.items); err != nil {
				return err
			}
		}
		// Reports after the next trace are not looked for yet: there may be none.
		until := lastID
		if len(attached.items) > 0 {
			until = attached.items[0].ID
		}
		if err := lone.fill(until); err != nil {
			return err
		}
		switch {
		case len(attached.items) == 0 && len(lone.items) == 0:
			return nil
		case len(lone.items) == 0,
			len(attached.items) > 0 && bytes.Compare(attached.items[0].ID[:], lone.items[0][:]) <= 0:
			record := attached.items[0]
			reports := metrics[record.ID]
			attached.items, ready = attached.items[1:], ready-1
			delete(metrics, record.ID)
			if err := yield(record, reports); err != nil {
				return err
			}
		default:
			id := lone.items[0]
			lone.items = lone.items[1:]
			reports, err := collect(ctx, r.db, scanReport,
				fmt.Sprintf("SELECT %s FROM metrics AS m WHERE trace_id = ? AND %s ORDER BY seq", metricsList, loneWhere.and()),
				slices.Concat([]any{id[:]}, loneWhere.args)...)
			if err != nil {
				return err
			}
			if len(reports) == 0 {
				continue // deleted meanwhile
			}
			if err := yield(nil, reports); err != nil {
				return err
			}
		}
	}
}

// exportCursor reads one of the two streams of an export.
type exportCursor[T any] struct {
	items   []T // read, and not yet taken
	at, end trace.ID
	done    bool
	read    func(cursor trace.ID) (items []T, end trace.ID, more bool, err error)
}

// fill reads on if all items were taken, until there are some or it reaches until.
func (c *exportCursor[T]) fill(until trace.ID) (err error) {
	for len(c.items) == 0 && !c.done && compareIDs(c.at, until) < 0 {
		var more bool
		if c.items, c.at, more, err = c.read(c.at); err != nil {
			return err
		}
		c.done = !more
	}
	return nil
}

// exportedRecords reads the records of an export, oldest first.
type exportedRecords struct {
	*Reader
	sources listSources
	where   clauses
	limit   trace.ID
	window  listWindow // that is being read
}

// read reads the next records after cursor, and returns where they end.
func (r *exportedRecords) read(ctx context.Context, cursor trace.ID) (records []*trace.Record, end trace.ID, more bool, err error) {
	window := &r.window
	if compareIDs(cursor, window.end) >= 0 {
		if *window, err = r.sources.furthest(ctx, r.db, cursor, r.limit, exportWindow); err != nil {
			return nil, end, false, err
		}
	}
	window.goOn(cursor)
	end, more = window.end, window.more
	query, args := window.query(r.whole, r.where, exportRows)
	if query == "" {
		return nil, end, more, nil
	}
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, end, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; rows.Next(); {
		record, err := scanWhole(rows.Scan)
		if err != nil {
			return nil, end, false, err
		}
		records = append(records, record)
		size += record.Size()
		if len(records) == exportRows || size >= exportBytes {
			return records, record.ID, true, nil
		}
	}
	return records, end, more, rows.Err()
}

// exportLone reads the next ids after cursor with metrics that meet the conditions and
// without a trace.
func (r *Reader) exportLone(ctx context.Context, f *trace.Filter, where clauses, cursor, limit trace.ID) (ids []trace.ID, end trace.ID, more bool, err error) {
	source := source{table: "metrics", id: "trace_id", index: "metrics_trace_id"}
	if names := namedBy(f); len(names) > 0 {
		source = names[0].reports()
	}
	if !f.Decision.IsZero() {
		source.add("trace_id = ?", f.Decision[:])
	}
	end, more, err = source.window(ctx, r.db, oldestFirst, cursor, limit, exportWindow)
	if err != nil {
		return nil, end, false, err
	}
	ids, err = collect(ctx, r.db, scanID, fmt.Sprintf(`
SELECT DISTINCT trace_id FROM metrics AS m INDEXED BY %s
WHERE %s AND trace_id > ? AND trace_id <= ? AND %s AND NOT EXISTS (SELECT 1 FROM traces WHERE id = m.trace_id AND workspace = m.workspace)
ORDER BY trace_id`, source.index, source.and(), where.and()), slices.Concat(source.args, []any{cursor[:], end[:]}, where.args)...)
	if err != nil {
		return nil, end, false, err
	}
	ids, err = r.withoutTraces(ctx, ids)
	return ids, end, more, err
}

// withoutTraces removes the ids of decisions that have traces.
func (r *Reader) withoutTraces(ctx context.Context, ids []trace.ID) (without []trace.ID, err error) {
	for _, id := range ids {
		var exists int64
		if isDecision(id) {
			if exists, err = queryInt(ctx, r.db, "SELECT EXISTS ("+tracesOfDecision+")", rangesOf(id)...); err != nil {
				return nil, err
			}
		}
		if exists == 0 {
			without = append(without, id)
		}
	}
	return without, nil
}

// numberedReport is a report and its seq.
type numberedReport struct {
	seq int64
	trace.Metrics
}

// metricsOf reads the metrics of the first records, as many as exportBytes allow, and
// returns the number of these records. The records are in the order of their ids.
func (r *Reader) metricsOf(ctx context.Context, records []*trace.Record) (metrics map[trace.ID][]trace.Metrics, ready int, err error) {
	if len(records) == 0 {
		return nil, 0, nil
	}
	own, unread, err := r.reportsOn(ctx, "trace_id", records, func(record *trace.Record) trace.ID { return record.ID })
	if err != nil {
		return nil, 0, err
	}
	decided, undecided, err := r.reportsOn(ctx, "decision_id", records, func(record *trace.Record) trace.ID { return record.Decision })
	if err != nil {
		return nil, 0, err
	}
	metrics = make(map[trace.ID][]trace.Metrics)
	for _, record := range records {
		if compareIDs(record.ID, unread) >= 0 || compareIDs(record.Decision, undecided) >= 0 {
			break
		}
		ready++
		reports := own[record.ID]
		for _, m := range decided[record.Decision] {
			if shown, shows := reduced(m.Metrics, record.Kind); shows {
				reports = append(reports, numberedReport{m.seq, shown})
			}
		}
		slices.SortFunc(reports, func(a, b numberedReport) int { return cmp.Compare(a.seq, b.seq) })
		for _, m := range reports {
			metrics[record.ID] = append(metrics[record.ID], m.Metrics)
		}
	}
	return metrics, ready, nil
}

// reportsOn reads the reports on the ids that idOf returns of the records, in the order of
// these ids, as many as exportBytes allow and at least those on the first. It does not read
// the reports from the id unread on.
func (r *Reader) reportsOn(ctx context.Context, column string, records []*trace.Record, idOf func(*trace.Record) trace.ID) (reports map[trace.ID][]numberedReport, unread trace.ID, err error) {
	index, only := "metrics_trace_id", ""
	if column == "decision_id" {
		index, only = "metrics_decision", " AND "+ofDecision
	}
	ids := make([]any, len(records))
	for i, record := range records {
		id := idOf(record)
		ids[i] = id[:]
	}
	// The index has this order: nothing is sorted, and rows that are not taken are not
	// read.
	rows, err := r.db.QueryContext(ctx, fmt.Sprintf(
		"SELECT seq, %s FROM metrics AS m INDEXED BY %s WHERE %s IN (%s) AND workspace = ?%s ORDER BY %[3]s, seq",
		metricsList, index, column, strings.Join(slices.Repeat([]string{"?"}, len(ids)), ", "), only), append(ids, records[0].Workspace)...)
	if err != nil {
		return nil, unread, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	reports = make(map[trace.ID][]numberedReport)
	first := idOf(records[0])
	for size := 0; rows.Next(); {
		var report numberedReport
		if report.Metrics, err = scanMetrics(rows.Scan, &report.seq); err != nil {
			return nil, unread, err
		}
		subject := report.TraceID
		if subject.IsZero() {
			subject = report.Decision
		}
		if size >= exportBytes && reports[subject] == nil && compareIDs(subject, first) > 0 {
			return reports, subject, nil
		}
		reports[subject] = append(reports[subject], report)
		size += report.Metrics.Size()
	}
	return reports, lastID, rows.Err()
}

// metricsConditions returns the conditions of a filter on metrics without a trace.
func metricsConditions(f *trace.Filter) (clauses, error) {
	var c clauses
	c.equal("workspace", f.Workspace)
	c.equal("api_key", f.APIKey)
	c.equal("conversation_id", f.ConversationID)
	c.equal("chain_id", f.ChainID)
	if !f.Decision.IsZero() {
		c.add("decision_id = ?", f.Decision[:])
	}
	if f.Kind != 0 {
		low, high := f.Kind.IDBytes()
		c.add("substr(trace_id, 7, 1) IN (?, ?)", []byte{low}, []byte{high})
	}
	return c, c.metadata(metricsTable.metadata, f.Metadata)
}

// after returns the id that comes after another, the last id for itself.
func after(id trace.ID) trace.ID {
	for i := len(id) - 1; i >= 0 && id != lastID; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}

// before returns the id that comes before another, the zero id for itself.
func before(id trace.ID) trace.ID {
	for i := len(id) - 1; i >= 0 && id != (trace.ID{}); i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

func scanID(scan func(...any) error) (id trace.ID, err error) {
	var raw []byte
	err = scan(&raw)
	copy(id[:], raw)
	return id, err
}
