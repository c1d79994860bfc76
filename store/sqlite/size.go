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
	// shrinkTime is about how long one step of shrinking takes, and shrinkRows
	// what it deletes between two looks at the clock and at the size: rows may
	// be megabytes.
	shrinkTime = 5 * time.Millisecond
	shrinkRows = 16
)

// usedSQL counts what is in use of the file, in bytes.
const usedSQL = `
SELECT (pages.page_count - free.freelist_count) * size.page_size
FROM pragma_page_count AS pages, pragma_freelist_count AS free, pragma_page_size AS size`

// shrink deletes some of the oldest traces, and the metrics of the same age,
// while the file is larger than it may be, and tells whether there is more.
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
	lost := make(map[string]int64)
	err = s.transact(ctx, func() error {
		sinks, err := readSinks(ctx, s.conn, s.config.Sinks())
		if err != nil {
			return err
		}
		more = true
		for began := time.Now(); more && time.Since(began) < shrinkTime; {
			deleted, err := s.deleteOldest(ctx, sinks, lost)
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
	s.loss.overfull = used > limit && !more
	return more, nil
}

// deleteOldest deletes a few of the oldest rows and counts them, and those that
// a sink has yet to have by sink.
func (s *Store) deleteOldest(ctx context.Context, sinks []activeSink, lost map[string]int64) (deleted int, err error) {
	// Not the oldest of each table: there may be many more traces than metrics.
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
		deleted += len(doomed)
	}
	return deleted, nil
}

func earlier(a, b trace.ID) trace.ID {
	if slices.Compare(a[:], b[:]) < 0 {
		return a
	}
	return b
}

// loss is what this maintenance deleted for the size that should not have been,
// and whether that was not enough.
type loss struct {
	rows           map[string]int64 // by sink
	overfull, told bool
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

// report logs the account of a maintenance and begins the next one's.
func (l *loss) report(logger *slog.Logger) {
	for _, sink := range slices.Sorted(maps.Keys(l.rows)) {
		logger.Error("the trace store reached its size before a sink had all of it: the oldest traces and metrics were deleted; see why the sink is behind, or allow the store more",
			"sink", sink, "lost", l.rows[sink])
	}
	clear(l.rows)
	if l.overfull && !l.told {
		logger.Warn("the trace store is larger than it may be although no traces are left in it: allow it more")
	}
	l.told = l.overfull
}
