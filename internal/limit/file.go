package limit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

const (
	// maxWait bounds how long a call waits for its reservation to be with the
	// operating system.
	maxWait = 20 * time.Millisecond

	// maxUnwritten bounds what waits for a file that hangs, in bytes.
	maxUnwritten = 4 << 20

	// largestStep is what a shard of all accounts may take at most.
	largestStep = 64 << 20

	// largestFile bounds a file that is read, in bytes: several times what a million
	// subjects take.
	largestFile = 1 << 30

	// minGrowth is how much a file grows, in bytes, before it is written anew.
	minGrowth = 1 << 20

	// firstPause and longestPause are between two tries to use a file that failed.
	firstPause   = time.Second
	longestPause = 16 * time.Second

	// lookEvery is the least time between two looks for the files at their paths.
	lookEvery = time.Second

	// closeWait bounds how long Close waits for a file that hangs.
	closeWait = 5 * time.Second
)

var (
	errHangs = errors.New("writing takes too long")
	errMoved = errors.New("it was moved or deleted")
)

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
	closed           chan error
	waits            sync.Pool

	mu       sync.Mutex
	ok       bool // the file in use has all that is counted
	slow     bool // a write takes longer than calls wait
	full     bool // so much waits that changes are lost
	building bool // changes are for the other file, too; only the goroutine changes it
	out      []byte
	next     []byte // for the other file
	waiting  []*wait
	now      int64 // of the last change
	err      error
	crashed  int64
	damaged  int64

	// What follows is for the goroutine alone.
	spare      buffers
	files      [2]*os.File // nil: not open
	ends       [2]int64
	used       int // which is in use
	generation uint32
	shard      int        // the next that is written to the other file
	synced     chan error // of the other file; nil: not begun
	bound      int64      // the size at which the file in use is written anew
	again      *time.Timer
	pause      time.Duration // until the next try; 0 while nothing has failed
	lookAt     time.Time
	mine       bool            // what the files had is counted
	before     map[name]*saved // what another process had counted when this one began
}

// disk is what a file does to those of the operating system. Tests have others.
type disk struct {
	write    func(file *os.File, text []byte, at int64) error
	truncate func(file *os.File, size int64) error
	sync     func(file *os.File) error
}

var osDisk = disk{
	write: func(file *os.File, text []byte, at int64) error {
		_, err := file.WriteAt(text, at)
		return err
	},
	truncate: (*os.File).Truncate,
	sync:     (*os.File).Sync,
}

type buffers struct {
	out, next, step []byte
	waiting         []*wait
}

// wait is what one call waits by. A channel and a timer of another test's time can't be
// used, so each file has its own.
type wait struct {
	done  chan struct{}
	timer *time.Timer
}

// openFile opens the files of a limiter and counts what they have. Where that fails,
// the goroutine tries again.
func openFile(l *Limiter, path string, logger *slog.Logger, d disk) *file {
	f := &file{
		limiter: l, path: path, logger: logger, disk: d, seed: rand.Uint64(),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), closed: make(chan error, 1),
		waits: sync.Pool{New: func() any {
			w := &wait{make(chan struct{}, 1), time.NewTimer(time.Hour)}
			w.timer.Stop()
			return w
		}},
		again: time.NewTimer(time.Hour), pause: firstPause,
	}
	f.again.Stop()
	f.retry()
	f.complete()
	go f.run()
	return f
}

// complete goes on until the other file is in use, or given up.
func (f *file) complete() {
	for f.building {
		f.step()
		if f.synced != nil {
			f.finish(<-f.synced)
		}
	}
}

// name returns the path of the first or the second file.
func (f *file) name(i int) string {
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if i == 0 {
		return path
	}
	return path + "-2"
}

func (f *file) run() {
	defer close(f.done)
	defer f.again.Stop()
	for {
		select {
		case <-f.wake:
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

// nothing is what a change is waited by that no call waits for.
var nothing = new(wait)

// change writes what the accounts of the parts have. The locks of their shards are held.
// The caller calls wait with the result when it has released them.
func (f *file) change(parts []part, now int64, waits bool) *wait {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
	if f.full || !f.ok && !f.building {
		return nil
	}
	at := len(f.out)
	f.out = append(f.out, make([]byte, frameSize)...)
	for i := range parts {
		if a := parts[i].account; a != nil {
			f.out = f.limiter.appendAccount(f.out, a, a.named, now)
			a.named = true
		}
	}
	seal(f.out, at, f.seed)
	if f.building {
		f.next = append(f.next, f.out[at:]...)
	}
	if !f.ok {
		f.out = f.out[:at]
	}
	if len(f.out) > maxUnwritten || len(f.next) > maxUnwritten+largestStep {
		f.full = true
		return nil
	}
	if !waits || !f.ok || f.slow {
		return nothing
	}
	w := f.waits.Get().(*wait)
	f.waiting = append(f.waiting, w)
	return w
}

// wait waits until a change is with the operating system, 20 ms at most.
func (f *file) wait(w *wait) {
	if w == nil {
		return
	}
	f.poke()
	if w == nothing {
		return
	}
	w.timer.Reset(maxWait)
	select {
	case <-w.done:
		w.timer.Stop()
		f.waits.Put(w)
	case <-w.timer.C:
		f.mu.Lock()
		f.slow = true
		f.mu.Unlock()
	}
}

// flush writes what waits.
func (f *file) flush() {
	f.mu.Lock()
	out, next, waiting := f.out, f.next, f.waiting
	f.out, f.next, f.waiting = f.spare.out[:0], f.spare.next[:0], f.spare.waiting[:0]
	ok, full := f.ok, f.full
	f.slow, f.full = false, false
	f.mu.Unlock()
	if full {
		f.lose(errHangs)
		if f.building {
			f.abandon()
		}
	} else if ok && len(out) > 0 {
		if err := f.put(f.used, out); err != nil {
			f.lose(err)
		}
	}
	for _, w := range waiting {
		w.done <- struct{}{}
	}
	if f.building && len(next) > 0 {
		if err := f.put(1-f.used, next); err != nil {
			f.fail(err)
			f.abandon()
		}
	}
	clear(waiting)
	f.spare.out, f.spare.next, f.spare.waiting = kept(out), kept(next), waiting
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
	case f.ends[f.used] > f.bound:
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

// kept returns a buffer to be used again, unless it has become large.
func kept(text []byte) []byte {
	if cap(text) > 1<<20 {
		return nil
	}
	return text
}

// put appends to one of the files.
func (f *file) put(i int, text []byte) error {
	if err := f.disk.write(f.files[i], text, f.ends[i]); err != nil {
		return err
	}
	f.ends[i] += int64(len(text))
	return nil
}

// build writes the accounts of a shard to the other file, and drops those that count
// nothing any more. Calls of other shards go on meanwhile.
func (f *file) build() {
	l := f.limiter
	lock := &l.locks[f.shard]
	lock.Lock()
	defer lock.Unlock()
	f.mu.Lock()
	now := f.now
	f.mu.Unlock()
	if now == 0 {
		now = time.Now().UnixNano()
	}
	text, at := f.spare.step[:0], 0
	for _, b := range *l.books.Load() {
		for _, a := range b.accounts[f.shard] {
			if l.drop(a, now) {
				continue
			}
			// One that has nothing gets its name with its next change.
			if a.named = l.any(a, now); !a.named {
				continue
			}
			if at == len(text) {
				text = append(text, make([]byte, frameSize)...)
			}
			text = l.appendAccount(text, a, false, now)
			if len(text)-at > chunk {
				seal(text, at, f.seed)
				at = len(text)
			}
		}
	}
	if at < len(text) {
		seal(text, at, f.seed)
	}
	f.mu.Lock()
	f.next = append(f.next, text...)
	f.mu.Unlock()
	f.spare.step = kept(text)
	f.shard++
}

// retry does what failed before: it opens the files, and writes all accounts to the one
// that is not in use.
func (f *file) retry() {
	f.pause = min(max(2*f.pause, firstPause), longestPause)
	if f.files[0] == nil {
		if err := f.open(); err != nil {
			f.lose(err)
			f.later()
			return
		}
	}
	f.begin()
}

// later tries again after a pause.
func (f *file) later() {
	f.pause = max(f.pause, firstPause)
	f.again.Reset(f.pause)
}

// begin begins to write all accounts to the file that is not in use.
func (f *file) begin() {
	other := 1 - f.used
	f.generation++
	f.ends[other] = 0
	err := f.disk.truncate(f.files[other], 0)
	if err == nil {
		err = f.put(other, appendHeader(nil, f.generation, f.seed))
	}
	if err != nil {
		f.fail(err)
		f.later()
		return
	}
	f.shard = 0
	f.mu.Lock()
	f.building, f.next = true, nil
	f.mu.Unlock()
	f.poke()
}

// abandon gives the other file up. The one in use, if that can be written, goes on.
func (f *file) abandon() {
	f.mu.Lock()
	f.building, f.next = false, nil
	f.mu.Unlock()
	f.synced = nil
	_ = f.disk.truncate(f.files[1-f.used], 0) // without the mark that it is whole it has nothing
	f.later()
}

// finish puts the other file, which has all accounts, in the place of the one in use.
func (f *file) finish(err error) {
	f.synced = nil
	if err == nil {
		f.flush()
	}
	if !f.building {
		return
	}
	if err == nil {
		whole := make([]byte, frameSize)
		seal(whole, 0, f.seed)
		err = f.put(1-f.used, whole)
	}
	if err != nil {
		f.fail(err)
		f.abandon()
		return
	}
	old := f.files[f.used]
	f.used = 1 - f.used
	f.bound = minGrowth + 3*f.ends[f.used]
	f.mu.Lock()
	mended := f.err != nil
	f.building, f.ok, f.err = false, true, nil
	f.out, f.next = append(f.out[:0], f.next...), f.next[:0]
	f.mu.Unlock()
	f.pause = 0
	f.again.Stop()
	if mended {
		f.logger.Info("limits are being kept again", "file", f.path)
	}
	_ = f.disk.truncate(old, 0) // what it has is older
}

// fail notes and logs an error, once until the file can be written again.
func (f *file) fail(err error) {
	f.mu.Lock()
	tell := f.err == nil
	f.err = fmt.Errorf("limits are not kept in %s: %w", f.path, err)
	f.mu.Unlock()
	if tell {
		f.logger.Error("limits are not kept; counting in memory and trying again", "file", f.path, "error", err)
	}
}

// failure returns why the file does not have what is counted; nil where it has.
func (f *file) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.slow {
		return fmt.Errorf("limits are not kept in %s: %w", f.path, errHangs)
	}
	return f.err
}

// lose notes that the file in use can't be written. All accounts have to be written
// again.
func (f *file) lose(err error) {
	f.fail(err)
	f.mu.Lock()
	f.ok, f.out = false, nil
	f.mu.Unlock()
}

// look looks once in a second whether the files are at their paths: no later process
// would find what is written to one that was moved.
func (f *file) look() {
	now := time.Now()
	if now.Before(f.lookAt) {
		return
	}
	f.lookAt = now.Add(lookEvery)
	if !private.Moved(f.files[0]) && !private.Moved(f.files[1]) {
		return
	}
	f.lose(errMoved)
	if err := f.shut(); err != nil {
		f.logger.Warn("closing a file of limits that was moved or deleted", "file", f.path, "error", err)
	}
	f.retry()
}

// shut closes the files.
func (f *file) shut() error {
	var errs []error
	for i, file := range f.files {
		if file != nil {
			errs = append(errs, file.Close())
			f.files[i] = nil
		}
	}
	return errors.Join(errs...)
}

// open opens both files and counts what they have, the first time. A file of a version
// that this one does not know is set aside.
func (f *file) open() error {
	if err := os.MkdirAll(filepath.Dir(f.name(0)), 0o700); err != nil {
		return err
	}
	var states [2]*state
	for i := range f.files {
		var err error
		if states[i], err = f.read(i); err != nil {
			if errors.Is(err, private.ErrLocked) && !f.mine && f.before == nil {
				f.peek()
			}
			return errors.Join(err, f.shut())
		}
	}
	private.Warn(f.logger, f.name(0), f.name(1))
	f.used = newest(states)
	f.generation = max(states[0].generation, states[1].generation, f.generation)
	if !f.mine {
		f.merge(states[f.used], true)
		f.mine, f.before = true, nil
	}
	return nil
}

// newest returns which of two files has the counters: the one with all accounts, and of
// two the later one.
func newest(states [2]*state) int {
	a, b := states[0], states[1]
	if a.whole != b.whole && b.whole || a.whole == b.whole && b.generation > a.generation {
		return 1
	}
	return 0
}

// read opens one of the files and reads it.
func (f *file) read(i int) (*state, error) {
	path := f.name(i)
	for {
		file, err := private.OpenLocked(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(file, largestFile))
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if known(text) {
			if len(text) == 0 {
				private.RestrictFile(file)
			}
			f.files[i] = file
			return readState(text), nil
		}
		aside := path + ".unknown-" + time.Now().UTC().Format("20060102T150405.000Z")
		if err := errors.Join(file.Close(), os.Rename(path, aside)); err != nil {
			return nil, err
		}
		f.logger.Error("a file of limits is damaged at its beginning, or of another version; set aside, and counting from zero", "file", path, "as", aside)
	}
}

// known reports whether a file is of this version, or has nothing that it could be told
// by.
func known(text []byte) bool {
	return len(text) <= len(fileMark) || string(text[:len(fileMark)]) == fileMark && text[len(fileMark)] == version
}

// peek counts what another process, which has the files, has counted until now. When it
// ends, this one counts what it added.
func (f *file) peek() {
	var states [2]*state
	for i := range states {
		text, err := os.ReadFile(f.name(i))
		if err != nil || !known(text) {
			text = nil
		}
		states[i] = readState(text)
	}
	found := states[newest(states)]
	f.before = make(map[name]*saved)
	f.merge(found, false)
	f.before = found.accounts
}

// merge counts what a file has. Where the process that wrote it is dead, what its calls
// had set aside counts in full. Where it lives, that is as much as they can use.
func (f *file) merge(found *state, dead bool) {
	l := f.limiter
	var calls int64
	for name, s := range found.accounts {
		b := l.book(name.workspace, name.limit, true)
		shard := l.shard(b, name.subject)
		l.locks[shard].Lock()
		a := l.add(b, shard, name.subject)
		for i := range s.cells {
			c := s.cells[i]
			if dead {
				c.crashed = sum(c.crashed, c.reserved)
			}
			c.used, c.reserved = sum(c.used, c.reserved), 0
			if p := c.portion; p != nil && !dead {
				p.granted = min(p.granted, c.used) // it may use the rest itself
			}
			f.count(a, name, &c)
		}
		l.locks[shard].Unlock()
		calls += s.calls
	}
	if !dead {
		return
	}
	f.mu.Lock()
	f.crashed += calls
	f.damaged += int64(found.damaged)
	f.mu.Unlock()
	if calls > 0 {
		f.logger.Warn("calls of a process that died count in full in their limits", "file", f.path, "calls", calls)
	}
	if found.damaged > 0 {
		f.logger.Warn("damaged records of limits were passed over", "file", f.path, "count", found.damaged)
	}
}

// count counts a cell of a file, less what was counted of it before.
func (f *file) count(a *account, of name, found *cell) {
	var counted int64
	var granted portion // with what was counted before
	if before := f.before[of]; before != nil {
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
	}
	switch {
	case c.start > found.start:
		return
	case c.start < found.start:
		c.start, c.used, c.reserved, c.told, c.portion = found.start, found.used, 0, found.told, found.portion
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
