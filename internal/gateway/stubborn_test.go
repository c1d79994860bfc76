package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// stubborn is a provider that ignores its context: it hangs until it is let go.
type stubborn struct{ letGo chan struct{} }

func (s stubborn) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	<-s.letGo
	return nil, fmt.Errorf("too late")
}

// TestAProviderOfAnybodysHoldsNobody has a provider ignore the end of its
// context: the fallback answers, a caller without one is answered in time, and
// the log and the metrics say what goes on.
func TestAProviderOfAnybodysHoldsNobody(t *testing.T) {
	t.Parallel()
	odd := stubborn{make(chan struct{})}
	t.Cleanup(func() { close(odd.letGo) })
	files := single()
	files["definitions/prompts/hung.yaml"] = "provider: odd\nmodel: m\nmessages: [ { role: user, content: hello } ]\n"
	files["definitions/endpoints/alone.yaml"] = "prompt: hung\ntimeout: { total: 1s }\nmax_attempts: 1\n"
	files["definitions/endpoints/helped.yaml"] = "prompt: hung\ntimeout: { first_token: 1s }\nfallback: [ { provider: canned, extra: { answer: helped } } ]\n"
	g := startGateway(t, files, withProvider("odd", odd))
	began := time.Now()
	if a := g.post("/v1/endpoints", `{"key":"alone"}`); a.status != http.StatusGatewayTimeout {
		t.Errorf("alone: %d %s", a.status, a.body)
	}
	if a := g.post("/v1/endpoints", `{"key":"helped","stream":true}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"helped"`) {
		t.Errorf("with a fallback: %d %s", a.status, a.body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("two calls of a second each took %s", took)
	}
	logs := g.logs.Bytes()
	if n := strings.Count(string(logs), "goes on with a call that has ended"); n != 2 {
		t.Errorf("%d calls that go on are logged, want 2", n)
	}
	if want := `cadenza_upstream_abandoned_total{provider="odd",workspace="default"} 2`; !strings.Contains(g.scrape(), want) {
		t.Errorf("the metrics lack %s", want)
	}
	// Nor does such a call keep the configuration from being replaced.
	g.load()
}
