package caddymodule_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// TestEndpointVariantsSwap edits an endpoint's table: enterprise and free are exchanged.
// Each request sees a complete table, and none fails.
func TestEndpointVariantsSwap(t *testing.T) {
	endpoint := func(first, second string) string {
		return fmt.Sprintf(`prompt: p
variants:
  usual: {}
  enterprise:
    weight: 0
    fallback: [ { provider: canned, weight: 1, extra: { answer: large } } ]
    hedge: { after: 10ms }
  free: { cache: { ttl: 1h } }
default: usual
columns: [ plan, value ]
matrix:
  - [ %s, enterprise ]
  - [ %s, free ]
`, first, second)
	}
	there, back := endpoint("pro", "free"), endpoint("free", "pro")
	g := startGateway(t, map[string]string{
		"definitions/context.yaml":     "fields: { plan: { type: string, values: [free, pro] } }\n",
		"definitions/prompts/p.yaml":   "provider: canned\nextra: { answer: small }\nmessages: [ { role: user, content: x } ]\n",
		"definitions/endpoints/e.yaml": there,
	}, options)
	answers := func(plan string) string {
		a := g.post("/v1/endpoints", `{"key":"e","context":{"plan":"`+plan+`"}}`)
		if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", plan, a.status, a.body)
			return ""
		}
		return fmt.Sprint(a.json(t)["content"])
	}
	if pro, free := answers("pro"), answers("free"); pro != "large" || free != "small" {
		t.Fatalf("pro gets %q, free gets %q", pro, free)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	var requests atomic.Int64
	for _, plan := range []string{"pro", "free"} {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					requests.Add(1)
					if got := answers(plan); got != "large" && got != "small" {
						t.Errorf("%s gets %q", plan, got)
						return
					}
				}
			}
		})
	}
	for i := range 4 {
		text, pro := back, "small"
		if i%2 == 1 {
			text, pro = there, "large"
		}
		before := requests.Load()
		g.write("definitions/endpoints/e.yaml", text)
		eventually(t, fmt.Sprintf("edit %d is served", i), func() bool { return answers("pro") == pro && answers("free") != pro })
		eventually(t, "more requests are made", func() bool { return requests.Load() >= before+5 })
	}
	close(stop)
	load.Wait()
	// The trace names the variant, and a mistake in the table changes nothing.
	a := g.post("/v1/endpoints", `{"key":"e","context":{"plan":"pro"}}`)
	eventually(t, "the trace", func() bool {
		record, ok := g.trace("data/cadenza.db", a.header.Get("Cadenza-Trace-Id"))
		return ok && record.EndpointVariant == "enterprise" && record.EndpointRow == "row 1" && record.Variant == "p"
	})
	g.write("definitions/endpoints/e.yaml", there+"hit: onlly\n")
	eventually(t, "the refusal", g.said(`hit must be one of`))
	if got := answers("pro"); got != "large" {
		t.Errorf("after a refused edit pro gets %q", got)
	}
}
