package definition

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/trace"
)

// various is a workspace with what an archive must keep: folders, other file types,
// references, tests, quotes and keys of their own.
var various = map[string]string{
	"context.yaml":                "fields:\n  plan: { type: string, values: [free, pro] }\n  seats: { type: number }\n",
	"prompts/deep/er.yaml":        simple,
	"prompts/p.json":              `{"key": "other", "provider": "canned", "model": "m", "extra": {"echo": true}, "messages": [{"role": "user", "content": "\"quoted\" 1..2 any"}]}`,
	"prompts/.hidden.yaml":        "[",
	"prompts/notes.md":            "# not read\n",
	"endpoints/e.yml":             "prompt: other\nfallback:\n  - { provider: canned, model: m, extra: { answer: hello } }\n",
	"remoteconfigs/c.yaml":        "# a comment\ntype: string\ndefault: \"1..2\"\nrules:\n  - { id: r, when: { plan: pro, seats: 10.., config: { d: true } }, value: any }\ntests:\n  - { context: { plan: free }, value: \"1..2\" }\n",
	"remoteconfigs/d.yaml":        "type: boolean\ndefault: true\n",
	"remoteconfigs/x.yaml/y.yaml": banner("in a folder with the name of a file"),
}

// TestRestore checks that a set from the store is the one that was served, whatever
// the directory has become.
func TestRestore(t *testing.T) {
	dir := workspace(t, various)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := s.Snapshot()
	if string(first.Context) != various["context.yaml"] {
		t.Errorf("%q", first.Context)
	}
	saved := &Saved{Revision: first.Revision, Since: time.Unix(1_790_000_000, 0), Counts: first.Counts(), Archive: first.Archive}
	for name, spoil := range map[string]func(dir string) error{
		"a mistake": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "prompts/new.yaml"), []byte("messages: 1"), 0o600)
		},
		"no directory":  os.RemoveAll,
		"unmounted":     func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"kinds missing": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "endpoints")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t, various)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			s := OpenAnyway(dir)
			defer s.Close()
			if err := s.Settle(func() *Saved { return saved }, true); err == nil {
				t.Error("a strict start takes it")
			}
			if err := s.Settle(func() *Saved { return saved }, false); err != nil {
				t.Fatal(err)
			}
			got := s.Snapshot()
			if got.Revision != first.Revision || got.Tests != 1 || string(got.Context) != string(first.Context) {
				t.Errorf("%+v", got)
			}
			versions := func(s *Snapshot) map[string]string {
				all := make(map[string]string)
				for d := range s.All() {
					all[d.Kind.String()+" "+d.Key] = d.Version + string(d.Content())
				}
				return all
			}
			if diff := cmp.Diff(versions(first), versions(got)); diff != "" || len(versions(got)) != 6 {
				t.Error(diff)
			}
			if !bytes.Equal(got.Archive, first.Archive) && len(got.Archive) == 0 {
				t.Error("the restored set can't be kept again")
			}
			if again, err := unpack(dir, got.Archive); err != nil || len(again.files) != 6 {
				t.Errorf("%+v %v", again, err)
			}
			state := s.State()
			if state.Err == nil || state.Err != s.LastError() || time.Since(state.Since) > time.Minute || !state.Restored.Equal(saved.Since) {
				t.Errorf("%+v", state)
			}
			// Reloading changes nothing, until the directory is mended.
			if err := s.Reload(); err == nil || err.Error() != state.Err.Error() || s.Snapshot() != got || s.State().Since != state.Since {
				t.Errorf("%v, %+v", err, s.State())
			}
			mended := maps.Clone(various)
			mended["prompts/new.yaml"] = simple
			for name, text := range mended {
				write(t, filepath.Join(dir, name), text)
			}
			if err := s.Reload(); err != nil || s.State() != (State{}) || s.Snapshot().Prompts["new"] == nil {
				t.Errorf("%v, %+v", err, s.State())
			}
		})
	}
}

// TestSettleWithoutASet checks what a start does where the store has nothing to serve.
func TestSettleWithoutASet(t *testing.T) {
	none := func() *Saved { return nil }
	valid := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one"), "prompts/p.yaml": simple, "prompts/q.yaml": simple})
	invalid := workspace(t, map[string]string{"remoteconfigs/c.yaml": "type: x\n"})
	settle := func(dir string, last func() *Saved, strict bool) (*Source, error) {
		s := OpenAnyway(dir)
		t.Cleanup(func() { s.Close() })
		return s, s.Settle(last, strict)
	}
	s, err := settle(valid, none, false)
	if err != nil || s.State() != (State{}) {
		t.Error(err)
	}
	// A source that is served follows its directory alone.
	if err := s.Settle(func() *Saved { t.Error("the store is asked again"); return nil }, true); err != nil {
		t.Error(err)
	}
	for _, strict := range []bool{true, false} {
		if s, err := settle(invalid, none, strict); err == nil || err.Error() != s.LastError().Error() || s.Snapshot() != nil {
			t.Error(err)
		}
	}
	damaged := func() *Saved {
		return &Saved{Revision: "0123456789ab", Counts: Counts{trace.KindPrompt: 9}, Archive: []byte("?")}
	}
	if _, err := settle(invalid, damaged, false); err == nil || !strings.Contains(err.Error(), "c.yaml:1:7") || !strings.Contains(err.Error(), "revision 0123456789ab") {
		t.Error(err)
	}
	// What can't be kept can't be lost.
	if s, err := settle(valid, damaged, false); err != nil || s.Snapshot() == nil || s.State() != (State{}) {
		t.Error(err)
	}
}

func TestArchiveIsPackedOnce(t *testing.T) {
	dir := workspace(t, map[string]string{"context.yaml": "fields: {}\n", "remoteconfigs/c.yaml": banner("one"), "remoteconfigs/d.yaml": banner("two")})
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reload := func() (same bool) {
		t.Helper()
		last := s.Snapshot().Archive
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		d, err := unpack(dir, s.Snapshot().Archive)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(d.files, d.context) {
			if text, err := os.ReadFile(filepath.Join(dir, f.path)); err != nil || string(text) != string(f.data) {
				t.Errorf("%s: %q %v", f.path, f.data, err)
			}
		}
		return &last[0] == &s.Snapshot().Archive[0]
	}
	if !reload() {
		t.Error("nothing changed")
	}
	for name, text := range map[string]string{"remoteconfigs/c.yaml": banner("three"), "remoteconfigs/new.yaml": banner("four"), "context.yaml": "fields: { a: { type: string } }\n"} {
		write(t, filepath.Join(dir, name), text)
		if reload() {
			t.Errorf("%s changed", name)
		}
	}
	if err := os.Remove(filepath.Join(dir, "remoteconfigs/d.yaml")); err != nil {
		t.Fatal(err)
	}
	if reload() {
		t.Error("a file was removed")
	}
	// Between two good sets there may be a bad one.
	good := s.Snapshot().Archive
	write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), "[")
	if err := s.Reload(); err == nil {
		t.Fatal("no error")
	}
	write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), banner("three"))
	if reload(); len(good) == 0 {
		t.Error("nothing is archived")
	}
	if mustLoad(t, dir).Archive != nil {
		t.Error("a set that no source holds is archived")
	}
}

// pack returns an archive of one part.
func pack(files ...archived) []byte {
	p := part{files: files}
	p.pack()
	return append(p.packed, archiveEnd()...)
}

// TestUnpackIsBounded checks that a store's content can be no bomb.
func TestUnpackIsBounded(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("# 89 123456789\n"), document.MaxFileBytes/15)
	folder := func(n int, name string, data []byte) []byte {
		var files []archived
		for range n {
			files = append(files, archived{name, &file{text: string(data)}})
		}
		return pack(files...)
	}
	for name, test := range map[string]struct {
		archive []byte
		want    string
	}{
		"no archive":   {[]byte("x"), "EOF"},
		"none":         {nil, "EOF"},
		"cut":          {folder(1, "prompts/a.yaml", large)[:200], "EOF"},
		"large file":   {folder(1, "prompts/a.yaml", append(large, large...)), "beyond"},
		"other folder": {folder(1, "other/a.yaml", nil), "no definition"},
		"other file":   {folder(1, "prompts/a.txt", nil), "no definition"},
	} {
		if _, err := unpack("dir", test.archive); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if raceEnabled {
		return // packing so much would take seconds
	}
	for _, archive := range [][]byte{folder(MaxBytes/len(large)+1, "prompts/a.yaml", large), folder(MaxFiles+1, "prompts/a.yaml", nil)} {
		if _, err := unpack("dir", archive); err == nil || !strings.Contains(err.Error(), "beyond") {
			t.Error(err)
		}
	}
	if d, err := unpack("dir", folder(MaxFiles, "prompts/a.yaml", nil)); err != nil || len(d.files) != MaxFiles {
		t.Error(err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(archived{"context.yaml", &file{text: "fields: {}\n"}}, archived{"prompts/a.yaml", &file{text: simple}}))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		s := &Source{dir: "dir", ctx: t.Context()}
		snapshot, err := s.guarded(func() (*Snapshot, error) { return s.restore(&Saved{Archive: archive}) })
		if (snapshot == nil) == (err == nil) || err != nil && strings.Contains(err.Error(), "panicked") {
			t.Error(err)
		}
	})
}
