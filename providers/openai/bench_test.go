package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func BenchmarkChunk(b *testing.B) { subject.BenchmarkPiece(b, pt.ContentChunk(" token")) }

func BenchmarkCall(b *testing.B) {
	subject.BenchmarkCalls(b, func(transport http.RoundTripper) providers.Provider {
		c := client(b, "http://localhost")
		c.HTTP.Transport = transport
		return c
	}, func(text string) pt.Reply { return pt.OpenAIAnswer(text, 300) }, pt.OpenAIStream)
}

func BenchmarkServed(b *testing.B) {
	subject.BenchmarkServed(b, func(text string) pt.Reply { return pt.OpenAIAnswer(text, 300) }, pt.OpenAIStream)
}

// TestAllocationsOfACall checks the allocations that BenchmarkServed shows.
// net/http's transport takes 52 of a whole answer's and 54 of a stream's.
func TestAllocationsOfACall(t *testing.T) {
	if raceEnabled {
		t.Skip("pools lose what they hold on purpose under the race detector")
	}
	subject.CheckServedAllocations(t, func(text string) pt.Reply { return pt.OpenAIAnswer(text, 300) }, pt.OpenAIStream,
		map[string]float64{"whole": 66, "stream of 100": 72})
}

// BenchmarkBody is the cost of a request's body, prepared or not.
func BenchmarkBody(b *testing.B) {
	c := client(b, "http://localhost")
	req := providers.Request{
		Model: "m", Parameters: pt.Everything(),
		Messages: []providers.Message{{Role: "system", Content: providers.Escape(strings.Repeat("word ", 100))}, {Role: "user", Content: providers.Escape(strings.Repeat("word ", 100))}},
	}
	prepared := req
	var err error
	if prepared.Prepared, err = providers.Prepare(c, &req); err != nil {
		b.Fatal(err)
	}
	// Most callers bring these.
	sampling := req
	sampling.Parameters = providers.Parameters{Temperature: new(0.2), MaxTokens: new(int64(400))}
	tools := req
	tools.Parameters = providers.Parameters{Tools: slices.Repeat([]providers.Tool{{Name: "f", Description: strings.Repeat("word ", 40), Parameters: json.RawMessage(`{"type":"object","properties":{` + strings.Repeat(`"a":{"type":"string"},`, 50) + `"b":{}}}`)}}, 20)}
	// 200 messages of 1 MiB in all.
	history := prepared
	history.Messages = nil
	for len(history.Messages) < 200 {
		history.Messages = append(history.Messages, providers.Message{Role: "user", Content: providers.Escape(strings.Repeat("word ", 1<<20/5/200))})
	}
	image := prepared
	image.Messages = []providers.Message{{Role: "user", Parts: []providers.Part{{Kind: providers.PartImage, Media: providers.Media{Data: strings.Repeat("abcd", 1<<18), Type: "image/png"}}}}}
	for name, req := range map[string]*providers.Request{
		"not prepared": &req, "not prepared, two parameters": &sampling, "not prepared, 20 tools": &tools, "prepared": &prepared, "prepared, a long history": &history, "prepared, an image": &image,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body(b, c, req)
			}
		})
	}
}
