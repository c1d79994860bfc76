package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// deployment returns the block of docs/deployment.md in a language.
func deployment(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
	if match == nil {
		t.Fatalf("docs/deployment.md has no block of %s", language)
	}
	return string(match[1])
}

// TestDeploymentBehindNginx asks the gateway through the server that
// docs/deployment.md has in front of it: events arrive while the answer is made.
func TestDeploymentBehindNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("there is no nginx")
	}
	dir := t.TempDir()
	p := newProcess(t, dir)
	p.start()
	address := freeAddress(t)
	server := deployment(t, "nginx")
	for _, change := range []struct{ from, to string }{
		{`listen 443 ssl;`, "listen " + address + ";"},
		{`\n\s*ssl_.*;`, ""},
		{`http://127\.0\.0\.1:8080`, p.url},
	} {
		expression := regexp.MustCompile(change.from)
		if !expression.MatchString(server) {
			t.Fatalf("the server has no %s:\n%s", change.from, server)
		}
		server = expression.ReplaceAllString(server, change.to)
	}
	config := filepath.Join(dir, "nginx.conf")
	text := "daemon off;\nmaster_process off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("%s_temp_path %s;\n", name, name)
	}
	if err := os.WriteFile(config, []byte(text+server+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output := new(lockedBuffer)
	command := exec.Command(nginx, "-p", dir, "-c", config)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", server, output)
		}
	})

	const body = `{"key":"support_chat","stream":true,"variables":{"question":"Where is my order?"}}`
	var response *http.Response
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/endpoints", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+demoKey)
		if response, err = http.DefaultClient.Do(request); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	var first, last time.Time
	text = ""
	for lines.Scan() {
		if last = time.Now(); first.IsZero() {
			first = last
		}
		text = cmp.Or(lines.Text(), text)
	}
	// The example's answer takes 23 words of 20 ms each. Buffered, all arrive at once.
	if response.StatusCode != http.StatusOK || text != "data: [DONE]" || last.Sub(first) < 20*time.Millisecond {
		t.Errorf("%d, the last line is %q, all arrived within %s", response.StatusCode, text, last.Sub(first))
	}
}

// TestDeploymentUnit has systemd read the unit of docs/deployment.md.
func TestDeploymentUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit := deployment(t, "ini")
	const program = "/usr/bin/caddy "
	if strings.Count(unit, "="+program) != 2 {
		t.Errorf("the unit does not start and reload %s", program)
	}
	file := filepath.Join(t.TempDir(), "cadenza.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "="+program, "="+os.Args[0]+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), analyze, "verify", "--recursive-errors=no", file).CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s", err, output)
	}
}
