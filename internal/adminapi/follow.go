package adminapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxWait is the longest wait of a request with follow.
	MaxWait = time.Minute

	// maxFollowed bounds the rows of one look.
	maxFollowed = 1000

	// lookPause is the pause between two looks. A busy gateway commits more often.
	lookPause = 200 * time.Millisecond

	// writeGrace is the time for a request to write after its wait.
	writeGrace = 10 * time.Second
)

// follow answers with the traces written after the number in ?follow. With ?wait it
// writes a line whenever there are new traces, until the wait is over. It looks into
// the store only after commits.
func (q *traceQuery) follow(w http.ResponseWriter, r *http.Request) error {
	if q.values.Has("limit") || q.values.Has("before") {
		return apiError(http.StatusBadRequest, "follow can't be combined with limit or before")
	}
	if q.filter.Score != nil || q.filter.Label != "" || q.values.Has("sort") {
		return apiError(http.StatusBadRequest, "follow can't be combined with score, label or sort: a score and a label come after their trace was written")
	}
	after, err := strconv.ParseInt(q.values.Get("follow"), 10, 64)
	if err != nil || after < 0 {
		return apiError(http.StatusBadRequest, "follow must be the number in follow of an earlier answer, this is %q", q.values.Get("follow"))
	}
	var wait time.Duration
	if text := q.values.Get("wait"); text != "" {
		if wait, err = caddy.ParseDuration(text); err != nil || wait < 0 || wait > MaxWait {
			return apiError(http.StatusBadRequest, "wait must be a duration up to %v, such as 25s, this is %q", MaxWait, text)
		}
	}
	committed := q.workspace.Store.Committed()
	seq, mark := splitPoint(after, q.workspace.Mark())
	at := followed{seq, mark}
	records, next, err := q.look(r.Context(), at)
	if err != nil {
		return err
	}
	if wait == 0 {
		return writeText(w, q.appendFollowed(records, next))
	}
	control := http.NewResponseController(w)
	over := time.Now().Add(wait)
	_ = control.SetWriteDeadline(over.Add(writeGrace)) // without it, a caller that reads nothing holds its connection
	w.Header().Set("Content-Type", wire.LinesType)
	ctx, cancel := context.WithDeadline(r.Context(), over)
	defer cancel()
	for sent := int64(-1); ; {
		if sent < 0 || len(records) > 0 {
			if !q.send(w, control, records, next) {
				return nil
			}
			sent = next.seq
		}
		if next.seq != at.seq || len(records) >= maxFollowed {
			committed = nil // there may be more traces than one look reads
		}
		if !q.awaitCommit(ctx, committed) {
			if sent != next.seq {
				q.send(w, control, nil, next)
			}
			return nil
		}
		at = next
		committed = q.workspace.Store.Committed()
		if records, next, err = q.look(ctx, at); err != nil {
			return nil // the next request is answered with the error
		}
	}
}

// awaitCommit waits for a commit, and at least for a pause. A nil channel stands for a
// commit that has happened. It reports whether both came before the wait was over, the
// caller left or Caddy began to stop the configuration.
func (q *traceQuery) awaitCommit(ctx context.Context, committed <-chan struct{}) bool {
	pause := time.NewTimer(lookPause)
	defer pause.Stop()
	for paused := false; !paused || committed != nil; {
		var over <-chan time.Time
		if !paused {
			over = pause.C
		}
		select {
		case <-over:
			paused = true
		case <-committed:
			committed = nil
		case <-ctx.Done():
			return false
		case <-q.workspace.Stopping:
			return false
		}
	}
	return true
}

// followed is the progress of a follower: the number of the last row of the store,
// and the mark of the last call that began.
type followed struct{ seq, mark int64 }

// look reads the traces that were written after a row, and the calls that began after a
// mark. It opens the store each time, because its file may be replaced.
func (q *traceQuery) look(ctx context.Context, after followed) (records []*trace.Record, next followed, err error) {
	reader, err := q.workspace.openTraces(ctx)
	if err != nil {
		return nil, after, err
	}
	defer reader.Close()
	calls, mark, err := q.begun(ctx, reader, after.mark)
	if err != nil {
		return nil, after, err
	}
	written, last, err := reader.Follow(ctx, q.filter, after.seq, maxFollowed)
	if err != nil {
		return nil, after, q.workspace.unreadable(err)
	}
	for _, call := range calls {
		if !slices.ContainsFunc(written, func(r *trace.Record) bool { return r.ID == call.ID }) {
			records = append(records, call.Record)
		}
	}
	return append(records, written...), followed{last, mark}, nil
}

// send writes a line of an answer that waits. It reports whether the caller can still
// read it.
func (q *traceQuery) send(w http.ResponseWriter, control *http.ResponseController, records []*trace.Record, next followed) bool {
	_, err := w.Write(q.appendFollowed(records, next))
	return err == nil && control.Flush() == nil
}

func (q *traceQuery) appendFollowed(records []*trace.Record, next followed) []byte {
	out := appendTraces([]byte(`{"traces":`), records, nil)
	out = strconv.AppendInt(append(out, `,"follow":`...), followPoint(next.seq, next.mark), 10)
	return append(q.workspace.appendWaiting(out), "}\n"...)
}
