package gemini

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func BenchmarkChunk(b *testing.B) { subject.BenchmarkPiece(b, textChunk(" token")) }

func TestAChunkAllocatesNothing(t *testing.T) {
	parts := strings.Replace(textChunk("x"), `{"text": "x"}`, `{"text": "one "},{"text": "two "},{"text": "three "}`, 1)
	subject.CheckPieceAllocations(t, textChunk(" token")+thoughtChunk("Hm.")+parts+finishChunk("STOP", "", 3))
}

func BenchmarkInvoke(b *testing.B) {
	subject.BenchmarkCalls(b, func(transport http.RoundTripper) providers.Provider {
		c := client(b, "http://localhost")
		c.HTTP.Transport = transport
		return c
	}, func(text string) pt.Reply { return answer(text, "STOP", 300) }, wholeStream)
}
