package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxPage is the most traces of a page.
	MaxPage = 1000

	// The least and the most traces that are looked at between two looks at the clock.
	minWindow = 128
	maxWindow = 16384
)

// lastID is after every id.
var lastID = trace.ID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// Page is a part of a list.
type Page struct {
	// Records are the traces without their content: Context, Variables,
	// Messages, Response and ToolCalls are not read.
	Records []*trace.Record

	// Scores has the last score that was reported on each trace that has one.
	Scores map[trace.ID]float64

	// Next is the id before which the next page begins; zero: there is none.
	Next trace.ID

	// Complete is false if the time was over before the page was full or the end reached.
	// The next page has the traces that were not looked at.
	Complete bool
}

// Traces lists traces, newest first, from before on; a zero id is the newest.
// The page is bounded by limit and some megabytes, and by the time that budget allows: a
// filter may match few traces and have no index.
func (r *Reader) Traces(ctx context.Context, f trace.Filter, before trace.ID, limit int, budget time.Duration) (Page, error) {
	return r.list(ctx, f, clauses{}, before, min(max(limit, 1), MaxPage), budget)
}

// list lists the traces of a filter that meet one more condition, if there is one.
func (r *Reader) list(ctx context.Context, f trace.Filter, more clauses, before trace.ID, limit int, budget time.Duration) (_ Page, err error) {
	if err := f.Validate(); err != nil {
		return Page{}, err
	}
	where, err := conditions(&f)
	if err != nil {
		return Page{}, err
	}
	where.add(more.and(), more.args...)
	cursor, floor := bounds(&f, before)
	// One transaction: the end of a call that is stored meanwhile moves its row.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Page{}, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()

	began := time.Now()
	sources := listSources{index: sourceOf(&f), order: newestFirst}
	page := Page{Scores: make(map[trace.ID]float64)}
	remaining := answerBytes
	for count, seen := max(limit, minWindow), 0; ; {
		// Many lists are full after the first traces, and need nothing else.
		if seen > 0 || r.termsFirst || !f.Decision.IsZero() {
			if err := sources.find(ctx, tx, &f); err != nil {
				return Page{}, err
			}
		}
		next, err := sources.furthest(ctx, tx, cursor, floor, count)
		if err != nil {
			return Page{}, err
		}
		if err := next.read(ctx, tx, where, limit-len(page.Records), &remaining, &page); err != nil {
			return Page{}, err
		}
		cursor, seen = next.end, seen+count
		if n := len(page.Records); n == limit || remaining <= 0 {
			page.Next, page.Complete = page.Records[n-1].ID, true
			return page, nil
		}
		if !next.more {
			page.Complete = true
			return page, nil
		}
		elapsed := time.Since(began)
		if elapsed >= budget {
			page.Next = next.end
			return page, nil
		}
		if next.index != nil || len(next.ids) >= count { // otherwise it has few traces, however large it is
			count = nextWindow(count, seen, elapsed, budget)
		}
	}
}

// listSources are the sources from which a list or an export may be read. Each has all
// traces that the filter selects, and others.
type listSources struct {
	order direction
	index source
	found []*idSource

	// scans is how many windows are scanned without a look at found, after one where the
	// scan was quicker; left are those of them that remain.
	scans, left int
}

// find adds the sources of ids.
func (l *listSources) find(ctx context.Context, db querier, f *trace.Filter) (err error) {
	if l.found == nil {
		l.found, err = idSources(ctx, db, f)
	}
	return err
}

// listWindow is a part of a source: its traces after cursor, up to end. If more is false,
// there are none after end.
type listWindow struct {
	order       direction
	cursor, end trace.ID
	more        bool
	index       *source    // either this
	ids         []trace.ID // or the traces themselves
}

// furthest returns the window that goes furthest, of the next count traces after cursor of
// each source: that source has the fewest traces there. Another source may have the next
// window. If a window has few traces, furthest takes it at once: reading them costs less
// than looking at another source.
func (l *listSources) furthest(ctx context.Context, db querier, cursor, limit trace.ID, count int) (best listWindow, err error) {
	if l.left > 0 {
		l.left--
		return l.indexed(ctx, db, cursor, limit, count)
	}
	found := false
	if l.index.narrows() {
		if best, err = l.indexed(ctx, db, cursor, limit, count); err != nil || !best.more {
			return best, err
		}
		found = true
	}
	for _, p := range l.found {
		w, err := p.window(ctx, db, l.order, cursor, limit, count)
		if err != nil {
			return best, err
		}
		if found && w.more && l.order.compare(w.end, best.end) <= 0 {
			continue
		}
		found, best = true, listWindow{order: l.order, cursor: cursor, end: w.end, more: w.more, ids: w.ids}
		if !w.more || len(w.ids) < minWindow {
			return best, nil
		}
	}
	if best.index != nil {
		return best, nil
	}
	// If most traces are in the source, a scan of the index is quicker than looking up each
	// of them.
	if found {
		next, more, err := l.index.window(ctx, db, l.order, cursor, limit, denseRows*count)
		if err != nil || more && l.order.compare(best.end, next) > 0 {
			return best, err
		}
		l.left = l.scans
	}
	return l.indexed(ctx, db, cursor, limit, count)
}

// denseRows is how many traces a scan reads in the time of one look-up.
const denseRows = 4

func (l *listSources) indexed(ctx context.Context, db querier, cursor, limit trace.ID, count int) (w listWindow, err error) {
	w = listWindow{order: l.order, cursor: cursor, index: &l.index}
	w.end, w.more, err = l.index.window(ctx, db, l.order, cursor, limit, count)
	return w, err
}

// goOn drops the traces up to cursor.
func (w *listWindow) goOn(cursor trace.ID) {
	w.cursor = cursor
	w.ids = slices.DeleteFunc(w.ids, func(id trace.ID) bool { return w.order.compare(id, cursor) <= 0 })
}

// query returns the query, and its arguments, for columns of the window's traces that meet
// the conditions. It is empty if the window has no traces.
func (w *listWindow) query(columns string, where clauses, limit int) (string, []any) {
	switch {
	case w.index != nil:
		return w.index.read(columns, w.order, w.cursor, w.end, where, limit)
	case len(w.ids) == 0:
		return "", nil
	}
	return readIDs(columns, w.order, w.ids, where, limit)
}

// read adds the traces of the window that meet the conditions to a page, without
// their content.
func (w *listWindow) read(ctx context.Context, db querier, where clauses, limit int, remaining *int, page *Page) error {
	query, args := w.query(lastReport("score")+", "+shortList, where, limit)
	if query == "" {
		return nil
	}
	return page.add(ctx, db, remaining, query, args...)
}

// add adds the traces that a query selects, whose columns are the score and shortList,
// until no bytes remain.
func (page *Page) add(ctx context.Context, db querier, remaining *int, query string, args ...any) error {
	short := shortWithin(remaining)
	found, err := collect(ctx, db, func(row func(...any) error) (*trace.Record, error) {
		var score sql.NullFloat64
		record, err := short(row, &score)
		if score.Valid {
			page.Scores[record.ID] = score.Float64
		}
		return record, err
	}, query, args...)
	page.Records = append(page.Records, found...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// nextWindow doubles the window, unless that takes more than half of the time left.
func nextWindow(count, seen int, elapsed, budget time.Duration) int {
	perTrace := max(elapsed/time.Duration(seen), 1)
	return max(min(2*count, maxWindow, int((budget-elapsed)/2/perTrace)), minWindow)
}

// bounds returns the ids that a list, newest first, begins after and ends with.
func bounds(f *trace.Filter, before trace.ID) (cursor, floor trace.ID) {
	cursor = lastID
	if !before.IsZero() {
		cursor = before
	}
	if !f.Until.IsZero() {
		if until := trace.FirstID(f.Until); bytes.Compare(cursor[:], until[:]) > 0 {
			cursor = until
		}
	}
	if !f.Since.IsZero() {
		floor = trace.FirstID(f.Since)
	}
	return cursor, floor
}

func scanWhole(scan func(...any) error) (*trace.Record, error) { return scanRecord(scan, true) }
