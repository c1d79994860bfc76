package calls

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

// lookEvery is the least time between two looks for the file at its path.
const lookEvery = time.Second

// leave gives the file up if it was moved or deleted: no later process would find
// the records in it. It reads those of the calls that are under way back, and Retry
// writes them to a new file.
func (f *File) leave() {
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()
	now := time.Now()
	if file == nil || now.Before(f.lookAt) {
		return
	}
	f.lookAt = now.Add(lookEvery)
	if !private.Moved(file) {
		return
	}
	f.logger.Warn("the file of start records was moved or deleted; making another", "file", file.Name())
	f.mu.Lock()
	for _, c := range f.calls {
		if c.text == nil {
			// A record that can't be read has no mark, and is passed over.
			c.text, c.kept = make([]byte, c.size), new([]byte)
			_, _ = file.ReadAt(c.text, int64(c.slot)*slotSize)
			f.unwritten += c.size
		}
		if !c.writing {
			c.slot = 0
		}
	}
	for i := range f.lost {
		if l := &f.lost[i]; l.from == nil && l.slot != 0 {
			if l.text == nil {
				l.text = make([]byte, l.size)
				_, _ = file.ReadAt(l.text, int64(l.slot)*slotSize)
			}
			l.slot = 0
		}
	}
	f.file, f.slots, f.dirty, f.length = nil, slots{}, nil, 0
	f.mu.Unlock()
	// If it comes back, its calls must not be found a second time.
	_ = file.Truncate(0)
	_ = file.Close()
}
