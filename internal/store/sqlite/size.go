package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// shrinkTime is about how long one step of shrinking takes. shrinkRows is how many rows
	// it deletes between two looks at the clock and the size: rows may be megabytes.
	shrinkTime = 5 * time.Millisecond
	shrinkRows = 16
)

// usedSQL selects the bytes of the file's pages that are in use.
const usedSQL = `
SELECT (pages.page_count - free.freelist_count) * size.page_size
FROM pragma_page_count AS pages, pragma_freelist_count AS free, pragma_page_size AS size`

// shrink deletes some of the oldest traces, and the metrics of the same age, while the file
// is larger than it may be, and reports whether more must go.
func (s *Store) shrink(ctx context.Context) (more bool, err error) {
	s.loss.overfull = false
	limit := s.config.CurrentMaxSize()
	if limit <= 0 {
		return false, nil
	}
	used, err := queryInt(ctx, s.conn, usedSQL)
	if err != nil || used <= limit {
		return false, err
	}
	lost, evicted := make(map[string]int64), make(map[*table]eviction)
	err = s.shared.transact(s.maintains(ctx), func() error {
		sinks, err := readSinks(ctx, s.conn, s.config.Sinks())
		if err != nil {
			return err
		}
		more = true
		for began := time.Now(); more && time.Since(began) < shrinkTime; {
			deleted, err := s.deleteOldest(ctx, sinks, lost, evicted)
			if err != nil {
				return err
			}
			if used, err = queryInt(ctx, s.conn, usedSQL); err != nil {
				return err
			}
			more = used > limit && deleted > 0
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.loss.add(lost, s.config.OnLoss)
	for t, e := range evicted {
		s.loss.addRows(t, e)
		s.config.OnEvicted(t.name, e.rows, e.newest)
	}
	s.loss.overfull = used > limit && !more
	return more, nil
}

// deleteOldest deletes a few of the oldest rows. It counts all by table, and the rows that
// a sink does not have yet by sink.
func (s *Store) deleteOldest(ctx context.Context, sinks []activeSink, lost map[string]int64, evicted map[*table]eviction) (deleted int, err error) {
	// Not as many of each table: there may be many more traces than metrics.
	tables := []*table{tracesTable, metricsTable}
	oldest := make([][]row, len(tables))
	last := lastID
	for i, t := range tables {
		oldest[i], err = collect(ctx, s.conn, scanRow,
			fmt.Sprintf("SELECT seq, %[1]s, workspace FROM %[2]s ORDER BY %[1]s, seq LIMIT ?", t.id, t.name), shrinkRows)
		if err != nil {
			return 0, err
		}
		if n := len(oldest[i]); n == shrinkRows {
			last = earlier(last, oldest[i][n-1].id)
		}
	}
	for i, t := range tables {
		var doomed []int64
		for _, r := range oldest[i] {
			if earlier(r.id, last) != r.id {
				break
			}
			doomed = append(doomed, r.seq)
			for _, sink := range sinks {
				if sink.awaits(t, r) {
					lost[sink.name]++
				}
			}
		}
		if err := s.deleteRows(ctx, t, doomed); err != nil {
			return 0, err
		}
		if n := len(doomed); n > 0 {
			e := evicted[t]
			e.add(int64(n), oldest[i][n-1].id.Time())
			evicted[t] = e
			deleted += n
		}
	}
	return deleted, nil
}

func earlier(a, b trace.ID) trace.ID {
	if slices.Compare(a[:], b[:]) < 0 {
		return a
	}
	return b
}

// eviction is the number of deleted rows, and the time of the newest.
type eviction struct {
	rows   int64
	newest time.Time
}

func (e *eviction) add(rows int64, newest time.Time) {
	e.rows += rows
	if newest.After(e.newest) {
		e.newest = newest
	}
}

// loss is the account of a maintenance: the rows that it deleted for the size, the number
// of them that a sink did not have, and whether the file is still too large.
type loss struct {
	rows             map[string]int64 // that a sink did not have, by sink
	evicted          map[*table]eviction
	replies          map[replyOwner]eviction
	overfull, warned bool
}

func (l *loss) add(rows map[string]int64, onLoss func(string, int64)) {
	for sink, n := range rows {
		if l.rows == nil {
			l.rows = make(map[string]int64)
		}
		l.rows[sink] += n
		onLoss(sink, n)
	}
}

func (l *loss) addRows(t *table, more eviction) { addEviction(&l.evicted, t, more) }

func (l *loss) addReplies(owner replyOwner, more eviction) { addEviction(&l.replies, owner, more) }

func addEviction[K comparable](evictions *map[K]eviction, key K, more eviction) {
	if *evictions == nil {
		*evictions = make(map[K]eviction)
	}
	e := (*evictions)[key]
	e.add(more.rows, more.newest)
	(*evictions)[key] = e
}

// report logs the account of a maintenance, and clears it for the next one.
func (l *loss) report(logger *slog.Logger) {
	for owner, e := range l.replies {
		logger.Warn("replies to idempotency keys take more than their share of the trace store: the oldest were deleted, and requests that bear their keys again are new ones",
			"workspace", owner.workspace, "api_key", owner.apiKey, "replies", e.rows, "up_to", e.newest)
	}
	clear(l.replies)
	if traces, metrics := l.evicted[tracesTable], l.evicted[metricsTable]; traces.rows+metrics.rows > 0 {
		newest := traces
		newest.add(0, metrics.newest)
		logger.Info("the trace store reached its size: the oldest traces and metrics were deleted",
			"traces", traces.rows, "metrics", metrics.rows, "up_to", newest.newest)
	}
	clear(l.evicted)
	for _, sink := range slices.Sorted(maps.Keys(l.rows)) {
		logger.Error("the trace store reached its size before a sink had all of it: the oldest traces and metrics were deleted; see why the sink is behind, or allow the store more",
			"sink", sink, "lost", l.rows[sink])
	}
	clear(l.rows)
	if l.overfull && !l.warned {
		logger.Warn("the trace store is larger than it may be although no traces are left in it: allow it more")
	}
	l.warned = l.overfull
}
