package definition

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

// various is a workspace with what must come back from a store: folders, other file
// types, references, tests, comments, quotes and keys of their own.
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
	s := opened(t, dir)
	first := s.Snapshot()
	if first.Context() != various["context.yaml"] {
		t.Errorf("%q", first.Context())
	}
	saved := &Past{Revision: first.Revision, Since: time.Unix(1_790_000_000, 0), Files: first.Files}
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
			must(t, spoil(dir))
			s := OpenAnyway(dir)
			defer s.Close()
			if err := s.Settle(func() *Past { return saved }, true); err == nil {
				t.Error("a strict start takes it")
			}
			must(t, s.Settle(func() *Past { return saved }, false))
			got := s.Snapshot()
			if got.Revision != first.Revision || got.Tests != 1 {
				t.Errorf("%+v", got)
			}
			versions := func(s *Snapshot) map[string]string {
				all := make(map[string]string)
				for _, d := range s.Definitions {
					all[d.Kind.String()+" "+d.Key] = d.Version + string(d.Content())
				}
				return all
			}
			if diff := cmp.Diff(versions(first), versions(got)); diff != "" || len(versions(got)) != 6 {
				t.Error(diff)
			}
			if diff := cmp.Diff(first.Files, got.Files); diff != "" || len(got.Files) != 7 {
				t.Errorf("the restored set can't be kept again: %s", diff)
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

// TestSettleWithoutASet checks a start without a set in the store.
func TestSettleWithoutASet(t *testing.T) {
	none := func() *Past { return nil }
	valid := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one"), "prompts/p.yaml": simple, "prompts/q.yaml": simple})
	invalid := workspace(t, map[string]string{"remoteconfigs/c.yaml": "type: x\n"})
	settle := func(dir string, last func() *Past, strict bool) (*Source, error) {
		s := OpenAnyway(dir)
		t.Cleanup(func() { s.Close() })
		return s, s.Settle(last, strict)
	}
	s, err := settle(valid, none, false)
	if err != nil || s.State() != (State{}) {
		t.Error(err)
	}
	// A source that is served follows its directory alone.
	if err := s.Settle(func() *Past { t.Error("the store is asked again"); return nil }, true); err != nil {
		t.Error(err)
	}
	for _, strict := range []bool{true, false} {
		if s, err := settle(invalid, none, strict); err == nil || err.Error() != s.LastError().Error() || s.Snapshot() != nil {
			t.Error(err)
		}
	}
	damaged := func() *Past {
		return &Past{Revision: "0123456789ab", Files: slices.Repeat([]trace.File{{Path: "prompts/p.yaml", Content: simple}}, 9)}
	}
	if _, err := settle(invalid, damaged, false); err == nil || !strings.Contains(err.Error(), "c.yaml:1:7") || !strings.Contains(err.Error(), "revision 0123456789ab") {
		t.Error(err)
	}
	// A set that can't be kept can't be lost.
	if s, err := settle(valid, damaged, false); err != nil || s.Snapshot() == nil || s.State() != (State{}) {
		t.Error(err)
	}
}
