package definition

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/google/go-cmp/cmp"
)

const simple = "messages: [ { role: user, content: x } ]\n"

func TestKeysAndHiddenFiles(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/a.yaml":             simple,
		"prompts/b.yml":              simple,
		"prompts/c.json":             `{"messages": [{"role": "user", "content": "x"}]}`,
		"prompts/deep/er/d.yaml":     simple,
		"prompts/e.yaml":             "key: other:name.1\n" + simple,
		"prompts/v1.2.yaml":          simple,
		"prompts/.hidden.yaml":       "[",
		"prompts/.git/x.yaml":        "[",
		"prompts/#a.yaml#":           "[",
		"prompts/a.yaml~":            "[",
		"prompts/.a.yaml.swp":        "[",
		"prompts/..2026_01/a.yaml":   "[",
		"prompts/f.yaml.tmp":         "[",
		".github/workflows/ci.yaml":  "[",
		"remoteconfigs/deep/.keep":   "",
		"endpoints/nothing/here/.md": "",
	})
	s := mustLoad(t, dir)
	want := []string{"a", "b", "c", "deep/er/d", "other:name.1", "v1.2"}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(s.Prompts))); d != "" {
		t.Error(d)
	}
	if len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
	if got, want := s.Prompts["a"].Pos.File, filepath.Join(dir, "prompts", "a.yaml"); got != want {
		t.Errorf("position %s, want %s", got, want)
	}
}

// configMap lays files out as Kubernetes mounts a ConfigMap: links into a
// hidden folder that is swapped as a whole. The link is the folder's name.
func configMap(t *testing.T, dir, revision string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(dir, "..rev_"+revision, name), text)
		top, _, _ := strings.Cut(name, "/")
		if _, err := os.Lstat(filepath.Join(dir, top)); err != nil {
			must(t, os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)))
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	must(t, os.Symlink("..rev_"+revision, next))
	must(t, os.Rename(next, filepath.Join(dir, "..data")))
}

func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"context.yaml": "fields: { a: { type: string } }\n", "prompts/p.yaml": simple, "prompts/q.yaml": simple}
	configMap(t, dir, "1", files)
	if s := mustLoad(t, dir); len(s.Prompts) != 2 || len(s.Warnings) > 0 {
		t.Errorf("%d prompts, warnings %v", len(s.Prompts), s.Warnings)
	}
}

func TestLinksStayInside(t *testing.T) {
	dir := workspace(t, map[string]string{"prompts/a.yaml": simple, "shared/x.yaml": simple})
	outside := workspace(t, map[string]string{"secret.yaml": simple})
	link := func(to, name string) {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	link("../shared/x.yaml", "prompts/inside.yaml")
	if s := mustLoad(t, dir); s.Prompts["inside"] == nil {
		t.Error("a link inside the directory is not followed")
	}
	link(filepath.Join(outside, "secret.yaml"), "prompts/file.yaml")
	link(outside, "prompts/folder")
	link(".", "prompts/loop")
	link("nowhere", "prompts/dangling.yaml")
	_, err := Load(dir)
	wantErrors(t, dir, err,
		"prompts/dangling.yaml: the link leads nowhere: its target nowhere does not exist",
		"prompts/file.yaml: the link leads out of the workspace, to "+filepath.Join(outside, "secret.yaml")+", which is not read: put a copy here, or link to a file within the workspace",
		"prompts/folder: the link leads out of the workspace, to "+outside+", which is not read: put a copy here, or link to a file within the workspace",
		"prompts/loop: the link leads back to a folder it stands in",
	)
}

func TestUnreadable(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing: the definitions can't be read: no such file or directory") {
		t.Error(err)
	}
	dir := workspace(t, map[string]string{"prompts": "a file"})
	s := mustLoad(t, dir)
	if len(s.Warnings) != 1 || s.Warnings[0].Message != "there are no definitions here" {
		t.Error(s.Warnings)
	}
	dir = workspace(t, map[string]string{"context.yaml": "", "context.json": "{}", "prompts/a.yaml": strings.Repeat("#", document.MaxFileBytes+1), "prompts/b.yaml": strings.Repeat("#", 20_000_000)})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		"context.yaml:1:1: there are two data models, and context.json is the other: join them in one file",
		"prompts/a.yaml:1:1: the file has 16777217 bytes, at most 16777216 are read",
		"prompts/b.yaml:1:1: the file has 20000000 bytes, at most 16777216 are read",
	)
}

func TestCeilings(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("#", document.MaxFileBytes)
	for i := range MaxBytes/document.MaxFileBytes + 2 {
		write(t, filepath.Join(dir, "prompts", fmt.Sprintf("p%02d.yaml", i)), big)
	}
	var errs document.Errors
	d := readDirectory(dir, &errs)
	if len(d.files) > MaxBytes/document.MaxFileBytes || errs.Len() != 1 || !strings.Contains(errs.Err().Error(), "p04.yaml:1:1: the definitions have more than 64 MiB together") {
		t.Errorf("%d files: %v", len(d.files), errs.Err())
	}
}

// FuzzLoad checks that no content of files makes the loader panic.
func FuzzLoad(f *testing.F) {
	kinds := append(slices.Clone(kind.All), kind.Experiment)
	err := filepath.WalkDir("../../examples/definitions", func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".yaml" || e.Name() == "context.yaml" {
			return err
		}
		data, err := os.ReadFile(name)
		f.Add(uint8(slices.Index(kinds, kind.InFolder(filepath.Base(filepath.Dir(name))))), data)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), []byte("default: a\nvariants: { a: { extends: b }, b: { extends: a } }\nrules: [ { value: a } ]"))
	f.Add(uint8(2), []byte("type: object\ndefault: {}\nmerge: default\nschema: { $ref: '#' }\nrules: [ { value: { a: ~ }, when: { config: { x: 1 } } } ]"))
	f.Add(uint8(3), []byte("on: prompts/support_reply\nrule: a\ncontrol: b\nstart: 2126-11-01T00:00:00Z\nend: 2126-12-01T00:00:00Z\nattribution: 7d\n"+
		"primary: { value: v, as: rate, goal: up, smallest: 2% }\nothers: [ { measure: latency, over: 3s, smallest: 0.1 } ]"))
	context, err := os.ReadFile("../../examples/definitions/context.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		d := &directory{
			dir:     "d",
			context: &source{path: "context.yaml", data: context},
			files: []*source{
				{path: "x", kind: kinds[int(number)%len(kinds)], key: "x", data: data},
				{path: "prompts/support_reply.yaml", kind: kind.Prompt, key: "support_reply", data: []byte(simple)},
			},
		}
		var errs document.Errors
		s, err := compile(t.Context(), d, new(memory), 2, nil, &errs)
		if (s == nil) == (err == nil) {
			t.Fatal("neither or both of snapshot and error")
		}
	})
}

// TestFileTooLarge says how large a file is, not how much of it was read.
func TestFileTooLarge(t *testing.T) {
	if raceEnabled {
		t.Skip("files of megabytes")
	}
	const size = document.MaxFileBytes + 1<<20
	for _, name := range []string{"remoteconfigs/c.yaml", "context.yaml"} {
		dir := workspace(t, map[string]string{name: strings.Repeat("#", size)})
		_, err := Load(dir)
		wantErrors(t, dir, err, name+":1:1: the file has 17825792 bytes, at most 16777216 are read")
	}
}
