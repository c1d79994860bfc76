package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// numbered starts an upstream whose answers have the number of their call.
func numbered(t *testing.T) *gatewaytest.Upstream {
	return newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) { completion(w, fmt.Sprint("answer ", call)) })
}

// TestRememberedAnswerExpires checks that the cache returns an answer for the endpoint's
// time, and no longer.
func TestRememberedAnswerExpires(t *testing.T) {
	t.Parallel()
	u := numbered(t)
	g := startGateway(t, endpointWith("cache: { ttl: 1s }\n"), fakeProvider(u.URL))
	began := time.Now()
	if a := g.post("/v1/endpoints", ask("?", false)); a.json(t)["content"] != "answer 1" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	again := g.post("/v1/endpoints", ask("?", false)).json(t)["content"]
	if time.Since(began) < time.Second && again != "answer 1" {
		t.Errorf("within its time: %s", again)
	}
	eventually(t, "the answer expires", func() bool {
		return g.post("/v1/endpoints", ask("?", false)).json(t)["content"] == "answer 2"
	})
	if took := time.Since(began); took < time.Second {
		t.Errorf("it expired after %s", took)
	}
}

// TestAnotherEndpointIsAnotherQuestion edits only an endpoint: its earlier cached
// answers are no longer used.
func TestAnotherEndpointIsAnotherQuestion(t *testing.T) {
	t.Parallel()
	u := numbered(t)
	g := startGateway(t, endpointWith("cache: { ttl: 1h }\n"), fakeProvider(u.URL))
	content := func() any { return g.post("/v1/endpoints", ask("?", false)).json(t)["content"] }
	if first, again := content(), content(); first != "answer 1" || again != "answer 1" {
		t.Fatalf("%s, then %s", first, again)
	}
	g.write("definitions/endpoints/chat.yaml", "prompt: reply\nlog: metadata\ncache: { ttl: 1h }\nfallback: [ { provider: canned, extra: { answer: other } } ]\n")
	eventually(t, "the edited endpoint asks anew", func() bool { return content() == "answer 2" })
}

// TestLargeAnswerIsNotRemembered repeats a question whose answer is too large for the
// cache, and checks that no caller gets only a part of it.
func TestLargeAnswerIsNotRemembered(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
			completion(w, strings.Repeat(piece, 17))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 17 {
			io.WriteString(w, chunk(piece, ""))
		}
		io.WriteString(w, chunk("", "stop")+"data: [DONE]\n\n")
	})
	g := startGateway(t, endpointWith("cache: { ttl: 1h }\n"), fakeProvider(u.URL))
	for _, stream := range []bool{false, true} {
		before := u.Calls.Load()
		for range 2 {
			a := g.post("/v1/endpoints", ask("?", stream))
			if n := strings.Count(string(a.body), piece); a.status != http.StatusOK || n != 17 || strings.Contains(a.header.Get("Cache-Status"), "hit") {
				t.Errorf("stream=%t: %d, %d of 17 pieces, Cache-Status %q", stream, a.status, n, a.header.Get("Cache-Status"))
			}
		}
		if asked := u.Calls.Load() - before; asked != 2 {
			t.Errorf("stream=%t: asked %d times", stream, asked)
		}
	}
}

// TestWaiterThatLeaves has callers that leave while they wait for another caller's call:
// their traces say so, and the call continues.
func TestWaiterThatLeaves(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		<-release
		completion(w, "the answer")
	})
	g := startGateway(t, endpointWith("cache: { ttl: 1h }\n"), fakeProvider(u.URL))
	first := make(chan answer, 1)
	go func() { first <- g.post("/v1/endpoints", ask("?", false)) }()
	eventually(t, "the model is asked", func() bool { return u.Calls.Load() == 1 })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		for ctx.Err() == nil && g.callsInFlight() < 2 {
			time.Sleep(time.Millisecond)
		}
		leave()
	}()
	if _, err := g.send(ctx, "POST", "/v1/endpoints", ask("?", false), bearer(testKey)); err == nil {
		t.Error("the waiter was answered")
	}
	reader, err := sqlite.OpenReader(t.Context(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	eventually(t, "the waiter's trace says that it left", func() bool {
		page, err := reader.Traces(t.Context(), trace.Filter{Workspace: "default", State: new(trace.StateEnded)}, trace.ID{}, 10, time.Second)
		return err == nil && len(page.Records) == 1 && page.Records[0].Code == "client_gone" && page.Records[0].Status == 499
	})
	letGo()
	if a := <-first; a.status != http.StatusOK || a.json(t)["content"] != "the answer" || u.Calls.Load() != 1 {
		t.Errorf("%d %s after %d calls", a.status, a.body, u.Calls.Load())
	}
}
