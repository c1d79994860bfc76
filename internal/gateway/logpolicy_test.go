package gateway_test

import (
	"net/http"
	"testing"
)

// TestCallersLowerTheLog checks that a caller can make the gateway record less than
// configured, but not more.
func TestCallersLowerTheLog(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"definitions/prompts/private.yaml": "log: metadata\n" + workspace["definitions/prompts/hello.yaml"],
		"definitions/endpoints/talk.yaml":  "prompt: reply\nfallback: [{ provider: canned, extra: { echo: true } }]\n",
	}
	for name, content := range workspace {
		files[name] = content
	}
	g := startGateway(t, files, logContent)
	const body = `"context":{"locale":"nl"},"metadata":{"page":"billing"},"variables":{"question":"Hoi?"}}`
	for _, test := range []struct {
		name, path, key, allowed    string
		recorded, metadata, content bool
	}{
		{"as configured", "/v1/prompts", "reply", "", true, true, true},
		{"content", "/v1/prompts", "reply", "content", true, true, true},
		{"metadata", "/v1/prompts", "reply", "metadata", true, true, false},
		{"none", "/v1/prompts", "reply", "none", false, false, false},
		{"not raised", "/v1/prompts", "private", "content", true, true, false},
		{"configuration", "/v1/remoteconfigs", "checkout", "metadata", true, true, false},
		{"configuration unrecorded", "/v1/remoteconfigs", "checkout", "none", false, false, false},
		{"endpoint", "/v1/endpoints", "talk", "metadata", true, true, false},
		{"endpoint unrecorded", "/v1/endpoints", "talk", "none", false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := bearer(testKey)
			if test.allowed != "" {
				header.Set("Cadenza-Log", test.allowed)
			}
			keys := `{"keys":["` + test.key + `"],`
			if test.path == "/v1/endpoints" {
				keys = `{"key":"` + test.key + `",`
			}
			a := g.do("POST", test.path, keys+body, header).ok(t)
			id := a.header.Get("Cadenza-Trace-Id")
			// Records are written in the order of the answers: when this one is
			// stored, the previous one is stored or never will be.
			last := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
			eventually(t, "the traces are stored", func() bool {
				_, ok := g.trace("data/cadenza.db", last)
				return ok
			})
			record, recorded := g.trace("data/cadenza.db", id)
			if recorded != test.recorded {
				t.Fatalf("recorded: %v", recorded)
			}
			g.post("/v1/metrics", `{"trace_id":"`+id+`","metadata":{"a":1}}`).ok(t, "metrics")
			if !recorded {
				return
			}
			if got := len(record.Metadata) > 0; got != test.metadata {
				t.Errorf("metadata %s", record.Metadata)
			}
			if got := len(record.Context) > 0; got != test.content {
				t.Errorf("context %s", record.Context)
			}
			if got := len(record.Messages)+len(record.Response) > 0; got != test.content {
				t.Errorf("messages %s, response %s", record.Messages, record.Response)
			}
		})
	}

	a := g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, http.Header{"Authorization": {"Bearer " + testKey}, "Cadenza-Log": {"all"}})
	if a.status != http.StatusBadRequest || a.json(t)["error"].(map[string]any)["param"] != "Cadenza-Log" {
		t.Errorf("an unknown word: %d %s", a.status, a.body)
	}

	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	header := bearer(testKey)
	header.Set("Cadenza-Log", "metadata")
	a = g.do("POST", "/v1/metrics", `{"trace_id":"`+id+`","score":90,"llm_response":"Hoi!"}`, header)
	if want := `{"ok":true,"ignored":["llm_response"]}`; string(a.body) != want {
		t.Errorf("a report without its content: %s", a.body)
	}
	for _, stored := range g.metrics("data/cadenza.db", id) {
		if stored.LLMResponse != nil {
			t.Errorf("stored the response %q", *stored.LLMResponse)
		}
	}
}
