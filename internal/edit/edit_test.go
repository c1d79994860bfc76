package edit

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// write writes a file below a directory.
func write(t *testing.T, dir, file, text string) {
	t.Helper()
	name := filepath.Join(dir, filepath.FromSlash(file))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, 0o664)); err != nil {
		t.Fatal(err)
	}
}

// files returns the files below a directory by path, and no links.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		name, _ = filepath.Rel(dir, name)
		found[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestChanges makes edits in a directory, and by their patch in a copy of it.
func TestChanges(t *testing.T) {
	many := strings.Repeat("a: 1\n", 40)
	changed := strings.Replace(strings.Replace(many, "a: 1\n", "b: 2\nc: 3\n", 1), "a: 1\na: 1\na: 1\n", "", 1) + "no end"
	for name, test := range map[string]struct {
		before map[string]string
		edit   Edit
		after  map[string]string
	}{
		"value":             {map[string]string{"prompts/a.yaml": "m: [ x, y ] # c\r\n"}, Edit{Action: "value", File: "prompts/a.yaml", Line: 1, Column: 6, Text: "z"}, map[string]string{"prompts/a.yaml": "m: [ z, y ] # c\r\n"}},
		"data model":        {map[string]string{"context.yaml": "a: 1\n"}, Edit{Action: "text", File: "context.yaml", Text: "a: 2\n"}, map[string]string{"context.yaml": "a: 2\n"}},
		"text":              {map[string]string{"prompts/a.yaml": many}, Edit{Action: "text", File: "prompts/a.yaml", Text: changed}, map[string]string{"prompts/a.yaml": changed}},
		"an end":            {map[string]string{"prompts/a.yaml": "a: 1\nb: 2"}, Edit{Action: "text", File: "prompts/a.yaml", Text: "a: 1\nb: 2\n"}, map[string]string{"prompts/a.yaml": "a: 1\nb: 2\n"}},
		"no end":            {map[string]string{"prompts/a.yaml": "a: 1\nb: 2\n"}, Edit{Action: "text", File: "prompts/a.yaml", Text: "a: 1\nb: 2"}, map[string]string{"prompts/a.yaml": "a: 1\nb: 2"}},
		"emptied":           {map[string]string{"prompts/a.yaml": "a: 1\n"}, Edit{Action: "text", File: "prompts/a.yaml"}, map[string]string{"prompts/a.yaml": ""}},
		"filled":            {map[string]string{"prompts/a.yaml": ""}, Edit{Action: "text", File: "prompts/a.yaml", Text: "a: 1\n"}, map[string]string{"prompts/a.yaml": "a: 1\n"}},
		"CRLF stays":        {map[string]string{"prompts/a.yaml": "a: 1\r\nb: 2\r\n"}, Edit{Action: "text", File: "prompts/a.yaml", Text: "a: 1\r\nb: 3\r\n"}, map[string]string{"prompts/a.yaml": "a: 1\r\nb: 3\r\n"}},
		"LF stays":          {map[string]string{"prompts/a.yaml": "a: 1\nb: 2\n"}, Edit{Action: "text", File: "prompts/a.yaml", Text: "a: 1\r\nb: 3\r\n"}, map[string]string{"prompts/a.yaml": "a: 1\nb: 3\n"}},
		"created":           {map[string]string{"prompts/a.yaml": "a: 1\n"}, Edit{Action: "text", File: "remoteconfigs/b/é c.yaml", Text: "b: 1\n"}, map[string]string{"prompts/a.yaml": "a: 1\n", "remoteconfigs/b/é c.yaml": "b: 1\n"}},
		"renamed":           {map[string]string{"prompts/a b.yaml": "a: 1\n"}, Edit{Action: "rename", File: "prompts/a b.yaml", To: "prompts/c/d.yaml"}, map[string]string{"prompts/c/d.yaml": "a: 1\n"}},
		"deleted":           {map[string]string{"prompts/a.yaml": "a: 1\n", "prompts/b.yaml": "b: 1\n"}, Edit{Action: "delete", File: "prompts/a.yaml"}, map[string]string{"prompts/b.yaml": "b: 1\n"}},
		"a name with blank": {map[string]string{"prompts/a b.yaml": "a: 1\n"}, Edit{Action: "text", File: "prompts/a b.yaml", Text: "a: 2\n"}, map[string]string{"prompts/a b.yaml": "a: 2\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, copied := t.TempDir(), t.TempDir()
			for file, text := range test.before {
				write(t, dir, file, text)
				write(t, copied, "sub/folder/"+file, text)
			}
			if text, ok := test.before[test.edit.File]; ok {
				test.edit.Base = Hash([]byte(text))
			}
			c, err := test.edit.Of(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := files(t, dir); !maps.Equal(got, test.before) {
				t.Fatalf("to look at an edit changes %q", got)
			}
			if err := c.Write(dir); err != nil {
				t.Fatal(err)
			}
			if got := files(t, dir); !maps.Equal(got, test.after) {
				t.Errorf("written: %q", got)
			}
			if info, err := os.Stat(filepath.Join(dir, "prompts/a.yaml")); err == nil && runtime.GOOS != "windows" && info.Mode().Perm() != 0o664 {
				t.Errorf("the mode is %v", info.Mode())
			}
			if _, err := exec.LookPath("git"); err != nil {
				t.Skip("git is not installed")
			}
			cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
			cmd.Dir, cmd.Stdin = copied, strings.NewReader(c.Patch("sub/folder/"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s\n%s", out, c.Patch(""))
			}
			if got := files(t, filepath.Join(copied, "sub/folder")); !maps.Equal(got, test.after) {
				t.Errorf("applied: %q", got)
			}
		})
	}
}

// TestPatch has lines that differ, with those around them and their numbers.
func TestPatch(t *testing.T) {
	c := &Change{Old: "a", New: "a", Before: []byte("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), After: []byte("0\n1\n2\n3\n4\nfive\n6\n7\n8\n9\n9\n10")}
	want := "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -3,9 +3,10 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n-10\n+9\n+10\n\\ No newline at end of file\n"
	if got := c.Patch(""); got != want {
		t.Errorf("got %q", got)
	}
}

// TestRefusedEdits makes edits that are refused, and change nothing.
func TestRefusedEdits(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret.yaml", "a: 1\n")
	write(t, dir, "prompts/a.yaml", "a: 1\n")
	write(t, dir, "prompts/b.yaml", "b: 1\n")
	for name, target := range map[string]string{"out.yaml": filepath.Join(outside, "secret.yaml"), "up.yaml": "../../" + filepath.Base(outside) + "/secret.yaml", "in.yaml": "a.yaml", "folder": outside, "inner": "."} {
		if err := os.Symlink(target, filepath.Join(dir, "prompts", name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	before, secret := files(t, filepath.Join(dir, "prompts/")), files(t, outside)
	a := Hash([]byte("a: 1\n"))
	for _, test := range []struct {
		edit Edit
		says string
	}{
		{Edit{Action: "text", File: "prompts/out.yaml", Base: a, Text: "x: 1\n"}, "escapes"},
		{Edit{Action: "text", File: "prompts/up.yaml", Base: a, Text: "x: 1\n"}, "escapes"},
		{Edit{Action: "text", File: "prompts/folder/secret.yaml", Base: a, Text: "x: 1\n"}, "escapes"},
		{Edit{Action: "text", File: "prompts/folder/new.yaml", Text: "x: 1\n"}, "escapes"},
		{Edit{Action: "rename", File: "prompts/a.yaml", Base: a, To: "prompts/folder/a.yaml"}, "escapes"},
		{Edit{Action: "text", File: "prompts/in.yaml", Base: a, Text: "x: 1\n"}, "prompts/in.yaml is a link"},
		{Edit{Action: "delete", File: "prompts/in.yaml", Base: a}, "prompts/in.yaml is a link"},
		{Edit{Action: "text", File: "prompts/inner/new.yaml", Text: "x: 1\n"}, "prompts/inner is a link"},
		{Edit{Action: "rename", File: "prompts/a.yaml", Base: a, To: "prompts/b.yaml"}, "there is a file prompts/b.yaml already"},
		{Edit{Action: "rename", File: "prompts/a.yaml", Base: a, To: "prompts/a.yaml"}, "has this name already"},
		{Edit{Action: "rename", File: "prompts/a.yaml", Base: a, To: "../a.yaml"}, "can't be the name"},
		{Edit{Action: "rename", File: "prompts/a.yaml", Base: a}, "can't be the name"},
		{Edit{Action: "text", File: "prompts/a.yaml", Base: a, Text: "a: 1\r\n"}, "changes nothing"},
		{Edit{Action: "text", File: "prompts/a.yaml", Base: a, Text: "a: \xff\n"}, "UTF-8"},
		{Edit{Action: "value", File: "prompts/a.yaml", Base: a, Line: 1, Column: 4, Text: "1"}, "changes nothing"},
		{Edit{Action: "value", File: "prompts/none.yaml"}, "there is no file"},
		{Edit{Action: "text", File: "prompts/a.yaml", Text: "x: 1\n"}, "changed meanwhile"},
		{Edit{Action: "text", File: "prompts/a.yaml", Base: "x", Text: "x: 1\n"}, "changed meanwhile"},
		{Edit{Action: "text", File: "prompts/none.yaml", Base: a, Text: "x: 1\n"}, "changed meanwhile"},
		{Edit{Action: "", File: "prompts/a.yaml", Base: a}, "action must be"},
	} {
		c, err := test.edit.Of(dir)
		if err == nil {
			err = c.Write(dir)
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.edit, err)
		}
	}
	for _, file := range []string{"", ".", "..", "../a.yaml", "/etc/passwd", "prompts/../../a.yaml", "prompts//a.yaml", "./prompts/a.yaml", `prompts\a.yaml`, "prompts/a.yaml/", "prompts/.a.yaml", ".git/config.yaml", "prompts/.git/a.yaml", "prompts/a.yaml~", "prompts/#a.yaml", "prompts/a.tmp/b.yaml", "prompts/a.txt", "prompts/a", "a.yaml", "keys.json", "context.csv", "other/a.yaml", "prompts/a\n.yaml", "prompts/a\x00.yaml", "prompts/\"a.yaml", "C:/a.yaml"} {
		if _, err := Read(dir, file); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", file, err)
		}
	}
	if got := files(t, filepath.Join(dir, "prompts/")); !maps.Equal(got, before) || !maps.Equal(files(t, outside), secret) {
		t.Errorf("something was written: %q", got)
	}
}

// TestWriteMeetsAnotherEdit has files change between an edit's review and its writing.
func TestWriteMeetsAnotherEdit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "prompts/a.yaml", "a: 1\n")
	base := Hash([]byte("a: 1\n"))
	var changes []*Change
	for _, e := range []Edit{
		{Action: "text", File: "prompts/a.yaml", Base: base, Text: "a: 2\n"},
		{Action: "delete", File: "prompts/a.yaml", Base: base},
		{Action: "rename", File: "prompts/a.yaml", Base: base, To: "prompts/b.yaml"},
		{Action: "text", File: "prompts/c.yaml", Text: "c: 1\n"},
	} {
		c, err := e.Of(dir)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	write(t, dir, "prompts/a.yaml", "a: theirs\n")
	write(t, dir, "prompts/c.yaml", "c: theirs\n")
	for _, c := range changes {
		err := c.Write(dir)
		conflict, ok := errors.AsType[*ConflictError](err)
		if !ok || conflict.Base != Hash([]byte(conflict.Now)) || !strings.Contains(conflict.Now, "theirs") {
			t.Errorf("%q: %v", c.Name(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "prompts/a.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes[:3] {
		if conflict, ok := errors.AsType[*ConflictError](c.Write(dir)); !ok || conflict.Base != "" {
			t.Errorf("%q is gone, and was written: %v", c.Name(), conflict)
		}
	}
	if got := files(t, dir); !maps.Equal(got, map[string]string{"prompts/c.yaml": "c: theirs\n"}) {
		t.Errorf("the files are %q", got)
	}
}

// TestGitIsEnded has git start another program that does not end, and keeps git's output
// open until it does.
func TestGitIsEnded(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil || runtime.GOOS == "windows" {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	r := &Repository{Top: dir}
	begun := time.Now()
	_, _, err := r.git(t.Context(), 300*time.Millisecond, nil, nil, "-c", "alias.wait=!sleep 60 & wait", "wait")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) >= outputWait {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
}

// TestLinks reads what git hosts print, and makes the names of branches.
func TestLinks(t *testing.T) {
	for messages, want := range map[string]string{
		"remote: \nremote: Create a pull request for 'x' on GitHub by visiting:\nremote:      https://github.com/a/b/pull/new/x        \nremote: \nTo github.com:a/b.git\n * [new branch]": "https://github.com/a/b/pull/new/x",
		"To https://git.example.com/a.git\n * [new branch]      x -> x\n": "",
		"remote: see javascript:alert(1) and ftp://x/y and https:///x\n":  "",
	} {
		if got := linkOf(messages); got != want {
			t.Errorf("%q: %q", messages, got)
		}
	}
	c := &Change{Old: "prompts/a b/--é..lock.yaml", New: "prompts/a b/--é..lock.yaml", Before: []byte("a\n"), After: []byte("b\n")}
	if got := (Changes{c}).Branch("../x y@{1}\n", c.Name()); !strings.HasPrefix(got, "cadenza/x-y--1-lock-") && !strings.HasPrefix(got, "cadenza/x-y--1---lock-") {
		t.Errorf("the branch is %q", got)
	}
	other := *c
	other.After = []byte("c\n")
	if (Changes{c}).Branch("x", "y") == (Changes{&other}).Branch("x", "y") {
		t.Error("two edits have one branch")
	}
}

// TestChangesAreAllOrNone writes changes of which the last meets an edit of somebody else.
func TestChangesAreAllOrNone(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"prompts/a.yaml", "prompts/c.yaml", "prompts/d.yaml"} {
		write(t, dir, file, "x: 1\n")
	}
	var changes Changes
	for _, wanted := range []struct {
		file  string
		after []byte
		same  bool
	}{
		{"prompts/a.yaml", nil, false}, {"prompts/b.yaml", []byte("y: 1\n"), false}, {"prompts/c.yaml", []byte("x: 2\n"), false},
		{"prompts/none.yaml", nil, true}, {"prompts/d.yaml", []byte("x: 1\n"), true}, {"prompts/d.yaml", []byte{}, false},
	} {
		c, err := To(dir, wanted.file, wanted.after)
		if err != nil || (c == nil) != wanted.same {
			t.Fatal(wanted.file, c, err)
		}
		if c != nil {
			changes = append(changes, c)
		}
	}
	write(t, dir, "prompts/d.yaml", "theirs: 1\n")
	before := files(t, dir)
	if conflict, ok := errors.AsType[*ConflictError](changes.Write(dir)); !ok || conflict.File != "prompts/d.yaml" {
		t.Errorf("the conflict is %v", conflict)
	}
	if now := files(t, dir); !maps.Equal(now, before) {
		t.Errorf("after a conflict there are %q", now)
	}
	if err := changes[:3].Write(dir); err != nil || !maps.Equal(files(t, dir), map[string]string{"prompts/b.yaml": "y: 1\n", "prompts/c.yaml": "x: 2\n", "prompts/d.yaml": "theirs: 1\n"}) {
		t.Errorf("there are %q, %v", files(t, dir), err)
	}
}

// TestUndoneChanges has the last of several changes fail: a file that was removed before it
// has its mode again, and the error names what could not be undone.
func TestUndoneChanges(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"prompts/a.yaml", "prompts/b.yaml", "prompts/c.yaml"} {
		write(t, dir, file, "x: 1\n")
	}
	if err := os.Chmod(filepath.Join(dir, "prompts/b.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	removed := func(file string) *Change { return &Change{Old: file, Before: []byte("x: 1\n")} }
	conflict := &Change{Old: "prompts/c.yaml", New: "prompts/c.yaml", Before: []byte("x: 0\n"), After: []byte("x: 2\n")}
	if _, ok := errors.AsType[*ConflictError](Changes{removed("prompts/b.yaml"), conflict}.Write(dir)); !ok {
		t.Error("there is no conflict")
	}
	if info, err := os.Stat(filepath.Join(dir, "prompts/b.yaml")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// The folder of the second change is in the way of the first one's file.
	err := Changes{removed("prompts/a.yaml"), {New: "prompts/a.yaml/d.yaml", After: []byte("y: 1\n")}, conflict}.Write(dir)
	if _, ok := errors.AsType[*ConflictError](err); ok || err == nil || !strings.Contains(err.Error(), "prompts/c.yaml was changed meanwhile") || !strings.Contains(err.Error(), "prompts/a.yaml stays changed") {
		t.Errorf("the error is %v", err)
	}
}
