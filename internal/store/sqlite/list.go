package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxPage is how many traces a page has at most.
	MaxPage = 1000

	// What is looked at before the clock is, in traces.
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

	// Scores has the scores of those on which one was reported: the last each.
	Scores map[trace.ID]float64

	// Next is what the next page comes before; zero: there is none.
	Next trace.ID

	// Complete is false where the time was over before the page was full, or
	// the end reached. What was not looked at comes with the next page.
	Complete bool
}

// Traces lists traces, newest first, from before on; a zero id is the newest.
// The page is bounded by limit, by some megabytes and, for a filter that matches
// few traces and that no index serves, by the time that budget allows for looking.
func (r *Reader) Traces(ctx context.Context, f trace.Filter, before trace.ID, limit int, budget time.Duration) (_ Page, err error) {
	if err := f.Validate(); err != nil {
		return Page{}, err
	}
	where, err := conditions(&f)
	if err != nil {
		return Page{}, err
	}
	limit = min(max(limit, 1), MaxPage)
	from, floor := bounds(&f, before)
	// One transaction: a call that ends meanwhile is written again, elsewhere.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Page{}, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()

	began := time.Now()
	sources := listSources{index: sourceOf(&f), order: newestFirst}
	page := Page{Scores: make(map[trace.ID]float64)}
	room := answerBytes
	for count, seen := max(limit, minWindow), 0; ; {
		// Many lists are full after the first traces, and need nothing else.
		if seen > 0 || r.postedFirst || !f.Decision.IsZero() {
			if err := sources.post(ctx, tx, &f, where); err != nil {
				return Page{}, err
			}
		}
		next, err := sources.furthest(ctx, tx, from, floor, count)
		if err != nil {
			return Page{}, err
		}
		if err := next.read(ctx, tx, where, limit-len(page.Records), &room, &page); err != nil {
			return Page{}, err
		}
		from, seen = next.end, seen+count
		if n := len(page.Records); n == limit || room <= 0 {
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
		count = nextWindow(count, seen, elapsed, budget)
	}
}

// listSources are the sources that a list, or an export, may be read from. Each has
// all traces that the filter selects, and others.
type listSources struct {
	order  direction
	index  source
	posted []*postingSource
	asked  bool // for posted
}

// post adds what postings know of the filter.
func (l *listSources) post(ctx context.Context, on querier, f *trace.Filter, where clauses) (err error) {
	if l.asked {
		return nil
	}
	l.asked = true
	l.posted, err = postingSources(ctx, on, f, where)
	return err
}

// listWindow is a part of a source: its traces after from until end. With more
// false there are none after those.
type listWindow struct {
	order     direction
	from, end trace.ID
	more      bool
	index     *source    // either this
	posted    []trace.ID // or the traces themselves
}

// furthest returns the window of the next count traces after from of the source
// whose window goes furthest: it has the fewest traces there. Another source may have
// the next window.
func (l *listSources) furthest(ctx context.Context, on querier, from, limit trace.ID, count int) (best listWindow, err error) {
	some := false
	if l.index.some() {
		if best, err = l.indexed(ctx, on, from, limit, count); err != nil || !best.more {
			return best, err
		}
		some = true
	}
	for _, p := range l.posted {
		w, err := p.window(ctx, on, l.order, from, limit, count)
		if err != nil {
			return best, err
		}
		if w.dense || some && w.more && l.order.compare(w.end, best.end) <= 0 {
			continue
		}
		some, best = true, listWindow{order: l.order, from: from, end: w.end, more: w.more, posted: w.ids}
		if !w.more {
			return best, nil
		}
	}
	if !some {
		return l.indexed(ctx, on, from, limit, count)
	}
	return best, nil
}

func (l *listSources) indexed(ctx context.Context, on querier, from, limit trace.ID, count int) (w listWindow, err error) {
	w = listWindow{order: l.order, from: from, index: &l.index}
	w.end, w.more, err = l.index.window(ctx, on, l.order, from, limit, count)
	return w, err
}

// query returns the query of the columns of the traces of the window that meet the
// conditions, and its arguments. It is empty if there are none.
func (w *listWindow) query(columns string, where clauses, limit int) (string, []any) {
	switch {
	case w.index != nil:
		return w.index.read(columns, w.order, w.from, w.end, where, limit)
	case len(w.posted) == 0:
		return "", nil
	}
	return readPosted(columns, w.order, w.posted, where, limit)
}

// read adds the traces of the window that meet the conditions to a page, without
// their content.
func (w *listWindow) read(ctx context.Context, on querier, where clauses, limit int, room *int, page *Page) error {
	query, args := w.query(lastReport("score")+", "+shortList, where, limit)
	if query == "" {
		return nil
	}
	short := shortWithin(room)
	found, err := collect(ctx, on, func(row func(...any) error) (*trace.Record, error) {
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

// nextWindow doubles the window while it stays small beside the time left.
func nextWindow(count, seen int, elapsed, budget time.Duration) int {
	perTrace := max(elapsed/time.Duration(seen), 1)
	return max(min(2*count, maxWindow, int((budget-elapsed)/2/perTrace)), minWindow)
}

// bounds are the ids that a list, newest first, begins after and ends with.
func bounds(f *trace.Filter, before trace.ID) (from, floor trace.ID) {
	from = lastID
	if !before.IsZero() {
		from = before
	}
	if !f.Until.IsZero() {
		if until := trace.FirstID(f.Until); bytes.Compare(from[:], until[:]) > 0 {
			from = until
		}
	}
	if !f.Since.IsZero() {
		floor = trace.FirstID(f.Since)
	}
	return from, floor
}

func scanWhole(scan func(...any) error) (*trace.Record, error) { return scanRecord(scan, true) }
