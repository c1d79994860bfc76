package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// denseRows is how many rows of a block a filter has at least for which the
	// traces are read one after the other: so many match that this is quicker than
	// to look each up.
	denseRows = blockRows / 16

	// windowBlocks is how many blocks are looked at before the clock is: some
	// milliseconds' work.
	windowBlocks = 1024

	selectPiece = "SELECT entries FROM posting_pieces WHERE place = ?"
	selectIDs   = "SELECT id FROM traces WHERE seq IN (SELECT value FROM json_each(?))"
)

// writtenBlock is a block that was written.
type writtenBlock struct {
	number      int64
	first, last trace.ID
	torn, odd   bool
}

// near and far are the ends of the block's ids in the direction d.
func (b *writtenBlock) near(d direction) trace.ID {
	if d == newestFirst {
		return b.last
	}
	return b.first
}

// outside reports whether the block has no id after from until limit.
func (b *writtenBlock) outside(d direction, from, limit trace.ID) bool {
	if d == newestFirst {
		return compareIDs(b.first, from) >= 0 || compareIDs(b.last, limit) < 0
	}
	return compareIDs(b.last, from) <= 0 || compareIDs(b.first, limit) > 0
}

// postedBlocks are the blocks of a file, and what comes after them.
type postedBlocks struct {
	blocks   []writtenBlock
	posted   int64 // seq of the last
	unposted func() ([]trace.ID, error)
}

// postingSource is where the ids of traces come from that may be selected by a
// filter: all that are, and some others.
type postingSource struct {
	wanted
	all      *postedBlocks // nil: unposted are all
	kind     trace.Kind    // 0: all
	unposted []trace.ID
	tail     bool    // unposted is read
	reports  *source // reports on traces that belong to the source too, which are read newest first; nil: none do
}

// postingSources returns sources of which each has every trace that the filter
// selects. Postings are none if too many traces are not posted yet.
func postingSources(ctx context.Context, on querier, f *trace.Filter, where clauses) (sources []*postingSource, err error) {
	if !f.Decision.IsZero() {
		ids, err := readTracesOf(ctx, on, f.Decision)
		return []*postingSource{{kind: f.Kind, unposted: ids, tail: true}}, err
	}
	scored, err := scoredSource(ctx, on, f)
	if err != nil {
		return nil, err
	}
	if scored != nil {
		sources = append(sources, scored)
	}
	all, err := readBlocks(ctx, on, where)
	if err != nil || all == nil {
		return sources, err
	}
	by, err := wantedBy(f)
	if err != nil {
		return nil, err
	}
	for _, name := range namedBy(f) {
		own := wanted{names: by.names, members: slices.Clone(by.members), odd: by.odd}
		value, err := name.match()
		if err == nil {
			err = own.addMembers(f.Workspace, []trace.MetadataMatch{value})
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, &postingSource{wanted: own, all: all, kind: f.Kind, reports: new(name.reports())})
	}
	return append(sources, &postingSource{wanted: by, all: all, kind: f.Kind}), nil
}

// readBlocks reads which blocks there are, nil where too much comes after them.
func readBlocks(ctx context.Context, on querier, where clauses) (*postedBlocks, error) {
	// What is posted after this was read is found in both places.
	var all postedBlocks
	var greatest int64
	err := on.QueryRowContext(ctx, `
SELECT traces, (SELECT coalesce(max(seq), 0) FROM traces) FROM cursors
WHERE sink = ? AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'posting_blocks')`, postingsCursor).
		Scan(&all.posted, &greatest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // the file of an earlier version, which is only read
	}
	if err != nil || greatest-all.posted > maxUnposted {
		return nil, err
	}
	all.blocks, err = collect(ctx, on, func(scan func(...any) error) (b writtenBlock, err error) {
		var first, last sql.RawBytes
		err = scan(&b.number, &first, &last, &b.torn, &b.odd)
		copy(b.first[:], first)
		copy(b.last[:], last)
		return b, err
	}, "SELECT block, first, last, torn, odd FROM posting_blocks WHERE block <= ?", all.posted/blockRows)
	var tail []trace.ID
	read := false
	all.unposted = func() (_ []trace.ID, err error) {
		if !read {
			tail, err = collect(ctx, on, scanID, "SELECT id FROM traces NOT INDEXED WHERE seq > ? AND "+where.and(),
				slices.Concat([]any{all.posted}, where.args)...)
			read = err == nil
		}
		return tail, err
	}
	return &all, err
}

// postedWindow is a part of a source: its ids after from until end, in the order of
// the direction. With more false there are none after those. With dense there are so
// many that they were not read.
type postedWindow struct {
	ids         []trace.ID
	end         trace.ID
	more, dense bool
}

// window reads about the next count ids after from. They are all that there are until
// the end.
func (p *postingSource) window(ctx context.Context, on querier, d direction, from, limit trace.ID, count int) (w postedWindow, err error) {
	w, err = p.postedWindow(ctx, on, d, from, limit, count)
	if err != nil || p.reports == nil || w.dense {
		return w, err
	}
	reported, reportedEnd, moreReported, err := p.reportedWindow(ctx, on, from, limit, count)
	if err != nil {
		return w, err
	}
	if moreReported && (!w.more || compareIDs(reportedEnd, w.end) > 0) {
		w.end, w.more = reportedEnd, true
	}
	w.ids = d.sort(append(w.ids, reported...))
	w.ids = w.ids[:d.known(w.ids, d.next(w.end))]
	return w, nil
}

// reportedWindow reads the ids of the traces on which there are reports, and of
// those on whose decision there are, newest first. A decision and its traces are of
// the same millisecond, so a window ends with a whole one: no report is apart from a
// trace.
func (p *postingSource) reportedWindow(ctx context.Context, on querier, from, limit trace.ID, count int) (ids []trace.ID, end trace.ID, more bool, err error) {
	to := from // after the decisions of the traces before from
	if first := trace.FirstID(from.Time()); first != from {
		to = trace.FirstID(from.Time().Add(time.Millisecond))
		if compareIDs(to, from) < 0 {
			to = lastID
		}
	}
	if end, more, err = p.reports.window(ctx, on, newestFirst, to, limit, count); err != nil {
		return nil, end, false, err
	}
	if more {
		end = trace.FirstID(end.Time())
	}
	reported, err := collect(ctx, on, scanID, fmt.Sprintf("SELECT DISTINCT trace_id FROM metrics INDEXED BY %s WHERE %s AND trace_id >= ? AND trace_id < ?",
		p.reports.index, p.reports.and()), slices.Concat(p.reports.args, []any{end[:], to[:]})...)
	if err != nil {
		return nil, end, false, err
	}
	for _, id := range reported {
		if !isDecision(id) {
			ids = p.take(ids, newestFirst, id, from, end)
			continue
		}
		decided, err := readTracesOf(ctx, on, id)
		if err != nil {
			return nil, end, false, err
		}
		for _, id := range decided {
			ids = p.take(ids, newestFirst, id, from, end)
		}
	}
	return ids, end, more, nil
}

// postedWindow reads the next ids after from that are posted, or of traces that are
// not posted yet.
//
// Blocks overlap, by calls that took long. So they are read in the order of the ends
// that come first, and of what was read, the ids before the next block are all there
// are. Newest first, with a as the end of the first window of 2 ids:
//
//	block 2      [ x   a  x x ]
//	block 1  [ x     x  ]
//	                 ^ the last of block 1
func (p *postingSource) postedWindow(ctx context.Context, on querier, d direction, from, limit trace.ID, count int) (w postedWindow, err error) {
	if p.all == nil {
		w.end = limit
		return w, p.takeTail(&w, d, from, limit)
	}
	pieces, err := on.PrepareContext(ctx, selectPiece)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, pieces.Close()) }()
	blocks := slices.DeleteFunc(slices.Clone(p.all.blocks), func(b writtenBlock) bool { return b.outside(d, from, limit) })
	slices.SortFunc(blocks, func(a, b writtenBlock) int { return d.compare(a.near(d), b.near(d)) })
	tail := false
	for i := range blocks {
		b := &blocks[i]
		known := 0
		if i > 0 {
			w.ids = d.sort(w.ids)
			known = d.known(w.ids, b.near(d))
		}
		if known >= count || i == windowBlocks {
			return w.cut(d, from, known, count, b), nil
		}
		rows, n, err := p.candidates(ctx, pieces, b)
		if err != nil {
			return w, err
		}
		if n >= denseRows {
			if w.dense = i == 0; w.dense {
				return w, nil
			}
			return w.cut(d, from, known, count, b), nil
		}
		if !tail { // the newest traces are of no block
			tail = true
			if err := p.takeTail(&w, d, from, limit); err != nil {
				return w, err
			}
		}
		if n == 0 {
			continue
		}
		ids, err := idsOf(ctx, on, b.number, rows, n)
		if err != nil {
			return w, err
		}
		for _, id := range ids {
			w.ids = p.take(w.ids, d, id, from, limit)
		}
	}
	if !tail {
		if err := p.takeTail(&w, d, from, limit); err != nil {
			return w, err
		}
	}
	w.ids, w.end = d.sort(w.ids), limit
	if len(w.ids) > count {
		w.ids, w.end, w.more = w.ids[:count], w.ids[count-1], true
	}
	return w, nil
}

// cut ends the window before a block, or after count ids. Of what was read, known ids
// are before the block. A window that would end where it began is dense.
func (w postedWindow) cut(d direction, from trace.ID, known, count int, next *writtenBlock) postedWindow {
	w.ids, w.end, w.more = w.ids[:known], d.previous(next.near(d)), true
	w.dense = d.compare(w.end, from) <= 0
	if known > count {
		w.ids, w.end = w.ids[:count], w.ids[count-1]
	}
	return w
}

// takeTail adds the traces that are of no block.
func (p *postingSource) takeTail(w *postedWindow, d direction, from, limit trace.ID) (err error) {
	if !p.tail {
		if p.unposted, err = p.all.unposted(); err != nil {
			return err
		}
		p.tail = true
	}
	for _, id := range p.unposted {
		w.ids = p.take(w.ids, d, id, from, limit)
	}
	w.ids = d.sort(w.ids)
	return nil
}

// candidates reads the rows of a block that may be wanted, and counts them.
func (w *wanted) candidates(ctx context.Context, pieces *sql.Stmt, b *writtenBlock) (rows rowSet, n int, err error) {
	for i := range rows {
		rows[i] = ^uint64(0)
	}
	for i := range len(w.members) + len(w.names) {
		var some rowSet
		var terms []term
		switch { // members first: mostly, fewer traces have them
		case i < len(w.members):
			if terms = w.members[i]; b.odd {
				terms = append(slices.Clone(terms), w.odd)
			}
		case b.torn:
			continue
		default:
			terms = w.names[i-len(w.members):][:1]
		}
		for _, t := range terms {
			if err := readPiece(ctx, pieces, &some, b.number, t); err != nil {
				return rows, 0, err
			}
		}
		n = 0
		for i := range rows {
			rows[i] &= some[i]
			n += bits.OnesCount64(rows[i])
		}
		if n == 0 {
			return rows, 0, nil
		}
	}
	if b.torn && len(w.members) == 0 {
		n = blockRows
	}
	return rows, n, nil
}

func readPiece(ctx context.Context, pieces *sql.Stmt, into *rowSet, block int64, t term) (err error) {
	rows, err := pieces.QueryContext(ctx, placeOf(t.bucket(), block))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var piece sql.RawBytes
	if rows.Next() {
		if err := rows.Scan(&piece); err != nil {
			return err
		}
		into.mark(piece, t.rest())
	}
	return rows.Err()
}

// idsOf reads the ids of rows of a block. Some may be gone.
func idsOf(ctx context.Context, on querier, block int64, rows rowSet, n int) ([]trace.ID, error) {
	return collect(ctx, on, scanID, selectIDs, seqsOf(block, rows, n))
}

// seqsOf is a JSON array of the seqs of rows of a block.
func seqsOf(block int64, rows rowSet, n int) string {
	list := make([]byte, 1, 16*n+2)
	list[0] = '['
	for row := range uint16(blockRows) {
		if !rows.has(row) {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, block*blockRows+int64(row), 10)
	}
	return string(append(list, ']'))
}

// take appends an id that is in the window, and of the kind that is asked for.
func (p *postingSource) take(ids []trace.ID, d direction, id, from, limit trace.ID) []trace.ID {
	if d.compare(id, from) <= 0 || d.compare(id, limit) > 0 || p.kind != 0 && id.Kind() != p.kind {
		return ids
	}
	return append(ids, id)
}

// readPosted returns the query of the columns of the traces of ids that meet the
// conditions, and its arguments.
func readPosted(columns string, d direction, ids []trace.ID, where clauses, limit int) (string, []any) {
	packed := pack(nil, ids)
	query := fmt.Sprintf(`
SELECT %s FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id IN (
	WITH RECURSIVE place (at) AS (VALUES (1) UNION ALL SELECT at + 16 FROM place WHERE at + 16 < ?2)
	SELECT substr(?1, at, 16) FROM place
) AND %s ORDER BY id %s LIMIT ?`, columns, where.and(), d.order)
	return query, slices.Concat([]any{packed, len(packed)}, where.args, []any{limit})
}

func pack(into []byte, ids []trace.ID) []byte {
	for i := range ids {
		into = append(into, ids[i][:]...)
	}
	return into
}
