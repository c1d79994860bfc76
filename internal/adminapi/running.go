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

// A call that is under way is not in the store. Functions that show traces add it. They
// look at the calls first and into the store afterwards. So a call whose end is stored
// in between is in both, and never in neither. They show the store's trace of it.

// runningCall is the record of a call that is under way, without content, and the
// mark of its begin.
type runningCall struct {
	*trace.Record
	begun int64
}

// running returns the calls of the workspace that are under way and began after one mark
// and not after another, in the order of their ids.
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
	records := make([]*trace.Record, len(calls))
	for i, call := range calls {
		records[i] = call.Record
	}
	chosen, err := reader.Select(ctx, f, records...)
	if err != nil {
		return nil, w.unreadable(err)
	}
	for i, call := range calls {
		if chosen[i] {
			selected = append(selected, call)
		}
	}
	return selected, nil
}

// addRunning adds the calls whose ids are in the range of a page, which has at most
// limit traces before an id.
func addRunning(page *sqlite.Page, calls []runningCall, before trace.ID, limit int) {
	for _, call := range calls {
		id := call.ID[:]
		if (before.IsZero() || bytes.Compare(id, before[:]) < 0) && (page.Next.IsZero() || bytes.Compare(id, page.Next[:]) >= 0) {
			page.Records = append(page.Records, call.Record)
		}
	}
	// The sort is stable, so the store's trace comes before the call with the same id.
	slices.SortStableFunc(page.Records, func(a, b *trace.Record) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	page.Records = slices.CompactFunc(page.Records, func(a, b *trace.Record) bool { return a.ID == b.ID })
	if len(page.Records) > limit {
		page.Records = page.Records[:limit]
		page.Next, page.Complete = page.Records[limit-1].ID, true
	}
}

// A point to follow from has the number of the last known row and, in its last markBits
// bits, the end of the mark of the last known call. Marks are times, of which these bits
// hold half an hour. A follower that was away for longer may miss the begin of a call,
// but not its end. A smaller number has a row alone.
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

// begun returns the calls that a filter selects in the order of their begins, at most
// maxFollowed, and the mark up to which it has found all.
func (q *traceQuery) begun(ctx context.Context, reader *sqlite.Reader, after int64) (calls []runningCall, mark int64, err error) {
	mark = q.workspace.Mark()
	calls = q.workspace.running(after, mark)
	if len(calls) == 0 && mark-after <= markMask/2 {
		return nil, after, nil // a caller that has all calls keeps its point
	}
	slices.SortFunc(calls, func(a, b runningCall) int { return cmp.Compare(a.begun, b.begun) })
	if len(calls) > maxFollowed {
		calls = calls[:maxFollowed]
		mark = calls[maxFollowed-1].begun
	}
	calls, err = q.workspace.selected(ctx, reader, &q.filter, calls)
	return calls, mark, err
}

// exportRunning exports traces, with the calls that are under way. Each call is in its
// place, with the metrics that were reported on it.
func (w *Workspace) exportRunning(ctx context.Context, reader *sqlite.Reader, f trace.Filter, yield func(*trace.Record, []trace.Metrics) error) error {
	calls, err := w.selected(ctx, reader, &f, w.running(0, w.Mark()))
	if err != nil {
		return err
	}
	// until yields the calls before an id.
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
				return nil // the metrics come with their call
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

// exported returns a call with the metrics that were reported on it. It reads a call
// that has ended since from the store, where the export has passed its place. It returns
// nil if the filter no longer selects the call.
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
	if chosen, err := reader.Select(ctx, f, ended.Record); err != nil || !chosen[0] {
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
