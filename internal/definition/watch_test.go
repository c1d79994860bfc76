package definition

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// watchWithoutRecheck watches a directory by events alone: what it misses it
// never sees. reload gets the watcher it is called by.
func watchWithoutRecheck(t *testing.T, dir string, reload func(*watcher)) *watcher {
	t.Helper()
	var w *watcher
	ready := make(chan struct{})
	w, err := newWatcher(dir, time.Hour, func() {
		<-ready
		reload(w)
	}, func() bool { return false })
	must(t, err)
	close(ready)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// receive waits for a watcher's reaction to an event.
func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s was not noticed", what)
	}
	return v
}

// TestChangesWait: a file that changes alone is loaded sooner than several, and none
// waits for longer than patience.
func TestChangesWait(t *testing.T) {
	t.Parallel()
	type change struct {
		name  string
		after time.Duration // the change before
		want  time.Duration
	}
	for what, list := range map[string][]change{
		"one file":          {{"a", 0, quietFile}, {"a", quietFile - 1, quietFile}, {"a", 1, quietFile}},
		"two files":         {{"a", 0, quietFile}, {"b", 1, quiet}, {"b", 1, quiet}, {"a", 1, quiet}},
		"lost events":       {{"", 0, quiet}, {"a", 1, quiet}, {"", 1, quiet}},
		"a file that grows": {{"a", 0, quietFile}, {"a", patience - quietFile + 1, quietFile - 1}, {"a", quietFile, 0}},
	} {
		var c changes
		now := time.Now()
		for i, next := range list {
			now = now.Add(next.after)
			if got := c.wait(next.name, now); got != next.want {
				t.Errorf("%s: change %d waits for %v, want %v", what, i, got, next.want)
			}
		}
	}
}

// TestNewFoldersAreWatchedBeforeTheyAreRead: files written into them between
// the reading and a watch that came after it would be missed.
func TestNewFoldersAreWatchedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{"prompts/p.yaml": simple})
	folder := filepath.Join(dir, "remoteconfigs", "new")
	type reading struct{ there, watched bool }
	readings := make(chan reading, 100)
	watchWithoutRecheck(t, dir, func(w *watcher) {
		_, err := os.Stat(folder)
		_, ok := w.watched[folder]
		readings <- reading{err == nil, ok}
	})
	// It comes as a whole and after the beginning, and so never between the watch of
	// the folders and their reading.
	receive(t, readings, "the beginning")
	made := t.TempDir()
	must(t, os.Mkdir(filepath.Join(made, "new"), 0o755))
	must(t, os.Rename(made, filepath.Dir(folder)))
	r := receive(t, readings, "the folder")
	for ; !r.there; r = receive(t, readings, "the folder") {
		// An event from before it.
	}
	if !r.watched {
		t.Error("the folder was read before it was watched")
	}
}

// TestConfigMapIsSeenByItsEvent: a swap of Kubernetes' link ..data is served at
// once, and not when the folders are looked at again.
func TestConfigMapIsSeenByItsEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configMap(t, dir, "1", map[string]string{"remoteconfigs/c.yaml": "one"})
	texts := make(chan string, 100)
	watchWithoutRecheck(t, dir, func(*watcher) {
		text, _ := os.ReadFile(filepath.Join(dir, "remoteconfigs/c.yaml"))
		texts <- string(text)
	})
	receive(t, texts, "the beginning")
	for _, revision := range []string{"two", "three"} {
		configMap(t, dir, revision, map[string]string{"remoteconfigs/c.yaml": revision})
		for receive(t, texts, revision) != revision {
			// An event of the one before.
		}
	}
}

// TestWatchedFolders checks the watched folders: the ones that are read, the
// directory and the one above it.
func TestWatchedFolders(t *testing.T) {
	t.Parallel()
	deepest := "prompts" + strings.Repeat("/f", maxFolders-1)
	dir := workspace(t, map[string]string{
		"endpoints/.git/x.yaml": "",
		"other/x.yaml":          "",
		deepest + "/p.yaml":     simple,
	})
	if s := mustLoad(t, dir); len(s.Prompts) != 1 {
		t.Fatalf("%d prompts are read", len(s.Prompts))
	}
	must(t, os.MkdirAll(filepath.Join(dir, deepest, "f/f"), 0o755))
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), deepest+"/f: folders nest more than 32 deep") {
		t.Fatal(err)
	}
	w := watchWithoutRecheck(t, dir, func(*watcher) {})
	var want []string
	for name := deepest; name != "."; name = filepath.Dir(name) {
		want = append(want, filepath.Join(dir, name))
	}
	want = append(want, filepath.Join(dir, "endpoints"), dir, filepath.Dir(dir))
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(w.folders())); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWatchSaysWhyItCannot: a source whose directory has become a link to itself.
func TestWatchSaysWhyItCannot(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "definitions")
	write(t, filepath.Join(dir, "prompts/p.yaml"), simple)
	s, err := Open(dir)
	must(t, err)
	must(t, os.RemoveAll(dir))
	must(t, os.Symlink("definitions", dir))
	if err := s.Watch(); err == nil || !strings.Contains(err.Error(), dir+": the directory can't be watched: ") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryThatIsMountedLater: a directory that is not there when the watching
// begins is loaded once it is, whether its parent was there or not.
func TestDirectoryThatIsMountedLater(t *testing.T) {
	t.Parallel()
	for _, recheck := range []time.Duration{10 * time.Millisecond, time.Hour} {
		parent := filepath.Join(t.TempDir(), "a")
		dir := filepath.Join(parent, "definitions")
		if recheck == time.Hour { // only the parent's events can tell
			must(t, os.Mkdir(parent, 0o755))
		}
		there := make(chan bool, 1000)
		w, err := newWatcher(dir, recheck, func() {
			_, err := os.Stat(filepath.Join(dir, "prompts/p.yaml"))
			there <- err == nil
		}, func() bool { return true })
		must(t, err)
		if receive(t, there, "the beginning") {
			t.Error("the directory was there")
		}
		write(t, filepath.Join(dir, "prompts/p.yaml"), simple)
		for !receive(t, there, "the directory") {
			// An event of the folders.
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}
