package gateway_test

import (
	"io"
	"net/http"
	"testing"
)

// TestTheProvidersRetryAfterReachesTheCaller checks that the caller gets the provider's
// Retry-After.
func TestTheProvidersRetryAfterReachesTheCaller(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
	})
	for _, stream := range []bool{false, true} {
		g := startGateway(t, single(), fakeProvider(u.URL))
		a := g.post("/v1/endpoints", ask("Hi?", stream))
		if got := a.header.Get("Retry-After"); a.status != http.StatusServiceUnavailable || got != "17" {
			t.Errorf("stream %t: status %d, Retry-After %q", stream, a.status, got)
		}
		checkError(t, a, "upstream_rate_limited", "")
	}
}
