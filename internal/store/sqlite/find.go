package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// idSource is a source of ids of traces: all that a filter selects, and some others.
type idSource struct {
	match   string     // the query of the tables of terms; empty: ids are all
	periods []int64    // the periods with such a table, in order
	oldest  trace.ID   // of all traces: entries of the tables before it are of no use
	ids     []trace.ID // if match is empty
	kind    trace.Kind // 0: all
	reports *source    // reports on traces that belong to the source too; nil: none do
}

// idSources returns sources that each have every trace that the filter selects, the
// cheapest to read first.
func idSources(ctx context.Context, db querier, f *trace.Filter) (sources []*idSource, err error) {
	if !f.Decision.IsZero() {
		ids, err := readTracesOf(ctx, db, f.Decision)
		return []*idSource{{kind: f.Kind, ids: ids}}, err
	}
	base := idSource{kind: f.Kind}
	if base.periods, err = readPeriods(ctx, db); err != nil {
		return nil, err
	}
	if base.oldest, err = oldestTrace(ctx, db); err != nil {
		return nil, err
	}
	var selective bool
	if base.match, selective, err = matchOf(f); err != nil {
		return nil, err
	}
	if selective {
		sources = append(sources, &base)
	}
	for _, name := range namedBy(f) {
		named := base
		if named.match, _, err = matchOf(f, name.match()); err != nil {
			return nil, err
		}
		named.reports = new(name.reports())
		sources = append(sources, &named)
	}
	if f.Label != "" {
		sources = append(sources, labelledSource(f))
	}
	scored, err := scoredSource(ctx, db, f)
	if scored != nil {
		sources = append(sources, scored)
	}
	if len(sources) == 0 {
		sources = append(sources, &base)
	}
	return sources, err
}

func readPeriods(ctx context.Context, db querier) ([]int64, error) {
	return collect(ctx, db, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) }, allPeriods)
}

// oldestTrace returns the least id of all traces, lastID if there are none.
func oldestTrace(ctx context.Context, db querier) (trace.ID, error) {
	ids, err := collect(ctx, db, scanID, "SELECT id FROM traces ORDER BY id LIMIT 1")
	return append(ids, lastID)[0], err
}

// idWindow is a part of a source: its ids after a cursor, up to end, in the order of the
// direction. If more is false, there are none after end.
type idWindow struct {
	ids  []trace.ID
	end  trace.ID
	more bool
}

// window reads about the next count ids after cursor: all of the source up to the end.
func (s *idSource) window(ctx context.Context, db querier, d direction, cursor, limit trace.ID, count int) (w idWindow, err error) {
	if s.match == "" {
		w = idWindow{ids: s.ids, end: limit}
	} else if w, err = s.indexed(ctx, db, d, cursor, limit, count); err != nil {
		return w, err
	}
	if s.reports != nil {
		reported, end, more, err := s.reported(ctx, db, d, cursor, limit, count)
		if err != nil {
			return w, err
		}
		if more && (!w.more || d.compare(end, w.end) < 0) {
			w.end, w.more = end, true
		}
		w.ids = append(w.ids, reported...)
	}
	w.ids = d.sort(slices.DeleteFunc(slices.Clone(w.ids), func(id trace.ID) bool {
		return d.compare(id, cursor) <= 0 || d.compare(id, w.end) > 0 || s.kind != 0 && id.Kind() != s.kind
	}))
	return w, nil
}

// indexed reads the ids of the next count milliseconds of one period. A window ends
// with a whole millisecond.
func (s *idSource) indexed(ctx context.Context, db querier, d direction, cursor, limit trace.ID, count int) (w idWindow, err error) {
	w.end = limit
	low, high := d.next(cursor).Time().UnixMilli(), limit.Time().UnixMilli()
	if d == newestFirst {
		low, high = high, low
	}
	low = max(low, s.oldest.Time().UnixMilli())
	periods := slices.DeleteFunc(slices.Clone(s.periods), func(period int64) bool { return period < periodOf(low) || period > periodOf(high) })
	if len(periods) == 0 {
		return w, nil
	}
	if d == newestFirst {
		slices.Reverse(periods)
	}
	begin := periods[0] << periodBits
	end := begin + 1<<periodBits - 1
	found, err := collect(ctx, db, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) },
		fmt.Sprintf("SELECT rowid FROM %[1]s WHERE %[1]s MATCH ? AND rowid >= ? AND rowid <= ? ORDER BY rowid %s LIMIT ?", termsTable(periods[0]), d.order),
		s.match, max(low, begin), min(high, end), count)
	if err != nil {
		return w, err
	}
	reached := end
	if d == newestFirst {
		reached = begin
	}
	if len(found) == count {
		reached = found[count-1]
	}
	if w.more = len(found) == count || len(periods) > 1; w.more {
		w.end = d.lastOf(reached)
		if d.compare(w.end, limit) >= 0 {
			w.end, w.more = limit, false
		}
	}
	w.ids, err = idsOf(ctx, db, found)
	return w, err
}

// firstOf returns the first id of a millisecond.
func firstOf(millis int64) trace.ID { return trace.FirstID(time.UnixMilli(millis)) }

// rangesQuery selects ranges of ids, whose last is exclusive, from a BLOB of their ends and
// its length.
const rangesQuery = `
WITH RECURSIVE place (at) AS (VALUES (1) UNION ALL SELECT at + 12 FROM place WHERE at + 12 < ?2)
SELECT substr(?1, at, 6) AS first, substr(?1, at + 6, 6) AS last FROM place`

// packRanges returns the arguments of rangesQuery for the ids of milliseconds.
func packRanges(milliseconds []int64) []any {
	packed := make([]byte, 0, 12*len(milliseconds))
	for _, millis := range milliseconds {
		for _, end := range [...]int64{millis, millis + 1} {
			packed = append(packed, binary.BigEndian.AppendUint64(nil, uint64(end))[2:]...)
		}
	}
	return []any{packed, len(packed)}
}

const selectIDs = "SELECT id FROM (" + rangesQuery + ") CROSS JOIN traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= first AND id < last"

// idsOf reads the ids of the traces of milliseconds.
func idsOf(ctx context.Context, db querier, milliseconds []int64) ([]trace.ID, error) {
	if len(milliseconds) == 0 {
		return nil, nil
	}
	return collect(ctx, db, scanID, selectIDs, packRanges(milliseconds)...)
}

// reported reads the ids of the traces with reports on them or on their decision. A
// decision and its traces have the same millisecond, so a window begins and ends with a
// whole one: it has both the report and the trace.
func (s *idSource) reported(ctx context.Context, db querier, d direction, cursor, limit trace.ID, count int) (ids []trace.ID, end trace.ID, more bool, err error) {
	if first := d.beforeMillisecond(d.next(cursor)); d.compare(first, cursor) < 0 {
		cursor = first // the decision of the next trace may be before it
	}
	if end, more, err = s.reports.window(ctx, db, d, cursor, limit, count); err != nil {
		return nil, end, false, err
	}
	if more {
		end = d.lastOf(end.Time().UnixMilli())
	}
	reported, err := collect(ctx, db, scanID, fmt.Sprintf("SELECT DISTINCT trace_id FROM metrics INDEXED BY %s WHERE %s AND trace_id %s ? AND trace_id %s ?",
		s.reports.index, s.reports.and(), d.after, d.until), slices.Concat(s.reports.args, []any{cursor[:], end[:]})...)
	if err != nil {
		return nil, end, false, err
	}
	for _, id := range reported {
		if !isDecision(id) {
			ids = append(ids, id)
			continue
		}
		decided, err := readTracesOf(ctx, db, id)
		if err != nil {
			return nil, end, false, err
		}
		ids = append(ids, decided...)
	}
	return ids, end, more, nil
}

// packedIDs selects the ids that are packed in the first argument, whose length is the
// second.
const packedIDs = `
	WITH RECURSIVE place (at) AS (VALUES (1) UNION ALL SELECT at + 16 FROM place WHERE at + 16 < ?2)
	SELECT substr(?1, at, 16) FROM place
`

// readIDs returns the query, and its arguments, for columns of the traces with these ids
// that meet the conditions.
func readIDs(columns string, d direction, ids []trace.ID, where clauses, limit int) (string, []any) {
	var packed []byte
	for i := range ids {
		packed = append(packed, ids[i][:]...)
	}
	query := fmt.Sprintf("\nSELECT %s FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id IN ("+packedIDs+") AND %s ORDER BY id %s LIMIT ?",
		columns, where.and(), d.order)
	return query, slices.Concat([]any{packed, len(packed)}, where.args, []any{limit})
}
