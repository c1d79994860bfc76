package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// TestRefusalsAreTold checks that a limit of tokens or money that refuses calls below its
// ceiling, because too little is left, causes one event and one log line in a window, with
// the limit and the subject. Calls that never fit cause none.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"definitions/prompts/p.yaml":   "provider: canned\nmodel: small\nmax_tokens: 100\nextra: { answer: So it is and so it has always been as far as anybody who was there can tell you now. }\nmessages: [ { role: user, content: hi } ]\n",
		"definitions/endpoints/e.yaml": "prompt: p\n",
	}
	for _, tt := range []struct {
		name        string
		ceiling     limit.Ceiling
		calls       int
		reports     int
		refused     string
		fewestTaken int
	}{
		{"tokens", yearly(limit.Tokens, 200), 12, 1, "tokens", 2},
		{"money", yearly(limit.Money, limit.Dollar/500), 12, 1, "money", 2},
		{"a call that never fits", yearly(limit.Tokens, 50), 3, 0, "tokens", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var events emitted
			g := startGateway(t, files, withLimits(&limit.Limit{Name: "cust", By: limit.ByMetadata, Member: "c", Ceilings: []limit.Ceiling{tt.ceiling}}),
				func(_ *gateway, c *gw.Config) { c.Emit = events.emit })
			taken, refused := 0, 0
			for range tt.calls {
				a := g.post("/v1/endpoints", `{"key":"e","metadata":{"c":"acme"}}`)
				switch a.status {
				case http.StatusOK:
					taken++
				case http.StatusTooManyRequests:
					refused++
				default:
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			events.mu.Lock()
			defer events.mu.Unlock()
			reached := 0
			for _, e := range events.all {
				if strings.HasPrefix(e, "cadenza.limit_reachedmap[by:metadata.c") && strings.Contains(e, "limit:cust measure:"+tt.refused+" subject:acme") {
					reached++
				}
			}
			logged := strings.Count(string(g.logs.Bytes()), `"msg":"limit reached"`)
			if taken < tt.fewestTaken || refused < 2 || reached != tt.reports || logged != tt.reports {
				t.Errorf("%d answered, %d refused, %d events, %d lines: %s", taken, refused, reached, logged, fmt.Sprint(events.all))
			}
		})
	}
}
