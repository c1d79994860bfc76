package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// ofHost returns a metric of a host in the workspace "one".
func (g *gateway) ofHost(metric, host string) int {
	g.t.Helper()
	_, value, _ := strings.Cut(g.scrape(), fmt.Sprintf("%s{host=%q,workspace=\"one\"} ", metric, host))
	value, _, _ = strings.Cut(value, "\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

// TestAdaptiveCeilingOfAHost checks that an overloaded upstream gets fewer concurrent calls,
// and more again when it answers.
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
	ceiling := func() int { return g.ofHost("cadenza_host_ceiling", host) }
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

// TestHeavyKeyLeavesALightOneItsShare has many callers with one key that repeat at once, one
// caller with another key, and an upstream that refuses all but a few concurrent calls.
func TestHeavyKeyLeavesALightOneItsShare(t *testing.T) {
	t.Parallel()
	const bears, refuses, callers = 4, 16, 48
	var calls atomic.Int64
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		defer calls.Add(-1)
		n := calls.Add(1)
		if n > refuses {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		slow := max(1, float64(n)/bears)
		select {
		case <-time.After(time.Duration(20*slow*slow) * time.Millisecond):
		case <-r.Context().Done():
		}
		completion(w, "hello")
	})
	files := single()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\n" // with retries
	g := startGateway(t, files, crowded(u.URL, inflight.Limits{}))
	host := strings.TrimPrefix(u.URL, "http://")

	var done, shareTold atomic.Bool
	var heavy sync.WaitGroup
	defer heavy.Wait()
	defer done.Store(true)
	for range callers {
		heavy.Go(func() {
			for !done.Load() {
				response, err := g.send(t.Context(), http.MethodPost, "/v1/endpoints", chat, bearer(keyA))
				if err != nil {
					continue
				}
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "The API key has its share") && response.Header.Get("Retry-After") != "" {
					shareTold.Store(true)
				}
				if response.StatusCode != http.StatusOK {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	eventually(t, "the keys share the host", func() bool {
		g.postAs(keyB, "/v1/endpoints", chat)
		return g.ofHost("cadenza_host_shared_calls", host) > 0
	})
	eventually(t, "the heavy key hears of its share", shareTold.Load)
	asked, answered := 0, 0
	// A few are refused by chance. Where these are many, more are asked.
	for ; asked < 30 || answered < asked*3/4 && asked < 300; asked++ {
		time.Sleep(50 * time.Millisecond)
		if g.postAs(keyB, "/v1/endpoints", chat).status == http.StatusOK {
			answered++
		}
	}
	t.Logf("%d of %d requests of the light key are answered", answered, asked)
	if answered < asked*3/4 { // without sharing: one or two of 30
		t.Errorf("%d of %d requests of the light key are answered", answered, asked)
	}
	if !strings.Contains(g.scrape(), `cadenza_calls_refused_total{ceiling="share",workspace="one"}`) {
		t.Error("no metric counts what the sharing refuses")
	}
}
