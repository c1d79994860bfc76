package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// A call that is under way is not in the store. What shows traces adds it: it looks
// at the calls first and into the store afterwards, so that a call whose end is
// stored meanwhile is in both, and in neither never. The store's trace is shown.

// runningCall is the record of a call that is under way, without content, and the
// mark of its begin.
type runningCall struct {
	*trace.Record
	begun int64
}

// running returns the calls of the workspace that are under way, in the order of
// their ids: those that began after one mark and not after another.
func (w *Workspace) running(after, until int64) (calls []runningCall) {
	w.Calls(func(record *trace.Record, begun int64) bool {
		if record.Workspace == w.Name && begun > after && begun <= until {
			calls = append(calls, runningCall{record, begun})
		}
		return true
	})
	slices.SortFunc(calls, func(a, b runningCall) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return calls
}

// selected returns the calls that a filter selects.
func (w *Workspace) selected(ctx context.Context, reader *sqlite.Reader, f *trace.Filter, calls []runningCall) (selected []runningCall, err error) {
	for _, call := range calls {
		is, err := reader.Selects(ctx, f, call.Record)
		if err != nil {
			return nil, w.unreadable(err)
		}
		if is {
			selected = append(selected, call)
		}
	}
	return selected, nil
}

// addRunning adds the calls that belong to a page of at most limit traces before an
// id: those whose ids are among its own.
func addRunning(page *sqlite.Page, calls []runningCall, before trace.ID, limit int) {
	for _, call := range calls {
		id := call.ID[:]
		if (before.IsZero() || bytes.Compare(id, before[:]) < 0) && (page.Next.IsZero() || bytes.Compare(id, page.Next[:]) >= 0) {
			page.Records = append(page.Records, call.Record)
		}
	}
	// The sort is stable: of two with one id the store's comes first.
	slices.SortStableFunc(page.Records, func(a, b *trace.Record) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	page.Records = slices.CompactFunc(page.Records, func(a, b *trace.Record) bool { return a.ID == b.ID })
	if len(page.Records) > limit {
		page.Records = page.Records[:limit]
		page.Next, page.Complete = page.Records[limit-1].ID, true
	}
}

// A point to follow from has how far the store's rows are known and, in its last
// markBits bits, the end of the mark until which calls are known. Marks are time,
// of which these bits hold half an hour: who is away for longer may miss the begin
// of a call, and not its end. A smaller number is of rows alone.
const (
	markBits = 24
	markMask = 1<<markBits - 1
)

func followPoint(seq, mark int64) int64 { return (seq+1)<<markBits | mark&markMask }

// splitPoint is the inverse of followPoint. now is a mark of the present.
func splitPoint(point, now int64) (seq, mark int64) {
	if point <= markMask {
		return point, 0
	}
	return point>>markBits - 1, now - (now-point)&markMask
}

// begun returns the calls that a filter selects in the order of their begins, at
// most as many as one look reads, and the mark until which these are all.
func (q *traceQuery) begun(ctx context.Context, reader *sqlite.Reader, after int64) (calls []runningCall, mark int64, err error) {
	mark = q.workspace.Mark()
	calls = q.workspace.running(after, mark)
	if len(calls) == 0 && mark-after <= markMask/2 {
		return nil, after, nil // the point of a caller that has all stays
	}
	slices.SortFunc(calls, func(a, b runningCall) int { return cmp.Compare(a.begun, b.begun) })
	if len(calls) > maxFollowed {
		calls = calls[:maxFollowed]
		mark = calls[maxFollowed-1].begun
	}
	calls, err = q.workspace.selected(ctx, reader, &q.filter, calls)
	return calls, mark, err
}

// exportRunning exports with the calls that are under way: each at its place, and
// with what was reported on it.
func (w *Workspace) exportRunning(ctx context.Context, reader *sqlite.Reader, f trace.Filter, yield func(*trace.Record, []trace.Metrics) error) error {
	calls, err := w.selected(ctx, reader, &f, w.running(0, w.Mark()))
	if err != nil {
		return err
	}
	// until yields the calls before an id, and passes over the one with the id.
	until := func(id []byte) error {
		for len(calls) > 0 && (id == nil || bytes.Compare(calls[0].ID[:], id) < 0) {
			details, err := w.exported(ctx, reader, &f, calls[0].ID)
			calls = calls[1:]
			if err == nil && details != nil {
				err = yield(details.Record, details.Metrics)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	err = reader.Export(ctx, f, func(record *trace.Record, metrics []trace.Metrics) error {
		id := metricsID(record, metrics)
		if err := until(id); err != nil {
			return err
		}
		if len(calls) > 0 && bytes.Equal(id, calls[0].ID[:]) {
			if record == nil {
				return nil // reports on a call, which come with it
			}
			calls = calls[1:]
		}
		return yield(record, metrics)
	})
	if err != nil {
		return err
	}
	return until(nil)
}

// exported returns a call, with what was reported on it. One that has ended since is
// read from the store, where the export has passed its place; nil where the filter
// does not select it any more.
func (w *Workspace) exported(ctx context.Context, reader *sqlite.Reader, f *trace.Filter, id trace.ID) (*sqlite.Details, error) {
	if call := w.Call(id); call != nil {
		return reader.Around(ctx, call)
	}
	ended, err := reader.Get(ctx, w.Name, id)
	if errors.Is(err, sqlite.ErrNotFound) || err == nil && ended.Record == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if is, err := reader.Selects(ctx, f, ended.Record); err != nil || !is {
		return nil, err
	}
	return ended, nil
}

// metricsID returns the id that a line of an export is at.
func metricsID(record *trace.Record, metrics []trace.Metrics) []byte {
	if record != nil {
		return record.ID[:]
	}
	id := metrics[0].TraceID
	if id.IsZero() {
		id = metrics[0].Decision
	}
	return id[:]
}
