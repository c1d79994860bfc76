package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
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

// requireNginx is the environment variable that makes TestDeploymentBehindNginx fail,
// rather than skip, if nginx is missing.
const requireNginx = "CADENZA_REQUIRE_NGINX"

// TestDeploymentBehindNginx asks the gateway through the nginx site of
// docs/deployment.md: events arrive while the answer is being made, and an answer that
// broke off ends with an error.
func TestDeploymentBehindNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if os.Getenv(requireNginx) != "" {
			t.Fatal(err)
		}
		t.Skipf("there is no nginx (set %s to fail instead)", requireNginx)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "examples/definitions"), os.DirFS("../../examples/definitions")); err != nil {
		t.Fatal(err)
	}
	write("examples/definitions/prompts/broken.yaml", "provider: canned\nextra: { answer: Half an answer, fail: { after: 1, kind: truncate } }\nmessages: [ { role: user, content: Hi. } ]\n")
	write("examples/definitions/endpoints/broken.yaml", "prompt: broken\n")
	p := newProcess(t, dir)
	p.startWith(write("Caddyfile", string(example)))
	address := freeport.Address(t)
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
	text := "daemon off;\nmaster_process off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("%s_temp_path %s;\n", name, name)
	}
	config := write("nginx.conf", text+server+"}\n")
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

	ask := func(key string) (*http.Response, error) {
		body := `{"key":"` + key + `","stream":true,"variables":{"question":"Where is my order?"}}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/endpoints", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+demoKey)
		return http.DefaultClient.Do(request)
	}
	var response *http.Response
	gatewaytest.Eventually(t, "nginx listens", func() bool {
		response, err = ask("support_chat")
		return err == nil
	})
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	last, pauses := time.Now(), 0
	text = ""
	for lines.Scan() {
		if time.Since(last) > 5*time.Millisecond {
			pauses++
		}
		last = time.Now()
		text = cmp.Or(lines.Text(), text)
	}
	// The example's answer takes 23 words of 20 ms each. Buffered, it arrives at once.
	if response.StatusCode != http.StatusOK || text != "data: [DONE]" || lines.Err() != nil || pauses < 4 {
		t.Errorf("%d, the last line is %q, and the events came in %d parts: %v", response.StatusCode, text, pauses+1, lines.Err())
	}

	broken, err := ask("broken")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Body.Close()
	if all, err := io.ReadAll(broken.Body); err == nil {
		t.Errorf("an answer that broke off ended well: %s", all)
	}
}

// TestDeploymentUnit verifies the unit of docs/deployment.md with systemd.
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
