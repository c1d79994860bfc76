package bedrock

import (
	"net/http"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func BenchmarkChunk(b *testing.B) { subject.BenchmarkPiece(b, delta(" token")) }

// The calls are signed.
func BenchmarkCall(b *testing.B) {
	subject.BenchmarkCalls(b, func(transport http.RoundTripper) providers.Provider {
		c := client(b, "http://localhost", signing)
		c.HTTP.Transport = transport
		return c
	}, func(text string) pt.Reply { return answer(text, "end_turn", 30, 300) }, func(words ...string) pt.Reply { return streamed(wholeStream(words...)...) })
}
