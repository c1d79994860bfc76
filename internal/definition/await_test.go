package definition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

const bundleName = "https://host.example/a/bundle.tar.gz"

// filesOf returns files as a bundle has them.
func filesOf(files map[string]string) []trace.File {
	var list []trace.File
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, fileOf(path, files[path]))
	}
	return list
}

// TestServe checks that the files of a bundle are served as those of a folder are, with
// the same mistakes, warnings and refusals.
func TestServe(t *testing.T) {
	s := Await(bundleName)
	var got []news
	s.Subscribe(func(snapshot *Snapshot, err error) { got = append(got, news{snapshot, err}) }, nil)
	empty := s.Snapshot()
	must(t, s.Settle(func() *Past { t.Error("the store is asked"); return nil }, true))
	must(t, s.Reload())
	must(t, s.Watch())
	if s.Snapshot() != empty || !empty.Awaited || !empty.ForClients().Awaited || empty.Revision != "" || empty.Warnings != nil || len(got) != 0 || s.LastError() != nil {
		t.Fatalf("%+v", empty)
	}
	// A first set with a mistake leaves nothing to serve.
	broken := maps.Clone(various)
	broken["remoteconfigs/new.yaml"] = "type: strin\ndefault: x\n"
	err := s.Serve(filesOf(broken))
	if err == nil || !strings.Contains(err.Error(), bundleName+"/remoteconfigs/new.yaml:1:7: ") || !s.Snapshot().Awaited || len(got) != 1 || got[0].err == nil {
		t.Fatal(err, got)
	}
	if err := s.Reload(); err != nil || !s.Snapshot().Awaited {
		t.Fatal(err)
	}

	files := maps.Clone(various)
	maps.Copy(files, map[string]string{
		".github/x.yaml": "a: [", "promts/a.yaml": "x", "promts/b.yaml": "x", "README.md": "x", "prompts/README.md": "x", "prompts/.a.yaml": "[", "prompts/x.txt": "x", "contxt.yaml": "x",
	})
	dir := workspace(t, files)
	want := mustLoad(t, dir)
	must(t, s.Serve(filesOf(files)))
	served := s.Snapshot()
	if len(got) != 2 || got[1].err != nil || got[1].snapshot != served || served.Awaited || s.LastError() != nil {
		t.Fatalf("%+v", got)
	}
	texts := report(t, want)
	for i := range texts {
		texts[i] = strings.ReplaceAll(texts[i], dir, bundleName)
	}
	if diff := cmp.Diff(texts, report(t, served)); diff != "" {
		t.Error(diff)
	}

	// What does not change is not compiled again, and a mistake leaves the set.
	edited := maps.Clone(files)
	edited["remoteconfigs/new.yaml"] = banner("new")
	must(t, s.Serve(filesOf(edited)))
	for _, d := range served.Definitions {
		if s.Snapshot().Find(d.Kind, d.Key) != d {
			t.Errorf("%s is compiled again", d.Key)
		}
	}
	served = s.Snapshot()
	if err := s.Serve(filesOf(broken)); err == nil || s.Snapshot() != served || s.LastError() == nil || s.given[0].Path != filesOf(edited)[0].Path {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil || s.Snapshot().Revision != served.Revision || s.LastError() != nil {
		t.Error("the served set is not what is loaded again", err)
	}

	// Most of it would be gone.
	none := map[string]string{"context.yaml": various["context.yaml"]}
	if err := s.Serve(filesOf(none)); err == nil || !strings.HasPrefix(err.Error(), bundleName+": ") || !strings.Contains(err.Error(), "would be gone") {
		t.Fatal(err)
	}
	none[allowEmpty] = ""
	must(t, s.Serve(filesOf(none)))
	if now := s.Snapshot(); len(now.Definitions) != 0 || now.Awaited || now.Revision == "" {
		t.Errorf("%+v", now)
	}
	must(t, s.Serve(nil))
	must(t, s.Reload())
	if s.Snapshot().Awaited {
		t.Error("a set without files is awaited")
	}

	// What is refused before it is given is a failure as well, and said once.
	served, got = s.Snapshot(), nil
	for range 2 {
		s.Refuse(errors.New("it is signed by nobody"))
	}
	if len(got) != 1 || !s.Stale() || s.LastError().Error() != "it is signed by nobody" || got[0].snapshot != served {
		t.Errorf("%+v", got)
	}
	must(t, s.Serve(nil))
	err = s.Serve(filesOf(broken))
	s.Refuse(fmt.Errorf("it is refused: %w", err))
	if s.LastError() != err {
		t.Error(s.LastError())
	}
	for range 2 {
		s.Refuse(nil)
	}
	if len(got) != 4 || got[3].err != nil || s.Stale() {
		t.Errorf("%+v", got)
	}
	must(t, s.Close())
}
