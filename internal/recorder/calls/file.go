package calls

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// MaxBytes bounds the start records of the calls that are under way at once.
	MaxBytes = 256 << 20

	// maxUnwritten bounds the start records that wait in memory for a file that
	// can't be written.
	maxUnwritten = 16 << 20

	// maxProcesses bounds how many processes use one store at once.
	maxProcesses = 64

	// longest bounds one record, in bytes: a start's own content and its shared
	// content, each 16 MiB, and names.
	longest = 33 << 20

	// chunk is how much is written at a time when a file is begun, in bytes.
	chunk = 256 << 10

	// growth is how much a file grows, in bytes, before the other one is begun, which
	// gets the records of all calls under way: those of a few large requests take 100 MB.
	growth = 32 << 20
)

// mark is the beginning of a file, with the number of its format.
var mark = [4]byte{'C', 'z', 'R', 1}

// File keeps the start records of the calls of one process. Its methods may be called
// concurrently, but for Open, End, Interrupted, Forget and Close, which are for one
// goroutine.
type File struct {
	options journal.Options
	logger  *slog.Logger

	mu        sync.Mutex
	journal   *journal.Journal // nil: it is not open
	calls     map[trace.ID]*Call
	begun     int64   // of the last call
	unwritten int     // bytes of texts in memory
	lost      []*Call // without an end: of dead processes, or whose end can't be stored
	taken     int     // of lost, by Interrupted
	rest      []*Call // calls that Snapshot has not appended yet
	buffer    []byte  // of Snapshot
}

// New returns the file of a store. Start keeps records in memory until Open.
func New(store string, logger *slog.Logger) *File {
	disk := journal.OS
	disk.Sync = func(*os.File) error { return nil } // a power cut ends the calls, too
	return &File{
		options: journal.Options{
			Path: store, Mark: mark, Processes: maxProcesses, Growth: growth, Logger: logger, Disk: disk,
			Failed: "start records of upstream calls are not kept; trying again",
			Mended: "start records of upstream calls are being kept again",
		},
		logger: logger, calls: make(map[trace.ID]*Call),
	}
}

// Open opens a file that no other process uses, and finds the start records that dead
// processes left. If it can't be opened, the log says so, and it is tried again until
// Close.
func (f *File) Open() {
	options := f.options
	// Links are followed, as SQLite does for its log.
	if target, err := filepath.EvalSymlinks(options.Path); err == nil {
		options.Path = target
	}
	options.Path, options.State = options.Path+"-calls", f
	f.mu.Lock()
	f.journal = journal.Open(options)
	f.mu.Unlock()
	<-f.journal.Loaded()
}

// Restore implements journal.State.
func (f *File) Restore(records iter.Seq[[]byte], _ bool) {
	found := make(map[trace.ID]*Call)
	for text := range records {
		r, err := readRecord(text)
		if err != nil {
			f.logger.Warn("a start record can't be read", "error", err)
			continue
		}
		found[r.ID] = &Call{id: r.ID, size: len(text), text: slices.Clone(text)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range found {
		f.unwritten += c.size
		f.lost = append(f.lost, c)
	}
}

// Snapshot implements journal.State. A text that is only in the file before is read
// without the lock: the disk may hang.
func (f *File) Snapshot(j *journal.Journal, part int) bool {
	f.mu.Lock()
	if part == 0 {
		f.rest = slices.Clone(f.lost)
		for _, c := range f.calls {
			f.rest = append(f.rest, c)
		}
	}
	rest := f.rest
	f.mu.Unlock()
	for size := 0; len(rest) > 0 && size < chunk; {
		c := rest[0]
		f.mu.Lock()
		place, read := c.place(j), c.text == nil
		f.mu.Unlock()
		var text []byte
		if read {
			f.buffer = slices.Grow(f.buffer[:0], c.size)
			text = f.buffer[:c.size:c.size]
			if !j.Read(place, text) {
				rest = rest[1:] // somebody has emptied the file
				continue
			}
		}
		f.mu.Lock()
		if c.text != nil {
			text = c.text
		}
		switch {
		case !c.ended && text == nil: // it was released since: the file before has it
			f.mu.Unlock()
			continue
		case !c.ended:
			c.places = append(slices.DeleteFunc(c.places, j.Gone), c.appendTo(j, text))
		}
		f.mu.Unlock()
		size += c.size
		if rest = rest[1:]; read && c.size > largestKept {
			break // the buffer is written before it is used again
		}
	}
	f.rest = rest
	if len(rest) == 0 && cap(f.buffer) > chunk {
		f.buffer = nil
	}
	return len(rest) > 0
}

// appendTo appends the call's text to a journal, which keeps one that no other call uses
// again. f.mu is held.
func (c *Call) appendTo(j *journal.Journal, text []byte) journal.Place {
	c.copies++
	if cap(text) > largestKept {
		return j.AppendKept(text)
	}
	return j.Append(text)
}

// Now returns a mark that separates the calls that have begun from later ones.
// Marks ascend, also over restarts.
func (f *File) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = max(f.begun, clock()) // no later call has this mark
	return f.begun
}

// clock is the time in eighths of a millisecond.
func clock() int64 { return time.Now().UnixMicro() / 125 }

// Start takes a call that is about to be made. It reports whether the record is with
// the operating system. It waits for that 20 ms at most, and not at all if the file is
// not open, fails or hangs; the record is then written later. kept is false if the
// memory for that is used up too.
func (f *File) Start(ctx context.Context, c *Call) (written, kept bool) {
	f.mu.Lock()
	j := f.journal
	keeps := j != nil && j.Err() == nil
	if f.calls[c.id] != nil || c.size > longest || !keeps && f.unwritten+c.size > maxUnwritten {
		f.mu.Unlock()
		return false, false
	}
	c.begun = max(f.begun+1, clock())
	f.begun = c.begun
	f.unwritten += c.size
	f.calls[c.id] = c
	if j == nil {
		f.mu.Unlock()
		return false, true
	}
	c.places = append(c.places, c.appendTo(j, c.text))
	f.mu.Unlock()
	written = j.Wait(ctx.Done())
	if !written || !f.releaseRead(j, c) {
		j.AfterWrite(func() { f.releaseRead(j, c) })
	}
	return written, true
}

// releaseRead gives the text of a call up if the journal's file has what was written. It
// reports whether it has. What the journal was given by then is written, so another call
// may use the memory, unless Snapshot has given it the text once more.
func (f *File) releaseRead(j *journal.Journal, c *Call) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.place(j) == (journal.Place{}) {
		return false
	}
	if c.copies == 1 && cap(c.text) > largestKept {
		large.Put(c.text)
	}
	f.release(c)
	return true
}

// release gives the text of a call up. f.mu is held.
func (f *File) release(c *Call) {
	if c.text != nil {
		f.unwritten -= c.size
		c.release()
	}
}

// end has the record of a call overwritten. f.mu is held.
func (f *File) end(c *Call) {
	c.ended = true
	f.release(c)
	if f.journal != nil {
		f.journal.Clear(c.size, c.places...)
	}
}

// End ends calls whose end is stored, and appends the size of each: 0 for an unknown
// id. It appends nothing while no call is under way.
func (f *File) End(sizes []int64, ids []trace.ID) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return sizes
	}
	for _, id := range ids {
		var size int64
		if c := f.calls[id]; c != nil {
			delete(f.calls, id)
			size = c.Size()
			f.end(c)
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// Lose gives up a call whose end can't be stored, and returns its size. It becomes an
// interrupted call.
func (f *File) Lose(id trace.ID) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id]
	if c == nil {
		return 0
	}
	delete(f.calls, id)
	f.lost = append(f.lost, c)
	return c.Size()
}

// Lost returns the number of calls to be stored as interrupted, without the ones
// that Interrupted has returned.
func (f *File) Lost() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lost) - f.taken
}

// Interrupted returns the next lost calls, count at most and no more than some bytes of
// them, as records of interrupted calls. They stay until Forget.
func (f *File) Interrupted(count int, bytes int64) (records []*trace.Record) {
	for len(records) < count && bytes > 0 && f.Lost() > 0 {
		f.mu.Lock()
		c := f.lost[f.taken]
		f.taken++
		f.mu.Unlock()
		bytes -= int64(c.size)
		r := f.read(c, c.size)
		if r == nil {
			f.logger.Warn("a start record can't be read", "id", c.id)
			continue
		}
		r.State = trace.StateInterrupted
		records = append(records, r)
	}
	return records
}

// Forget clears the calls that Interrupted returned, which are stored or given up.
func (f *File) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.lost[:f.taken] {
		f.end(c)
	}
	f.lost, f.taken = slices.Clone(f.lost[f.taken:]), 0
}

// Call returns the start record of a call that is under way, or nil.
func (f *File) Call(id trace.ID) *trace.Record {
	f.mu.Lock()
	c := f.calls[id]
	f.mu.Unlock()
	if c == nil {
		return nil
	}
	return f.look(c, c.size)
}

// Running calls yield with the start records of the calls that are under way, in no
// order, until it returns false. They are without content, and have the shared members
// as their own.
func (f *File) Running(yield func(r *trace.Record, begun int64) bool) {
	f.mu.Lock()
	calls := make([]*Call, 0, len(f.calls))
	for _, c := range f.calls {
		calls = append(calls, c)
	}
	f.mu.Unlock()
	for _, c := range calls {
		if r := f.look(c, c.short); r != nil && !yield(r, c.begun) {
			return
		}
	}
}

// look reads a call that is under way as a store shows it, nil if it has ended
// meanwhile.
func (f *File) look(c *Call, size int) *trace.Record {
	r := f.read(c, size)
	f.mu.Lock()
	ended := f.calls[c.id] != c
	f.mu.Unlock()
	if r == nil || ended {
		return nil
	}
	return Shown(r)
}

// read reads the beginning of a record, or nil. Another file may become whole meanwhile,
// which has the record at another place.
func (f *File) read(c *Call, size int) *trace.Record {
	for range 10 { // files may take turns in between
		f.mu.Lock()
		place := c.place(f.journal)
		var text []byte
		if c.text != nil {
			text = slices.Clone(c.text[:size])
		}
		f.mu.Unlock()
		if text == nil {
			text = make([]byte, size)
			if !f.journal.Read(place, text) {
				continue
			}
		}
		if r, err := readRecord(text); err == nil {
			return r
		}
	}
	return nil
}

// Close gives the file up. It is removed unless calls in it have not ended: the next
// process finds them.
func (f *File) Close() error {
	f.mu.Lock()
	j, left := f.journal, len(f.calls)+len(f.lost)
	f.mu.Unlock()
	if j == nil {
		return nil
	}
	return j.Close(left == 0)
}
