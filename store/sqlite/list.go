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
// The page is bounded by limit and, for a filter that matches few traces and
// that no index serves, by the time that budget allows for looking.
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

	source := sourceOf(&f)
	began := time.Now()
	var page Page
	for count, seen := max(limit, minWindow), 0; ; {
		end, more, err := source.window(ctx, conn, newestFirst, from, floor, count)
		if err != nil {
			return Page{}, err
		}
		query, args := source.read(shortList, newestFirst, from, end, where, limit-len(page.Records))
		found, err := collect(ctx, conn, scanShort, query, args...)
		if err != nil {
			return Page{}, err
		}
		page.Records = append(page.Records, found...)
		from, seen = end, seen+count
		if len(page.Records) == limit {
			page.Next, page.Complete = page.Records[limit-1].ID, true
			return page, nil
		}
		if !more {
			page.Complete = true
			return page, nil
		}
		elapsed := time.Since(began)
		if elapsed >= budget {
			page.Next = end
			return page, nil
		}
		count = nextWindow(count, seen, elapsed, budget)
	}
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

func scanShort(scan func(...any) error) (*trace.Record, error) { return scanRecord(scan, false) }
func scanWhole(scan func(...any) error) (*trace.Record, error) { return scanRecord(scan, true) }
