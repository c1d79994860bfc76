package journal

import (
	"os"
	"time"
)

const (
	// maxWait bounds how long a caller waits until its records are written.
	maxWait = 20 * time.Millisecond

	// hangs is how long a write takes until callers stop waiting for it. Until then a late
	// write, such as one on a busy disk, costs each caller maxWait.
	hangs = time.Second

	// soon bounds how long a record waits for others after a call of Soon.
	soon = 10 * time.Millisecond

	// muchUnwritten is the number of unwritten bytes that are written at once.
	muchUnwritten = 64 << 10

	// maxUnwritten bounds the records that wait for a disk that hangs, in bytes.
	maxUnwritten = 4 << 20

	// largestSpare is the largest buffer that is used again, in bytes.
	largestSpare = 1 << 20
)

// Place is the place of a record. Snapshot moves it to a new file; until that file is
// whole the record is in both. The zero Place is nowhere.
type Place struct {
	generation uint32
	at         int64
}

// span is a record that is to be cleared, with its frame.
type span struct {
	Place
	size int
}

// wait is the channel and the timer of a waiting caller. Callers of the same journal use it
// again: tests with a clock of their own can't share channels and timers.
type wait struct {
	done  chan bool
	timer *time.Timer
}

func newWait() *wait {
	w := &wait{make(chan bool, 1), time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// kept is a large record that is not copied into out: it is written after its frame there.
type kept struct {
	end    int // of its frame in out
	record []byte
}

type buffers struct {
	out     []byte
	kept    []kept
	cleared []span
	waiting []*wait
}

// Append adds a record, which is written when Wait, Flush or Soon is called next. It does
// not wait, so locks may be held.
func (j *Journal) Append(record []byte) Place {
	j.mu.Lock()
	defer j.mu.Unlock()
	place, taken := j.appendFrame(record)
	if taken {
		j.out = append(j.out, record...)
		j.appended()
	}
	return place
}

// AppendKept is Append for a large record that does not change afterwards: it is not
// copied.
func (j *Journal) AppendKept(record []byte) Place {
	j.mu.Lock()
	defer j.mu.Unlock()
	place, taken := j.appendFrame(record)
	if taken {
		j.kept = append(j.kept, kept{len(j.out), record})
		j.appended()
	}
	return place
}

// appendFrame appends the frame of a record. taken is false if records are lost.
func (j *Journal) appendFrame(record []byte) (place Place, taken bool) {
	if j.full || !j.taking {
		return Place{}, false
	}
	place = Place{j.generation, j.end + j.unwritten}
	j.out = appendFrame(j.out, record, j.seed)
	j.unwritten += frameSize + int64(len(record))
	return place, true
}

func (j *Journal) appended() {
	j.full = !j.missed.IsZero() && len(j.out) > maxUnwritten
	if j.unwritten > muchUnwritten {
		j.Flush()
	}
}

// Wait waits until the operating system has all appended records, at most 20 ms and until
// done is closed, and reports whether it has. It does not wait for files that fail, or on a
// disk that has hung for a second. The caller must not hold a lock that a State takes.
func (j *Journal) Wait(done <-chan struct{}) bool {
	j.mu.Lock()
	if !j.ok || !j.missed.IsZero() && time.Since(j.missed) >= hangs {
		j.mu.Unlock()
		j.Flush()
		return false
	}
	w := j.waits.Get().(*wait)
	j.waiting = append(j.waiting, w)
	j.mu.Unlock()
	j.Flush()
	w.timer.Reset(maxWait)
	select {
	case written := <-w.done:
		w.timer.Stop()
		j.waits.Put(w)
		return written
	case <-done:
		w.timer.Stop()
	case <-w.timer.C:
		j.mu.Lock()
		if j.missed.IsZero() {
			j.missed = time.Now()
		}
		j.mu.Unlock()
	}
	return false
}

// AfterWrite calls do, on the journal's goroutine, once Read finds all records that were
// appended so far, however long that takes. It does not call it if the files fail.
func (j *Journal) AfterWrite(do func()) {
	j.mu.Lock()
	if j.ok {
		j.after = append(j.after, do)
	}
	j.mu.Unlock()
	j.Flush()
}

// Flush starts writing the appended records, and does not wait for it.
func (j *Journal) Flush() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Soon writes the appended records together with others, at most 10 ms later.
func (j *Journal) Soon() {
	if j.late.CompareAndSwap(false, true) {
		j.lateness.Reset(soon)
	}
}

// Clear overwrites a record of a size with zeros, in all its places.
func (j *Journal) Clear(size int, places ...Place) {
	j.mu.Lock()
	for _, p := range places {
		j.cleared = append(j.cleared, span{p, frameSize + size})
	}
	j.mu.Unlock()
	j.Flush()
}

// Has reports whether a record that was written can be read at a place, until the next
// file is whole.
func (j *Journal) Has(p Place) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return p.at > 0 && p.generation == j.whole
}

// Gone reports whether no file has a place any more.
func (j *Journal) Gone(p Place) bool { return j.fileOf(p) == nil }

// Read reads the beginning of a record that was not cleared, and reports whether it
// could.
func (j *Journal) Read(p Place, text []byte) bool {
	file := j.fileOf(p)
	if file == nil || !j.Has(p) {
		return false
	}
	_, err := file.ReadAt(text, p.at+frameSize)
	return err == nil && j.Has(p) // otherwise the file may have been begun again
}

// fileOf returns the file that a place is in, or nil.
func (j *Journal) fileOf(p Place) *os.File {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case p.at == 0:
	case p.generation == j.generation:
		return j.files[j.used]
	case p.generation == j.whole:
		return j.files[1-j.used]
	}
	return nil
}

// flush writes the waiting records.
func (j *Journal) flush() error {
	j.mu.Lock()
	out, records, cleared, waiting, offset := j.out, j.kept, j.cleared, j.waiting, j.end
	after := j.after
	j.after = nil
	j.out, j.kept, j.cleared, j.waiting = j.spare.out[:0], j.spare.kept[:0], j.spare.cleared[:0], j.spare.waiting[:0]
	j.end += j.unwritten
	j.unwritten = 0
	ok, full := j.ok, j.full
	j.missed, j.full = time.Time{}, false
	j.mu.Unlock()
	var err error
	if full {
		err = ErrHangs
	} else if len(out) > 0 {
		err = j.write(j.files[j.used], out, records, offset)
	}
	for _, w := range waiting {
		w.done <- ok && err == nil
	}
	for _, s := range cleared {
		if err == nil {
			err = j.zero(s)
		}
	}
	clear(waiting)
	clear(records)
	if cap(out) > largestSpare {
		out = nil
	}
	j.spare = buffers{out, records, cleared, waiting}
	j.written = append(j.written, after...)
	if err == nil && j.generation == j.whole {
		j.callWritten()
	}
	return err
}

// callWritten calls the functions of AfterWrite whose records can be read now.
func (j *Journal) callWritten() {
	for _, do := range j.written {
		do()
	}
	clear(j.written)
	j.written = j.written[:0]
}

// write writes frames and records, the kept ones from their own memory.
func (j *Journal) write(file *os.File, out []byte, records []kept, offset int64) error {
	written := 0
	for _, r := range records {
		if err := j.Disk.Write(file, out[written:r.end], offset); err != nil {
			return err
		}
		offset += int64(r.end - written)
		if err := j.Disk.Write(file, r.record, offset); err != nil {
			return err
		}
		offset, written = offset+int64(len(r.record)), r.end
	}
	if written == len(out) {
		return nil
	}
	return j.Disk.Write(file, out[written:], offset)
}

var zeros [64 << 10]byte

// zero overwrites a record, unless its file was begun again.
func (j *Journal) zero(s span) error {
	file := j.fileOf(s.Place)
	for file != nil && s.size > 0 {
		n := min(s.size, len(zeros))
		if err := j.Disk.Write(file, zeros[:n], s.at); err != nil {
			return err
		}
		s.at, s.size = s.at+int64(n), s.size-n
		j.zeros += int64(n)
	}
	return nil
}
