package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAnthropicPage has the examples of docs/anthropic.md answered: the workspace that
// the page shows, with a model that needs no network, and the call by curl.
func TestAnthropicPage(t *testing.T) {
	page, err := os.ReadFile("../docs/anthropic.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		name, text, _ := strings.Cut(strings.TrimPrefix(block[1], "# "), "\n")
		files["definitions/"+name] = regexp.MustCompile(`provider: anthropic\nmodel: .*\n`).ReplaceAllString(text, "provider: canned\nextra: { echo: true }\n")
	}
	if !strings.Contains(files["definitions/prompts/assistant.yaml"], "echo") || !strings.Contains(files["definitions/endpoints/assistant.yaml"], "accept") {
		t.Fatalf("docs/anthropic.md has no prompt and no endpoint: %v", files)
	}
	g := startGateway(t, files, options)
	call := regexp.MustCompile(`(?s)curl -sN http://localhost:8080(\S+) -H "x-api-key: \$CADENZA_API_KEY" .*?-d '(.*?)'`).FindStringSubmatch(string(page))
	if call == nil {
		t.Fatal("docs/anthropic.md has no call")
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

// TestAnthropicKeyIsNotLogged: with the filter that the pages show, an access log has no
// key, which Anthropic's libraries send in a header that Caddy does not leave out.
func TestAnthropicKeyIsNotLogged(t *testing.T) {
	page, err := os.ReadFile("../docs/anthropic.md")
	if err != nil {
		t.Fatal(err)
	}
	log := regexp.MustCompile(`(?s)\tlog \{\n(.*?\n\t\})\n`).FindStringSubmatch(string(page))
	deployment, err := os.ReadFile("../docs/deployment.md")
	if err != nil || log == nil || !strings.Contains(string(deployment), log[0]) {
		t.Fatalf("the pages differ: %v, %v", err, log)
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
