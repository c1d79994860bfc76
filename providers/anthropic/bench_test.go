package anthropic

import (
	"net/http"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func BenchmarkChunk(b *testing.B) { subject.BenchmarkPiece(b, textDelta(" token")) }

func TestAChunkAllocatesNothing(t *testing.T) {
	subject.CheckPieceAllocations(t, textDelta(" token")+ping)
}

func BenchmarkInvoke(b *testing.B) {
	subject.BenchmarkCalls(b, func(transport http.RoundTripper) providers.Provider {
		c := client(b, "http://localhost")
		c.HTTP.Transport = transport
		return c
	}, func(text string) pt.Reply { return answer(text, "end_turn", 300) }, wholeStream)
}
