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
	clients := filepath.Join(p.root, "clients")
	run := func(t *testing.T, folder, want, program string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "CADENZA_CLIENTS_URL="+p.url, "CADENZA_CLIENTS_DEFINITIONS="+definitions, "CADENZA_URL="+p.url, "CADENZA_API_KEY="+demoKey)
		output, err := command.CombinedOutput()
		if err != nil || !bytes.Contains(output, []byte(want)) {
			t.Fatalf("%v, want %s\n%s\nThe gateway's log:\n%s", err, want, output, p.output)
		}
		t.Logf("%s", output)
	}
	write := func(t *testing.T, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The pages' programs print what they got last.
	t.Run("go", func(t *testing.T) {
		run(t, filepath.Join(clients, "go"), "ok", "go", "test", "-count=1", "-run", "^TestGateway$", "-v", ".")
		write(t, "main.go", clientsPage(t, "go")[2])
		const path = "github.com/cadenza-gateway/cadenza/clients/go"
		write(t, "go.mod", fmt.Sprintf("module main\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", path, filepath.Join(clients, "go")))
		run(t, dir, " nl 5\n", "go", "run", ".")
	})
	t.Run("node", func(t *testing.T) {
		program := nodeProgram(t)
		run(t, filepath.Join(clients, "node"), "# fail 0", program, "--test", "--test-reporter=tap", "--test-timeout=120000", "test/gateway.test.js")
		write(t, "client.mjs", clientsPage(t, "js")[2])
		modules := filepath.Join(dir, "node_modules/@cadenza-gateway")
		if err := os.MkdirAll(modules, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(clients, "node"), filepath.Join(modules, "client")); err != nil {
			t.Fatal(err)
		}
		run(t, dir, " nl 5\n", program, "client.mjs")
	})
}
