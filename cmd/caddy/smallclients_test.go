package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSmallClients has the tests of clients/go and clients/node that need a gateway ask
// this one, whose definitions they edit.
func TestSmallClients(t *testing.T) {
	dir := t.TempDir()
	definitions := filepath.Join(dir, "definitions")
	if err := os.CopyFS(definitions, os.DirFS("../../examples/definitions")); err != nil {
		t.Fatal(err)
	}
	caddyfile := filepath.Join(dir, "Caddyfile")
	err := os.WriteFile(caddyfile, fmt.Appendf(nil, `{
	admin {$CADENZA_ADMIN}
	cadenza {
		definitions %s
		store sqlite %s
		api_key app {env.CADENZA_API_KEY}
		provider openai {
			api_key {env.OPENAI_API_KEY}
		}
		provider canned
	}
}

{$CADENZA_ADDRESS} {
	cadenza
}
`, definitions, filepath.Join(dir, "cadenza.db")), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, dir, "OPENAI_API_KEY=sk-test")
	p.startWith(caddyfile)
	run := func(t *testing.T, folder, program string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, arguments...)
		command.Dir = filepath.Join("../../clients", folder)
		command.Env = append(os.Environ(), "CADENZA_CLIENTS_URL="+p.url, "CADENZA_CLIENTS_DEFINITIONS="+definitions, "CADENZA_API_KEY="+demoKey)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\nThe gateway's log:\n%s", err, output, p.output)
		}
		if bytes.Contains(output, []byte("no gateway")) {
			t.Errorf("it asked none:\n%s", output)
		}
		t.Logf("%s", output)
	}
	t.Run("go", func(t *testing.T) { run(t, "go", "go", "test", "-count=1", "-run", "^TestGateway$", "-v", ".") })
	t.Run("node", func(t *testing.T) {
		run(t, "node", nodeProgram(t), "--test", "--test-reporter=tap", "--test-timeout=120000", "test/gateway.test.js")
	})
}
