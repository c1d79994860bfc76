package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// TestSecretsAreNotStored sends secrets in every member that can contain text, and
// searches the bytes of the store for them.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"own key":      testKey,
		"provider key": "sk-" + "proj-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFiY2RlZg",
		"token":        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"private key":  "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----",
		"e-mail":       "ada.lovelace@example.org",
		"card":         "4111 1111 1111 1111",
	}
	files := map[string]string{
		"definitions/endpoints/talk.yaml": "prompt: reply\nfallback: [{ provider: canned, extra: { echo: true } }]\n",
	}
	for name, content := range workspace {
		files[name] = content
	}
	g := startGateway(t, files, logContent, with(func(c *gw.WorkspaceConfig) { c.Redact = redact.Email | redact.Card }))
	id := ""
	for name, secret := range secrets {
		text, err := json.Marshal("Look: " + secret + " is it.")
		if err != nil {
			t.Fatal(err)
		}
		said := string(text)
		const locale = `"context":{"locale":"nl","tags":[`
		a := g.post("/v1/prompts", `{"keys":["reply"],`+locale+said+`]},"metadata":{"note":`+said+`},"variables":{"question":`+said+`}}`).ok(t, name)
		// The caller's answer is unchanged.
		if !strings.Contains(string(a.body), said[1:len(said)-1]) {
			t.Errorf("%s: the answer lacks the question: %s", name, a.body)
		}
		prompt := a.header.Get("Cadenza-Trace-Id")
		// Streams record their answer in several parts.
		a = g.post("/v1/endpoints", `{"key":"talk","stream":true,`+locale+said+`]},"metadata":{"note":`+said+`},"variables":{"question":`+said+`}}`).ok(t, name)
		id = a.header.Get("Cadenza-Trace-Id")
		a = g.post("/v1/metrics", `{"trace_id":"`+prompt+`","llm_response":`+said+`,"metadata":{"note":`+said+`}}`).ok(t, name)
		reports := g.metrics("data/cadenza.db", prompt)
		if len(reports) != 1 || !strings.Contains(*reports[0].LLMResponse, "[redacted:") || !json.Valid(reports[0].Metadata) {
			t.Errorf("%s: stored %+v", name, reports)
		}
	}
	record := g.ended(t, id)
	for name, text := range map[string][]byte{"context": record.Context, "variables": record.Variables, "metadata": record.Metadata, "messages": record.Messages} {
		if !json.Valid(text) || !strings.Contains(string(text), "[redacted:") {
			t.Errorf("%s: %s", name, text)
		}
	}
	g.write("log", string(g.logs.Bytes()))
	for _, file := range []string{"data/cadenza.db", "data/cadenza.db-wal", "log"} {
		content, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for name, secret := range secrets {
			for _, form := range []string{secret, strings.ReplaceAll(secret, "\n", `\n`)} {
				if strings.Contains(string(content), form) {
					t.Errorf("%s holds the %s", file, name)
				}
			}
		}
	}
}
