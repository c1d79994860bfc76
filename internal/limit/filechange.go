package limit

import "time"

const (
	// maxWait bounds how long a call waits for its reservation to be with the
	// operating system.
	maxWait = 20 * time.Millisecond

	// settleWait bounds how long a settlement waits for the next reservation, whose
	// write then has both.
	settleWait = 10 * time.Millisecond

	// muchUnwritten is what is written without waiting for anything, in bytes.
	muchUnwritten = 64 << 10

	// maxUnwritten bounds what waits for a file that hangs, in bytes.
	maxUnwritten = 4 << 20
)

// wait is what one call waits by. It is used again, by calls of the same file alone:
// tests with a clock of their own can't share channels and timers.
type wait struct {
	done  chan struct{}
	timer *time.Timer
}

// nothing is what a change is waited by that no call waits for.
var nothing = new(wait)

type buffers struct {
	out, next, step []byte
	waiting         []*wait
}

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
	if len(f.out) > muchUnwritten {
		f.poke()
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

// soon has a change written with the next reservation, 10 ms later at most. Until then
// the file may only count more than is used: what a crash leaves is on the safe side.
func (f *file) soon(w *wait) {
	if w != nil && f.late.CompareAndSwap(false, true) {
		f.lateness.Reset(settleWait)
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

// put appends to one of the files.
func (f *file) put(i int, text []byte) error {
	if err := f.disk.write(f.files[i], text, f.ends[i]); err != nil {
		return err
	}
	f.ends[i] += int64(len(text))
	return nil
}

// kept returns a buffer to be used again, unless it has become large.
func kept(text []byte) []byte {
	if cap(text) > 1<<20 {
		return nil
	}
	return text
}
