package limit

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

// fileMark is the beginning of the files, with the number of their format.
var fileMark = [4]byte{'C', 'z', 'L', 2}

// file keeps the counters in a journal. A record has all counts of the accounts of a call,
// or of some accounts of a snapshot; the last record of an account is the valid one. A nil
// file keeps nothing: the counters are in memory only.
type file struct {
	limiter *Limiter
	journal *journal.Journal
	path    string
	logger  *slog.Logger

	mu      sync.Mutex
	now     int64 // the time of the last change
	crashed int64

	before map[name]*saved // the counts that were read while another process had the files
}

// openFile starts reading the files. Tests pass their own journal options.
func openFile(l *Limiter, path string, logger *slog.Logger, o journal.Options) *file {
	f := &file{limiter: l, path: path, logger: logger}
	o.Path, o.Mark, o.State, o.Logger = path, fileMark, f, logger
	o.Failed = "limits are not kept; counting in memory and trying again"
	o.Mended = "limits are being kept again"
	f.journal = journal.Open(o)
	return f
}

// isLoaded waits until the files have been read, for a second at most, or until ctx ends.
// It reports whether they have been read.
func (f *file) isLoaded(ctx context.Context) bool {
	if f == nil {
		return true
	}
	select {
	case <-f.journal.Loaded():
		return true
	default:
	}
	if ctx == nil {
		ctx = context.Background()
	}
	timer := time.NewTimer(loadWait)
	defer timer.Stop()
	select {
	case <-f.journal.Loaded():
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// change appends the counts of the parts' accounts to the journal. The caller holds the
// locks of their shards, releases them, and calls wait, flush or soon to write the change.
func (f *file) change(parts []part, now int64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.now = now
	f.mu.Unlock()
	var space [512]byte
	record := space[:0]
	for i := range parts {
		if a := parts[i].account; a != nil {
			record = f.limiter.appendAccount(record, a, now)
		}
	}
	f.journal.Append(record)
}

// wait waits until the operating system has all changes, 20 ms at most.
func (f *file) wait() {
	if f != nil {
		f.journal.Wait(nil)
	}
}

// flush starts writing the changes, and does not wait for the write.
func (f *file) flush() {
	if f != nil {
		f.journal.Flush()
	}
}

// soon writes the changes with the next reservation, after 10 ms at the latest. Until then
// the file counts at least the actual use, so a crash errs on the safe side.
func (f *file) soon() {
	if f != nil {
		f.journal.Soon()
	}
}

// rewrite waits until all accounts are written again and no file has earlier content.
func (f *file) rewrite(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if err := f.journal.Rewrite(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotErased, err)
	}
	return nil
}

// failure returns the reason why the file lacks counts; nil if it is up to date.
func (f *file) failure() error {
	if err := f.journal.Err(); err != nil {
		return fmt.Errorf("limits are not kept in %w", err)
	}
	return nil
}

// Snapshot implements journal.State: a part is the accounts of a shard. It drops accounts
// without counts. Calls of other shards can run at the same time.
func (f *file) Snapshot(j *journal.Journal, part int) bool {
	l := f.limiter
	lock := &l.locks[part]
	lock.Lock()
	defer lock.Unlock()
	f.mu.Lock()
	now := f.now
	f.mu.Unlock()
	if now == 0 {
		now = time.Now().UnixNano()
	}
	var record []byte
	for _, b := range *l.books.Load() {
		for _, a := range b.accounts[part] {
			if l.drop(a, now) || !a.any(now) {
				continue
			}
			if record = l.appendAccount(record, a, now); len(record) > chunk {
				j.Append(record)
				record = record[:0]
			}
		}
	}
	if len(record) > 0 {
		j.Append(record)
	}
	return part < shards-1
}

// Restore implements journal.State: it adds the counts of the files. The amounts set aside
// count in full: if the process that wrote them is dead, their actual use is unknown; if
// it is alive, its calls can use no more than that.
func (f *file) Restore(records iter.Seq[[]byte], alive bool) {
	found := make(map[name]*saved)
	words := make(map[string]string) // of workspaces and limits, each once
	for record := range records {
		if !readAccounts(record, found, words) {
			f.logger.Warn("a record of limits can't be read", "file", f.path)
		}
	}
	if alive {
		f.before = make(map[name]*saved)
	}
	calls := f.merge(found, alive)
	if f.before = nil; alive {
		f.before = found
		return
	}
	f.mu.Lock()
	f.crashed += calls
	f.mu.Unlock()
	if calls > 0 {
		f.logger.Warn("calls of a process that died count in full in their limits", "file", f.path, "calls", calls)
	}
}

// merge adds the counts of accounts, and returns their number of calls in flight.
func (f *file) merge(found map[name]*saved, alive bool) (calls int64) {
	l := f.limiter
	for name, s := range found {
		b := l.book(name.workspace, name.limit, true)
		shard := l.shard(b, name.subject)
		l.locks[shard].Lock()
		a := l.add(b, shard, name.subject)
		for i := range s.cells {
			c := s.cells[i]
			if !alive {
				c.crashed = sum(c.crashed, c.reserved)
			}
			c.used, c.reserved = sum(c.used, c.reserved), 0
			if p := c.portion; p != nil && alive {
				p.granted = min(p.granted, c.used) // the other process may still use the remainder
			}
			f.count(a, name, &c)
		}
		l.locks[shard].Unlock()
		calls += s.calls
	}
	return calls
}

// count adds a cell of a file, minus the part of it that was counted before.
func (f *file) count(a *account, owner name, found *cell) {
	var counted int64
	var granted portion // the lease in the part that was counted before
	if before := f.before[owner]; before != nil {
		for i := range before.cells {
			c := &before.cells[i]
			if c.measure == found.measure && c.window == found.window && c.start == found.start {
				counted = sum(c.used, c.reserved)
				if p := c.portion; p != nil {
					granted = portion{granted: min(p.granted, counted), reported: p.reported}
				}
			}
		}
	}
	c := a.find(&Ceiling{Measure: found.measure, Window: found.window})
	if c == nil {
		c = &cell{next: a.cells, window: found.window, measure: found.measure, start: math.MinInt64}
		a.cells = c
		f.limiter.takes(a, cellBytes)
	}
	switch {
	case c.start > found.start:
		return
	case c.start < found.start:
		c.start, c.used, c.reserved, c.levels, c.portion = found.start, found.used, 0, found.levels, found.portion
		c.turn++
	default:
		c.used = max(sum(c.used, found.used)-counted, 0)
		if p, q := c.portion, found.portion; p != nil && q != nil {
			p.granted = max(sum(p.granted, q.granted)-granted.granted, 0)
			p.reported += q.reported - granted.reported
			p.known, p.remains = p.known || q.known, 0
		}
	}
	c.crashed = found.crashed
}
