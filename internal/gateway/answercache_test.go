package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// caching is the tests' endpoint with cached answers.
func caching() map[string]string {
	files := single()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nmax_attempts: 1\ncache: { ttl: 1h }\n"
	return files
}

// lookups returns the number of lookups in a cache that the metrics have counted.
func lookups(g *gateway, cache, result string) (n int) {
	_, rest, _ := strings.Cut(g.scrape(), fmt.Sprintf(`cadenza_cache_lookups_total{cache=%q,result=%q,workspace="default"} `, cache, result))
	fmt.Sscan(rest, &n)
	return n
}

func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "answer") })
	g := startGateway(t, caching(), fakeProvider(u.URL))
	hits, misses := lookups(g, "answers", "hit"), lookups(g, "answers", "miss")
	for range 3 {
		g.post("/v1/endpoints", ask("counted?", false))
	}
	if hits, misses = lookups(g, "answers", "hit")-hits, lookups(g, "answers", "miss")-misses; hits != 2 || misses != 1 {
		t.Errorf("%d hits and %d misses of a question asked 3 times", hits, misses)
	}
}

func TestAnswerIsGivenAgain(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("streamed ", "")+chunk(fmt.Sprint(call), "stop")+"data: [DONE]\n\n")
			return
		}
		completion(w, fmt.Sprint("whole ", call))
	})
	g := startGateway(t, caching(), fakeProvider(u.URL))

	first := g.post("/v1/endpoints", ask("one?", true))
	if status := first.header.Get("Cache-Status"); first.status != 200 || status != "Cadenza; fwd=miss" {
		t.Fatalf("%d %s, Cache-Status %q", first.status, first.body, status)
	}
	again := g.post("/v1/endpoints", ask("one?", true))
	id := again.header.Get("Cadenza-Trace-Id")
	if id == first.header.Get("Cadenza-Trace-Id") {
		t.Error("two answers share a trace")
	}
	if got, want := string(again.body), strings.ReplaceAll(string(first.body), first.header.Get("Cadenza-Trace-Id"), id); got != want {
		t.Errorf("the stream is replayed as\n%s\nwant\n%s", got, want)
	}
	if !strings.HasPrefix(again.header.Get("Cache-Status"), "Cadenza; hit; ttl=") ||
		again.header.Get("Cadenza-Attempts") != "0" || again.header.Get("Cadenza-Served-By") != "fake/small" {
		t.Errorf("headers %v", again.header)
	}
	if a := g.post("/v1/endpoints", ask("one?", false)); a.json(t)["content"] != "streamed 1" {
		t.Errorf("whole: %s", a.body)
	}
	if u.Calls.Load() != 1 {
		t.Errorf("%d upstream calls", u.Calls.Load())
	}
	if a := g.post("/v1/endpoints", ask("two?", false)); a.json(t)["content"] != "whole 2" {
		t.Errorf("another question: %s", a.body)
	}
	eventually(t, "the trace says that a cache answered", func() bool {
		record, ok := g.trace("data/cadenza.db", id)
		return ok && record.Cached && record.Provider == "fake" && len(record.Attempts) == 0
	})
	// A new version of the prompt is a new question.
	g.write("definitions/prompts/reply.yaml", strings.Replace(workspace["definitions/prompts/reply.yaml"], "You answer", "You reply", 1))
	eventually(t, "the new prompt is asked", func() bool {
		return strings.HasPrefix(fmt.Sprint(g.post("/v1/endpoints", ask("one?", false)).json(t)["content"]), "whole ")
	})
}

func TestSameQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		<-release
		completion(w, "the answer")
	})
	g := startGateway(t, caching(), fakeProvider(u.URL))
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if a := g.post("/v1/endpoints", ask("same?", false)); a.status != 200 || a.json(t)["content"] != "the answer" {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	eventually(t, "all have asked", func() bool { return g.callsInFlight() == 16 })
	close(release)
	wait.Wait()
	if n := u.Calls.Load(); n != 1 {
		t.Errorf("%d upstream calls for one question", n)
	}
}

func TestFailuresAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch call {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			io.WriteString(w, chunk("half of", "")) // without an end
		default:
			io.WriteString(w, chunk("all of it", "stop")+"data: [DONE]\n\n")
		}
	})
	g := startGateway(t, caching(), fakeProvider(u.URL))
	if a := g.post("/v1/endpoints", ask("q?", true)); a.status != http.StatusBadGateway {
		t.Errorf("first: %d %s", a.status, a.body)
	}
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", ask("q?", true), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	if all := events(t, response.Body); !strings.Contains(strings.Join(all, "\n"), "upstream_interrupted") {
		t.Errorf("second: %q", all)
	}
	response.Body.Close()
	if a := g.post("/v1/endpoints", ask("q?", true)); a.status != 200 || !strings.Contains(string(a.body), "all of it") || u.Calls.Load() != 3 {
		t.Errorf("third: %d %s after %d calls", a.status, a.body, u.Calls.Load())
	}
}
