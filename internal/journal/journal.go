package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

const (
	// minGrowth is how many bytes a file grows before the other one is begun.
	minGrowth = 4 << 20

	// closeWait bounds how long Close and Rewrite wait for a disk that hangs.
	closeWait = 5 * time.Second

	// firstPause and longestPause bound the pause before another try to use failed files.
	firstPause   = time.Second
	longestPause = 16 * time.Second

	// logAgain is the time until a failure is logged again. On a disk that is full some
	// writes fail and others don't, by turns.
	logAgain = time.Minute
)

// ErrHangs is the error of a disk that does not answer in time.
var ErrHangs = errors.New("writing takes too long")

// State is the content of a journal. The journal's goroutine calls its methods.
type State interface {
	// Restore takes the records of another process, each valid until the next one. If that
	// process is alive, Restore is called again when it has ended, also with its later
	// records.
	Restore(records iter.Seq[[]byte], alive bool)
	// Snapshot appends a part of the records that the state keeps, and reports whether
	// there may be another part. Parts are counted from 0.
	Snapshot(j *Journal, part int) (more bool)
}

// Options are the options of a journal. Options without a default are required.
type Options struct {
	// Path is the path of the first file. The second one's ends with "-2".
	Path string
	// Mark is the beginning of the files. Its last byte is the number of their
	// format.
	Mark [4]byte
	// Processes is how many processes may have a journal at the path at once. The files of
	// the second and later ones have a number after the name, such as ".1". Each restores
	// the files of dead processes. Default: one. A second process waits for the end of the
	// first, and meanwhile restores the records that it can read.
	Processes int
	// Growth is how many bytes a file grows before the other one is begun. Default: 4 MiB.
	Growth int64
	State  State
	Logger *slog.Logger
	// Failed and Mended are logged when records can't be written, and when they can be
	// again.
	Failed, Mended string
	// Disk has the operations on the files. Default: the operating system's.
	Disk Disk
}

// Disk has a journal's operations on files.
type Disk struct {
	Write    func(file *os.File, text []byte, at int64) error
	Truncate func(file *os.File, size int64) error
	Sync     func(file *os.File) error
}

// OS is the disk of the operating system.
var OS = Disk{
	Write: func(file *os.File, text []byte, at int64) error {
		_, err := file.WriteAt(text, at)
		return err
	},
	Truncate: (*os.File).Truncate,
	Sync:     (*os.File).Sync,
}

// Journal is a journal that is open. It is safe for concurrent use.
type Journal struct {
	Options

	wake, quit, done chan struct{}
	loaded           chan struct{}
	waits            sync.Pool
	late             atomic.Bool // Soon was called, until the timer fires
	lateness, again  *time.Timer

	mu         sync.Mutex
	files      [2]*os.File // nil: not open
	used       int         // which of them is appended to
	generation uint32      // of that
	seed       uint64      // of that
	whole      uint32      // the newest generation that is whole; 0: none
	end        int64       // offset of the next record, without out
	taking     bool        // records are appended to the used file
	ok         bool        // the files have all records that the state keeps
	missed     time.Time   // when a caller waited for the present write in vain; zero: none did
	full       bool        // so much waits that records are lost
	out        []byte      // not written yet: frames, and records but for kept ones
	kept       []kept      // not written yet
	unwritten  int64       // bytes of both
	cleared    []span      // not overwritten yet
	waiting    []*wait
	after      []func() // of AfterWrite
	err        error
	damaged    int
	rewrites   []chan struct{}

	// The fields below belong to the goroutine.
	path     string // of the files of this process; empty: not open yet
	spare    buffers
	written  []func()      // of AfterWrite: their records are written, if not in a whole file
	head     []byte        // of the used file
	bound    int64         // the size at which the other file is begun
	zeros    int64         // in the used file, about
	pause    time.Duration // between the last try and the next one; 0: nothing has failed
	lookAt   time.Time
	peeked   bool
	past     [][2]*os.File // files of dead processes, until this one has their records
	loggedAt time.Time     // when a failure was logged last
	logged   bool          // the log has a failure and no recovery
	remove   bool
	ending   error
}

// Open returns a journal, which begins to restore its files. If they can't be used it
// tries again, and Err returns the reason.
func Open(o Options) *Journal {
	j := &Journal{
		Options: o,
		wake:    make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), loaded: make(chan struct{}),
		lateness: time.NewTimer(time.Hour), again: time.NewTimer(time.Hour), waits: sync.Pool{New: func() any { return newWait() }},
	}
	if j.Growth <= 0 {
		j.Growth = minGrowth
	}
	if j.Disk.Write == nil {
		j.Disk = OS
	}
	j.lateness.Stop()
	j.again.Stop()
	go j.run()
	return j
}

// Loaded returns a channel that is closed when the files were restored, or could not be.
func (j *Journal) Loaded() <-chan struct{} { return j.loaded }

// Damaged returns how many places of the files had no record that was written.
func (j *Journal) Damaged() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.damaged
}

// Err returns why the files don't have all records of the state; nil if they have them.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil && !j.missed.IsZero() {
		return fmt.Errorf("%s: %w", j.Path, ErrHangs)
	}
	return j.err
}

// Close writes the remaining records and closes the files, or removes them.
func (j *Journal) Close(remove bool) error {
	j.remove = remove
	close(j.quit)
	select {
	case <-j.done:
		return j.ending
	case <-time.After(closeWait):
		return fmt.Errorf("closing %s: %w", j.Path, ErrHangs)
	}
}

// Rewrite waits until the files have only records that the state keeps.
func (j *Journal) Rewrite(ctx context.Context) error {
	done := make(chan struct{})
	j.mu.Lock()
	j.rewrites = append(j.rewrites, done)
	j.mu.Unlock()
	j.Flush()
	ctx, cancel := context.WithTimeoutCause(ctx, closeWait, ErrHangs)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-j.done:
		return os.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (j *Journal) run() {
	defer close(j.done)
	defer j.again.Stop()
	defer j.lateness.Stop()
	j.try(j.restart)
	close(j.loaded)
	for {
		select {
		case <-j.wake:
			j.try(j.step)
		case <-j.lateness.C:
			j.late.Store(false)
			j.try(j.step)
		case <-j.again.C:
			j.try(j.restart)
		case <-j.quit:
			j.try(j.flush)
			j.ending = j.stop()
			return
		}
	}
}

// try does something, and tries again later if it fails.
func (j *Journal) try(do func() error) {
	err := do()
	if err == nil {
		return
	}
	j.mu.Lock()
	j.taking, j.ok, j.out, j.kept, j.unwritten, j.after, j.written = false, false, nil, nil, 0, nil, nil
	j.err = fmt.Errorf("%s: %w", j.Path, err)
	j.mu.Unlock()
	if !j.logged && (j.loggedAt.IsZero() || time.Since(j.loggedAt) >= logAgain) {
		j.logged, j.loggedAt = true, time.Now()
		j.Logger.Error(j.Failed, "file", j.Path, "error", err)
	}
	j.pause = min(max(2*j.pause, firstPause), longestPause)
	j.again.Reset(j.pause)
}

// step writes the waiting records, and begins the other file when it is due.
func (j *Journal) step() error {
	if err := j.flush(); err != nil || !j.ok {
		return err
	}
	if j.end > j.bound || j.zeros > max(j.Growth, j.end/2) || j.mustRewrite() {
		return j.turn()
	}
	return j.look()
}

// restart opens the files, if they are not open, and begins one of them.
func (j *Journal) restart() error {
	if j.path == "" {
		if err := j.open(); err != nil {
			return err
		}
	}
	return j.turn()
}

// stop closes the files.
func (j *Journal) stop() error {
	j.mu.Lock()
	ok, files := j.ok, j.files
	j.taking, j.ok = false, false
	j.mu.Unlock()
	var err error
	for _, past := range j.past {
		err = errors.Join(err, each(past, (*os.File).Close))
	}
	switch {
	case j.remove:
		return errors.Join(err, each(files, private.RemoveLocked))
	case ok:
		err = errors.Join(err, j.Disk.Sync(files[j.used]))
	}
	return errors.Join(err, each(files, (*os.File).Close))
}

// each calls do for the files that are not nil.
func each(files [2]*os.File, do func(*os.File) error) error {
	var errs []error
	for _, file := range files {
		if file != nil {
			errs = append(errs, do(file))
		}
	}
	return errors.Join(errs...)
}
