package sqlite

import (
	"context"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// maxBetween bounds the ids that Between looks at.
const maxBetween = 200

// Between returns the traces of a workspace with an id from first to last, in the order of
// the ids: records with ID, Kind and Key, of kind metrics if only reports are stored. If
// more is true, there may be others: it looks at 200 ids at most.
func (r *Reader) Between(ctx context.Context, workspace string, first, last trace.ID) (found []trace.Record, more bool, err error) {
	traces, err := collect(ctx, r.db, func(scan func(...any) error) (rec trace.Record, err error) {
		return rec, scan(into{&rec.ID}, into{&rec.Kind}, &rec.Key, &rec.Workspace)
	}, "SELECT id, kind, key, workspace FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= ? AND id <= ? ORDER BY id LIMIT ?",
		first[:], last[:], maxBetween)
	if err != nil {
		return nil, false, err
	}
	reported, err := collect(ctx, r.db, func(scan func(...any) error) (rec trace.Record, err error) {
		rec.Kind = trace.KindMetrics
		return rec, scan(into{&rec.ID}, &rec.Workspace)
	}, `
SELECT ids.trace_id, (SELECT m.workspace FROM metrics AS m INDEXED BY metrics_trace_id WHERE m.trace_id = ids.trace_id LIMIT 1)
FROM (SELECT DISTINCT trace_id FROM metrics INDEXED BY metrics_trace_id WHERE trace_id >= ? AND trace_id <= ? ORDER BY trace_id LIMIT ?) AS ids`,
		first[:], last[:], maxBetween)
	if err != nil {
		return nil, false, err
	}
	more = len(traces) == maxBetween || len(reported) == maxBetween
	reported = slices.DeleteFunc(reported, func(rec trace.Record) bool { return isDecision(rec.ID) })
	// The sort is stable: of a trace and a report with the same id, the trace remains.
	found = slices.Concat(traces, reported)
	slices.SortStableFunc(found, func(a, b trace.Record) int { return compareIDs(a.ID, b.ID) })
	found = slices.CompactFunc(found, func(a, b trace.Record) bool { return a.ID == b.ID })
	return slices.DeleteFunc(found, func(rec trace.Record) bool { return rec.Workspace != workspace }), more, nil
}
