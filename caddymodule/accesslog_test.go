package caddymodule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestAccessLog checks that an access log has Cadenza's fields of each request, as one
// object and by each placeholder, also if nothing is recorded.
func TestAccessLog(t *testing.T) {
	asked := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case bytes.Contains(body, []byte("hang")):
			close(asked)
			<-r.Context().Done()
		case bytes.Contains(body, []byte("refuse")):
			w.WriteHeader(http.StatusServiceUnavailable)
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("one", "stop")+
				`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`+"\n\ndata: [DONE]\n\n")
		default:
			gatewaytest.Completion(w, "Hello.")
		}
	})
	files := gatewaytest.EndpointWith("retry: { count: 0 }\nfallback: [ { provider: canned, model: m, extra: { answer: one } } ]\n")
	files["definitions/endpoints/hidden.yaml"] = "prompt: reply\nlog: none\ncache: { ttl: 1h }\n"
	files["definitions/prompts/hello.yaml"] += "log: none\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	access := filepath.Join(g.dir, "access")
	g.site(fakeProvider(u.URL)+"price small 1 2\n", `
		log {
			output file `+access+`
			format json
		}
		log_append cadenza {cadenza}
		log_append key {cadenza.key}
		log_append tokens {cadenza.tokens.total}
		cadenza
	`)
	read := 0
	line := func() map[string]any {
		t.Helper()
		var last map[string]any
		eventually(t, "the access log has the request", func() bool {
			text, err := os.ReadFile(access)
			if err != nil || len(text) <= read || text[len(text)-1] != '\n' {
				return false
			}
			text = text[read:]
			read += len(text)
			text = text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1:]
			return json.Unmarshal(text, &last) == nil
		})
		return last
	}
	check := func(name string, want string, except ...string) map[string]any {
		t.Helper()
		logged := line()
		got, _ := logged["cadenza"].(map[string]any)
		for _, member := range append(except, "workspace", "api_key") {
			if got[member] == nil {
				t.Errorf("%s: no %s in %v", name, member, got)
			}
			delete(got, member)
		}
		var wanted map[string]any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return logged
	}
	const ids = "trace_id"

	a := g.post("/v1/endpoints", `{"key":"chat","context":{"locale":"nl"},`+question+`}`)
	logged := check("a call", `{"route":"endpoints","key":"chat","kind":"endpoint","variant":"nl","arm":"nl","row":"row 1","provider":"fake","model":"small",
		"finish_reason":"stop","attempts":1,"cost":0.000013,"tokens":{"prompt":7,"completion":3,"total":10,"cached":0,"cache_write":0,"reasoning":0,"estimated":false}}`, ids, "decision_id", "revision")
	if logged["key"] != "chat" || logged["tokens"] != 10.0 {
		t.Errorf("%v, %v", logged["key"], logged["tokens"])
	}
	if a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}

	g.post("/v1/endpoints", ask("refuse", false))
	check("a fallback", `{"route":"endpoints","key":"chat","kind":"endpoint","variant":"en","arm":"en","provider":"canned","model":"m",
		"finish_reason":"stop","attempts":2,"cost":0}`, ids, "decision_id", "revision", "tokens")

	hidden := strings.Replace(ask("q?", true), `"chat"`, `"hidden"`, 1)
	for _, cache := range []string{"miss", "hit"} {
		response, err := g.send(context.Background(), "POST", "/v1/endpoints", hidden, http.Header{"Authorization": {"Bearer " + testKey}})
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		used := `"attempts":1,"cost":0.000013,"tokens":{"prompt":9,"completion":2,"total":11,"cached":0,"cache_write":0,"reasoning":0,"estimated":false}`
		if cache == "hit" {
			used = `"attempts":0,"cost":0,"tokens":{"prompt":0,"completion":0,"total":0,"cached":0,"cache_write":0,"reasoning":0,"estimated":false}`
		}
		check("a stream that is not recorded, "+cache, `{"route":"endpoints","key":"hidden","kind":"endpoint","variant":"en","arm":"en","provider":"fake","model":"small","cache":"`+cache+`",
			"finish_reason":"stop",`+used+`}`, ids, "decision_id", "revision")
	}

	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-asked
		leave()
	}()
	if response, err := g.send(ctx, "POST", "/v1/endpoints", ask("hang", false), http.Header{"Authorization": {"Bearer " + testKey}}); err == nil {
		t.Errorf("the caller that left got %d", response.StatusCode)
		response.Body.Close()
	}
	check("a call whose caller left", `{"route":"endpoints","key":"chat","kind":"endpoint","variant":"en","arm":"en","provider":"fake","model":"small",
		"code":"client_gone","attempts":1}`, ids, "decision_id", "revision", "tokens", "cost")

	g.post("/v1/prompts", `{"keys":["hello"]}`)
	check("a prompt that is not recorded", `{"route":"prompts","key":"hello","kind":"prompt","variant":"only","arm":"only"}`, ids, "decision_id", "revision")
	g.post("/v1/decisions", `{"prompts":["hello"],"remoteconfigs":["checkout","limits"],"context":{"tags":"employee"}}`)
	logged = check("several keys", `{"route":"decisions","key":"hello,checkout,limits","kind":"prompt,remoteconfig,remoteconfig","variant":"only,,","arm":"only,,","row":",staff,"}`, "decision_id", "revision")
	if logged["key"] != "hello,checkout,limits" || logged["tokens"] != 0.0 {
		t.Errorf("%v, %v", logged["key"], logged["tokens"])
	}
	g.post("/v1/remoteconfigs", `{"keys":["checkout","limits"]}`)
	check("several of a kind", `{"route":"remoteconfigs","key":"checkout,limits","kind":"remoteconfig","variant":",","arm":",","row":","}`, "decision_id", "revision")
	g.post("/v1/endpoints", `{"key":"chat"}`)
	check("a call without its variable", `{"route":"endpoints","key":"chat","kind":"endpoint","code":"missing_variable"}`)
	g.post("/v1/endpoints", `{"key":"nothing"}`)
	check("an unknown key", `{"route":"endpoints","code":"unknown_endpoint"}`)
	for name, path := range map[string]string{"endpoints": "/v1/endpoints", "none": "/v1/nothing"} {
		code := map[string]string{"endpoints": "invalid_api_key", "none": "not_found"}[name]
		g.do("POST", path, `{}`, nil)
		logged := line()
		if diff := cmp.Diff(map[string]any{"route": name, "code": code}, logged["cadenza"]); diff != "" || logged["key"] != "" || logged["tokens"] != 0.0 {
			t.Errorf("no key to %s: %v, %v (-want +got):\n%s", path, logged["key"], logged["tokens"], diff)
		}
	}
}

// TestPlaceholdersOfRefusedRequests checks that a header set from a placeholder without a
// value is empty, and is never the placeholder's name.
func TestPlaceholdersOfRefusedRequests(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, `
		header >X-Told "{cadenza.route} {cadenza.workspace} {cadenza.code} {cadenza.key} {cadenza.model} {cadenza.attempts}"
		cadenza
	`)
	for _, c := range []struct{ key, path, body, want string }{
		{testKey, "/v1/prompts", `{"keys":["hello"]}`, "prompts default  hello  0"},
		{testKey, "/v1/prompts", `{`, "prompts default invalid_json   0"},
		{testKey, "/v1/endpoints", `{"key":"nothing"}`, "endpoints default unknown_endpoint   0"},
		{"sk-of-nobody-0001", "/v1/prompts", `{"keys":["hello"]}`, "prompts  invalid_api_key   0"},
		{testKey, "/v1/nothing", `{}`, "none  not_found   0"},
	} {
		a := g.do("POST", c.path, c.body, bearer(c.key))
		if got := a.header.Get("X-Told"); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.path, c.body, got, c.want)
		}
	}
}
