package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAnthropicCallOfThePage makes the curl call of docs/apis.md with the page's workspace.
func TestAnthropicCallOfThePage(t *testing.T) {
	text := page(t, "apis.md")
	g := startGateway(t, documentedAssistant(t), options)
	call := regexp.MustCompile(`(?s)curl -sN http://localhost:8080(\S+) -H "x-api-key: \$CADENZA_API_KEY" .*?-d '(.*?)'`).FindStringSubmatch(text)
	if call == nil {
		t.Fatal("docs/apis.md has no call of messages")
	}
	a := g.do(http.MethodPost, call[1], call[2], http.Header{"X-Api-Key": {testKey}, "Anthropic-Version": {"2023-06-01"}})
	if text := string(a.body); a.status != http.StatusOK || !strings.Contains(text, "Hello!") || !strings.HasSuffix(text, "data: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("%d %s", a.status, text)
	}
	refused := g.do(http.MethodPost, call[1], strings.Replace(call[2], `"max_tokens":500`, `"max_tokens":5000`, 1), http.Header{"X-Api-Key": {testKey}})
	if a := refused; a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"max_tokens"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestAnthropicKeyIsNotLogged checks that the filter of docs/deployment.md removes the key
// from an access log. Anthropic's libraries send it in a header that Caddy does not remove.
func TestAnthropicKeyIsNotLogged(t *testing.T) {
	log := regexp.MustCompile(`(?s)\tlog \{\n(.*?\n\t\})\n`).FindStringSubmatch(page(t, "deployment.md"))
	if log == nil || !strings.Contains(log[1], "X-Api-Key delete") {
		t.Fatalf("docs/deployment.md has no filter: %v", log)
	}
	g := startGateway(t, workspace, options)
	access := filepath.Join(g.dir, "access")
	g.site(options, "log {\noutput file "+access+"\n"+log[1]+"\ncadenza\n")
	if a := g.do(http.MethodPost, "/v1/messages/count_tokens", `{"model":"none"}`, http.Header{"X-Api-Key": {testKey}}); a.status != http.StatusNotFound {
		t.Fatalf("%d %s", a.status, a.body)
	}
	eventually(t, "the access log has the request", func() bool {
		text, err := os.ReadFile(access)
		if strings.Contains(string(text), testKey) {
			t.Fatalf("the key is in %s", text)
		}
		return err == nil && strings.Contains(string(text), `"/v1/messages/count_tokens"`)
	})
}
