package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/secret"
)

// The secrets of a gateway with two workspaces. None looks like a secret.
const (
	canaryKey      = "canary/provider+key~0001"
	canaryOther    = "canary/other=provider~0002"
	canaryOld      = "canary-file-key-before-0003"
	canaryNew      = "canary-file-key-after-0004"
	canaryTrace    = `trace "key" of can\ary 0005`
	canaryPassword = `p@ss/w:rd"can\ary0006`
)

// TestCanaries gives the gateway secrets of all kinds, makes callers and the upstream send
// each of them in every text, and searches all files and outputs of the gateway for them.
func TestCanaries(t *testing.T) {
	refresh := secret.Refresh
	secret.Refresh = 0
	t.Cleanup(func() { secret.Refresh = refresh })
	// The upstream repeats its whole request in every text of its answer.
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key, _ := json.Marshal(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		name := key[1 : len(key)-1]
		w.Header().Set("Set-Cookie", "canary-cookie-0007=1")
		w.Header().Set("Server", "canary-server-0008")
		if strings.Contains(string(body), "Please fail.") {
			asked, _ := json.Marshal(string(body))
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"code":"bad_%s","param":%[2]s,"type":%[2]s,"message":"canary-words-0009: %s, at https://ada:%s@upstream.example/v1, asked %s"}}`,
				name, key, name, url.PathEscape("pw-canary-0010"), asked[1:len(asked)-1])
			return
		}
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"model":%s,"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", key, key)
			fmt.Fprintf(w, `data: {"model":%s,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n", key)
			return
		}
		fmt.Fprintf(w, `{"model":"model-of-%s","choices":[{"index":0,"message":{"role":"assistant","content":%s,"tool_calls":[{"id":"id-%s","type":"function","function":{"name":%s,"arguments":"{\"key\":\"%s\"}"}}]},"finish_reason":"tool_calls"}]}`,
			name, key, name, key, name)
	})
	files := map[string]string{
		"definitions/endpoints/file.yaml":  "prompt: filed\nmax_attempts: 1\n",
		"definitions/endpoints/plain.yaml": "prompt: reply\nlog: metadata\nmax_attempts: 1\n",
		"definitions/endpoints/quiet.yaml": "prompt: reply\nlog: none\nmax_attempts: 1\n",
		"key":                              canaryOld + "\n",
	}
	for name, content := range single() {
		files[name] = content
	}
	files["definitions/context.yaml"] = "on_unknown_field: warn\n" + files["definitions/context.yaml"]
	files["definitions/prompts/filed.yaml"] = strings.ReplaceAll(files["definitions/prompts/reply.yaml"], "provider: fake", "provider: filed")
	t.Setenv("CANARY_KEY", canaryKey)
	t.Setenv("CANARY_OTHER", canaryOther)
	t.Setenv("CANARY_TRACE", canaryTrace)
	t.Setenv("CANARY_VARIABLE", "canary-variable-0011")
	t.Setenv("CADENZA_OTHER_KEY", otherKey)
	t.Setenv("CANARY_DSN", "postgres://cadenza:"+url.QueryEscape(canaryPassword)+"@127.0.0.1:1/db?connect_timeout=1")
	configured := withoutFake + `
		log content
		trace_key {env.CANARY_TRACE}
		provider fake openai {
			base_url ` + u.URL + `/v1
			api_key {env.CANARY_KEY}
		}
		provider filed openai {
			base_url ` + u.URL + `/v1
			api_key {file.{dir}/key}
		}
		sink file {dir}/out/traces.jsonl
		sink postgres {env.CANARY_DSN}
		workspace other {
			definitions {dir}/definitions
			store sqlite {dir}/data/other.db
			api_key app {env.CADENZA_OTHER_KEY}
			provider fake openai {
				base_url ` + u.URL + `/v1
				api_key {env.CANARY_OTHER}
			}
			provider filed openai {
				base_url ` + u.URL + `/v1
				api_key {env.CANARY_OTHER}
			}
		}
	`
	g := startGateway(t, files, configured)
	address := adminOf(t, g, configured)

	canaries := map[string]string{
		"an API key": testKey, "another workspace's API key": otherKey,
		"a provider's key": canaryKey, "another workspace's provider's key": canaryOther,
		"a key in a file": canaryOld, "the key that replaced it": canaryNew,
		"the trace key": canaryTrace, "the password of a sink": canaryPassword,
		"a token":       "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"a private key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----",
	}
	byShape := map[string]bool{testKey: true, otherKey: true, canaries["a token"]: true, canaries["a private key"]: true}
	// Sent by the upstream only, or by nobody.
	unsaid := map[string]string{
		"an upstream's cookie": "canary-cookie-0007", "an upstream's header": "canary-server-0008",
		"user information": "pw-canary-0010", "a variable of the process": "canary-variable-0011",
	}
	ask := func(path, body string, want int) string {
		t.Helper()
		a := g.post(path, body)
		if a.status != want {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		return a.header.Get("Cadenza-Trace-Id")
	}
	eventually(t, "the store is open", func() bool { return g.post("/v1/metrics", `{"score":1}`).status == 200 })
	var last string
	// In the second half the file's new key is in use.
	for _, text := range []string{canaryOld, canaryKey, testKey, canaryTrace, canaryPassword, "", canaryNew, canaryOther, otherKey, canaryOld, canaries["a token"], canaries["a private key"], "{env.CANARY_VARIABLE}"} {
		if text == "" {
			ask("/v1/endpoints", `{"key":"file",`+question+`}`, 200) // under the old key
			g.write("key", canaryNew)
			ask("/v1/endpoints", `{"key":"file",`+question+`}`, 200)
			continue
		}
		quoted, _ := json.Marshal(text)
		// A secret is found by its value, also inside words and in URLs.
		glued := text + "-glued. https://host/?key=" + url.QueryEscape(text) + "&x=1"
		if byShape[text] {
			glued = text
		}
		sentence, _ := json.Marshal("Take " + glued + " and " + string(quoted))
		said := fmt.Sprintf(`"context":{%s:1,"tags":[%s]},"metadata":{%s:%s},"variables":{"question":%s}`, quoted, sentence, quoted, sentence, sentence)
		fails := strings.Replace(said, `"question":"`, `"question":"Please fail. `, 1)
		id := ask("/v1/prompts", `{"keys":["reply"],`+said+`}`, 200)
		ask("/v1/remoteconfigs", `{"keys":["limits"],`+said+`}`, 200)
		ask("/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"llm_response":%s,"metadata":{%s:%s}}`, id, sentence, quoted, sentence), 200)
		ask("/v2/prompts/"+id+"/metrics", fmt.Sprintf(`{"score":1,"metadata":{"a":%s}}`, sentence), 200)
		for _, endpoint := range []string{"chat", "file", "plain", "quiet"} {
			ask("/v1/endpoints", `{"key":"`+endpoint+`",`+said+`}`, 200)
			ask("/v1/endpoints", `{"key":"`+endpoint+`","stream":true,`+said+`}`, 200)
			ask("/v1/endpoints", `{"key":"`+endpoint+`",`+fails+`}`, 502)
		}
		a := g.do("POST", "/v1/endpoints", `{"key":"chat",`+said+`}`, bearer(otherKey))
		if a.status != 200 {
			t.Fatalf("the other workspace: %d %s", a.status, a.body)
		}
		last = ask("/v1/prompts", `{"keys":["hello"]}`, 200)
	}
	sink := filepath.Join(g.dir, "out", "traces.jsonl")
	eventually(t, "all is stored and copied", func() bool {
		content, err := os.ReadFile(sink)
		return err == nil && strings.Contains(string(content), last)
	})

	places := map[string]string{}
	for _, file := range []string{"log", "data/cadenza.db", "data/cadenza.db-wal", "data/other.db", "data/other.db-wal", "out/traces.jsonl"} {
		content, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		places[file] = string(content)
	}
	for _, path := range []string{"/config/", "/metrics", "/cadenza/definitions", "/cadenza/targets", "/cadenza/traces?limit=1000&workspace=default", "/cadenza/traces?limit=1000&workspace=other", "/cadenza/export?workspace=default", "/cadenza/stats?workspace=default"} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 {
			t.Errorf("%s: %d, %v", path, response.StatusCode, err)
		}
		places[path] = string(content)
	}
	for place, content := range places {
		for _, texts := range []map[string]string{canaries, unsaid} {
			for name, canary := range texts {
				once, _ := json.Marshal(canary)
				twice, _ := json.Marshal(string(once[1 : len(once)-1]))
				for _, form := range []string{canary, string(once[1 : len(once)-1]), string(twice[1 : len(twice)-1]), url.QueryEscape(canary), url.PathEscape(canary)} {
					if i := strings.Index(content, form); i >= 0 {
						t.Errorf("%s holds %s: …%s…", place, name, content[max(0, i-100):min(len(content), i+len(form)+20)])
						break
					}
				}
			}
		}
	}
	for _, place := range []string{"out/traces.jsonl", "/cadenza/traces?limit=1000&workspace=default"} {
		if !strings.Contains(places[place], "model-of-[redacted:secret]") || !strings.Contains(places[place], "context.[redacted:secret]: unknown_field") {
			t.Errorf("%s has no names", place)
		}
	}
	// The log has no more of a failure than the trace may have.
	failures := map[string]int{}
	for line := range strings.Lines(places["log"]) {
		var entry struct{ Msg, Endpoint, Class, Error string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "an endpoint failed" {
			continue
		}
		failures[entry.Endpoint]++
		said := strings.Contains(line, "canary-words-0009")
		switch entry.Endpoint {
		case "quiet":
			if entry.Error != "" || entry.Class != "rejected" {
				t.Errorf("with log none: %s", line)
			}
		case "plain":
			if said || !strings.HasPrefix(entry.Error, "upstream_rejected: rejected: ") || !strings.Contains(entry.Error, "status 400") {
				t.Errorf("with log metadata: %s", line)
			}
		default:
			if !said {
				t.Errorf("with log content: %s", line)
			}
		}
	}
	if len(failures) != 4 {
		t.Errorf("the failures that are logged: %v", failures)
	}
}
