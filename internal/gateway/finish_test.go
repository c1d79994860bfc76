package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// ending answers a question such as "length?" with this finish reason, and the
// question "silence?" without a reason and without usage.
func ending(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &request)
	reason, usage := `"stop"`, `,"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`
	for _, word := range []string{"length", "content_filter"} {
		if strings.Contains(request.Messages[len(request.Messages)-1].Content, word) {
			reason = `"` + word + `"`
		}
	}
	if strings.Contains(string(body), "uncounted") {
		usage = ""
	}
	if !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":"{\"half\":1"},"finish_reason":%s}]%s}`, reason, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, chunk(`{"half":1`, ""))
	fmt.Fprintf(w, `data: {"model":"small-1","choices":[{"index":0,"delta":{},"finish_reason":%s}]}`+"\n\n", reason)
	if usage != "" {
		fmt.Fprintf(w, `data: {"model":"small-1","choices":[]%s}`+"\n\n", usage)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// estimate returns the usage of an answer without a provider's count.
func estimate(prompt int) string {
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":4,"total_tokens":%d,"estimated":true}`, prompt, prompt+4)
}

// TestAnswersSayHowTheyEnded checks finish reasons in whole answers and streams, also
// from the cache. Only complete answers are cached.
func TestAnswersSayHowTheyEnded(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) { ending(w, r) })
	g := startGateway(t, caching(), fakeProvider(u.URL))
	const usage = `,"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`
	for _, test := range []struct {
		question, end string
		cached        bool
	}{
		{"stop", `,"finish_reason":"stop"` + usage, true},
		{"length", `,"finish_reason":"length"` + usage, false},
		{"content_filter", `,"finish_reason":"content_filter"` + usage, false},
		{"uncounted", `,"finish_reason":"stop"` + estimate(22), true},
		{"uncounted length", `,"finish_reason":"length"` + estimate(23), false},
	} {
		for _, stream := range []bool{false, true} {
			asked := u.Calls.Load()
			for round := range int64(2) {
				a := g.post("/v1/endpoints", ask(fmt.Sprintf("%s %v?", test.question, stream), stream))
				id := a.header.Get("Cadenza-Trace-Id")
				want := fmt.Sprintf(`{"trace_id":"%s","content":"{\"half\":1","is_final":true%s}`, id, test.end)
				contentType := "application/json"
				if stream {
					contentType = "text/event-stream; charset=utf-8"
					want = fmt.Sprintf(`data: {"trace_id":"%s","content":"{\"half\":1","is_final":false}`+"\n\n"+
						`data: {"trace_id":"%[1]s","content":"","is_final":true%s}`+"\n\ndata: [DONE]\n\n", id, test.end)
				}
				if diff := cmp.Diff(want, string(a.body)); a.status != http.StatusOK || diff != "" {
					t.Errorf("%s, stream=%v: %d (-want +got):\n%s", test.question, stream, a.status, diff)
				}
				if got := a.header.Get("Content-Type"); got != contentType {
					t.Errorf("stream=%v: Content-Type %q", stream, got)
				}
				cached := strings.HasPrefix(a.header.Get("Cache-Status"), "Cadenza; hit")
				if want := round > 0 && test.cached; cached != want {
					t.Errorf("%s, stream=%v, asked for the %d. time: Cache-Status %q", test.question, stream, round+1, a.header.Get("Cache-Status"))
				}
				record := g.ended(t, id)
				if !strings.Contains(test.end, `"`+record.FinishReason+`"`) || record.FinishReason == "" || record.Status != 200 {
					t.Errorf("%s, cached %v: the trace has the reason %q and the status %d", test.question, cached, record.FinishReason, record.Status)
				}
				if counted := record.HasUsage; counted != (!cached && !strings.Contains(test.question, "uncounted")) {
					t.Errorf("%s, cached %v: the trace has %d tokens", test.question, cached, record.TotalTokens)
				}
			}
			if calls, want := u.Calls.Load()-asked, int64(2); !test.cached && calls != want {
				t.Errorf("%s, stream=%v: %d upstream calls, want %d", test.question, stream, calls, want)
			}
		}
	}
}

// TestCutAnswersAreShared checks that concurrent callers with the same question share
// a cut answer, since each new call would be cut, too, and that it is not cached.
func TestCutAnswersAreShared(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		<-release
		ending(w, r)
	})
	g := startGateway(t, caching(), fakeProvider(u.URL))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			a := g.post("/v1/endpoints", ask("length?", false))
			if a.status != 200 || a.json(t)["finish_reason"] != "length" {
				t.Errorf("%d %s", a.status, a.body)
			}
			if status := a.header.Get("Cache-Status"); status != "Cadenza; fwd=miss" && status != "Cadenza; hit; ttl=0" {
				t.Errorf("Cache-Status %q", status)
			}
		})
	}
	eventually(t, "the question is asked", func() bool { return u.Calls.Load() > 0 })
	eventually(t, "the others wait for it", func() bool {
		// A call in flight may not have asked yet: the goroutines say who waits.
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return g.callsInFlight() == 8 && bytes.Count(stacks, []byte("cache.(*Answers).wait(")) >= 7
	})
	close(release)
	wait.Wait()
	if n := u.Calls.Load(); n != 1 {
		t.Errorf("%d upstream calls for one question", n)
	}
	if a := g.post("/v1/endpoints", ask("length?", false)); a.header.Get("Cache-Status") != "Cadenza; fwd=miss" || u.Calls.Load() != 2 {
		t.Errorf("later: Cache-Status %q after %d upstream calls", a.header.Get("Cache-Status"), u.Calls.Load())
	}
}

// TestJSONThatWasCutFallsBack checks that cut JSON leads to the next target, and at the
// end to an error.
func TestJSONThatWasCutFallsBack(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) { ending(w, r) })
	files := single()
	files["definitions/prompts/reply.yaml"] = strings.Replace(workspace["definitions/prompts/reply.yaml"],
		"max_tokens: 400", "max_tokens: 400\n    response_format: json", 1)
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nretry: { count: 3 }\ncache: { ttl: 1h }\n"
	files["definitions/endpoints/safe.yaml"] = "prompt: reply\nretry: { count: 3 }\nfallback:\n- { provider: canned, extra: { answer: '{}' } }\n"
	g := startGateway(t, files, fakeProvider(u.URL))

	for range 2 { // it is not cached, either
		asked := u.Calls.Load()
		a := g.post("/v1/endpoints", ask("length?", false))
		if a.status != http.StatusBadGateway || a.json(t)["error_code"] != "upstream_invalid_response" || u.Calls.Load() != asked+1 {
			t.Errorf("%d %s after %d calls", a.status, a.body, u.Calls.Load()-asked)
		}
		record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
		if len(record.Attempts) != 1 || record.Attempts[0].Code != "length" || record.TotalTokens != 10 && record.Attempts[0].CompletionTokens != 3 {
			t.Errorf("the trace has the attempts %+v", record.Attempts)
		}
	}
	a := g.post("/v1/endpoints", `{"key":"safe","variables":{"question":"length?"}}`)
	if a.status != 200 || a.json(t)["content"] != "{}" || a.json(t)["finish_reason"] != "stop" || a.header.Get("Cadenza-Attempts") != "2" {
		t.Errorf("%d %s, %s attempts", a.status, a.body, a.header.Get("Cadenza-Attempts"))
	}
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", ask("length?", true), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text := strings.Join(events(t, response.Body), "\n")
	if !strings.Contains(text, `"code":"upstream_interrupted"`) || strings.Contains(text, `"is_final":true`) || !strings.Contains(text, "cut: ") {
		t.Errorf("stream: %s", text)
	}
}

// TestReasonsAreThoseOfTheProviders compares trace.FinishReasons with package providers,
// which package trace can't import.
func TestReasonsAreThoseOfTheProviders(t *testing.T) {
	t.Parallel()
	want := []string{string(providers.FinishStop), string(providers.FinishToolCalls), string(providers.FinishLength), string(providers.FinishContentFilter)}
	if diff := cmp.Diff(want, trace.FinishReasons); diff != "" {
		t.Error(diff)
	}
}

// TestCallUnderWayHasNoStatus checks that the record of a running call has no status, so a
// call that a crash interrupts has none.
func TestCallUnderWayHasNoStatus(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("first", ""))
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, chunk("", "stop")+"data: [DONE]\n\n")
	})
	g := startGateway(t, single(), fakeProvider(u.URL))
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", ask("q?", true), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	id := response.Header.Get("Cadenza-Trace-Id")
	record, ok := g.running(id)
	if !ok {
		t.Fatal("the call is not under way")
	}
	if record.State != trace.StateStarted || record.Status != 0 || record.PromptVersion == "" {
		t.Errorf("%+v", record)
	}
	close(release)
	_, _ = io.Copy(io.Discard, response.Body)
	if record := g.ended(t, id); record.Status != 200 || record.FinishReason != "stop" || record.Prompt != "reply" {
		t.Errorf("%+v", record)
	}
	// An answer without a call has its status from the beginning.
	id = g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	if record := g.ended(t, id); record.Status != 200 || record.Prompt != "" || record.FinishReason != "" {
		t.Errorf("%+v", record)
	}
}
