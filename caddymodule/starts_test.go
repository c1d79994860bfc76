package caddymodule_test

import (
	"net/http"
	"testing"
)

// TestStartNamesWhomItAsks checks the record of a running call: it names the first target
// that can be called.
func TestStartNamesWhomItAsks(t *testing.T) {
	asked, answered := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answered
		completion(w, "at last")
	})
	files := map[string]string{"definitions/endpoints/two.yaml": "prompt: reply\nfallback: [{ provider: second, model: large }]\n"}
	for name, content := range workspace {
		files[name] = content
	}
	t.Setenv("CADENZA_TEST_UNSET", "")
	options := withoutFake + `
		provider fake openai {
			base_url ` + u.URL + `/v1
			api_key {env.CADENZA_TEST_UNSET}
		}
		provider second openai {
			base_url ` + u.URL + `/v1
			api_key {env.CADENZA_TEST_KEY}
		}
	`
	g := startGateway(t, files, options)
	address := adminOf(t, g, options)
	done := make(chan int)
	go func() { done <- g.post("/v1/endpoints", `{"key":"two",`+question+`}`).status }()
	<-asked
	status, answer := callAdmin(t, "GET", address, "/cadenza/traces?state=started", "")
	close(answered)
	if status := <-done; status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	calls, _ := answer["traces"].([]any)
	if status != http.StatusOK || len(calls) != 1 {
		t.Fatalf("%d calls under way: %v", len(calls), answer)
	}
	if call := calls[0].(map[string]any); call["provider"] != "second" || call["model"] != "large" || call["state"] != "started" {
		t.Errorf("the start is %v", call)
	}
}
