package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOthersClients runs third-party client libraries against the gateway: each file
// NAME.test.js in testdata/clients makes the calls of one.
func TestOthersClients(t *testing.T) {
	program, project := node(t)
	files, err := filepath.Glob(filepath.Join(project, "*.test.js"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	dir := t.TempDir()
	caddyfile := filepath.Join(dir, "Caddyfile")
	err = os.WriteFile(caddyfile, fmt.Appendf(nil, `{
	admin {$CADENZA_ADMIN}
	cadenza {
		definitions %s
		store sqlite %s
		api_key app {env.CADENZA_API_KEY}
		provider canned {
			pace 1ms
		}
	}
}

{$CADENZA_ADDRESS} {
	cadenza
}
`, filepath.Join(project, "definitions"), filepath.Join(dir, "cadenza.db")), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, dir)
	p.startWith(caddyfile)
	environ := append(os.Environ(), "CADENZA_URL="+p.url, "CADENZA_API_KEY="+demoKey)
	t.Run("tests", func(t *testing.T) {
		command := exec.CommandContext(t.Context(), program, append([]string{"--test", "--test-reporter=tap", "--test-timeout=60000"}, files...)...)
		command.Env = environ
		output, failure := command.CombinedOutput()
		counts := map[string]int{}
		for _, m := range regexp.MustCompile(`(?m)^# (tests|pass) (\d+)$`).FindAllSubmatch(output, -1) {
			if counts[string(m[1])], err = strconv.Atoi(string(m[2])); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%v", counts)
		if failure != nil || counts["tests"] < len(files) || counts["pass"] != counts["tests"] {
			t.Errorf("%v\n%s\nThe gateway's log:\n%s", failure, output, p.output)
		}
	})
	t.Run("go", func(t *testing.T) { testGoClients(t, environ) })
	t.Run("docs", func(t *testing.T) {
		var page []byte
		for _, name := range []string{"apis", "embeddings", "openfeature"} {
			text, err := os.ReadFile("../../docs/" + name + ".md")
			if err != nil {
				t.Fatal(err)
			}
			page = append(page, text...)
		}
		blocks := regexp.MustCompile("(?s)```js\n(.*?)```").FindAllSubmatch(page, -1)
		if err := os.Symlink(filepath.Join(project, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		if len(blocks) < 5 {
			t.Fatalf("the pages have %d blocks of js", len(blocks))
		}
		for i, block := range blocks {
			file := filepath.Join(dir, fmt.Sprintf("%d.mjs", i))
			if bytes.Contains(block[1], []byte("flagMetadata")) { // the SDK reports no error by itself
				block[1] = append(bytes.Clone(block[1]), `if (value !== true || variant !== "shop" || !flagMetadata.trace_id) throw reason`...)
			}
			if err := os.WriteFile(file, bytes.ReplaceAll(block[1], []byte("http://localhost:8080"), []byte(p.url)), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), program, file)
			command.Env = environ
			output, err := command.CombinedOutput()
			if err != nil || bytes.Contains(block[1], []byte("console.log")) && !bytes.Contains(output, []byte("Hello from the gateway.")) {
				t.Errorf("%v\n%s\n%s", err, block[1], output)
			}
		}
	})
}

// testGoClients runs the clients of testdata/goclients, a module of its own, against the
// gateway at a URL. environ is their environment.
func testGoClients(t *testing.T, environ []string) {
	program := filepath.Join(t.TempDir(), "goclients")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../testdata/goclients"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		missing(t, "the clients of testdata/goclients can't be built: %v\n%s", err, output)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = environ
	output, err := command.CombinedOutput()
	const each = `new_checkout true TARGETING_MATCH shop  36
old true TARGETING_MATCH old  36
integer 10 STATIC default  36
float 0.5 STATIC default  36
zero/string  STATIC default  36
team/list [1 a] STATIC default  36
none d ERROR  FLAG_NOT_FOUND 0
boolean d ERROR  TYPE_MISMATCH 0
`
	if diff := cmp.Diff(each+each, string(output)); err != nil || diff != "" {
		t.Errorf("%v, by each header of the key (-want +got):\n%s", err, diff)
	}
}

// TestClientsTable compares the table of docs/clients.md with the versions in the tests.
func TestClientsTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(nodeProject, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var project struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{} // as name@version
	for name, version := range project.Dependencies {
		if alias, ok := strings.CutPrefix(version, "npm:"); ok {
			want[alias] = true
		} else {
			want[name+"@"+version] = true
		}
	}
	got := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([0-9., ]+) \\|").FindAllSubmatch(page, -1) {
		names, versions := strings.Split(string(row[1]), ", "), strings.Split(string(row[2]), ", ")
		for i := range names {
			got[strings.Trim(names[i], "`")+"@"+versions[min(i, len(versions)-1)]] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of docs/clients.md (-package.json +page):\n%s", diff)
	}
}
