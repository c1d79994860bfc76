package definition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// banner is a remote configuration with a value to tell loadings apart.
func banner(text string) string { return fmt.Sprintf("type: string\ndefault: %q\n", text) }

// news is a notification of a subscriber.
type news struct {
	snapshot *Snapshot
	err      error
}

// watched opens and watches a workspace, and waits for the loading that follows the
// first watch: it brings no news, unless an edit is part of it.
func watched(t *testing.T, dir string) (*Source, <-chan news) {
	t.Helper()
	s, err := Open(dir)
	must(t, err)
	first := s.Snapshot()
	must(t, s.Watch())
	for deadline := time.Now().Add(time.Minute); s.Snapshot() == first; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the directory is not loaded once it is watched; last error: %v", s.LastError())
		}
	}
	c := make(chan news, 1000)
	cancel := s.Subscribe(func(snapshot *Snapshot, err error) { c <- news{snapshot, err} }, nil)
	t.Cleanup(func() {
		cancel()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// rewrite writes a file of a workspace in place, of which no loading sees a half.
func rewrite(t *testing.T, s *Source, name, text string) {
	t.Helper()
	must(t, s.Hold(func() error {
		write(t, filepath.Join(s.Dir(), name), text)
		return nil
	}))
}

// await waits for a served value. A definition that was edited must be served
// within a second; the test machine may be slow.
func await(t *testing.T, s *Source, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if c := s.Snapshot().RemoteConfigs["c"]; c != nil && string(c.Default()) == `"`+want+`"` {
			return
		}
	}
	t.Fatalf("%s is not served; last error: %v", want, s.LastError())
}

func TestReload(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one")})
	file := filepath.Join(dir, "remoteconfigs/c.yaml")
	s := opened(t, dir)
	var got []news
	cancel := s.Subscribe(func(snapshot *Snapshot, err error) { got = append(got, news{snapshot, err}) }, nil)
	first := s.Snapshot()

	// Nothing new to tell.
	write(t, file, "# a comment\n"+banner("one"))
	if err := s.Reload(); err != nil || len(got) != 0 || s.Snapshot().Revision != first.Revision {
		t.Fatalf("%v %v", err, got)
	}
	// A mistake is reported once, and not served.
	write(t, file, "type: strin\ndefault: x\n")
	for range 2 {
		if err := s.Reload(); err == nil || s.LastError() == nil {
			t.Fatal("no error")
		}
	}
	if len(got) != 1 || got[0].err == nil || got[0].snapshot.Revision != first.Revision || s.Snapshot() != got[0].snapshot {
		t.Fatalf("%+v", got)
	}
	var multi *document.MultiError
	if !errors.As(s.LastError(), &multi) || multi.List[0].Pos.String() != file+":1:7" {
		t.Errorf("%v", s.LastError())
	}
	// Mended, even without a change.
	write(t, file, banner("one"))
	if err := s.Reload(); err != nil || s.LastError() != nil || len(got) != 2 || got[1].err != nil {
		t.Fatalf("%v %+v", err, got)
	}
	write(t, file, banner("two"))
	if err := s.Reload(); err != nil || len(got) != 3 || got[2].snapshot != s.Snapshot() || got[2].snapshot.Revision == first.Revision {
		t.Fatalf("%v %+v", err, got)
	}
	cancel()
	write(t, file, banner("three"))
	if err := s.Reload(); err != nil || len(got) != 3 {
		t.Fatalf("%v %+v", err, got)
	}
}

// TestFollow checks that an edit of what is no part of a revision is told to whom
// keeps the files, and to nobody else.
func TestFollow(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one")})
	file := filepath.Join(dir, "remoteconfigs/c.yaml")
	s := opened(t, dir)
	told := 0
	var got []*Snapshot
	defer s.Subscribe(func(*Snapshot, error) { told++ }, nil)()
	cancel := s.Subscribe(func(*Snapshot, error) {}, func(snapshot *Snapshot) { got = append(got, snapshot) })
	first := s.Snapshot()
	for _, step := range []struct {
		text          string
		told, follows int
	}{
		{banner("one"), 0, 0}, // touched
		{"# a comment\n" + banner("one"), 0, 1},
		{"type: strin\n", 1, 1},
		{banner("one"), 2, 1},
		{banner("two"), 3, 1},
		{banner("two") + "description: other\n", 3, 2},
	} {
		write(t, file, step.text)
		_ = s.Reload()
		if told != step.told || len(got) != step.follows {
			t.Fatalf("%s: told of %d, followed %d", step.text, told, len(got))
		}
	}
	if got[0].Revision != first.Revision || got[0].Files[0].Content != "# a comment\n"+banner("one") || got[1] != s.Snapshot() {
		t.Errorf("%+v", got)
	}
	must(t, os.Rename(file, filepath.Join(dir, "remoteconfigs/d.yaml")))
	cancel()
	write(t, filepath.Join(dir, "remoteconfigs/d.yaml"), "key: c\n"+banner("two"))
	if err := s.Reload(); err != nil || told != 3 || len(got) != 2 {
		t.Errorf("%v: told of %d, followed %d", err, told, len(got))
	}
}

func TestOpenRefusesMistakes(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/c.yaml": "type: x\n"})
	if s, err := Open(dir); err == nil || s != nil {
		t.Errorf("%v %v", s, err)
	}
}

func TestWatch(t *testing.T) {
	setup := func(t *testing.T) string {
		return workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one"), "prompts/p.yaml": simple})
	}
	t.Run("edit", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, told := watched(t, dir)
		start := time.Now()
		rewrite(t, s, "remoteconfigs/c.yaml", banner("two"))
		await(t, s, "two")
		t.Logf("served after %v", time.Since(start))
		// A later loading of the same files has the same revision.
		if n := <-told; n.err != nil || string(n.snapshot.RemoteConfigs["c"].Default()) != `"two"` || n.snapshot.Revision != s.Snapshot().Revision {
			t.Errorf("%+v", n)
		}
	})
	t.Run("rename over", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, _ := watched(t, dir)
		for i := range 3 {
			text := fmt.Sprintf("two%d", i)
			tmp := filepath.Join(dir, "remoteconfigs/.c.yaml.swp")
			write(t, tmp, banner(text))
			must(t, os.Rename(tmp, filepath.Join(dir, "remoteconfigs/c.yaml")))
			await(t, s, text)
		}
	})
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, _ := watched(t, dir)
		must(t, s.Hold(func() error {
			write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("half"))
			time.Sleep(patience + quiet)
			if c := s.Snapshot().RemoteConfigs["c"]; string(c.Default()) != `"one"` {
				t.Errorf("%s is served before all is written", c.Default())
			}
			write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("two"))
			return nil
		}))
		await(t, s, "two")
	})
	t.Run("broken and mended", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, told := watched(t, dir)
		file := filepath.Join(dir, "remoteconfigs/c.yaml")
		rewrite(t, s, "remoteconfigs/c.yaml", "type: string\ndefault: [1]\n")
		if n := <-told; n.err == nil || !strings.Contains(n.err.Error(), file+":2:10: ") || string(s.Snapshot().RemoteConfigs["c"].Default()) != `"one"` {
			t.Errorf("%+v", n)
		}
		rewrite(t, s, "remoteconfigs/c.yaml", banner("two"))
		await(t, s, "two")
		if n := <-told; n.err != nil || s.LastError() != nil {
			t.Errorf("%+v, %v", n, s.LastError())
		}
	})
	t.Run("new folders and removal", func(t *testing.T) {
		t.Parallel()
		dir := workspace(t, map[string]string{"prompts/p.yaml": simple})
		s, _ := watched(t, dir)
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("two"))
		await(t, s, "two")
		write(t, filepath.Join(dir, "remoteconfigs/a/b/x.yaml"), "key: d\n"+banner("x"))
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("three"))
		await(t, s, "three")
		must(t, s.Hold(func() error { // none of it is loaded without the rest
			write(t, filepath.Join(dir, "remoteconfigs/a/b/y.yaml"), "key: c2\n"+banner("x"))
			write(t, filepath.Join(dir, allowEmpty), "")
			must(t, os.Remove(filepath.Join(dir, "prompts/p.yaml")))
			write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("four"))
			return nil
		}))
		await(t, s, "four")
		if got := s.Snapshot(); len(got.RemoteConfigs) != 3 || len(got.Prompts) != 0 {
			t.Errorf("%d %d", len(got.RemoteConfigs), len(got.Prompts))
		}
	})
	t.Run("ConfigMap", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		configMap(t, dir, "1", map[string]string{"remoteconfigs/c.yaml": banner("one")})
		s, _ := watched(t, dir)
		for i := 2; i < 5; i++ {
			configMap(t, dir, fmt.Sprint(i), map[string]string{"remoteconfigs/c.yaml": banner(fmt.Sprint("rev", i))})
			await(t, s, fmt.Sprint("rev", i))
			must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("..rev_", i-1))))
		}
	})
	t.Run("swapped link", func(t *testing.T) {
		t.Parallel()
		base := t.TempDir()
		dir := filepath.Join(base, "current")
		for i := range 4 {
			write(t, filepath.Join(base, fmt.Sprint("rev", i), "remoteconfigs/c.yaml"), banner(fmt.Sprint("rev", i)))
		}
		must(t, os.Symlink("rev0", dir))
		s, _ := watched(t, dir)
		for i := 1; i < 4; i++ {
			next := filepath.Join(base, "next")
			must(t, os.Symlink(fmt.Sprint("rev", i), next))
			must(t, os.Rename(next, dir))
			await(t, s, fmt.Sprint("rev", i))
		}
		write(t, filepath.Join(base, "rev3/remoteconfigs/c.yaml"), banner("edited"))
		await(t, s, "edited")
	})
	t.Run("deleted and made again", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "definitions")
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("one"))
		s, told := watched(t, dir)
		// As a whole: removed file by file, it may be read in between.
		must(t, os.Rename(dir, filepath.Join(t.TempDir(), "gone")))
		for n := range told {
			if n.err != nil && strings.Contains(n.err.Error(), "no such file") {
				break
			}
		}
		if c := s.Snapshot().RemoteConfigs["c"]; c == nil || string(c.Default()) != `"one"` {
			t.Error("not the last good set")
		}
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("two"))
		await(t, s, "two")
	})
	t.Run("never still", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, _ := watched(t, dir)
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("two"))
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !stop.Load() {
				_ = os.WriteFile(filepath.Join(dir, "prompts/noise.yaml"), []byte(simple), 0o644)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		await(t, s, "two")
		stop.Store(true)
		<-done
	})
	t.Run("hidden files are no news", func(t *testing.T) {
		t.Parallel()
		dir := setup(t)
		s, told := watched(t, dir)
		before := s.Snapshot()
		write(t, filepath.Join(dir, "remoteconfigs/.c.yaml.swp"), "x")
		write(t, filepath.Join(dir, "remoteconfigs/c.yaml~"), "x")
		time.Sleep(patience + 2*quiet)
		if len(told) > 0 || s.Snapshot() != before {
			t.Error("reloaded")
		}
	})
}

func TestCloseAndWatchAgain(t *testing.T) {
	s, err := Open(workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one")}))
	must(t, err)
	for range 2 {
		must(t, s.Watch())
	}
	for range 2 {
		must(t, s.Close())
	}
	if err := s.Watch(); err != nil || s.Snapshot() == nil {
		t.Error(err)
	}
}
