package sqlite

import (
	"bytes"
	"context"
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
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return Page{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	began := time.Now()
	sources, err := listSourcesOf(ctx, conn, &f)
	if err != nil {
		return Page{}, err
	}
	var page Page
	room := answerBytes
	for count, seen := max(limit, minWindow), 0; ; {
		next, err := sources.furthest(ctx, conn, from, floor, count)
		if err != nil {
			return Page{}, err
		}
		found, err := next.read(ctx, conn, where, limit-len(page.Records), &room)
		if err != nil && !errors.Is(err, errEnough) {
			return Page{}, err
		}
		page.Records = append(page.Records, found...)
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

// listSources are the sources that a list may be read from. Each has all traces
// that the filter selects, and others.
type listSources struct {
	index  source
	posted []postingSource
}

func listSourcesOf(ctx context.Context, on querier, f *trace.Filter) (l listSources, err error) {
	l.index = sourceOf(f)
	l.posted, err = postingSources(ctx, on, f)
	return l, err
}

// listWindow is a part of a source: its traces after from until end. With more
// false there are none after those.
type listWindow struct {
	from, end trace.ID
	more      bool
	index     *source    // either this
	posted    []trace.ID // or the traces themselves
}

// furthest returns the window of the next count traces after from of the source
// whose window ends furthest back: it has the fewest traces there. Another source
// may have the next window.
func (l *listSources) furthest(ctx context.Context, on querier, from, limit trace.ID, count int) (best listWindow, err error) {
	if l.index.some() || len(l.posted) == 0 {
		best = listWindow{from: from, index: &l.index}
		best.end, best.more, err = l.index.window(ctx, on, newestFirst, from, limit, count)
		if err != nil || !best.more {
			return best, err
		}
	}
	for i := range l.posted {
		ids, end, more, err := l.posted[i].window(ctx, on, from, limit, count)
		if err != nil {
			return best, err
		}
		if i == 0 && best.index == nil || !more || compareIDs(end, best.end) < 0 {
			best = listWindow{from: from, end: end, more: more, posted: ids}
		}
		if !more {
			break
		}
	}
	return best, nil
}

// read reads the traces of the window that meet the conditions.
func (w *listWindow) read(ctx context.Context, on querier, where clauses, limit int, room *int) ([]*trace.Record, error) {
	if w.index == nil && len(w.posted) == 0 {
		return nil, nil
	}
	query, args := readPosted(shortList, newestFirst, w.posted, where, limit)
	if w.index != nil {
		query, args = w.index.read(shortList, newestFirst, w.from, w.end, where, limit)
	}
	scan := shortWithin(room)
	return collect(ctx, on, func(row func(...any) error) (*trace.Record, error) { return scan(row) }, query, args...)
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
