package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// TestAdaptiveCeilingOfAHost: an upstream that is overloaded by the fourth of its calls
// gets no more than it bears, and more again when it has answered those.
func TestAdaptiveCeilingOfAHost(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		case <-time.After(10 * time.Second): // for the test to fail rather than hang
		}
		completion(w, "hello")
	})
	g := startGateway(t, single(), crowded(u.URL, inflight.Limits{Host: 20, Adaptive: true}))
	waiting := newCrowd(g)
	for range 3 {
		waiting.add(keyA, chat)
	}
	eventually(t, "the calls reach the upstream", func() bool { return u.Calls.Load() == 3 })
	host := strings.TrimPrefix(u.URL, "http://")
	ceiling := func() string {
		_, value, _ := strings.Cut(g.scrape(), fmt.Sprintf("cadenza_host_ceiling{host=%q,workspace=\"one\"} ", host))
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	if got := ceiling(); got != "20" {
		t.Errorf("the ceiling is %s before", got)
	}
	if a := g.postAs(keyA, "/v1/endpoints", chat); a.status == http.StatusOK {
		t.Errorf("the fourth call: %d", a.status)
	}
	if got := ceiling(); got != "2" {
		t.Errorf("the ceiling is %s after an overload by 4 calls, want 2", got)
	}
	a := g.postAs(keyA, "/v1/endpoints", chat)
	if a.status != http.StatusServiceUnavailable || a.json(t)["name"] != "overloaded" || !strings.Contains(string(a.body), "host is overloaded") {
		t.Errorf("a call to a host that is overloaded: %d %s", a.status, a.body)
	}
	close(release)
	if statuses := waiting.wait(); statuses[http.StatusOK] != 3 {
		t.Errorf("the others: %v", statuses)
	}
	for range 4 {
		if a := g.postAs(keyA, "/v1/endpoints", chat); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if got := ceiling(); got < "3" {
		t.Errorf("the ceiling is %s after answers", got)
	}
}
