package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// closeWait bounds how long Close waits for a file that hangs.
const closeWait = 5 * time.Second

// file keeps the counters on the disk, in two files of which one is in use. Each change
// of an account is appended to it. When it has grown, all accounts are written to the
// other one, some at a time, and the changes meanwhile to both. Then the other one is
// in use, and the first one is emptied.
//
// The goroutine of a file writes all that is to be written, so that a disk that hangs
// holds no call.
type file struct {
	limiter *Limiter
	path    string
	logger  *slog.Logger
	disk    disk
	seed    uint64 // of the files that this process writes

	wake, quit, done chan struct{}
	loaded           chan struct{} // closed when the files have been read, or can't be
	closed           chan error
	waits            sync.Pool
	late             atomic.Bool // a change waits for a reservation, until the timer fires
	lateness         *time.Timer

	mu       sync.Mutex
	ok       bool   // the file in use has all that is counted
	slow     bool   // a write takes longer than calls wait
	full     bool   // so much waits that changes are lost
	building bool   // changes are for the other file, too; only the goroutine changes it
	out      []byte // not written yet
	next     []byte // the same for the other file
	waiting  []*wait
	now      int64 // of the last change
	err      error
	crashed  int64
	damaged  int64
	rewrites []chan struct{} // each closed when all accounts were written since
	begun    int             // of rewrites, whose writing has

	// What follows is for the goroutine alone.
	spare      buffers
	files      [2]*os.File // nil: not open
	ends       [2]int64
	used       int    // which is in use
	header     []byte // of that, as this process began it
	generation uint32
	shard      int        // the next that is written to the other file
	synced     chan error // of the other file; nil: not begun
	bound      int64      // the size at which the file in use is written anew
	again      *time.Timer
	pause      time.Duration // until the next try; 0 while nothing has failed
	lookAt     time.Time
	mine       bool            // what the files had is counted
	before     map[name]*saved // what the files had while this process could not have them
}

// openFile begins to open the files of a limiter and to count what they have, until
// loaded is closed. Where that fails, the goroutine tries again.
func openFile(l *Limiter, path string, logger *slog.Logger, d disk) *file {
	f := &file{
		limiter: l, path: path, logger: logger, disk: d, seed: rand.Uint64(),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), loaded: make(chan struct{}), closed: make(chan error, 1),
		waits: sync.Pool{New: func() any {
			w := &wait{make(chan struct{}, 1), time.NewTimer(time.Hour)}
			w.timer.Stop()
			return w
		}},
		lateness: time.NewTimer(time.Hour), again: time.NewTimer(time.Hour),
	}
	f.lateness.Stop()
	f.again.Stop()
	go func() {
		f.retry()
		f.complete()
		close(f.loaded)
		f.run()
	}()
	return f
}

// isLoaded waits until the files have been read, for a second at most, or until ctx ends.
// It reports whether they have been. A nil file is in memory alone.
func (f *file) isLoaded(ctx context.Context) bool {
	if f == nil {
		return true
	}
	select {
	case <-f.loaded:
		return true
	default:
	}
	if ctx == nil {
		ctx = context.Background()
	}
	timer := time.NewTimer(loadWait)
	defer timer.Stop()
	select {
	case <-f.loaded:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (f *file) run() {
	defer close(f.done)
	defer f.again.Stop()
	defer f.lateness.Stop()
	for {
		select {
		case <-f.wake:
		case <-f.lateness.C:
			f.late.Store(false)
		case err := <-f.synced:
			f.finish(err)
		case <-f.again.C:
			f.retry()
		case <-f.quit:
			f.stop()
			return
		}
		f.step()
	}
}

// step writes what waits, and goes on with the other file.
func (f *file) step() {
	f.flush()
	switch {
	case f.building && f.shard < shards:
		f.build()
		f.poke()
	case f.building && f.synced == nil:
		other := f.files[1-f.used]
		done := make(chan error, 1)
		f.synced = done
		go func() { done <- f.disk.sync(other) }()
	case f.building, f.pause > 0:
	case !f.isOK():
		f.later()
	case f.ends[f.used] > f.bound || f.mustRewrite():
		f.begin()
		f.poke()
	default:
		f.look()
	}
}

func (f *file) isOK() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ok
}

// poke has the goroutine go on.
func (f *file) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// stop writes what is left and closes the files.
func (f *file) stop() {
	f.flush()
	f.complete()
	f.mu.Lock()
	ok := f.ok
	f.ok, f.building, f.out, f.next = false, false, nil, nil
	f.mu.Unlock()
	var err error
	if ok {
		err = f.disk.sync(f.files[f.used])
	}
	f.closed <- errors.Join(err, f.shut())
}

// close waits until the goroutine has written what is left.
func (f *file) close() error {
	close(f.quit)
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case err := <-f.closed:
		<-f.done
		return err
	case <-timer.C:
		return fmt.Errorf("closing %s: %w", f.path, errHangs)
	}
}
