package caddymodule_test

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// TestKeyOpensGateway uses a key made by `caddy cadenza key`, and the text that the command
// printed below it as the keys file.
func TestKeyOpensGateway(t *testing.T) {
	cmd := new(cobra.Command)
	caddycmd.Commands()["cadenza"].CobraFunc(cmd)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"key", "made"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	key, file, _ := strings.Cut(out.String(), "\n")
	const config = "definitions {dir}/definitions\nstore sqlite {dir}/store.db\nkeys {dir}/keys.json"
	g := startGateway(t, map[string]string{
		"definitions/remoteconfigs/flag.yaml": "type: boolean\ndefault: true\n",
		"keys.json":                           file,
	}, config)
	a := g.do("POST", "/v1/remoteconfigs", `{"keys":["flag"]}`, map[string][]string{"Authorization": {"Bearer " + key}})
	if a.status != 200 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	err := g.load(strings.Replace(config, "keys.json", "key.json", 1))
	if want := "there is no file " + g.dir + "/key.json: `caddy cadenza key` prints the content of a new one"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// TestLogsEscapeSources has definitions with warnings and mistakes, which are logged.
func TestLogsEscapeSources(t *testing.T) {
	// A terminal would execute it, or show it as something else.
	const hostile = "\u009b31m\u202eabc\u2066\u200f\U000e0001"
	printed := func(what, text string) {
		t.Helper()
		if visible.Lines(text) != text {
			t.Errorf("%s: %q", what, text)
		}
	}
	files := map[string]string{"definitions/remoteconfigs/" + hostile + ".txt": ""}
	maps.Copy(files, workspace)
	g := startGateway(t, files, options)
	eventually(t, "the warning is logged", g.said("definitions are .yaml, .yml or .json files"))
	g.write("definitions/remoteconfigs/wrong.yaml", "type: "+hostile+"\n")
	eventually(t, "the mistake is logged", g.said("the definitions on disk are invalid"))
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	printed("the log", string(logs))
	// Caddy writes an error at its start to the terminal without escapes.
	broken := filepath.Join(t.TempDir(), "remoteconfigs")
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, hostile+".yaml"), []byte("type: "+hostile+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err = loadCaddyfile(strings.Replace(g.caddyfile(options), g.dir+"/definitions", filepath.Dir(broken), 1))
	if err == nil {
		t.Fatal("no error")
	}
	printed("the error", err.Error())
}
