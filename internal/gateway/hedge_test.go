package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAHedgedEndpoint(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		<-r.Context().Done()
	})
	g := startGateway(t, endpointWith("hedge: { after: 1s }\nfallback: [ { provider: canned, extra: { answer: fine } } ]\n"), fakeProvider(u.URL)) // 1s: the first attempt is long under way
	for _, stream := range []bool{false, true} {
		a := g.post("/v1/endpoints", fmt.Sprintf(`{"key":"chat","stream":%t,%s}`, stream, question))
		if a.status != http.StatusOK || !strings.Contains(string(a.body), "fine") ||
			!strings.HasPrefix(a.header.Get("Cadenza-Served-By"), "canned") || a.header.Get("Cadenza-Attempts") != "2" {
			t.Errorf("stream=%t: %d %s by %q after %s attempts", stream, a.status, a.body, a.header.Get("Cadenza-Served-By"), a.header.Get("Cadenza-Attempts"))
		}
		attempts := g.ended(t, a.header.Get("Cadenza-Trace-Id")).Attempts
		if len(attempts) != 2 {
			t.Fatalf("stream=%t: attempts %+v", stream, attempts)
		}
		// The use of the slower attempt is paid for, too.
		first, second := attempts[0], attempts[1]
		if first.Code != "superseded" || first.Hedge || first.PromptTokens == 0 || !first.Estimated ||
			second.Code != "" || !second.Hedge || second.PromptTokens == 0 {
			t.Errorf("stream=%t: attempts %+v", stream, attempts)
		}
	}
}

func TestWeightsReachTheTargets(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "from upstream") })
	g := startGateway(t, endpointWith("fallback: [ { provider: canned, weight: 1, extra: { answer: fine } } ]\n"), fakeProvider(u.URL))
	if a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`); a.status != http.StatusOK || !strings.Contains(string(a.body), "fine") || u.Calls.Load() != 0 {
		t.Errorf("%d %s after %d upstream calls", a.status, a.body, u.Calls.Load())
	}
}
