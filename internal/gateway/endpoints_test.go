package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
)

const question = `"variables":{"question":"Hi?"}`

func TestEndpointFromCanned(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t)
	got := a.json(t)
	if got["content"] != "one two three" || got["is_final"] != true || got["trace_id"] != a.header.Get("Cadenza-Trace-Id") {
		t.Errorf("answer %s", a.body)
	}
	if served := a.header.Get("Cadenza-Served-By"); !strings.HasPrefix(served, "canned") {
		t.Errorf("Cadenza-Served-By %q", served)
	}
	// The form in the documentation of old clients.
	g.post("/v1/endpoints", `{"keys":["chat"],`+question+`}`).ok(t, "keys of one")

	response, err := g.send(context.Background(), "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if contentType := response.Header.Get("Content-Type"); contentType != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type %q", contentType)
	}
	id := response.Header.Get("Cadenza-Trace-Id")
	var content strings.Builder
	all := events(t, response.Body)
	if len(all) < 5 {
		t.Fatalf("events %q", all)
	}
	for i, data := range all[:len(all)-1] {
		var event struct {
			TraceID string `json:"trace_id"`
			Content string `json:"content"`
			IsFinal bool   `json:"is_final"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("event %d: %v: %s", i, err, data)
		}
		if last := i == len(all)-2; event.TraceID != id || event.IsFinal != last || last && event.Content != "" {
			t.Errorf("event %d: %s", i, data)
		}
		content.WriteString(event.Content)
	}
	if content.String() != "one two three" || all[len(all)-1] != "[DONE]" {
		t.Errorf("content %q, end %q", content.String(), all[len(all)-1])
	}
}

func TestTokensArriveOneByOne(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model    string `json:"model"`
			Stream   bool   `json:"stream"`
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || !request.Stream || request.Model != "small" ||
			len(request.Messages) != 2 || request.Messages[0].Content != "You answer for Acme." || request.Messages[1].Content != "Hi?" {
			t.Errorf("request %+v (%v)", request, err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("", ""))
		io.WriteString(w, chunk("first", ""))
		w.(http.Flusher).Flush()
		select {
		case <-seen:
		case <-time.After(time.Minute):
			t.Error("the first token was not seen before the last was sent")
		}
		io.WriteString(w, chunk(" last", ""))
		io.WriteString(w, chunk("", "stop"))
		io.WriteString(w, "data: [DONE]\n\n")
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	response, err := g.send(context.Background(), "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	line, err := reader.ReadString('\n')
	if err != nil || !strings.Contains(line, `"content":"first"`) {
		t.Fatalf("first line %q, %v", line, err)
	}
	close(seen)
	rest := events(t, reader)
	if len(rest) != 3 || !strings.Contains(rest[0], `"content":" last","is_final":false`) ||
		!strings.Contains(rest[1], `"content":"","is_final":true`) || rest[2] != "[DONE]" {
		t.Errorf("rest %q", rest)
	}
	if served := response.Header.Get("Cadenza-Served-By"); served != "fake/small" {
		t.Errorf("Cadenza-Served-By %q", served)
	}
}

func TestRetryAndFallback(t *testing.T) {
	t.Parallel()
	deadURL := "http://" + freeport.Address(t)

	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"key":"chat","stream":%t,%s}`, stream, question)
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			t.Run("a 500 is retried", func(t *testing.T) {
				u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) {
					switch {
					case call == 1:
						http.Error(w, `{"error":{"message":"sk-secret went wrong"}}`, http.StatusInternalServerError)
					case stream:
						w.Header().Set("Content-Type", "text/event-stream")
						io.WriteString(w, chunk("from upstream", "stop")+"data: [DONE]\n\n")
					default:
						completion(w, "from upstream")
					}
				})
				g := startGateway(t, workspace, fakeProvider(u.URL))
				a := g.post("/v1/endpoints", body)
				if a.status != 200 || !strings.Contains(string(a.body), "from upstream") || u.Calls.Load() != 2 {
					t.Errorf("%d %s after %d calls", a.status, a.body, u.Calls.Load())
				}
				if attempts := a.header.Get("Cadenza-Attempts"); attempts != "2" {
					t.Errorf("Cadenza-Attempts %q", attempts)
				}
			})
			t.Run("a dead primary falls back", func(t *testing.T) {
				g := startGateway(t, workspace, fakeProvider(deadURL))
				a := g.post("/v1/endpoints", body)
				if a.status != 200 || !strings.HasPrefix(a.header.Get("Cadenza-Served-By"), "canned") {
					t.Errorf("%d %s by %q", a.status, a.body, a.header.Get("Cadenza-Served-By"))
				}
			})
			t.Run("a rejected key falls back and is not told", func(t *testing.T) {
				u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
					http.Error(w, `{"error":{"message":"Incorrect API key provided: sk-abc","code":"invalid_api_key"}}`, http.StatusUnauthorized)
				})
				g := startGateway(t, workspace, fakeProvider(u.URL))
				a := g.post("/v1/endpoints", body)
				if a.status != 200 || u.Calls.Load() != 1 || strings.Contains(string(a.body), "sk-abc") {
					t.Errorf("%d %s after %d calls", a.status, a.body, u.Calls.Load())
				}
			})
		})
	}
}

func TestUpstreamFailureIsToldByItsCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		want   int
		code   string
	}{
		{400, `{"error":{"message":"max_tokens is too large: sk-secret"}}`, 502, "upstream_rejected"},
		{401, `{"error":{"message":"Incorrect API key provided: sk-secret","code":"invalid_api_key"}}`, 502, "upstream_credentials"},
		{429, `{"error":{"message":"slow down sk-secret"}}`, 503, "upstream_rate_limited"},
		{500, `sk-secret`, 502, "upstream_error"},
		{200, `<html>sk-secret</html>`, 502, "upstream_invalid_response"},
		{200, `{"choices":[]}`, 502, "upstream_invalid_response"},
	} {
		t.Run(fmt.Sprintf("%d %s", test.status, test.code), func(t *testing.T) {
			u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Secret", "sk-secret")
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			g := startGateway(t, single(), fakeProvider(u.URL))
			for _, stream := range []string{"false", "true"} {
				a := g.post("/v1/endpoints", `{"key":"chat","stream":`+stream+`,`+question+`}`)
				if a.status != test.want {
					t.Errorf("stream %s: status %d: %s", stream, a.status, a.body)
				}
				checkError(t, a, test.code, "")
				if id, _ := a.json(t)["trace_id"].(string); !traceID.MatchString(id) {
					t.Errorf("stream %s: no trace id in %s", stream, a.body)
				}
				if strings.Contains(string(a.body)+fmt.Sprint(a.header), "sk-secret") {
					t.Errorf("stream %s: the upstream's text reached the caller: %s %v", stream, a.body, a.header)
				}
			}
		})
	}
}

func TestCutStreamIsNotPresentedAsComplete(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("half of", ""))
		// A clean end, without the provider's end marker.
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	response, err := g.send(context.Background(), "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all := events(t, response.Body)
	text := strings.Join(all, "\n")
	if strings.Contains(text, `"is_final":true`) || strings.Contains(text, "[DONE]") {
		t.Errorf("presented as complete: %q", all)
	}
	if !strings.Contains(text, "event: error") || !strings.Contains(text, "upstream_interrupted") {
		t.Errorf("no error event: %q", all)
	}
	if !strings.Contains(all[len(all)-1], "cut: ") {
		t.Errorf("the connection ended cleanly: %q", all)
	}
	// For a whole answer, nothing was sent yet, so the gateway falls back.
	if a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`); a.status != 200 {
		t.Errorf("whole: %d %s", a.status, a.body)
	}
}

func TestClientThatLeavesEndsTheUpstreamCall(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, chunk("first", ""))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	ctx, cancel := context.WithCancel(context.Background())
	response, err := g.send(ctx, "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(response.Body).ReadString('\n')
	cancel()
	response.Body.Close()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the upstream call goes on")
	}
}
