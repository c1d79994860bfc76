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
	// What an export reads at once: traces looked at, traces taken, and about
	// how much of them, and of the reports on them, in bytes. Only the reports on
	// one trace, which come together, may be more.
	exportWindow = 4096
	exportRows   = 200
	exportBytes  = 4 << 20
)

// Export calls yield with each trace that the filter selects, oldest first and
// with all that is stored of it: its content, and its metrics in the order in
// which they were reported. Metrics whose trace is not in the store come at
// their time with a nil record, where the filter asks for nothing that only
// traces have; the conversation, the chain, the caller's key and the metadata
// are then those of the metrics. It ends with the first error of yield.
//
// Export reads the file a little at a time, and not while yield runs: a long
// export blocks no checkpoint and no writer. What is written or deleted meanwhile
// may be exported or not.
func (r *Reader) Export(ctx context.Context, f trace.Filter, yield func(*trace.Record, []trace.Metrics) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	where, err := conditions(&f)
	if err != nil {
		return err
	}
	end, start := bounds(&f, trace.ID{})
	attached := &exportCursor[*trace.Record]{at: before(start), end: before(end)}
	sources := listSources{index: sourceOf(&f), order: oldestFirst}
	attached.read = func(from trace.ID) ([]*trace.Record, trace.ID, bool, error) {
		return r.exportRecords(ctx, &sources, where, from, attached.end)
	}
	if !f.Decision.IsZero() || f.Score != nil || len(namedBy(&f)) > 0 {
		ids, some, err := r.exportIDs(ctx, &f, where, end, start)
		if err != nil {
			return err
		}
		if some {
			attached.read = func(trace.ID) (records []*trace.Record, at trace.ID, more bool, err error) {
				records, ids, err = r.exportPosted(ctx, ids, where)
				return records, at, len(ids) > 0, err
			}
		}
	} else if err := sources.post(ctx, r.db, &f, where); err != nil {
		return err
	}
	lone := &exportCursor[trace.ID]{at: before(start), end: before(end), done: onlyTraces(&f)}
	loneWhere, err := metricsConditions(&f)
	if err != nil {
		return err
	}
	lone.read = func(from trace.ID) ([]trace.ID, trace.ID, bool, error) {
		return r.exportLone(ctx, &f, loneWhere, from, lone.end)
	}

	var metrics map[trace.ID][]trace.Metrics
	for ready := 0; ; { // of how many of the records that were read metrics has all
		if err := attached.fill(lastID); err != nil {
			return err
		}
		if ready == 0 {
			if metrics, ready, err = r.metricsOf(ctx, attached.items); err != nil {
				return err
			}
		}
		// What comes after the next trace is not looked for yet: there may be none.
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
	read    func(from trace.ID) (items []T, at trace.ID, more bool, err error)
}

// fill reads on where everything was taken, until it has something or is at until.
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

// exportRecords reads the next records after from, and where they end.
func (r *Reader) exportRecords(ctx context.Context, sources *listSources, where clauses, from, limit trace.ID) (records []*trace.Record, end trace.ID, more bool, err error) {
	next, err := sources.furthest(ctx, r.db, from, limit, exportWindow)
	if err != nil {
		return nil, end, false, err
	}
	end, more = next.end, next.more
	query, args := next.query(wholeList, where, exportRows)
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

// exportIDs returns the ids, newest first, of the traces from limit to from that
// belong to the decision, the conversation, the chain or the scores that the filter asks
// for, and of others. It reports whether it knows them: the lists may be too far behind.
func (r *Reader) exportIDs(ctx context.Context, f *trace.Filter, where clauses, from, limit trace.ID) (ids []trace.ID, some bool, err error) {
	sources, err := postingSources(ctx, r.db, f, where)
	if err != nil || len(sources) == 0 {
		return nil, false, err
	}
	for more := true; more; {
		w, err := sources[0].window(ctx, r.db, newestFirst, from, limit, exportWindow)
		if err != nil || w.dense {
			return nil, false, err
		}
		ids, from, more = append(ids, w.ids...), w.end, w.more
	}
	return ids, true, nil
}

// exportPosted reads the records of the last of ids that meet the conditions, and
// returns the ids that are left.
func (r *Reader) exportPosted(ctx context.Context, ids []trace.ID, where clauses) (records []*trace.Record, left []trace.ID, err error) {
	some := ids[max(len(ids)-exportRows, 0):]
	query, args := readPosted(wholeList, oldestFirst, some, where, exportRows)
	room := exportBytes
	records, err = collect(ctx, r.db, func(scan func(...any) error) (*trace.Record, error) {
		record, err := scanWhole(scan)
		if err != nil {
			return nil, err
		}
		if room -= record.Size(); room <= 0 {
			return record, errEnough
		}
		return record, nil
	}, query, args...)
	left = ids[:len(ids)-len(some)]
	if errors.Is(err, errEnough) {
		err = nil
		last := records[len(records)-1].ID
		known, _ := slices.BinarySearchFunc(ids, last, newestFirst.compare)
		left = ids[:known]
	}
	return records, left, err
}

// exportLone reads the next ids after from that have metrics which meet the
// conditions, and no trace.
func (r *Reader) exportLone(ctx context.Context, f *trace.Filter, where clauses, from, limit trace.ID) (ids []trace.ID, end trace.ID, more bool, err error) {
	source := source{table: "metrics", id: "trace_id", index: "metrics_trace_id"}
	if names := namedBy(f); len(names) > 0 {
		source = names[0].reports()
	}
	if !f.Decision.IsZero() {
		source.add("trace_id = ?", f.Decision[:])
	}
	end, more, err = source.window(ctx, r.db, oldestFirst, from, limit, exportWindow)
	if err != nil {
		return nil, end, false, err
	}
	ids, err = collect(ctx, r.db, scanID, fmt.Sprintf(`
SELECT DISTINCT trace_id FROM metrics AS m INDEXED BY %s
WHERE %s AND trace_id > ? AND trace_id <= ? AND %s AND NOT EXISTS (SELECT 1 FROM traces WHERE id = m.trace_id AND workspace = m.workspace)
ORDER BY trace_id`, source.index, source.and(), where.and()), slices.Concat(source.args, []any{from[:], end[:]}, where.args)...)
	if err != nil {
		return nil, end, false, err
	}
	ids, err = r.withoutTraces(ctx, ids)
	return ids, end, more, err
}

// withoutTraces removes the ids of decisions of which there are traces.
func (r *Reader) withoutTraces(ctx context.Context, ids []trace.ID) (without []trace.ID, err error) {
	for _, id := range ids {
		var some int64
		if isDecision(id) {
			if some, err = queryInt(ctx, r.db, "SELECT EXISTS ("+tracesOfDecision+")", rangesOf(id)...); err != nil {
				return nil, err
			}
		}
		if some == 0 {
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

// metricsOf reads the metrics of the first records, of as many as there is room
// for, and returns how many records that are. The records are in the order of
// their ids.
func (r *Reader) metricsOf(ctx context.Context, records []*trace.Record) (of map[trace.ID][]trace.Metrics, ready int, err error) {
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
	of = make(map[trace.ID][]trace.Metrics)
	for _, record := range records {
		if compareIDs(record.ID, unread) >= 0 || compareIDs(record.Decision, undecided) >= 0 {
			break
		}
		ready++
		reports := own[record.ID]
		for _, m := range decided[record.Decision] {
			if shown, some := reduced(m.Metrics, record.Kind); some {
				reports = append(reports, numberedReport{m.seq, shown})
			}
		}
		slices.SortFunc(reports, func(a, b numberedReport) int { return cmp.Compare(a.seq, b.seq) })
		for _, m := range reports {
			of[record.ID] = append(of[record.ID], m.Metrics)
		}
	}
	return of, ready, nil
}

// reportsOn reads the reports on what idOf names of the records, in the order of
// these ids, as many as there is room for and at least those of the first record.
// Those from the id unread on are not read.
func (r *Reader) reportsOn(ctx context.Context, column string, records []*trace.Record, idOf func(*trace.Record) trace.ID) (of map[trace.ID][]numberedReport, unread trace.ID, err error) {
	index, only := "metrics_trace_id", ""
	if column == "decision_id" {
		index, only = "metrics_decision", " AND "+ofDecision
	}
	ids := make([]any, len(records))
	for i, record := range records {
		id := idOf(record)
		ids[i] = id[:]
	}
	// The index has them in this order: nothing is sorted, and what is not taken
	// is not read.
	rows, err := r.db.QueryContext(ctx, fmt.Sprintf(
		"SELECT seq, %s FROM metrics AS m INDEXED BY %s WHERE %s IN (%s) AND workspace = ?%s ORDER BY %[3]s, seq",
		metricsList, index, column, strings.Join(slices.Repeat([]string{"?"}, len(ids)), ", "), only), append(ids, records[0].Workspace)...)
	if err != nil {
		return nil, unread, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	of = make(map[trace.ID][]numberedReport)
	first := idOf(records[0])
	for size := 0; rows.Next(); {
		var report numberedReport
		if report.Metrics, err = scanMetrics(rows.Scan, &report.seq); err != nil {
			return nil, unread, err
		}
		on := report.TraceID
		if on.IsZero() {
			on = report.Decision
		}
		if size >= exportBytes && of[on] == nil && compareIDs(on, first) > 0 {
			return of, on, nil
		}
		of[on] = append(of[on], report)
		size += reportSize(&report.Metrics)
	}
	return of, lastID, rows.Err()
}

// onlyTraces reports whether the filter asks for something that metrics without a
// trace do not have.
func onlyTraces(f *trace.Filter) bool {
	return f.Kind != 0 && f.Kind != trace.KindMetrics || f.Key != "" || f.Status != 0 || f.Outcome != trace.AnyOutcome ||
		f.State != nil || f.Provider != "" || f.Model != "" || f.Code != "" || f.FinishReason != "" ||
		f.Version != "" || f.Revision != "" || f.Variant != "" || f.Arm != "" || f.Slower > 0 || f.Attempts > 0 || f.Fallback || f.Score != nil
}

// metricsConditions are those of a filter on metrics without a trace.
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

// after is the id that comes after another, the last one for itself.
func after(id trace.ID) trace.ID {
	for i := len(id) - 1; i >= 0 && id != lastID; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}

// before is the id that comes before another, the zero id for itself.
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
