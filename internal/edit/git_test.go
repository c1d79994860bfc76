package edit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// a is the file that the tests with a repository change, in its folder definitions.
const a = "definitions/prompts/a.yaml"

// command runs git as somebody who works in the repository.
func (r *Repository) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Env = r.Top, append(os.Environ(), "GIT_EDITOR=:")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository returns a repository with files in its last commit.
func repository(t *testing.T, files map[string]string) *Repository {
	t.Helper()
	// Under a hook or git rebase --exec these name the repository that the tests are in.
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, value) // has the test put it back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	for file, text := range files {
		write(t, dir, file, text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "definitions"), 0o755); err != nil {
		t.Fatal(err)
	}
	(&Repository{Top: dir}).command(t, "init", "--quiet")
	r := FindRepository(filepath.Join(dir, "definitions"))
	r.command(t, "add", ".")
	r.command(t, "commit", "--quiet", "--allow-empty", "-m", "All")
	return r
}

// save saves a change as `edit files` with commit does.
func (r *Repository) save(t *testing.T, c *Change) error {
	t.Helper()
	if err := r.Ready(t.Context(), Changes{c}); err != nil {
		return err
	}
	commit, err := r.Prepare(t.Context(), Changes{c}, "eve", "Edit")
	if err != nil {
		return err
	}
	if err := c.Write(filepath.Join(r.Top, "definitions")); err != nil {
		t.Fatal(err)
	}
	id, err := commit.Advance(t.Context())
	if head := r.command(t, "rev-parse", "HEAD"); id != head {
		t.Errorf("the commit is %q, and HEAD is %s", id, head)
	}
	return err
}

// TestStagedChanges has changes in the index alone, which a commit would take out of it.
func TestStagedChanges(t *testing.T) {
	r := repository(t, map[string]string{a: "a: 1\n", "definitions/prompts/b.yaml": "b: 1\n"})
	refuse := func(c *Change, file string) {
		t.Helper()
		head, staged := r.command(t, "rev-parse", "HEAD"), r.command(t, "diff", "--cached")
		if err := r.save(t, c); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "commit what was changed there first") {
			t.Errorf("%s: %v", file, err)
		}
		if r.command(t, "rev-parse", "HEAD") != head || r.command(t, "diff", "--cached") != staged {
			t.Errorf("%s: something changed", file)
		}
	}
	write(t, r.Top, a, "a: 1\n# staged\n")
	r.command(t, "add", a)
	write(t, r.Top, a, "a: 1\n")
	refuse(&Change{Old: "prompts/a.yaml", New: "prompts/a.yaml", Before: []byte("a: 1\n"), After: []byte("a: 2\n")}, a)
	refuse(&Change{Old: "prompts/a.yaml", New: "prompts/c.yaml", Before: []byte("a: 1\n"), After: []byte("a: 1\n")}, a)

	r.command(t, "reset", "--quiet")
	write(t, r.Top, "definitions/prompts/c.yaml", "c: staged\n")
	r.command(t, "add", "definitions/prompts/c.yaml")
	if err := os.Remove(filepath.Join(r.Top, "definitions/prompts/c.yaml")); err != nil {
		t.Fatal(err)
	}
	refuse(&Change{New: "prompts/c.yaml", After: []byte("c: 1\n")}, "definitions/prompts/c.yaml")
	refuse(&Change{Old: "prompts/a.yaml", New: "prompts/c.yaml", Before: []byte("a: 1\n"), After: []byte("a: 1\n")}, "definitions/prompts/c.yaml")

	// What is staged of other files stays so.
	if err := r.save(t, &Change{Old: "prompts/b.yaml", New: "prompts/b.yaml", Before: []byte("b: 1\n"), After: []byte("b: 2\n")}); err != nil {
		t.Fatal(err)
	}
	if status := r.command(t, "status", "--porcelain"); status != "AD definitions/prompts/c.yaml" {
		t.Errorf("the status is %q", status)
	}
}

// TestStoppedPicks has a cherry-pick and a revert of several commits under way, of which
// the one in conflict was committed: only the list of those to come tells.
func TestStoppedPicks(t *testing.T) {
	for what, args := range map[string][]string{"a cherry-pick": {"cherry-pick", "HEAD..theirs"}, "a revert": {"revert", "HEAD~2", "HEAD~3"}} {
		r := repository(t, map[string]string{a: "a: 0\n"})
		commit := func(text string) {
			write(t, r.Top, a, text)
			r.command(t, "commit", "--quiet", "-a", "-m", text)
		}
		r.command(t, "checkout", "--quiet", "-b", "theirs")
		commit("a: 1\n")
		commit("a: 2\n")
		r.command(t, "checkout", "--quiet", "main")
		for _, text := range []string{"a: 3\n", "a: 4\n", "a: 5\n", "a: 6\n"} {
			commit(text)
		}
		cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		if cmd.Dir = r.Top; cmd.Run() == nil {
			t.Fatalf("%s has no conflict", what)
		}
		commit("a: 7\n")
		if _, err := os.Lstat(filepath.Join(r.Top, ".git/sequencer")); err != nil {
			t.Fatal(err)
		}
		if err := r.save(t, &Change{Old: "prompts/a.yaml", New: "prompts/a.yaml", Before: []byte("a: 7\n"), After: []byte("a: 8\n")}); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "is under way") {
			t.Errorf("in %s: %v", what, err)
		}
	}
}

// TestBrokenIndex has an index that git can't read before a commit, and one that is locked
// once the branch has moved.
func TestBrokenIndex(t *testing.T) {
	r := repository(t, map[string]string{a: "a: 1\n"})
	change := &Change{Old: "prompts/a.yaml", New: "prompts/a.yaml", Before: []byte("a: 1\n"), After: []byte("a: 2\n")}
	commit, err := r.Prepare(t.Context(), Changes{change}, "eve", "Edit")
	if err != nil {
		t.Fatal(err)
	}
	head := r.command(t, "rev-parse", "HEAD")
	write(t, r.Top, ".git/HEAD.lock", "")
	if id, err := commit.Advance(t.Context()); id != "" || err == nil || !strings.Contains(err.Error(), "is written, and not committed") || r.command(t, "rev-parse", "HEAD") != head {
		t.Errorf("HEAD can't be moved: %q, %v", id, err)
	}
	if err := os.Rename(filepath.Join(r.Top, ".git/HEAD.lock"), filepath.Join(r.Top, ".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	if id, err := commit.Advance(t.Context()); id != commit.ID || err == nil || !strings.Contains(err.Error(), "is written and committed") || r.command(t, "rev-parse", "HEAD") != id {
		t.Errorf("the index can't be written: %q, %v", id, err)
	}
	if err := os.Remove(filepath.Join(r.Top, ".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	write(t, r.Top, ".git/index", "garbage")
	if err := r.save(t, change); err == nil || !strings.Contains(err.Error(), "index file") || r.command(t, "rev-parse", "HEAD") != commit.ID {
		t.Errorf("a broken index: %v", err)
	}
}

// TestConversions has git convert line ends, and programs that attributes name: nothing of
// them may run. What was saved is as git would have added it.
func TestConversions(t *testing.T) {
	const lf, crlf = "a: 1\nb: 1\n", "a: 1\r\nb: 1\r\n"
	edited := func(before string) *Change {
		return &Change{Old: "prompts/a.yaml", New: "prompts/a.yaml", Before: []byte(before), After: []byte(strings.ReplaceAll(before, "a: 1", "a: 2"))}
	}
	moved := &Change{Old: "prompts/a.yaml", New: "prompts/a.json", Before: []byte(crlf), After: []byte(crlf)}
	for name, test := range map[string]struct {
		first, attributes, here string // the attributes of the commit and since then, and the file
		change                  *Change
		blob                    string // of the new file, with a 2
	}{
		"line ends are converted":           {"*.yaml text eol=crlf", "*.yaml text eol=crlf", crlf, edited(crlf), "a: 2\nb: 1\n"},
		"they would be, since the commit":   {"", "* text=auto", crlf, edited(crlf), "a: 2\r\nb: 1\r\n"},
		"a new file":                        {"*.yaml text eol=crlf", "*.yaml text eol=crlf", crlf, &Change{New: "prompts/b.yaml", After: []byte("a: 2\r\n")}, "a: 2\n"},
		"another name has other attributes": {"*.yaml text eol=crlf", "*.yaml text eol=crlf", crlf, moved, crlf},
		"a program":                         {"", "*.yaml filter=mark", lf, edited(lf), "a: 2\nb: 1\n"},
		"a program for another name":        {"", "*.json filter=mark", crlf, moved, crlf},
		"a program by an unlucky name":      {"", "*.yaml filter=unspecified", lf, edited(lf), "a: 2\nb: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := repository(t, map[string]string{a: test.here, ".gitattributes": test.first})
			ran := filepath.Join(r.Top, ".git", "ran")
			for _, driver := range []string{"mark", "unspecified"} {
				r.command(t, "config", "filter."+driver+".clean", "touch .git/ran; cat")
			}
			write(t, r.Top, ".gitattributes", test.attributes)
			if err := r.save(t, test.change); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(ran); err == nil {
				t.Error("a program ran")
			}
			show := exec.Command("git", "cat-file", "blob", "HEAD:definitions/"+test.change.New)
			show.Dir = r.Top
			if blob, err := show.Output(); err != nil || string(blob) != test.blob {
				t.Errorf("the blob is %q, %v", blob, err)
			}
			if status := r.command(t, "status", "--porcelain", "definitions"); status != "" {
				t.Errorf("the status is %q", status)
			}
		})
	}
}
