package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// hostile is text that a terminal would obey, or show as something else.
const hostile = "\u009b31m\u202eabc\u2066\u200f\U000e0001"

// printed fails for text that must not reach a terminal.
func printed(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) {
		t.Errorf("%s: %q", what, text)
	}
}

// TestCommandsEscapeSources runs the commands that show what stands in
// definitions on some that are hostile.
func TestCommandsEscapeSources(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	good, edited, broken := filepath.Join(dir, "good"), filepath.Join(dir, "edited"), filepath.Join(dir, "bro"+hostile+"ken")
	const table = "type: string\ndefault: none\ncolumns: [ plan, value ]\nmatrix:\n  - [ pro,      \"" + hostile + "X\" ]\n  - [ \"" + hostile + "\", \"b\\e[0m\" ]\n  - [ pro, c ]\n"
	model := "fields:\n  plan: string\n"
	writeFiles(t, good, "context.yaml", model, "remoteconfigs/odd.yaml", strings.ReplaceAll(table, "X", "1"))
	writeFiles(t, edited, "context.yaml", model, "remoteconfigs/odd.yaml", strings.ReplaceAll(table, "X", "2"))
	writeFiles(t, broken, "remoteconfigs/b"+hostile+".yaml", "type: bolean # \x1b]0;pwn\a\x1b[31mRED"+hostile+"\n",
		"remoteconfigs/c.yaml", "type: boolean\ndefault: \""+hostile+"\"\n", "remoteconfigs/"+hostile+".txt", "")
	for _, arguments := range [][]string{
		{"check", broken}, {"check", "--json", broken},
		{"check", "--format", "github", broken}, {"check", "--format", "sarif", broken}, {"check", "--format", "junit", broken},
		{"check", "--format", "junti" + hostile, broken}, {"check", filepath.Join(broken, "remoteconfigs", "b"+hostile+".yaml")},
		{"check", "--all", good}, {"check", "--all", "--json", good},
		{"eval", good, "odd", "-c", "{plan: pro}", "--explain"}, {"eval", "--json", good, "odd", "-c", "{plan: pro}", "--explain"},
		{"eval", broken, "c"}, {"eval", good, "odd" + hostile}, {"eval", filepath.Join(good, hostile), "odd"},
		{"diff", good, edited}, {"diff", "--json", good, edited}, {"diff", good, broken},
		{"fmt", "--check", good}, {"fmt", "--diff", good}, {"fmt", "--check", broken}, {"fmt", filepath.Join(good, hostile)},
		{"schema", broken, "--kind", hostile}, {"init", broken},
	} {
		what := strings.Join(arguments, " ")
		r := command(t, arguments...)
		printed(t, what, r.out)
		if r.err != nil {
			printed(t, what, r.err.Error())
			// Cobra writes it there, too.
			printed(t, what, r.errors)
		}
		if r.out == "" && r.err == nil {
			t.Errorf("%s says nothing", what)
		}
	}
	// What is no terminal gets the file itself.
	if r := command(t, "fmt", filepath.Join(good, "remoteconfigs", "odd.yaml")); !strings.Contains(r.out, hostile+"1") {
		t.Errorf("fmt changes what it writes: %q", r.out)
	}
}

// TestCheckPointsAtThePlace although what comes before it is shown as escapes, or
// takes two columns.
func TestCheckPointsAtThePlace(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for text, shown := range map[string]string{"a\u202e": `a\u202e`, "中": "中"} {
		dir := t.TempDir()
		writeFiles(t, dir, "remoteconfigs/c.yaml", "{type: string, \""+text+"\": 1, defualt: 2}\n")
		r := command(t, "check", dir)
		before := ` {type: string, "` + shown + `": 1, `
		if !strings.Contains(r.out, "|"+before+"defualt: 2}\n      |"+strings.Repeat(" ", visible.Width(before))+"^\n") {
			t.Errorf("%s", r.out)
		}
	}
}

// TestCommandsShowNothingFromOutside has links lead out of the workspace.
func TestCommandsShowNothingFromOutside(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	secret, inside := filepath.Join(dir, "secret.yaml"), filepath.Join(dir, "definitions")
	const line = "token: [ hunter2,   b ]"
	writeFiles(t, dir, "secret.yaml", line+"\ncolumns: [ a, value ]\nmatrix:\n  - [ hunter2,   b ]\n  - [ c, d ]\n", "folder/x.yaml", line+"\n")
	writeFiles(t, inside, "remoteconfigs/c.yaml", "type: string\ndefault: none\n")
	for link, to := range map[string]string{"remoteconfigs/out.yaml": secret, "remoteconfigs/folder": filepath.Join(dir, "folder"), "context.yaml": secret} {
		must(t, os.Symlink(to, filepath.Join(inside, link)))
	}
	for _, arguments := range [][]string{
		{"check", inside}, {"check", "--json", inside}, {"eval", inside, "out"}, {"diff", inside, inside},
		{"fmt", "--diff", inside}, {"fmt", inside}, {"fmt", "-w", inside},
	} {
		what := strings.Join(arguments, " ")
		r := command(t, arguments...)
		if r.err == nil {
			t.Errorf("%s: no error: %s", what, r.out)
		} else if strings.Contains(r.out+r.errors+r.err.Error(), "hunter2") {
			t.Errorf("%s: %s %s %v", what, r.out, r.errors, r.err)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || !strings.HasPrefix(string(text), line) || !strings.Contains(string(text), "- [ hunter2,   b ]") {
		t.Errorf("fmt changed what is outside: %s, %v", text, err)
	}
	// A file that is named is meant, link or not.
	if r := command(t, "fmt", filepath.Join(inside, "remoteconfigs", "out.yaml")); r.err != nil || !strings.Contains(r.out, "hunter2") {
		t.Errorf("a named link: %s %v", r.out, r.err)
	}
}
