package definition

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long a directory must be unchanged before it is loaded, where
	// several files changed.
	quiet = 150 * time.Millisecond
	// quietFile is quiet where one file changed: many programs write a file in more
	// than one step.
	quietFile = 50 * time.Millisecond
	// patience is the longest that a change waits for quiet.
	patience = 500 * time.Millisecond
	// recheck is the interval at which the watched folders are compared with the
	// folders that exist, for changes that no watch reports, such as a replaced
	// parent folder.
	recheck = 5 * time.Second
)

// watcher calls reload when a workspace's directory changes. It watches
// folders, never files: a watch on a file is lost when an editor or Kubernetes
// replaces it.
type watcher struct {
	dir     string // absolute
	fs      *fsnotify.Watcher
	recheck time.Duration
	reload  func()
	failed  func() bool // reports whether the last loading failed
	// watched are the folders by path, with what identifies each: a folder that
	// was replaced by another of the same name needs a new watch.
	watched map[string]fs.FileInfo
	done    chan struct{}
	running sync.WaitGroup
}

func newWatcher(dir string, recheck time.Duration, reload func(), failed func() bool) (*watcher, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watcher{
		dir: abs, fs: notify, recheck: recheck, reload: reload, failed: failed,
		watched: make(map[string]fs.FileInfo), done: make(chan struct{}),
	}
	w.sync()
	if _, ok := w.watched[abs]; !ok {
		// A directory that is not there yet, such as a volume that is mounted later,
		// is found by its parent's watch or by a recheck. One that cannot be watched
		// is worth reporting.
		if err := notify.Add(abs); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = notify.Close()
			return nil, err
		}
	}
	w.running.Go(w.run)
	return w, nil
}

func (w *watcher) close() error {
	close(w.done)
	w.running.Wait()
	return w.fs.Close()
}

// run waits until changes have settled before it reloads.
func (w *watcher) run() {
	settle := time.NewTimer(0)
	<-settle.C
	defer settle.Stop()
	ticker := time.NewTicker(w.recheck)
	defer ticker.Stop()
	// The set may have changed between its loading and the first watch.
	var pending changes
	changed := func(name string) { settle.Reset(pending.wait(name, time.Now())) }
	changed("")
	for {
		select {
		case <-w.done:
			return
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if w.concerns(e) {
				changed(e.Name)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			changed("") // events were lost, so the directory is compared
		case <-ticker.C:
			if w.sync() {
				changed("")
			}
		case <-settle.C:
			pending = changes{}
			// New folders are watched before they are read, so that nothing
			// written into them later is missed.
			w.sync()
			w.reload()
		}
	}
}

// changes are those since the last loading.
type changes struct {
	deadline time.Time // when they are loaded at the latest; zero without changes
	only     string    // the file that changed, "" where more than one may have
}

// wait adds a change of a file and returns how long the directory must be unchanged
// from now on. It is the time for which the file is written, if it is the only one,
// and for how long a program that changes several goes on to the next.
func (c *changes) wait(name string, now time.Time) time.Duration {
	if c.deadline.IsZero() {
		c.deadline, c.only = now.Add(patience), name
	}
	wait := quietFile
	if c.only != name || name == "" {
		c.only, wait = "", quiet
	}
	return min(wait, max(c.deadline.Sub(now), 0))
}

// concerns reports whether an event can change the loaded set.
func (w *watcher) concerns(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod && !w.failed() {
		return false // indexers and backups change modes, which matters only after a failed loading
	}
	name := filepath.Base(e.Name)
	if filepath.Dir(e.Name) == filepath.Dir(w.dir) && e.Name != w.dir {
		return false // a neighbour of the directory
	}
	// Kubernetes swaps the link ..data. No other hidden name is a definition's.
	return !hidden(name) || name == allowEmpty || strings.HasPrefix(name, "..") || e.Name == w.dir
}

// sync watches the folders that exist now and reports whether they differ from
// those watched before.
func (w *watcher) sync() (changed bool) {
	now := w.folders()
	for name, info := range w.watched {
		if other, ok := now[name]; !ok || !os.SameFile(info, other) {
			_ = w.fs.Remove(name) // the folder may be gone already
			delete(w.watched, name)
			changed = true
		}
	}
	for name, info := range now {
		if _, ok := w.watched[name]; ok {
			continue
		}
		if w.fs.Add(name) == nil {
			w.watched[name] = info
			changed = true
		}
	}
	return changed
}

// folders lists the folders to watch: the directory, its parent, in which it may be
// replaced, and the folders of definitions.
func (w *watcher) folders() map[string]fs.FileInfo {
	found := make(map[string]fs.FileInfo)
	for _, name := range []string{filepath.Dir(w.dir), w.dir} {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			found[name] = info
		}
	}
	root, err := os.OpenRoot(folderName(w.dir))
	if err != nil {
		return found
	}
	defer root.Close()
	var walk func(name string, parents []fs.FileInfo)
	walk = func(name string, parents []fs.FileInfo) {
		info, err := root.Stat(name)
		if err != nil || !info.IsDir() || len(parents) == maxFolders || len(found) > MaxFiles ||
			slices.ContainsFunc(parents, func(p fs.FileInfo) bool { return os.SameFile(p, info) }) {
			return
		}
		found[filepath.Join(w.dir, filepath.FromSlash(name))] = info
		// The names suffice: a Root would look at each file.
		entries, err := os.ReadDir(folderName(filepath.Join(w.dir, filepath.FromSlash(name))))
		if err != nil {
			return
		}
		for _, e := range entries {
			if !hidden(e.Name()) && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
				walk(path.Join(name, e.Name()), append(slices.Clip(parents), info))
			}
		}
	}
	for _, name := range kind.Folders() {
		walk(name, nil)
	}
	return found
}
