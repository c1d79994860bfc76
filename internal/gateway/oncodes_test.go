package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
)

// TestOnCodes has an upstream that always fails with the same status: retry's on_codes lists
// the statuses after which the gateway tries again; an empty list has none.
func TestOnCodes(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]int64{
		"{ count: 2 }":                      3,
		"{ count: 2, on_codes: [500] }":     3,
		"{ count: 2, on_codes: [429] }":     1,
		"{ count: 2, on_codes: [] }":        1,
		"{ count: 0, on_codes: [500] }":     1,
		"{ count: 1, on_codes: [] }":        1,
		"{ count: 1, on_codes: [500,429] }": 2,
	} {
		t.Run(retry, func(t *testing.T) {
			u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "down", http.StatusInternalServerError)
			})
			files := maps.Clone(workspace)
			files["definitions/endpoints/chat.yaml"] = fmt.Sprintf("prompt: reply\nretry: %s\n", retry)
			g := startGateway(t, files, fakeProvider(u.URL))
			a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
			if a.status != http.StatusBadGateway || u.Calls.Load() != want {
				t.Errorf("%d %s after %d calls, want %d", a.status, a.body, u.Calls.Load(), want)
			}
		})
	}
}
