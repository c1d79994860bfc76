package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// TestLargeRequestsShareNothing makes large requests use the same memory one after
// another. Their providers answer, answer before they have read the request, fail or
// cut the connection. None may get a byte of another request. Under the race detector
// released memory is also overwritten.
func TestLargeRequestsShareNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch n % 6 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 2:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"early"},"finish_reason":"stop"}]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway has cancelled the call
		}
		var parser fastjson.Parser
		v, err := parser.ParseBytes(body)
		if err != nil {
			t.Errorf("a request is no JSON: %v", err)
			return
		}
		letter := v.GetStringBytes("messages", "0", "content")[:1]
		for _, m := range v.GetArray("messages") {
			text := m.GetStringBytes("content")
			if part := m.Get("content", "0", "image_url", "url"); part != nil {
				text = bytes.TrimPrefix(part.GetStringBytes(), []byte("data:image/png;base64,"))
			}
			if rest := bytes.Trim(text, string(letter)+"\n"); len(rest) > 0 {
				t.Errorf("a request of %s has %.20q", letter, rest)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}]}`, letter)
	}))
	t.Cleanup(upstream.Close)
	g := startGateway(t, map[string]string{
		"definitions/prompts/chat.yaml":   "provider: openai\nmodel: m\nmessages: [ { history: true } ]\n",
		"definitions/endpoints/chat.yaml": "prompt: chat\nlog: content\naccept: { history: true }\nretry: { count: 3 }\nmax_attempts: 4\n",
	}, withProvider("openai", openaiProvider(upstream.URL, openai.Quirks{})))

	var group sync.WaitGroup
	answers := atomic.Int64{}
	for caller := range 4 {
		group.Go(func() {
			letter := string(rune('A' + caller))
			// Texts with escapes, and an image.
			text := strings.Repeat(letter, 50_000) + `\n` + strings.Repeat(letter, 5_000*caller)
			turn := `{"role":"user","content":"` + text + `"},`
			body := `"messages":[` + strings.Repeat(turn, 3) +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat(letter, 200_000) + `"}}]}]}`
			for n := range 8 {
				path, member := "/v1/endpoints", `{"key":"chat",`
				if n%2 == 0 {
					path, member = "/v1/chat/completions", `{"model":"chat",`
				}
				a := g.post(path, member+body)
				if a.status != http.StatusOK {
					continue // all attempts failed
				}
				answers.Add(1)
				v := fastjson.MustParseBytes(a.body)
				content := v.GetStringBytes("content")
				if content == nil {
					content = v.GetStringBytes("choices", "0", "message", "content")
				}
				if got := string(content); got != letter && got != "early" {
					t.Errorf("%s got %.20q", letter, got)
				}
			}
		})
	}
	group.Wait()
	if n := answers.Load(); n < 8 {
		t.Errorf("%d of 32 requests were answered", n)
	}
}
