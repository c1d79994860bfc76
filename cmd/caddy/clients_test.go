package main

import (
	"database/sql"
	"encoding/json"
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

	"github.com/google/go-cmp/cmp"
)

// clientsPage returns the blocks of docs/clients.md in a language: for prompts, for streams,
// and for the client that the project has.
func clientsPage(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) != 3 && (language != "python" || len(blocks) != 2) {
		t.Fatalf("docs/clients.md has %d blocks of %s", len(blocks), language)
	}
	return blocks
}

// TestClients runs the clients of docs/clients.md against the gateway, and against a
// server that answers like OpenAI. It skips the ones in Python and Node if their
// interpreter is missing. A small module replaces OpenAI's library.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	workspace := filepath.Join(dir, "definitions")
	if err := os.CopyFS(workspace, os.DirFS("../../examples/definitions")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A prompt with every parameter.
	prompt, err := os.ReadFile(filepath.Join(workspace, "prompts/support_reply.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write("definitions/prompts/support_reply.yaml", strings.Replace(string(prompt), "    max_tokens: 400\n", `    max_tokens: 400
    top_p: 0.5
    top_k: 3
    frequency_penalty: 1
    presence_penalty: -1
    seed: 7
    stop: END
    temperature: 0.2
    response_format: { json_schema: { name: answer, schema: { type: object } } }
    tools: [ { name: find_order, parameters: { type: object } } ]
    tool_choice: { name: find_order }
`, 1))
	write("definitions/prompts/broken.yaml", "provider: canned\nextra: { answer: Half an answer, fail: { after: 1, kind: truncate } }\nmessages: [ { role: user, content: Hi. } ]\n")
	write("definitions/endpoints/broken.yaml", "prompt: broken\n")
	const want = `{
		"messages": [
			{"role": "system", "content": "Je bent de helpdesk van Acme. Antwoord in het Nederlands."},
			{"role": "user", "content": "Waar is mijn pakket?"}
		],
		"model": "gpt-6-luna", "temperature": 0.2, "max_tokens": 400, "top_p": 0.5, "frequency_penalty": 1,
		"presence_penalty": -1, "seed": 7, "stop": ["END"], "reasoning_effort": "none",
		"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
		"tools": [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}],
		"tool_choice": {"type": "function", "function": {"name": "find_order"}}
	}`

	asked := make(chan string, 3)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"gpt-6-luna","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Onderweg."}}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	}))
	defer model.Close()

	p := newProcess(t, dir)
	write("Caddyfile", fmt.Sprintf(`{
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
`, workspace, filepath.Join(dir, "cadenza.db")))
	p.startWith(filepath.Join(dir, "Caddyfile"))
	environ := map[string]string{
		"CADENZA_URL": p.url, "CADENZA_API_KEY": demoKey, "OPENAI_BASE_URL": model.URL, "OPENAI_API_KEY": "sk-test",
		"PYTHONPATH": dir, "PYTHONDONTWRITEBYTECODE": "1",
	}
	for name, value := range environ {
		t.Setenv(name, value)
	}

	const streamed = "Thank you for your question. All our agents are busy right now, please try again in a few minutes or write to support@example.com."
	// run returns the output of a client, and its error.
	check := func(t *testing.T, run func(block int, key string) (string, error)) {
		t.Helper()
		if text, err := run(0, ""); err != nil || strings.TrimSpace(text) != "Onderweg." {
			t.Fatalf("%q, %v", text, err)
		}
		var got, wanted any
		if err := json.Unmarshal([]byte(<-asked), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("what the model was asked (-want +got):\n%s", diff)
		}
		if n := lastReport(t, filepath.Join(dir, "cadenza.db")); n != 10 {
			t.Errorf("the last report has %d tokens", n)
		}
		if text, err := run(1, "support_chat"); err != nil || strings.TrimSpace(text) != streamed {
			t.Errorf("streamed: %q, %v", text, err)
		}
		if text, err := run(1, "broken"); err == nil {
			t.Errorf("an answer that broke off was taken for whole: %q", text)
		}
	}
	program := func(interpreter, language, extension string) func(*testing.T) {
		return func(t *testing.T) {
			path, err := exec.LookPath(interpreter)
			if err != nil {
				t.Skip("there is no " + interpreter)
			}
			blocks := clientsPage(t, language)
			check(t, func(block int, key string) (string, error) {
				write("client"+extension, strings.ReplaceAll(blocks[block], "support_chat", key))
				output, err := exec.CommandContext(t.Context(), path, filepath.Join(dir, "client"+extension)).Output()
				if exit, ok := err.(*exec.ExitError); ok {
					err = fmt.Errorf("%w: %s", err, exit.Stderr)
				}
				return string(output), err
			})
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules/openai"), 0o700); err != nil {
		t.Fatal(err)
	}
	for source, to := range map[string]string{"openai.py": "openai.py", "openai.mjs": "node_modules/openai/index.mjs"} {
		text, err := os.ReadFile(filepath.Join("testdata/clients", source))
		if err != nil {
			t.Fatal(err)
		}
		write(to, string(text))
	}
	write("node_modules/openai/package.json", `{"name":"openai","exports":"./index.mjs"}`)
	t.Run("python", program("python3", "python", ".py"))
	t.Run("node", program("node", "js", ".mjs"))
	t.Run("go", func(t *testing.T) {
		source, err := os.ReadFile("goclient_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range clientsPage(t, "go")[:2] {
			if !strings.Contains(string(source), block) {
				t.Errorf("not in goclient_test.go:\n%s", block)
			}
		}
		gateway = p.url // the variable of the environment was read before
		check(t, func(block int, key string) (string, error) {
			if block == 0 {
				return supportReply(t.Context(), "Waar is mijn pakket?")
			}
			var all strings.Builder
			err := stream(t.Context(), key, map[string]any{"question": "Where is my order?"}, func(e Event) { all.WriteString(e.Content) })
			return all.String(), err
		})
	})
}

// lastReport returns the tokens of the last stored report.
func lastReport(t *testing.T, store string) (tokens int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+store+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT total_tokens FROM metrics WHERE latency_ms >= 0 ORDER BY seq DESC").Scan(&tokens); err != nil {
		t.Error(err)
	}
	if _, err := db.Exec("DELETE FROM metrics"); err != nil { // so that the next client finds only its own
		t.Error(err)
	}
	return tokens
}
