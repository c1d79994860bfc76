// Package journaltest has a disk whose process can die, for tests of journals.
package journaltest

import (
	"os"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/journal"
)

// Disk is a disk under a process that can die: nothing reaches the disk from then on, or
// only the first bytes. The zero Disk is ready to be used.
type Disk struct {
	mu   sync.Mutex
	dead bool
	left int // bytes that still reach the disk
	err  error
	hang chan struct{}
}

// Options returns options of a journal on the disk. Nothing is synced.
func (d *Disk) Options() journal.Options {
	return journal.Options{Disk: journal.Disk{
		Write: d.write,
		Truncate: func(file *os.File, size int64) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.dead {
				return nil
			}
			return file.Truncate(size)
		},
		Sync: func(*os.File) error { return nil },
	}}
}

func (d *Disk) write(file *os.File, text []byte, at int64) error {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		text = text[:min(len(text), d.left)]
		d.left -= len(text)
	}
	if d.err != nil {
		text = text[:len(text)/2]
	}
	if _, err := file.WriteAt(text, at); err != nil {
		return err
	}
	return d.err
}

// Die ends the process, but for so many bytes of what it writes.
func (d *Disk) Die(left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead, d.left = true, left
}

// Fail makes writes fail half-way; with nil they don't.
func (d *Disk) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// Hang makes writes hang until the function that it returns is called.
func (d *Disk) Hang() (answer func()) {
	hang := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang = hang
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hang = nil
		close(hang)
	}
}
