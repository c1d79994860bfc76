package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAnUnclearEndIsNoAnswer calls a service whose answer ends for a reason unknown
// to the gateway: a whole answer is a failure, and a stream ends with an event that
// says that it is incomplete.
func TestAnUnclearEndIsNoAnswer(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			fmt.Fprint(w, chunk("Hello", "")+chunk(" you", "")+chunk("", "tired")+"data: [DONE]\n\n")
			return
		}
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"content":"Hello you"},"finish_reason":"tired"}]}`)
	})
	files := agent()
	files["definitions/endpoints/agent.yaml"] = "prompt: agent\nmax_attempts: 1\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	a := g.post("/v1/endpoints", `{"key":"agent","variables":{"question":"?"}}`)
	if a.status != http.StatusBadGateway || a.json(t)["error_code"] != "upstream_invalid_response" {
		t.Errorf("%d %s", a.status, a.body)
	}
	response, err := g.send(context.Background(), http.MethodPost, "/v1/endpoints", `{"key":"agent","stream":true,"variables":{"question":"?"}}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text := string(body)
	if err == nil || !strings.Contains(text, "Hello") || !strings.Contains(text, "upstream_interrupted") || strings.Contains(text, `"is_final":true`) {
		t.Errorf("error %v, events:\n%s", err, text)
	}
}
