package caddymodule_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestStartNamesWhomItAsks looks at a call's record while the call is under way:
// it names the first target that can be asked.
func TestStartNamesWhomItAsks(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		completion(w, "at last")
	})
	files := map[string]string{"definitions/endpoints/two.yaml": "prompt: reply\nfallback: [{ provider: second, model: large }]\n"}
	for name, content := range workspace {
		files[name] = content
	}
	t.Setenv("CADENZA_TEST_UNSET", "")
	g := startGateway(t, files, withoutFake+`
		provider fake openai {
			base_url `+u.URL+`/v1
			api_key {env.CADENZA_TEST_UNSET}
		}
		provider second openai {
			base_url `+u.URL+`/v1
			api_key {env.CADENZA_TEST_KEY}
		}
	`)
	done := make(chan int)
	go func() { done <- g.post("/v1/endpoints", `{"key":"two",`+question+`}`).status }()
	<-asked
	reader, err := sqlite.OpenReader(t.Context(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	page, err := reader.Traces(t.Context(), trace.Filter{Workspace: "default", State: new(trace.StateStarted)}, trace.ID{}, 10, time.Second)
	close(answer)
	if status := <-done; status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%d calls under way, %v", len(page.Records), err)
	}
	if r := page.Records[0]; r.Provider != "second" || r.Model != "large" {
		t.Errorf("the start names %s/%s", r.Provider, r.Model)
	}
}
