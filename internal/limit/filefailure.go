package limit

import (
	"errors"
	"fmt"
	"time"
)

const (
	// firstPause and longestPause are between two tries to use a file that failed.
	firstPause   = time.Second
	longestPause = 16 * time.Second
)

var errHangs = errors.New("writing takes too long")

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

// failure returns why the file can't have what is counted; nil where it can.
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
