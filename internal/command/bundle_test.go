package command_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestCommandBundle makes keys, builds bundles, and verifies and shows them.
func TestCommandBundle(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run := func(want string, arguments ...string) string {
		t.Helper()
		r := command(t, append([]string{"bundle"}, arguments...)...)
		if (r.err != nil) != strings.HasPrefix(want, "!") {
			t.Fatalf("%v: %v", arguments, r.err)
		}
		if !strings.Contains(r.out+r.errors, strings.TrimPrefix(want, "!")) {
			t.Errorf("%v:\n%s%s, want %q", arguments, r.out, r.errors, want)
		}
		return r.out
	}
	run("a.key\n", "keys", in("a"))
	run("b.pub\n", "keys", in("b"))
	run("!exists", "keys", in("a"))
	must(t, os.Rename(in("b.key"), in("c.key")))
	run("!b.pub exists", "keys", in("b"))
	if _, err := os.Stat(in("b.key")); err == nil {
		t.Error("a private key is beside the public one of another pair")
	}
	if info, err := os.Stat(in("a.key")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	build := func(want, workspace, out, serial string, more ...string) {
		t.Helper()
		run(want, append([]string{"build", workspace, "-o", in(out), "--sign", in("a.key"), "--serial", serial}, more...)...)
	}
	build("4.tar.gz: serial 4, 12 files, signed by ", exampleDefinitions, "4.tar.gz", "4", "--scope", "shop", "--revision", "v4\x1b")
	build("serial 4", exampleDefinitions, "again.tar.gz", "4", "--scope", "shop", "--revision", "v4\x1b")
	first, err := os.ReadFile(in("4.tar.gz"))
	must(t, err)
	if again, err := os.ReadFile(in("again.tar.gz")); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same workspace has other bytes (%v)", err)
	}
	odd := in("odd")
	writeFiles(t, odd, append(oddFiles, ".cadenza-allow-empty", "")...)
	build("warning", odd, "5.tar.gz", "5")
	build("serial 6", odd, "5.tar.gz", "6") // in place of the file
	writeFiles(t, in("broken"), brokenFiles...)
	build("!so that no bundle was written", in("broken"), "broken.tar.gz", "7")
	build("!with a serial of at least 1", odd, "7.tar.gz", "0")
	run("!-o FILE, --sign KEY and --serial N are needed", "build", odd)
	run("!there is no PEM block", "build", odd, "-o", in("7.tar.gz"), "--sign", filepath.Join(odd, "context.yaml"), "--serial", "7")
	run(`!a PEM block "PUBLIC KEY"`, "build", odd, "-o", in("7.tar.gz"), "--sign", in("a.pub"), "--serial", "7")
	for _, name := range []string{"broken.tar.gz", "7.tar.gz"} {
		if _, err := os.Stat(in(name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}

	run("serial 4, 12 files, signed by ", "verify", in("4.tar.gz"), "--key", in("b.pub"), "--key", in("a.pub"), "--scope", "shop")
	run("!is by another key", "verify", in("4.tar.gz"), "--key", in("b.pub"), "--scope", "shop")
	run("!there is no public key", "verify", in("4.tar.gz"))
	run(`!for the scope "shop", and "" is asked for`, "verify", in("4.tar.gz"), "--key", in("a.pub"))
	run("serial 6, 3 files", "verify", in("5.tar.gz"), "--key", in("a.pub"), "--against", in("4.tar.gz"))
	run("!serial 4 is older than 6", "verify", in("4.tar.gz"), "--key", in("a.pub"), "--scope", "shop", "--against", in("5.tar.gz"))
	run("!no gzipped tarball", "verify", in("a.pub"), "--key", in("a.pub"))
	must(t, os.WriteFile(in("huge"), nil, 0o600))
	must(t, os.Truncate(in("huge"), 64<<20+2))
	run("!the bundle has more than 64 MiB: split the workspace", "verify", in("huge"), "--key", in("a.pub"))
	run(`!unknown command "verifi"`, "verifi")

	out := run("serial    6", "inspect", in("5.tar.gz"))
	for _, want := range []string{"(not verified)\n", "e3b0c44298fc         0  .cadenza-allow-empty\n", "  context.yaml\n", "  remoteconfigs/limits.yaml\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := run("serial    4", "inspect", in("4.tar.gz")); !strings.Contains(out, "revision  v4\\x1b\nscope     shop\nkey       ") && !strings.Contains(out, "revision  v4\\u001b\n") {
		t.Errorf("%s", out)
	}
}
