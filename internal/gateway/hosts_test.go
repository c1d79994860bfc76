package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// TestAdaptiveCeilingOfAHost: an upstream that is overloaded for a while gets fewer calls
// at a time, and more again when it answers.
func TestAdaptiveCeilingOfAHost(t *testing.T) {
	t.Parallel()
	var healthy, holds atomic.Bool
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if holds.Load() {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		completion(w, "hello")
	})
	g := startGateway(t, single(), crowded(u.URL, inflight.Limits{Host: 20, Adaptive: true}))
	host := strings.TrimPrefix(u.URL, "http://")
	ceiling := func() int {
		_, value, _ := strings.Cut(g.scrape(), fmt.Sprintf("cadenza_host_ceiling{host=%q,workspace=\"one\"} ", host))
		value, _, _ = strings.Cut(value, "\n")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := ceiling(); got != 20 {
		t.Errorf("the ceiling is %d before", got)
	}
	eventually(t, "the ceiling falls to a half", func() bool {
		if a := g.postAs(keyA, "/v1/endpoints", chat); a.status == http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return ceiling() < 20
	})
	low := ceiling()
	if low < 10 {
		t.Errorf("it fell to %d at once", low)
	}

	healthy.Store(true)
	holds.Store(true)
	before, waiting := u.Calls.Load(), newCrowd(g)
	for range low {
		waiting.add(keyA, chat)
	}
	eventually(t, "the calls reach the upstream", func() bool { return u.Calls.Load() == before+int64(low) })
	a := g.postAs(keyB, "/v1/endpoints", chat)
	if a.status != http.StatusServiceUnavailable || a.json(t)["name"] != "overloaded" || !strings.Contains(string(a.body), "host is overloaded") {
		t.Errorf("a call to a host that is overloaded: %d %s", a.status, a.body)
	}
	close(release)
	holds.Store(false)
	if statuses := waiting.wait(); statuses[http.StatusOK] != low {
		t.Errorf("the others: %v", statuses)
	}
	eventually(t, "the ceiling rises", func() bool {
		crowd := newCrowd(g)
		for range low {
			crowd.add(keyA, chat)
		}
		crowd.wait()
		return ceiling() > low
	})
}
