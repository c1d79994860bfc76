package calls

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxBytes bounds a file, and with it the start records of the calls that are
	// under way at once.
	MaxBytes = 256 << 20

	// maxUnwritten bounds the start records that wait in memory for a file that
	// can't be written.
	maxUnwritten = 16 << 20

	// maxWait bounds how long a call waits for its start record.
	maxWait = 20 * time.Millisecond

	// maxWrites bounds the writes that are under way at once: each that hangs
	// holds a thread.
	maxWrites = 64

	// maxProcesses bounds how many processes use one store at once, and so how
	// many files are looked for.
	maxProcesses = 64

	slotSize   = 1 << 10
	headerSize = 16 // mark, length of the record, sum
	allSlots   = MaxBytes / slotSize

	// spareSlots are left behind the last call when the file shrinks: calls that
	// begin meanwhile have them.
	spareSlots = 256

	// longest bounds one record, in bytes: what a start may have of its own and
	// share, each 16 MiB, and names.
	longest = 33 << 20
)

// The marks are the first bytes of a file and of a record. Their last byte is the
// version of the form.
var (
	fileMark   = [4]byte{'C', 'z', 'F', 1}
	recordMark = [4]byte{'C', 'z', 'R', 1}
)

// span is a row of slots.
type span struct{ slot, count int }

// File keeps the start records of the calls of one process. Its methods may be
// called concurrently, but for Open, End, Retry, Interrupted, Forget and Close,
// which are for one goroutine.
type File struct {
	path   string
	logger *slog.Logger
	write  func(*os.File, []byte, int64) error // as writeAt

	truncate func(*os.File, int64) error

	mu        sync.Mutex
	file      *os.File // nil while it is not open
	seed      uint64
	slots     slots
	most      int // no slot from here on is taken
	length    int // of the file, in slots, at least
	calls     map[trace.ID]*Call
	begun     int64 // of the last call
	writes    int   // under way
	unwritten int   // bytes of calls that are not in the file
	dirty     []span
	lost      []lost
	taken     int       // of lost, by Interrupted
	failed    error     // of the last write that failed, until one succeeds
	told      bool      // that the log has it
	toldAt    time.Time // the last time that the log had one
	lookAt    time.Time // when the file is looked for at its path again
	waits     sync.Pool
}

// New returns the file of a store. Start keeps records in memory until Open.
func New(store string, logger *slog.Logger) *File {
	return &File{
		path: store, logger: logger, write: writeAt, truncate: (*os.File).Truncate, most: allSlots, calls: make(map[trace.ID]*Call),
		waits: sync.Pool{New: func() any { return newWait() }},
	}
}

func writeAt(file *os.File, text []byte, at int64) error {
	_, err := file.WriteAt(text, at)
	return err
}

// pathOf returns the path of the n-th file of a store. Links are followed, as
// SQLite does for its log.
func pathOf(store string, n int) string {
	if target, err := filepath.EvalSymlinks(store); err == nil {
		store = target
	}
	if n == 0 {
		return store + "-calls"
	}
	return fmt.Sprintf("%s-calls-%d", store, n)
}

// Open opens a file that no other process uses, and finds the start records that
// dead processes left. A process that lives keeps its file.
func (f *File) Open() error {
	if f.isOpen() {
		return nil
	}
	err := f.open()
	if err != nil {
		f.fail(err)
	}
	return err
}

func (f *File) isOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != nil
}

func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(pathOf(f.path, 0)), 0o700); err != nil {
		return err
	}
	var own *os.File
	for n := range maxProcesses {
		name, flags := pathOf(f.path, n), os.O_RDWR
		if own == nil {
			flags |= os.O_CREATE
		}
		file, err := private.OpenLocked(name, flags)
		switch {
		case errors.Is(err, private.ErrLocked), errors.Is(err, fs.ErrNotExist):
		case err != nil && own == nil:
			return err
		case err != nil:
			f.logger.Error("start records of another process can't be read", "file", name, "error", err)
		case own == nil:
			own = file
		default:
			f.readPast(file)
		}
	}
	if own == nil {
		return fmt.Errorf("%s: %d processes use the store: %w", f.path, maxProcesses, private.ErrLocked)
	}
	if err := f.begin(own); err != nil {
		return errors.Join(err, own.Close())
	}
	private.Warn(f.logger, own.Name())
	return nil
}

// begin makes a file that was opened the process's own.
func (f *File) begin(file *os.File) error {
	found, seed, damaged, err := scan(file)
	if err != nil {
		return err
	}
	f.tellDamage(file, damaged)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if err := file.Truncate(0); err != nil {
			return err
		}
		if info.Size() == 0 {
			private.RestrictFile(file)
		}
		seed = rand.Uint64()
		if err := f.write(file, binary.LittleEndian.AppendUint64(fileMark[:], seed), 0); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.seed = file, seed
	f.slots = slots{}
	f.slots.set(0, 1)
	for _, l := range found {
		f.slots.set(l.slot, l.count)
	}
	f.lost = append(f.lost, found...)
	f.length = 1
	if len(found) > 0 {
		f.length = slotsOf(int(min(info.Size(), MaxBytes)))
		f.dirty = f.gaps(f.length)
	}
	return nil
}

// gaps takes the slots below end that are free, whatever is in them, and returns
// them. f.mu is held.
func (f *File) gaps(end int) (all []span) {
	for slot := f.slots.take(1, end); slot >= 0; slot = f.slots.take(1, end) {
		all = append(all, span{slot, 1})
	}
	return all
}

// tellAgain is how soon an error of the file is logged again. On a disk that is full
// some slots can be written and others can't, by turns.
const tellAgain = time.Minute

// fail logs an error, once until the file can be written.
func (f *File) fail(err error) {
	f.mu.Lock()
	f.failed = err
	tell := !f.told && time.Since(f.toldAt) >= tellAgain
	if tell {
		f.told, f.toldAt = true, time.Now()
	}
	f.mu.Unlock()
	if tell {
		f.logger.Error("start records of upstream calls are not kept; trying again", "error", err)
	}
}

// mended logs that the file can be written again, if the log has that it could not.
func (f *File) mended() {
	f.mu.Lock()
	told := f.told
	f.failed, f.told = nil, false
	f.mu.Unlock()
	if told {
		f.logger.Info("start records of upstream calls are being kept again")
	}
}

// Now returns a mark between the calls that have begun and those that have not.
// Marks ascend, also over restarts.
func (f *File) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = max(f.begun, clock()) // no later call has this mark
	return f.begun
}

// clock is the time in eighths of a millisecond.
func clock() int64 { return time.Now().UnixMicro() / 125 }

// wait is what one Start waits by. A channel and a timer of another test's time
// can't be used, so each file has its own.
type wait struct {
	done  chan bool
	timer *time.Timer
}

func newWait() *wait {
	w := &wait{make(chan bool, 1), time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// Start takes a call that is about to be made. It reports whether the record is
// with the operating system. It waits for that 20 ms at most, and not at all where
// the file is not open or too many writes hang; the record is then written later.
// kept is false where there is no room for that either.
//
// The write has a goroutine of its own: a disk that hangs must not hold the call.
func (f *File) Start(ctx context.Context, c *Call) (written, kept bool) {
	f.mu.Lock()
	if f.calls[c.id] != nil || c.size > longest {
		f.mu.Unlock()
		return false, false
	}
	c.begun = max(f.begun+1, clock())
	if f.writes >= maxWrites || !f.place(c) {
		kept = f.unwritten+c.size <= maxUnwritten
		if kept {
			f.begun = c.begun
			f.unwritten += c.size
			f.calls[c.id] = c
		}
		f.mu.Unlock()
		return false, kept
	}
	f.begun = c.begun
	f.unwritten += c.size
	f.calls[c.id] = c
	c.writing = true
	f.writes++
	file := f.file
	f.mu.Unlock()

	w := f.waits.Get().(*wait)
	go func() { w.done <- f.put(file, c) }()
	w.timer.Reset(maxWait)
	select {
	case written = <-w.done:
		w.timer.Stop()
		f.waits.Put(w)
	case <-w.timer.C:
	case <-ctx.Done():
		w.timer.Stop()
	}
	return written, true
}

// place gives a call its slots. f.mu is held.
func (f *File) place(c *Call) bool {
	if f.file == nil {
		return false
	}
	if c.slot == 0 {
		slot := f.slots.take(c.slots(), f.most)
		if slot < 0 {
			return false
		}
		c.slot = slot
		f.length = max(f.length, slot+c.slots())
	}
	binary.LittleEndian.PutUint64(c.text[8:], sum(f.seed, c.slot, c.text[headerSize:]))
	return true
}

// put writes a call to its slots.
func (f *File) put(file *os.File, c *Call) bool {
	err := f.write(file, c.text, int64(c.slot)*slotSize)
	f.mu.Lock()
	f.writes--
	c.writing = false
	left := f.file != file
	var ended []span
	switch {
	case c.ended:
		f.unwritten -= c.size
		ended = []span{{c.slot, c.slots()}}
		c.release()
	case left:
		if c.slot = 0; c.given {
			f.giveUp(c)
		}
	case c.given:
		f.giveUp(c)
	case err == nil:
		f.unwritten -= c.size
		c.release()
	}
	failed := f.failed != nil
	f.mu.Unlock()
	f.clear(file, ended)
	if err != nil && !left {
		f.fail(err)
	} else if err == nil && failed {
		f.mended()
	}
	return err == nil
}

// End clears the slots of calls whose end is stored, and appends what each took: 0
// for an id that it does not know. It appends nothing while no call is under way.
func (f *File) End(sizes []int64, ids []trace.ID) []int64 {
	var ended []span
	f.mu.Lock()
	if len(f.calls) == 0 {
		f.mu.Unlock()
		return sizes
	}
	for _, id := range ids {
		var size int64
		if c := f.calls[id]; c != nil {
			delete(f.calls, id)
			size = c.Size()
			switch {
			case c.writing:
				c.ended = true // the write clears it
			default:
				if c.text != nil {
					f.unwritten -= c.size
					c.release()
				}
				if c.slot != 0 {
					ended = append(ended, span{c.slot, c.slots()})
				}
			}
		}
		sizes = append(sizes, size)
	}
	file := f.file
	f.mu.Unlock()
	f.clear(file, ended)
	return sizes
}

// zeros is what slots are cleared with.
var zeros [64 << 10]byte

// clear overwrites slots of a file with zeros and gives them back. What can't be
// overwritten stays taken, for Retry.
func (f *File) clear(file *os.File, all []span) {
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.slot, b.slot) })
	merged := all[:1]
	for _, s := range all[1:] {
		if last := &merged[len(merged)-1]; last.slot+last.count == s.slot {
			last.count += s.count
		} else {
			merged = append(merged, s)
		}
	}
	for _, s := range merged {
		err := f.zero(file, s)
		f.mu.Lock()
		left := f.file != file // and the slots of another file are other calls'
		switch {
		case left:
		case err == nil:
			f.slots.free(s.slot, s.count)
		default:
			f.dirty = append(f.dirty, s)
		}
		f.mu.Unlock()
		if err != nil && !left {
			f.fail(err)
		}
	}
}

func (f *File) zero(file *os.File, s span) error {
	at, left := int64(s.slot)*slotSize, s.count*slotSize
	for left > 0 {
		n := min(left, len(zeros))
		if err := f.write(file, zeros[:n], at); err != nil {
			return err
		}
		at, left = at+int64(n), left-n
	}
	return nil
}

// Retry does what failed before: it opens the file, writes calls that are not in
// it and clears slots. It makes a file that was moved or deleted again. It reports
// whether there is more to do.
func (f *File) Retry() (more bool) {
	f.leave()
	f.mu.Lock()
	idle := f.file != nil && f.unwritten == 0 && len(f.dirty) == 0
	f.mu.Unlock()
	if idle {
		return false
	}
	if f.Open() != nil {
		return true
	}
	f.mu.Lock()
	var unwritten []*Call
	for _, c := range f.calls {
		if c.text != nil && !c.writing {
			unwritten = append(unwritten, c)
		}
	}
	file, dirty := f.file, f.dirty
	f.dirty = nil
	f.mu.Unlock()
	f.clear(file, dirty)
	for _, c := range unwritten {
		f.mu.Lock()
		begins := f.calls[c.id] == c && c.text != nil && !c.writing && f.place(c)
		if begins {
			c.writing = true
			f.writes++
		}
		f.mu.Unlock()
		if begins && !f.put(file, c) {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unwritten > 0 || len(f.dirty) > 0
}

// Shrink gives the file system back what lies behind the last call, but for some
// slots.
func (f *File) Shrink() {
	f.mu.Lock()
	end := f.slots.end() + spareSlots
	if f.file == nil || f.length <= end {
		f.mu.Unlock()
		return
	}
	f.most, f.length = end, end // no call gets a slot that is cut off
	file := f.file
	f.mu.Unlock()
	err := f.truncate(file, int64(end)*slotSize)
	f.mu.Lock()
	f.most = allSlots
	f.mu.Unlock()
	if err != nil {
		f.fail(err)
	}
}

// Call returns the start record of a call that is under way, or nil.
func (f *File) Call(id trace.ID) *trace.Record {
	f.mu.Lock()
	c := f.calls[id]
	f.mu.Unlock()
	if c == nil {
		return nil
	}
	return f.look(c, true)
}

// Running calls yield with the start records of the calls that are under way, in
// no order, until it returns false. They are without content, and with what they
// share as their own.
func (f *File) Running(yield func(r *trace.Record, begun int64) bool) {
	f.mu.Lock()
	calls := make([]*Call, 0, len(f.calls))
	for _, c := range f.calls {
		calls = append(calls, c)
	}
	f.mu.Unlock()
	for _, c := range calls {
		if r := f.look(c, false); r != nil && !yield(r, c.begun) {
			return
		}
	}
}

// look reads a call that is under way, nil where it has ended meanwhile.
func (f *File) look(c *Call, whole bool) *trace.Record {
	size := c.size
	if !whole {
		size = c.short
	}
	f.mu.Lock()
	file, slot := f.file, c.slot
	var text []byte
	if c.text != nil {
		text = slices.Clone(c.text[:size])
	}
	f.mu.Unlock()
	if text == nil {
		text = make([]byte, size)
		if _, err := file.ReadAt(text, int64(slot)*slotSize); err != nil {
			return nil
		}
	}
	// While the call is under way, its slots are no other's.
	f.mu.Lock()
	ended := f.calls[c.id] != c
	f.mu.Unlock()
	if ended {
		return nil
	}
	r, err := readRecord(text[headerSize:])
	if err != nil {
		return nil
	}
	return Shown(r)
}

// Close gives the file up. It is removed unless calls in it have not ended: the
// next process finds those. Slots that could not be cleared are of calls that have.
func (f *File) Close() error {
	f.mu.Lock()
	file := f.file
	f.file = nil
	var errs []error
	for _, l := range f.lost {
		if l.from != nil && l.from.file != nil {
			errs = append(errs, l.from.file.Close())
			l.from.file = nil
		}
	}
	keep := len(f.calls) > 0 || f.writes > 0
	for _, l := range f.lost {
		keep = keep || l.from == nil && l.slot != 0
	}
	f.mu.Unlock()
	switch {
	case file == nil:
	case keep:
		errs = append(errs, file.Close())
	default:
		errs = append(errs, private.RemoveLocked(file))
	}
	return errors.Join(errs...)
}
