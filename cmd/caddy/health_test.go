package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHealthOfTheExample probes the gateway of Caddyfile.example, whose provider has no
// key, and then stops it with a delay: a load balancer sees that it stops while
// requests are still answered.
func TestHealthOfTheExample(t *testing.T) {
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	text := strings.Replace(string(example), "grace_period 30s", "grace_period 30s\nshutdown_delay 20s", 1)
	text = strings.Replace(text, "definitions examples/", "definitions {$CADENZA_ROOT}/examples/", 1)
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, t.TempDir())
	p.startWith(caddyfile)
	probe := func(path string) (int, string) {
		t.Helper()
		response, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	p.eventually("the gateway is ready", func() bool {
		status, body := probe("/readyz")
		if status != http.StatusOK && (status != http.StatusServiceUnavailable || body != `{"status":"starting"}`) {
			t.Fatalf("before the start: %d %s", status, body)
		}
		return status == http.StatusOK
	})
	if status, body := probe("/healthz"); status != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("%d %s", status, body)
	}
	if status, body := probe("/readyz"); status != http.StatusOK || !strings.Contains(body, `"status":"degraded"`) ||
		!strings.Contains(body, `{"code":"provider_unavailable"`) || !strings.Contains(body, `"openai"`) {
		t.Errorf("%d %s", status, body)
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.eventually("a gateway that stops is not ready", func() bool {
		status, body := probe("/readyz")
		if status == http.StatusServiceUnavailable && body != `{"status":"stopping"}` {
			t.Error(body)
		}
		return status == http.StatusServiceUnavailable
	})
	if status, _ := probe("/healthz"); status != http.StatusOK {
		t.Errorf("a gateway that stops is not alive: %d", status)
	}
	if status, _, body, err := post(t.Context(), http.DefaultClient, p.url+"/v1/prompts", `{"keys":["support_reply"],"variables":{"question":"?"}}`); err != nil || status != http.StatusOK {
		t.Errorf("a gateway that stops answers no more: %d %s %v", status, body, err)
	}
}
