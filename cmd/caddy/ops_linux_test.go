package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
)

// TestOpsPage runs the commands of docs/ops.md in their order, with its Caddyfile, in a
// directory that replaces the machine's root. Commands that need root, a domain or another
// server are replaced: sudo runs a command directly, xcaddy copies this binary, systemctl
// does nothing, and the gateway starts where the page starts it.
func TestOpsPage(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "git", "openssl", "sqlite3"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CADENZA_REQUIRE_OPS") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	text, err := os.ReadFile("../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"A train leaves."}}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`)
	}))
	defer model.Close()

	dir := t.TempDir()
	p := newProcess(t, dir)
	inside := freeport.Address(t)
	here := strings.NewReplacer(
		"/etc/caddy", dir+"/etc/caddy", "/var/lib/cadenza", dir+"/var/lib/cadenza", "/var/backups", dir+"/var/backups", "/usr/bin/caddy", dir+"/bin/caddy",
		"https://git.example.com/acme/gateway.git", dir+"/gateway.git", "https://gateway.example.com", p.url, "http://localhost:9090", "http://"+inside,
		// In the Caddyfile.
		"{\n\tgrace_period", "{\n\tadmin "+p.admin+"\n\tgrace_period",
		"{env.OPENAI_API_KEY}\n", "{env.OPENAI_API_KEY}\n\t\t\tbase_url "+model.URL+"/v1\n",
		"\ngateway.example.com {", "\n"+p.url+" {", "http://:9090 {", "http://"+inside+" {",
	)
	program, err := filepath.Abs(p.program[0])
	if err != nil {
		t.Fatal(err)
	}
	caddy := fmt.Sprintf(`#!/bin/sh
case "$1 $2" in
"cadenza check" | "cadenza diff" | "cadenza init" | "cadenza key") ;;
cadenza*) set -- "$@" --address %s ;;
esac
exec %s "$@"
`, p.admin, program)
	for name, script := range map[string]string{
		"built":     caddy,
		"sudo":      "#!/bin/sh\nexec \"$@\"\n",
		"xcaddy":    "#!/bin/sh\ntest $# -eq 3 || test \"$4\" = --output\ncp " + dir + "/bin/built \"${5:-caddy}\"\n",
		"systemctl": "#!/bin/sh\n", "useradd": "#!/bin/sh\n", "chgrp": "#!/bin/sh\n",
	} {
		writeScript(t, filepath.Join(dir, "bin", name), script)
	}
	for _, folder := range []string{"etc", "var/lib/cadenza", "var/backups", "admin"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environ := append(p.environ, "PATH="+dir+"/bin:"+os.Getenv("PATH"), "OPENAI_API_KEY=sk-test-openai-key",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	run := func(script string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "sh", "-euc", script)
		command.Dir, command.Env = filepath.Join(dir, "admin"), environ
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s\nThe gateway's log:\n%v", err, script, output, p.output)
		}
		return string(output)
	}

	run("git init -q --bare -b main ../gateway.git")
	before, after, found := strings.Cut(here.Replace(string(text)), "\n## Start\n")
	if !found {
		t.Fatal("docs/ops.md has no step that starts the gateway")
	}
	blocks := regexp.MustCompile("(?s)```(sh|caddyfile)\n(.*?)```")
	for _, m := range blocks.FindAllStringSubmatch(before, -1) {
		if m[1] == "sh" {
			run(m[2])
		} else if err := os.WriteFile(filepath.Join(dir, "admin/gateway/Caddyfile"), []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	variables, err := os.ReadFile(filepath.Join(dir, "etc/caddy/cadenza.env")) // the unit's environment file
	if err != nil {
		t.Fatal(err)
	}
	p.environ = append(environ, strings.Fields(string(variables))...)
	p.startWith(filepath.Join(dir, "etc/caddy/Caddyfile"))
	all := ""
	for _, m := range blocks.FindAllStringSubmatch(after, -1) {
		all += m[2]
	}
	output := run(all)
	for _, part := range []string{`"status":"ok"`, "Cadenza-Served-By: openai/gpt-6-luna", "A train leaves.", "summarise", "fair", "month"} {
		if !strings.Contains(output, part) {
			t.Errorf("no %s in\n%s", part, output)
		}
	}
	if copies, err := filepath.Glob(filepath.Join(dir, "var/backups/cadenza-*.db")); err != nil || len(copies) != 1 {
		t.Errorf("copies of the store: %v, %v", copies, err)
	}
}

// writeFile writes a file, and makes its directory.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeScript writes a shell script.
func writeScript(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, name, text)
	if err := os.Chmod(name, 0o700); err != nil {
		t.Fatal(err)
	}
}
