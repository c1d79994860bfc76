package gateway_test

import (
	"fmt"
	"strings"
	"testing"
)

// Costly decisions are cached, except decisions that read the instant of the
// request, or that add a note about a value that is too long.
func TestCacheableDecisions(t *testing.T) {
	t.Parallel()
	var patterns strings.Builder
	for i := range 30 {
		fmt.Fprintf(&patterns, "  - { when: { agent: { matches: '^(a|b)%d$' } }, value: true }\n", i)
	}
	const head = "type: boolean\ndefault: false\nrules:\n"
	g := startGateway(t, map[string]string{
		"definitions/context.yaml":              "fields: { agent: { type: string }, since: { type: date } }\ncomputed: { fresh: now - since < duration('1h') }\n",
		"definitions/remoteconfigs/costly.yaml": head + patterns.String(),
		"definitions/remoteconfigs/now.yaml":    head + patterns.String() + "  - { when: { fresh: true }, value: true }\n",
	}, options)
	for _, tt := range []struct{ key, agent, first, second string }{
		{"costly", "other", "Cadenza; fwd=miss", "Cadenza; hit"},
		{"costly", strings.Repeat("long", 5000), "", ""},
		{"now", "other", "", ""},
	} {
		ask := func() string {
			a := g.post("/v1/remoteconfigs", fmt.Sprintf(`{"keys":[%q],"context":{"agent":%q,"since":"2026-01-01"}}`, tt.key, tt.agent))
			if a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			return a.header.Get("Cache-Status")
		}
		if got := ask(); got != tt.first {
			t.Errorf("%s, %d bytes: Cache-Status %q, want %q", tt.key, len(tt.agent), got, tt.first)
		}
		// The cache stores an entry a moment later.
		if tt.second != "" {
			eventually(t, "the decision is remembered", func() bool { return ask() == tt.second })
		} else if got := ask(); got != "" {
			t.Errorf("%s, %d bytes: Cache-Status %q", tt.key, len(tt.agent), got)
		}
	}
}
