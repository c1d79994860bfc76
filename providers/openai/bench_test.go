package openai

import (
	"net/http"
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
