package definition

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/trace"
)

// fileOf returns a file as a store keeps it.
func fileOf(path, content string) trace.File {
	return trace.File{Path: path, Hash: hashOf([]byte(content)), Content: content}
}

// pastOf returns the set of a directory as a store keeps it.
func pastOf(t testing.TB, dir string) *Past {
	t.Helper()
	s := mustLoad(t, dir)
	return &Past{Revision: s.Revision, Files: s.Files}
}

// comesBack checks that a directory's set comes back from a store's copy of it.
func comesBack(t testing.TB, dir string) {
	t.Helper()
	past, was := pastOf(t, dir), mustLoad(t, dir)
	s, err := past.Load()
	must(t, err)
	if diff := cmp.Diff(versionsOf(was), versionsOf(s)); diff != "" || s.Revision != past.Revision {
		t.Errorf("revision %s: %s", s.Revision, diff)
	}
	for kind, n := range was.Counts() {
		if past.Counts()[kind] != n {
			t.Errorf("%d of %s, not %d", past.Counts()[kind], kind, n)
		}
	}
}

// versionsOf returns the contents of definitions.
func versionsOf(s *Snapshot) map[string]string {
	all := make(map[string]string)
	for _, d := range s.Definitions {
		all[d.Kind.String()+" "+d.Key] = d.Version + string(d.Content())
	}
	return all
}

func TestPastComesBack(t *testing.T) {
	comesBack(t, "../../examples/definitions")
	comesBack(t, workspace(t, various))
	// A data model in JSON is one.
	files := maps.Clone(various)
	delete(files, "context.yaml")
	files["context.json"] = `{"fields": {"plan": "string", "seats": "number"}}`
	comesBack(t, workspace(t, files))
	// Sets that this version reads otherwise are distinguished from the served
	// ones.
	p := pastOf(t, workspace(t, various))
	p.Revision = "000000000000"
	if _, err := p.Load(); err == nil || !strings.Contains(err.Error(), "revision 000000000000 comes out as ") {
		t.Error(err)
	}
	p.Files[1] = fileOf(p.Files[1].Path, "messages: 7\n")
	if _, err := p.Load(); err == nil || !strings.Contains(err.Error(), "revision:000000000000/"+p.Files[1].Path+":1:") {
		t.Error(err)
	}
}

// TestPastIsWritten checks that files come back byte for byte, with all that is no part
// of a definition.
func TestPastIsWritten(t *testing.T) {
	files := maps.Clone(various)
	files["remoteconfigs/windows.yml"] = "\ufefftype: string # \u2028 é\r\ndescription: >-\r\n  kept\r\ndefault: &a x\r\n"
	p := pastOf(t, workspace(t, files))
	dir := filepath.Join(t.TempDir(), "below", "past")
	if written, err := p.WriteTo(dir); err != nil || !written {
		t.Fatal(written, err)
	}
	got := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		got[strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(dir)+"/")] = string(text)
		return err
	})
	delete(files, "prompts/.hidden.yaml") // which is not read
	delete(files, "prompts/notes.md")
	if diff := cmp.Diff(files, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if written, err := p.WriteTo(dir); err != nil || written {
		t.Errorf("a second time: %t, %v", written, err)
	}
	write(t, filepath.Join(dir, "remoteconfigs/windows.yml"), files["remoteconfigs/windows.yml"]+"# mine\n")
	if _, err := p.WriteTo(dir); err == nil || !strings.Contains(err.Error(), "has not the files of revision "+p.Revision) {
		t.Errorf("over a comment: %v", err)
	}
}

func TestPastLeavesNoHalf(t *testing.T) {
	parent := t.TempDir()
	into := filepath.Join(parent, "past")
	valid := fileOf("remoteconfigs/a.yaml", "type: boolean\ndefault: true\n")
	other := fileOf("remoteconfigs/b.yaml", "type: boolean\ndefault: true\n")
	other.Content += "\n"
	large := strings.Repeat("# 89 123456789\n", document.MaxFileBytes/15)
	for name, test := range map[string]struct {
		files []trace.File
		want  string
	}{
		"outside":           {[]trace.File{valid, fileOf("../a.yaml", "x")}, `"../a.yaml", which is no definition`},
		"outside, below":    {[]trace.File{valid, fileOf("prompts/../../a.yaml", "x")}, "is no definition"},
		"an absolute path":  {[]trace.File{valid, fileOf("/prompts/a.yaml", "x")}, "is no definition"},
		"no path":           {[]trace.File{valid, fileOf("", "x")}, "is no definition"},
		"another folder":    {[]trace.File{valid, fileOf("other/a.yaml", "x")}, "is no definition"},
		"another kind":      {[]trace.File{valid, fileOf("prompts/a.sh", "x")}, "is no definition"},
		"beside the model":  {[]trace.File{valid, fileOf("a.yaml", "x")}, "is no definition"},
		"two models":        {[]trace.File{fileOf("context.yaml", "{}"), fileOf("context.json", "{}")}, "is no definition"},
		"another content":   {[]trace.File{valid, other}, "remoteconfigs/b.yaml is not what was served"},
		"a name twice":      {[]trace.File{valid, valid}, "can't be written here: "},
		"a file as folder":  {[]trace.File{valid, fileOf("remoteconfigs/a.yaml/b.yaml", "x")}, "can't be written here: "},
		"a name too long":   {[]trace.File{valid, fileOf("prompts/"+strings.Repeat("x", 300)+".yaml", "x")}, "can't be written here: "},
		"a file too large":  {[]trace.File{valid, fileOf("prompts/a.yaml", large+large)}, "beyond what definitions may be"},
		"too large in all":  {slices.Repeat([]trace.File{fileOf("prompts/a.yaml", large)}, MaxBytes/len(large)+1), "beyond"},
		"too many in all":   {slices.Repeat([]trace.File{fileOf("prompts/a.yaml", "")}, MaxFiles+1), "beyond"},
		"a zero in a name":  {[]trace.File{valid, fileOf("prompts/a\x00.yaml", "x")}, "can't be written here: "},
		"a path with a dot": {[]trace.File{valid, fileOf("prompts/./a.yaml", "x")}, "is no definition"},
	} {
		if written, err := (&Past{Revision: "0123456789ab", Files: test.files}).WriteTo(into); err == nil || written || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %t, %v", name, written, err)
		}
		if entries, _ := os.ReadDir(parent); len(entries) > 0 {
			t.Fatalf("%s leaves %v", name, entries)
		}
	}
	p := &Past{Revision: "0123456789ab", Files: []trace.File{valid}}
	write(t, filepath.Join(into, "note.txt"), "mine")
	if _, err := p.WriteTo(into); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder with a file: %v", err)
	}
	if entries, _ := os.ReadDir(into); len(entries) != 1 {
		t.Errorf("the folder has %v", entries)
	}
	empty := filepath.Join(parent, "empty")
	must(t, os.Mkdir(empty, 0o700))
	if written, err := p.WriteTo(empty); err != nil || !written {
		t.Errorf("an empty folder: %t, %v", written, err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 2 {
		t.Errorf("beside it are %v", entries)
	}
}

// FuzzRestore builds sets from the contents of a damaged store.
func FuzzRestore(f *testing.F) {
	f.Add("context.yaml", "fields: {}\n", true)
	f.Add("prompts/a.yaml", simple, true)
	f.Add("../x", "", false)
	f.Fuzz(func(t *testing.T, path, content string, hashed bool) {
		file := trace.File{Path: path, Content: content}
		if hashed {
			file = fileOf(path, content)
		}
		s := &Source{dir: "dir", ctx: t.Context()}
		snapshot, err := s.guarded(func() (*Snapshot, error) { return s.restore(&Past{Files: []trace.File{file}}) })
		if (snapshot == nil) == (err == nil) || err != nil && strings.Contains(err.Error(), "panicked") {
			t.Error(err)
		}
	})
}
