package gateway_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestThirtyPercentFaults has a single target that fails in 30 of 100 calls: with an
// error status, a reset connection, or an answer that breaks off. Which call fails
// depends only on the question and the attempt, so all runs are equal.
func TestThirtyPercentFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes 2,000 calls with waits between their attempts")
	}
	const requests = 2000
	var mu sync.Mutex
	attempts := make(map[string]int)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
			t.Errorf("request: %v", err)
			return
		}
		question := body.Messages[len(body.Messages)-1].Content
		mu.Lock()
		attempts[question]++
		attempt := attempts[question]
		mu.Unlock()
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", question, attempt))
		dice := binary.BigEndian.Uint64(sum[:]) % 1000
		switch {
		case dice >= 300:
			completion(w, "fine")
		case dice < 100:
			http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
		case dice < 200:
			panic(http.ErrAbortHandler) // before any header
		default:
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"id":"c1","choices":[{"index":0,"message":{"role":"assis`)
			panic(http.ErrAbortHandler)
		}
	})
	files := single()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nmax_attempts: 6\nretry: { count: 5 }\nlog: none\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	g.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64

	var next, failed atomic.Int64
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			for {
				n := next.Add(1)
				if n > requests {
					return
				}
				a := g.post("/v1/endpoints", ask(fmt.Sprint("item ", n), false))
				if a.status != http.StatusOK || !strings.Contains(string(a.body), `"fine"`) {
					failed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	calls := float64(u.Calls.Load()) / requests
	t.Logf("%d of %d requests failed, %.3f upstream calls each", failed.Load(), requests, calls)
	if failed.Load()*1000 > requests {
		t.Errorf("%d of %d requests failed, more than 0.1 %%", failed.Load(), requests)
	}
	if calls > 1.45 {
		t.Errorf("%.3f upstream calls a request, more than 1.45", calls)
	}
}
