package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// LeastLatency is the time from which a trace is in the list of the slowest: evaluations
// take less, and need no index.
const LeastLatency = 10 * time.Millisecond

// highestWindow is how many entries of an index are looked at between two looks at the
// clock.
const highestWindow = 4096

// fewEnough bounds the traces that a list of the highest reads to sort them itself.
const fewEnough = MaxPage

// Highest is a value that the list of the traces with the highest is sorted by.
type Highest struct {
	column, index string
	least         clauses // the condition of the index, to the letter
	value         func(*trace.Record) float64
}

// The values that traces are sorted by: what they cost in US dollars, and how long they
// took in microseconds.
var (
	ByCost = &Highest{"cost", "traces_cost", clauses{text: []string{"cost > 0"}}, func(r *trace.Record) float64 { return r.Cost }}

	ByLatency = &Highest{"latency_us", "traces_latency", clauses{text: []string{"latency_us >= 10000"}}, func(r *trace.Record) float64 { return float64(r.Latency.Microseconds()) }}
)

// after reports whether the trace with a value is after the place.
func (p *Place) after(value float64, id trace.ID) bool {
	return value < p.Value || value == p.Value && compareIDs(id, p.ID) < 0
}

// Highest lists the traces with the highest values after a place, of one value the newest
// first; nil is the beginning. It leaves out traces without the value, and those that took
// less than LeastLatency. The page is bounded as that of [Reader.Traces]. next is the place
// where the next page begins; nil: there is none.
func (r *Reader) Highest(ctx context.Context, f trace.Filter, by *Highest, after *Place, limit int, budget time.Duration) (page Page, next *Place, err error) {
	began := time.Now()
	limit = min(max(limit, 1), MaxPage)
	// If few traces pass the filter, the list has them soon. Those of one value may be
	// anywhere in the index of values.
	all, err := r.list(ctx, f, by.least, trace.ID{}, fewEnough+1, budget/3)
	if err != nil {
		return Page{}, nil, err
	}
	if all.Complete && all.Next.IsZero() {
		page, next = by.gathered(&all, after, limit)
		return page, next, nil
	}
	return r.highest(ctx, &f, by, after, limit, began.Add(budget))
}

// gathered sorts a list of all traces, and returns a page of it.
func (h *Highest) gathered(all *Page, after *Place, limit int) (page Page, next *Place) {
	records := all.Records
	if after != nil {
		records = slices.DeleteFunc(records, func(r *trace.Record) bool { return !after.after(h.value(r), r.ID) })
	}
	slices.SortFunc(records, func(a, b *trace.Record) int {
		return cmp.Or(cmp.Compare(h.value(b), h.value(a)), bytes.Compare(b.ID[:], a.ID[:]))
	})
	if len(records) > limit {
		records = records[:limit]
		next = &Place{Value: h.value(records[limit-1]), ID: records[limit-1].ID}
	}
	return Page{Records: records, Scores: all.Scores, Complete: true}, next
}

// highest reads a page by the index of values, until the deadline.
func (r *Reader) highest(ctx context.Context, f *trace.Filter, by *Highest, after *Place, limit int, deadline time.Time) (page Page, next *Place, err error) {
	where, err := conditions(f)
	if err != nil {
		return Page{}, nil, err
	}
	before, floor := bounds(f, trace.ID{})
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Page{}, nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	page.Scores = make(map[trace.ID]float64)
	remaining := answerBytes
	entries := fmt.Sprintf("FROM traces INDEXED BY %[1]s WHERE workspace = ? AND %[2]s AND (%[3]s, id) < (?, ?)", by.index, by.least.and(), by.column)
	ordered := fmt.Sprintf(" ORDER BY %s DESC, id DESC LIMIT ", by.column)
	place := *cmp.Or(after, &Place{Value: aboveAll, ID: lastID})
	for first := true; ; first = false {
		if !first && !time.Now().Before(deadline) {
			return page, &place, nil
		}
		end, more, err := by.window(ctx, tx, "SELECT "+by.column+", id "+entries+ordered+"1 OFFSET ?", f.Workspace, place.Value, place.ID[:], highestWindow-1)
		if err != nil {
			return Page{}, nil, err
		}
		if !more {
			end = Place{}
		}
		query := "SELECT " + lastReport("score") + ", " + shortList + " " + entries + fmt.Sprintf(" AND (%s, id) >= (?, ?) AND id >= ? AND id < ? AND ", by.column) + where.and() + ordered + "?"
		args := slices.Concat([]any{f.Workspace, place.Value, place.ID[:], end.Value, end.ID[:], floor[:], before[:]}, where.args, []any{limit - len(page.Records)})
		if err := page.add(ctx, tx, &remaining, query, args...); err != nil {
			return Page{}, nil, err
		}
		if n := len(page.Records); n == limit || n > 0 && remaining <= 0 {
			last := page.Records[n-1]
			page.Complete = true
			return page, &Place{Value: by.value(last), ID: last.ID}, nil
		}
		if !more {
			page.Complete = true
			return page, nil, nil
		}
		place = end
	}
}

// aboveAll is above every value.
const aboveAll = 1e300

// window returns the last of the next entries of an index. more is false if there are
// fewer.
func (h *Highest) window(ctx context.Context, db querier, query string, args ...any) (end Place, more bool, err error) {
	ends, err := collect(ctx, db, func(scan func(...any) error) (p Place, err error) {
		return p, scan(&p.Value, into{&p.ID})
	}, query, args...)
	return append(ends, Place{})[0], len(ends) > 0, err
}
