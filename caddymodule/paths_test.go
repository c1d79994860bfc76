package caddymodule_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestPathsAreRelativeToTheirFile adapts Caddyfiles that import others and are not in the
// working directory of the process.
func TestPathsAreRelativeToTheirFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATHS_TEST_DATA", "../data")
	for name, content := range map[string]string{
		"conf/team/workspace": "workspace imported {\n definitions definitions\n store sqlite ../traces.db\n import ../snippets/keys mine\n sink file out.jsonl\n}\n",
		"conf/snippets/keys":  "keys {args[0]}/keys.json\n",
	} {
		gatewaytest.Write(t, dir, name, content)
	}
	const caddyfile = `
(stage) {
	definitions ./stages/{env.STAGE}
	keys /etc/keys.json
}
{
	cadenza {
		definitions ../definitions
		store sqlite {$PATHS_TEST_DATA}/cadenza.db
		keys {env.KEYS}
		sink file out/traces.jsonl
		import team/workspace
		workspace snippet {
			import stage
		}
	}
}
`
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": filepath.Join(dir, "conf", "Caddyfile")})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Apps struct{ Cadenza caddymodule.App }
	}
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	w := config.Apps.Cadenza.Workspaces
	sink := func(name string) string {
		var file struct{ Path string }
		if err := json.Unmarshal(w[name].SinksRaw["file"], &file); err != nil {
			t.Fatal(err)
		}
		return file.Path
	}
	below := func(path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
	for _, test := range []struct{ name, got, want string }{
		{"definitions", w["default"].Definitions, below("definitions")},
		{"a store in a folder that a variable names", w["default"].Store.Path, below("data/cadenza.db")},
		{"a path that begins with a placeholder", w["default"].Keys, "{env.KEYS}"},
		{"the file of a sink", sink("default"), below("conf/out/traces.jsonl")},
		{"definitions in a file that is imported", w["imported"].Definitions, below("conf/team/definitions")},
		{"a store there", w["imported"].Store.Path, below("conf/traces.db")},
		{"keys in a file that that one imports", w["imported"].Keys, below("conf/snippets/mine/keys.json")},
		{"a sink there", sink("imported"), below("conf/team/out.jsonl")},
		{"definitions in a snippet", w["snippet"].Definitions, below("conf/stages/{env.STAGE}")},
		{"an absolute path", w["snippet"].Keys, "/etc/keys.json"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
}

// TestPathOfJSONIsRelativeToTheProcess loads a configuration in JSON: only paths in a
// Caddyfile are relative to the directory of their file.
func TestPathOfJSONIsRelativeToTheProcess(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, workspace, options)
	relative, err := filepath.Rel(here, filepath.Join(g.dir, "definitions"))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.loadJSON(options, filepath.ToSlash(filepath.Join(g.dir, "definitions")), filepath.ToSlash(relative)); err != nil {
		t.Fatal(err)
	}
	if err := g.loadJSON(options, filepath.Join(g.dir, "definitions"), "no/such/folder"); err == nil || !strings.Contains(err.Error(), "no/such/folder") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
