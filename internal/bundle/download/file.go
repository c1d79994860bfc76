package download

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// header is the first line of Config.File, as JSON. The bundle follows as it came. The time of
// the file is that of the last confirmation.
type header struct {
	Source string `json:"source"` // source.id of where it came from
	Tag    string `json:"tag"`    // its ETag there
	Waits  bool   `json:"waits"`  // the source takes long polls
	Serial int64  `json:"serial"`
}

// disk is what File is written by, which tests replace.
type disk struct {
	write  func(*os.File, []byte) (int, error)
	sync   func(*os.File) error
	rename func(from, to string) error
}

var realDisk = disk{(*os.File).Write, (*os.File).Sync, os.Rename}

// Restore reads File, verifies it again, and activates it. It does nothing where there is no
// file. A file that fails is passed over, and what is fetched takes its place.
func (d *Downloader) Restore() error {
	if d.config.File == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.show()
	// A process that was killed left these. One that runs writes its own again.
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(d.config.File), d.pattern()))
	for _, name := range left {
		_ = os.Remove(name)
	}
	err := d.restore()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = fmt.Errorf("the bundle that is kept in %s is passed over: %w", d.config.File, err)
	d.status.FileError = err.Error()
	return err
}

func (d *Downloader) restore() error {
	file, err := regular.ReadFile(d.config.File, bundle.MaxPacked+64<<10)
	if err != nil {
		return err
	}
	info, err := os.Stat(d.config.File)
	if err != nil {
		return err
	}
	line, packed, _ := bytes.Cut(file, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("its first line is damaged: %w", err)
	}
	b, err := bundle.Read(packed, d.config.Keys, d.config.Scope)
	if err != nil {
		return err
	}
	if b.Serial != h.Serial {
		return fmt.Errorf("its first line has the serial %d, and the bundle %d", h.Serial, b.Serial)
	}
	if err := d.config.Activate(b); err != nil {
		return err
	}
	d.serve(b)
	d.status.Confirmed = info.ModTime()
	if now := time.Now(); now.Before(d.status.Confirmed) {
		d.status.Confirmed = now
	}
	for _, s := range d.sources {
		if s.id == h.Source && upstream.ValidHeaderValue(h.Tag) {
			d.from, s.tag, s.holds, s.waits = s, h.Tag, b.Tag(), h.Waits
		}
	}
	return nil
}

// save brings File up to date: what is served, or the time of its last confirmation.
func (d *Downloader) save() {
	if d.config.File == "" || d.served == nil {
		return
	}
	if d.unsaved {
		if err := d.write(); err != nil {
			if d.status.FileError == "" {
				d.config.Logger.Error("the bundle that is served can't be kept, and a restart has an older one", "file", d.config.File, "error", err)
			}
			d.status.FileError = fmt.Sprintf("the bundle that is served can't be kept: %v", err)
			return
		}
		d.status.FileError = ""
	}
	err := os.Chtimes(d.config.File, time.Time{}, d.status.Confirmed)
	d.unsaved = errors.Is(err, fs.ErrNotExist) // somebody has removed it
}

// pattern has the names of files that become File.
func (d *Downloader) pattern() string { return "." + filepath.Base(d.config.File) + ".*" }

// write writes File by one rename.
func (d *Downloader) write() error {
	h := header{d.from.id, "", d.from.waits, d.served.Serial}
	if d.from.holds == d.served.Tag() {
		h.Tag = d.from.tag // else it is that of what was refused since
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	dir := filepath.Dir(d.config.File)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, d.pattern())
	if err != nil {
		return err
	}
	private.RestrictFile(f)
	if _, err = d.disk.write(f, append(line, '\n')); err == nil {
		_, err = d.disk.write(f, d.served.Packed)
	}
	if err == nil {
		err = d.disk.sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.disk.rename(f.Name(), d.config.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
