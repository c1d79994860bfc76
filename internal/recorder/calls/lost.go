package calls

import (
	"encoding/binary"
	"os"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/trace"
)

// lost is a start record without an end: of a process that is dead, or of a call
// whose end could not be stored.
type lost struct {
	from *past // nil: the file itself
	span
	size int
	text []byte // of a record that is not in a file
}

// past is the file of a dead process.
type past struct {
	file *os.File
	left int // records that are not stored yet
}

// readPast finds the start records in the file of a dead process. A file without
// any is removed.
func (f *File) readPast(file *os.File) {
	found, _, damaged, err := scan(file)
	f.tellDamage(file, damaged)
	if err != nil {
		f.logger.Error("start records of another process can't be read", "file", file.Name(), "error", err)
		_ = file.Close() // it was only read
		return
	}
	of := &past{file, len(found)}
	for i := range found {
		found[i].from = of
	}
	f.mu.Lock()
	f.lost = append(f.lost, found...)
	f.mu.Unlock()
	if len(found) == 0 {
		f.remove(file)
	}
}

func (f *File) remove(file *os.File) {
	if err := private.RemoveLocked(file); err != nil {
		f.logger.Warn("removing a file of start records", "file", file.Name(), "error", err)
	}
}

func (f *File) tellDamage(file *os.File, damaged int) {
	if damaged > 0 {
		f.logger.Warn("damaged start records were passed over", "file", file.Name(), "count", damaged)
	}
}

// Lost returns how many calls are to be stored as interrupted, without those that
// Interrupted has returned.
func (f *File) Lost() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lost) - f.taken
}

// Lose gives up a call whose end can't be stored, and returns what it took. It
// becomes an interrupted call.
func (f *File) Lose(id trace.ID) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id]
	if c == nil {
		return 0
	}
	delete(f.calls, id)
	size := c.Size()
	if c.writing {
		c.given = true // the write gives it up
	} else {
		f.giveUp(c)
	}
	return size
}

// giveUp makes a call one that is lost. f.mu is held.
func (f *File) giveUp(c *Call) {
	l := lost{span: span{c.slot, c.slots()}, size: c.size}
	if c.text != nil {
		f.unwritten -= c.size
		l.text = slices.Clone(c.text)
		c.release()
	}
	f.lost = append(f.lost, l)
}

// Interrupted returns the next lost calls, count at most and no more than some
// bytes of them, as records of interrupted calls. They stay until Forget.
func (f *File) Interrupted(count int, bytes int64) (records []*trace.Record) {
	f.mu.Lock()
	left := f.lost[f.taken:]
	f.mu.Unlock()
	taken := 0
	for taken < len(left) && len(records) < count && bytes > 0 {
		l := &left[taken]
		taken++
		bytes -= int64(l.size)
		r, err := f.read(l)
		if err != nil {
			f.logger.Warn("a start record can't be read", "error", err)
			continue
		}
		r.State = trace.StateInterrupted
		records = append(records, r)
	}
	f.mu.Lock()
	f.taken += taken
	f.mu.Unlock()
	return records
}

// read reads a lost call.
func (f *File) read(l *lost) (*trace.Record, error) {
	if l.text != nil {
		return readRecord(l.text[headerSize:])
	}
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()
	if l.from != nil {
		file = l.from.file
	}
	text := make([]byte, l.size)
	if _, err := file.ReadAt(text, int64(l.slot)*slotSize); err != nil {
		return nil, err
	}
	return readRecord(text[headerSize:])
}

// Forget clears what Interrupted returned, which is stored or given up.
func (f *File) Forget() {
	f.mu.Lock()
	if f.taken == 0 {
		f.mu.Unlock()
		return
	}
	done := f.lost[:f.taken]
	f.lost, f.taken = slices.Clone(f.lost[f.taken:]), 0
	file := f.file
	f.mu.Unlock()
	var own []span
	for _, l := range done {
		switch {
		case l.from == nil && l.slot != 0:
			own = append(own, l.span)
		case l.from != nil:
			if err := f.zero(l.from.file, l.span); err != nil {
				f.logger.Warn("clearing a start record", "file", l.from.file.Name(), "error", err)
			}
			if l.from.left--; l.from.left == 0 {
				f.remove(l.from.file)
			}
		}
	}
	f.clear(file, own)
}

// scanWindow is how much of a file is read at a time, in bytes: a file that is long and
// has little takes a read for each of its windows, not for each of its slots.
const scanWindow = 1 << 20

// scan finds the records in a file: all whose sum is right. A file that is too
// short for any has none.
func scan(file *os.File) (found []lost, seed uint64, damaged int, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, 0, err
	}
	size := min(info.Size(), MaxBytes)
	header := make([]byte, headerSize)
	if size < headerSize {
		return nil, 0, 0, nil
	}
	if _, err := file.ReadAt(header, 0); err != nil {
		return nil, 0, 0, err
	}
	if [4]byte(header) != fileMark {
		return nil, 0, 1, nil
	}
	seed = binary.LittleEndian.Uint64(header[4:])
	var text []byte
	window, from := make([]byte, 0, min(size, scanWindow)), int64(0)
	for slot := 1; int64(slot)*slotSize+headerSize <= size; {
		at := int64(slot) * slotSize
		if at+headerSize > from+int64(len(window)) {
			window, from = window[:min(size-at, int64(cap(window)))], at
			if _, err := file.ReadAt(window, at); err != nil {
				return nil, 0, damaged, err
			}
		}
		header := window[at-from:][:headerSize]
		if [headerSize]byte(header) == [headerSize]byte{} {
			slot++
			continue
		}
		length := int64(binary.LittleEndian.Uint32(header[4:]))
		if [4]byte(header) != recordMark || length > longest || at+headerSize+length > size {
			damaged++
			slot++
			continue
		}
		text = slices.Grow(text[:0], int(headerSize+length))[:headerSize+length]
		if _, err := file.ReadAt(text, at); err != nil {
			return nil, 0, damaged, err
		}
		count := slotsOf(len(text))
		if sound(text, seed, slot) {
			found = append(found, lost{span: span{slot, count}, size: len(text)})
		} else {
			damaged++
		}
		slot += count
	}
	return found, seed, damaged, nil
}

// sound reports whether a record is what was written.
func sound(text []byte, seed uint64, slot int) bool {
	return [4]byte(text) == recordMark &&
		int(binary.LittleEndian.Uint32(text[4:])) == len(text)-headerSize &&
		binary.LittleEndian.Uint64(text[8:]) == sum(seed, slot, text[headerSize:])
}
