package caddymodule_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// mistakesDir has a file for each mistake that users make, and the directory base, a
// workspace without mistakes. The file of a mistake is an archive:
//
//	What was meant, and what is wrong.
//	pending: why it is not found yet (most have no such line)
//	$ caddy cadenza check definitions
//	-- definitions/prompts/reply.yaml --
//	… (the file as it is with the mistake)
//	-- output --
//	… (what the command writes)
//
// Its files are added to base or replace files of base. "-- NAME (removed) --" removes a
// file or a directory, "-- NAME -> TARGET --" makes a symbolic link, and in the content
// of "-- NAME (escaped) --" \r, \t and \xff stand for a byte.
const mistakesDir = "../testdata/mistakes"

// mistake is the archive of a mistake.
type mistake struct {
	path    string
	command string
	// pending says why the mistake is not found yet.
	pending string
	files   []mistakeFile
	// input is the archive without its output.
	input, want string
}

type mistakeFile struct{ name, content string }

var mistakeHeader = regexp.MustCompile(`(?m)^-- (.+) --\n`)

func readMistake(t *testing.T, path string) *mistake {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	m := &mistake{path: path}
	headers := mistakeHeader.FindAllStringSubmatchIndex(text, -1)
	if len(headers) < 2 {
		t.Fatalf("%s: an archive has files and an output", path)
	}
	about := text[:headers[0][0]]
	_, command, _ := strings.Cut(about, "\n$ ")
	m.command = strings.TrimSpace(command)
	if _, pending, ok := strings.Cut(about, "\npending: "); ok {
		m.pending, _, _ = strings.Cut(pending, "\n")
	}
	for i, h := range headers {
		name, content := text[h[2]:h[3]], text[h[1]:]
		if i+1 < len(headers) {
			content = text[h[1]:headers[i+1][0]]
			m.files = append(m.files, mistakeFile{name, content})
			continue
		}
		if name != "output" {
			t.Fatalf("%s: the last file is the output, not %s", path, name)
		}
		m.input, m.want = text[:h[1]], content
	}
	return m
}

// layOver writes the files of a mistake into a directory.
func (m *mistake) layOver(t *testing.T, dir string) {
	t.Helper()
	for _, f := range m.files {
		name, content := f.name, f.content
		if gone, ok := strings.CutSuffix(name, " (removed)"); ok {
			if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if link, target, ok := strings.Cut(name, " -> "); ok {
			if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if escaped, ok := strings.CutSuffix(name, " (escaped)"); ok {
			name = escaped
			content = regexp.MustCompile(`\\x[0-9a-f]{2}|\\[rt]`).ReplaceAllStringFunc(content, func(s string) string {
				switch s {
				case `\r`:
					return "\r"
				case `\t`:
					return "\t"
				}
				var c byte
				_, _ = fmt.Sscanf(s, `\x%02x`, &c)
				return string([]byte{c})
			})
		}
		gatewaytest.Write(t, dir, name, content)
	}
}

// rawWords are words of Go, Caddy and libraries that users do not know.
var rawWords = regexp.MustCompile(`strconv\.|cannot unmarshal|unknown unit|module not registered|goroutine |\.go:\d|panic|` +
	`(?m)(?:^|\s)(json|time|jsonschema|hex|url|sql): |parsing time|parsing "|invalid syntax|missing unit|invalid duration|%!|<nil>|` +
	`extraneous input|mismatched input|no viable alternative|token recognition|Syntax error|` +
	`path escapes from parent|2006|unexpected EOF|invalid character|invalid header option|found character|not allowed in this context`)

// place matches the place of a mistake: a line of a file, a file, or a part of the
// configuration, which has no lines when it is provisioned.
var place = regexp.MustCompile(`\.(yaml|yml|json):\d+(:\d+)?\b|Caddyfile:\d+|workspace [^:\n]+: |\bdefinitions: |a cadenza block|(?m)^definitions/\S+: |^  (file|workspace): `)

// TestMistakes runs the command of each mistake, which must find it, and compares the
// output with the archive.
func TestMistakes(t *testing.T) {
	var all []*mistake
	err := filepath.WalkDir(mistakesDir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "base":
			return filepath.SkipDir
		case !entry.IsDir():
			m := readMistake(t, path)
			if m.path, err = filepath.Abs(path); err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs(filepath.Join(mistakesDir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NO_COLOR", "1")
	t.Setenv("CADENZA_API_KEY", testKey)
	t.Setenv("OPENAI_API_KEY", "sk-of-the-tests-of-mistakes")
	t.Setenv("DATABASE_URL", "postgres://localhost/cadenza")
	var edits []*mistake
	whole := t
	for _, m := range all {
		var run func(*testing.T, string) (string, error)
		switch m.command {
		case "caddy cadenza check definitions":
			run = checkMistake()
		case "caddy validate":
			run = validateMistake
		case "caddy run":
			run = runMistake
		case "edit":
			edits = append(edits, m)
			continue
		default:
			t.Fatalf("%s: unknown command %q", m.path, m.command)
		}
		name := filepath.Base(filepath.Dir(m.path)) + "/" + filepath.Base(m.path)
		t.Run(name, func(t *testing.T) {
			// A store that is still closing would log the missing directory in the log of
			// the next mistake.
			dir := mistakeDir(whole)
			if m.command == "caddy cadenza check definitions" {
				t.Parallel()
			} else {
				t.Chdir(dir)
			}
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			m.layOver(t, dir)
			got, err := run(t, dir)
			found := err != nil || strings.Contains(got, "warning: ") || strings.Contains(got, "warn: ") || strings.Contains(got, "error: ")
			m.compare(t, strings.ReplaceAll(got, dir+string(filepath.Separator), ""), found)
		})
	}
	if len(edits) > 0 {
		t.Run("edits", func(t *testing.T) { editMistakes(t, edits) })
	}
	if len(all) < 150 {
		t.Errorf("%d mistakes", len(all))
	}
}

// mistakeDir makes a directory for the test. Unlike t.TempDir's, it may get files while it
// is removed, because a stopped gateway takes some time to end.
func mistakeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// compare checks the output about a mistake against common rules, and against the archive.
func (m *mistake) compare(t *testing.T, got string, found bool) {
	t.Helper()
	if m.pending != "" {
		if found {
			t.Errorf("found now, take the line %q out of it:\n%s", "pending: "+m.pending, got)
		}
		t.Skip(m.pending)
	}
	if !found {
		t.Errorf("not found:\n%s", got)
	}
	// Lines that a report quotes from a file are not checked.
	said := regexp.MustCompile(`(?m)^ *\d* \|.*\n`).ReplaceAllString(got, "")
	if word := rawWords.FindString(said); word != "" {
		t.Errorf("words that users do not know: %q in\n%s", word, said)
	}
	if !place.MatchString(said) {
		t.Errorf("no place in\n%s", said)
	}
	if *update {
		if err := os.WriteFile(m.path, []byte(m.input+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(m.want, got); diff != "" {
		t.Errorf("the output of the archive (-) is not that of the command (+); run with -update to accept it:\n%s", diff)
	}
}

// checkMistake returns a function that runs `caddy cadenza check`. The function may run in
// parallel, but checkMistake may not: the command keeps the last registered one.
func checkMistake() func(*testing.T, string) (string, error) {
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "cadenza", SilenceUsage: true, SilenceErrors: true}
	caddycmd.Commands()["cadenza"].CobraFunc(cmd)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	return func(_ *testing.T, dir string) (string, error) {
		cmd.SetArgs([]string{"check", filepath.Join(dir, "definitions")})
		err := cmd.Execute()
		// The summary has the revision of base.
		return regexp.MustCompile(`(?m)^(not )?ok: .*\n`).ReplaceAllString(out.String(), ""), err
	}
}

// validateMistake adapts the Caddyfile and provisions it, as `caddy validate` does.
func validateMistake(t *testing.T, dir string) (string, error) {
	t.Helper()
	return caddyMistake(t, dir, caddy.Validate)
}

// runMistake runs the Caddyfile, and stops.
func runMistake(t *testing.T, dir string) (string, error) {
	t.Helper()
	return caddyMistake(t, dir, func(config *caddy.Config) error {
		data, err := json.Marshal(config)
		if err != nil {
			return err
		}
		defer func() { _ = caddy.Stop() }()
		return caddy.Load(data, true)
	})
}

func caddyMistake(t *testing.T, dir string, use func(*caddy.Config) error) (string, error) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", dir)
	text, err := os.ReadFile("Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "error: " + err.Error() + "\n", err
	}
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		t.Fatal(err)
	}
	config.Admin = &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: new(bool)}}
	logs := filepath.Join(dir, "log")
	config.Logging = mistakeLogs(logs)
	err = use(config)
	got := strings.Join(readLogs(t, logs), "")
	if err != nil {
		got += "error: " + err.Error() + "\n"
	}
	return got, err
}

// mistakeLogs writes warnings and errors to a file.
func mistakeLogs(file string) *caddy.Logging {
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{
		WriterRaw: caddyconfig.JSONModuleObject(map[string]string{"filename": file}, "output", "file", nil),
		Level:     "WARN",
	}}}}
}

// readLogs reads the log of a gateway. It returns a text for each entry: the message,
// then the members.
func readLogs(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		t.Fatal(err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // the rest is being written
	gatewaytest.CheckLogs(t, data)
	var all []string
	for line := range bytes.Lines(data) {
		var entry map[string]any
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if entry["msg"] == "admin endpoint disabled" {
			continue // logged by the test
		}
		text := fmt.Sprintf("%s: %s\n", entry["level"], entry["msg"])
		for _, name := range slices.Sorted(maps.Keys(entry)) {
			if !slices.Contains([]string{"level", "msg", "ts", "logger"}, name) {
				text += fmt.Sprintf("  %s: %v\n", name, entry[name])
			}
		}
		all = append(all, text)
	}
	return all
}

// mistakesLogged is how many mistakes a refusal has, each of which has an entry of its own.
var mistakesLogged = regexp.MustCompile(`(?m)^  mistakes: (\d+)$`)

// refused reports whether what the log says of an edit is a whole refusal.
func refused(said string) bool {
	if found := mistakesLogged.FindStringSubmatch(said); found != nil {
		count, err := strconv.Atoi(found[1])
		return err == nil && strings.Count(said, "error: the definitions have a mistake\n") >= count
	}
	return said != ""
}

// editMistakes checks that a gateway with a workspace for each edit refuses all of them.
func editMistakes(t *testing.T, edits []*mistake) {
	dir := mistakeDir(t)
	t.Setenv("XDG_DATA_HOME", dir)
	workspaces := map[string]any{}
	folder := func(m *mistake) string {
		return strings.TrimSuffix(filepath.Base(m.path), filepath.Ext(m.path))
	}
	// show makes the gateway read a copy of base, with or without a mistake. A link makes all
	// files of an edit visible at once, so that none is loaded without the others.
	show := func(m *mistake, version string, mistake bool) {
		own := filepath.Join(dir, folder(m))
		if err := os.CopyFS(filepath.Join(own, version), os.DirFS(filepath.Join(mistakesDir, "base"))); err != nil {
			t.Fatal(err)
		}
		if mistake {
			m.layOver(t, filepath.Join(own, version))
		}
		for _, name := range []string{"definitions", "keys.json"} {
			link, target := filepath.Join(own, name), filepath.Join(version, name)
			if _, err := os.Stat(filepath.Join(own, target)); err != nil {
				if err := os.Remove(link); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := errors.Join(os.Symlink(target, link+"~"), os.Rename(link+"~", link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range edits {
		own := filepath.Join(dir, folder(m))
		show(m, "before", false)
		workspaces[folder(m)] = map[string]any{
			"definitions": filepath.Join(own, "definitions"), "keys": filepath.Join(own, "keys.json"),
			"store": map[string]any{"path": filepath.Join(own, "cadenza.db")},
			"providers": map[string]any{
				"canned": map[string]any{"module": "canned"},
				"openai": map[string]any{"module": "openai", "api_key": "{env.OPENAI_API_KEY}"},
			},
		}
	}
	logs := filepath.Join(dir, "log")
	config, err := json.Marshal(map[string]any{
		"admin": map[string]any{"disabled": true}, "logging": mistakeLogs(logs),
		"apps": map[string]any{"cadenza": map[string]any{"workspaces": workspaces}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	before := len(readLogs(t, logs))
	said := func(m *mistake) string {
		var own string
		for _, entry := range readLogs(t, logs)[before:] {
			if line := "  workspace: " + folder(m) + "\n"; strings.Contains(entry, line) {
				own += strings.Replace(entry, line, "", 1)
			}
		}
		return strings.ReplaceAll(own, filepath.Join(dir, folder(m))+string(filepath.Separator), "")
	}
	for _, m := range edits {
		show(m, "after", true)
	}
	for _, m := range edits {
		t.Run(folder(m), func(t *testing.T) {
			if m.pending == "" {
				eventually(t, "the edit is refused", func() bool { return refused(said(m)) })
			}
			got := said(m)
			m.compare(t, got, strings.Contains(got, "error: "))
		})
	}
}
