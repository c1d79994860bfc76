package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFirstRealAnswer follows docs/getting-started.md with each of its providers, each
// replaced by a test server: the page's lines for the Caddyfile and for the prompt lead
// to the promised answer.
func TestFirstRealAnswer(t *testing.T) {
	text, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	caddyfiles := regexp.MustCompile("(?s)```caddyfile\n(provider .*?)```").FindAllStringSubmatch(page, -1)
	prompts := regexp.MustCompile("(?s)```yaml\n(provider: .*?)```").FindAllStringSubmatch(page, -1)
	promised := regexp.MustCompile(`Cadenza-Served-By: (\w+/[\w.-]+)`).FindAllStringSubmatch(page, -1)
	if len(caddyfiles) != 2 || len(prompts) != 2 || len(promised) != 3 {
		t.Fatalf("%d Caddyfiles, %d prompts and %d answers", len(caddyfiles), len(prompts), len(promised))
	}

	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/messages" {
			io.WriteString(w, `{"id":"m1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"It is on its way."}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":5}}`)
			return
		}
		io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"It is on its way."}}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`)
	}))
	defer model.Close()

	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples/definitions"), os.DirFS("../../examples/definitions")); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	const openai = "\t\tprovider openai {\n\t\t\tapi_key {env.OPENAI_API_KEY}\n"
	if !strings.Contains(string(example), openai) {
		t.Fatalf("Caddyfile.example has no longer\n%s", openai)
	}
	all := openai + "\t\t\tbase_url " + model.URL + "/v1\n\t\t}\n"
	for _, m := range caddyfiles {
		block, _, _ := strings.Cut(strings.TrimSpace(m[1]), "\n}")
		if !strings.Contains(block, "{") {
			block += " {"
		}
		all += block + "\n\tbase_url " + model.URL + "/v1\n}\n"
	}
	caddyfile := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(strings.Replace(string(example), openai+"\t\t}\n", all, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, dir, "OPENAI_API_KEY=sk-test-openai-key", "ANTHROPIC_API_KEY=sk-ant-test-key")
	p.startWith(caddyfile)

	const own = "    provider: openai\n    model: gpt-6-luna\n"
	prompt := filepath.Join(dir, "examples/definitions/prompts/support_reply.yaml")
	definition, err := os.ReadFile(prompt)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(definition), own) {
		t.Fatalf("the example's prompt has no longer\n%s", own)
	}
	for i, want := range promised {
		if i > 0 {
			lines := "    " + strings.ReplaceAll(strings.TrimSpace(prompts[i-1][1]), "\n", "\n    ") + "\n"
			edited := strings.Replace(string(definition), own, lines, 1)
			if err := os.WriteFile(prompt, []byte(edited), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var got string
		p.eventually("the answer of "+want[1], func() bool {
			_, header, body, _ := post(t.Context(), http.DefaultClient, p.url+"/v1/endpoints", `{"key":"support_chat","variables":{"question":"Where is my order?"}}`)
			got = body
			return strings.HasSuffix(header.Get("Cadenza-Served-By"), want[1])
		})
		if !strings.Contains(got, "It is on its way.") {
			t.Errorf("%s answers %s\n%s", want[1], got, p.output)
		}
	}
}
