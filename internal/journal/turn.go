package journal

import (
	"github.com/cadenza-gateway/cadenza/internal/private"
)

// turn appends records to the other file, and empties the first one once the other has all
// records that the state keeps. It continues a file that is not whole.
func (j *Journal) turn() error {
	rewrites, err := j.begin()
	if err != nil {
		return err
	}
	for part := 0; j.State.Snapshot(j, part); part++ {
		if err := j.flush(); err != nil {
			return err
		}
	}
	if err := j.sync(); err != nil {
		return err
	}
	text := head{true, j.generation, j.seed}.append(nil, j.Mark)
	if err := j.Disk.Write(j.files[j.used], text, 0); err != nil {
		return err
	}
	j.head, j.bound, j.pause = text, j.Growth+2*j.end, 0
	j.mu.Lock()
	j.ok, j.err, j.whole = true, nil, j.generation
	j.mu.Unlock()
	j.callWritten()
	j.again.Stop()
	if j.logged {
		j.logged = false
		j.Logger.Info(j.Mended, "file", j.Path)
	}
	if j.empty(1-j.used) == nil {
		j.rewritten(rewrites)
	}
	for _, past := range j.past {
		if err := each(past, private.RemoveLocked); err != nil {
			j.Logger.Warn("removing the file of a dead process", "error", err)
		}
	}
	j.past = nil
	return nil
}

// begin appends records to the next file, and returns how many callers wait for this
// rewrite. A file that is not whole may have records that no other one has, so begin
// continues it after them.
func (j *Journal) begin() (rewrites int, err error) {
	next, fresh := j.used, false
	if j.generation == j.whole {
		next, fresh = 1-j.used, true
	}
	file := j.files[next]
	if file != nil && private.Moved(file) {
		_ = file.Close() // no later process finds its records
		file = nil
	}
	if file == nil {
		fresh = true
		if file, _, err = j.openOne(name(j.path, next)); err != nil {
			return 0, err
		}
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	generation, seed, end := j.generation, j.seed, max(info.Size(), j.end)
	if fresh || end < headSize || end > largestFile/2 {
		generation, seed, end = generation+1, newSeed(), headSize
		if err := j.Disk.Truncate(file, 0); err != nil {
			return 0, err
		}
	}
	j.head, j.zeros = head{false, generation, seed}.append(nil, j.Mark), 0
	if err := j.Disk.Write(file, j.head, 0); err != nil {
		return 0, err
	}
	j.mu.Lock()
	old, offset, out, records, ok := j.files[j.used], j.end, j.out, j.kept, j.ok
	j.files[next], j.used, j.generation, j.seed = file, next, generation, seed
	j.end, j.out, j.kept, j.unwritten, j.taking = end, nil, nil, 0, true
	rewrites = len(j.rewrites)
	j.mu.Unlock()
	if ok && len(out) > 0 { // records since the last flush
		err = j.write(old, out, records, offset)
	}
	return rewrites, err
}

// sync syncs the used file. Records that are appended meanwhile are written.
func (j *Journal) sync() error {
	file, done := j.files[j.used], make(chan error, 1)
	go func() { done <- j.Disk.Sync(file) }()
	for {
		if err := j.flush(); err != nil {
			return err
		}
		select {
		case err := <-done:
			return err
		case <-j.wake:
		case <-j.lateness.C:
			j.late.Store(false)
		}
	}
}

// empty empties a file whose records are older. A moved file stays as it is.
func (j *Journal) empty(i int) error {
	file := j.files[i]
	if file == nil {
		return nil
	}
	if !private.Moved(file) {
		return j.Disk.Truncate(file, 0)
	}
	j.mu.Lock()
	j.files[i] = nil
	j.mu.Unlock()
	return file.Close()
}

// mustRewrite reports whether somebody waits for a rewrite.
func (j *Journal) mustRewrite() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.rewrites) > 0
}

// rewritten wakes the first n callers that wait for a rewrite.
func (j *Journal) rewritten(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, done := range j.rewrites[:n] {
		close(done)
	}
	j.rewrites = append([]chan struct{}(nil), j.rewrites[n:]...)
	if len(j.rewrites) > 0 {
		j.Flush() // sync took their wake
	}
}
