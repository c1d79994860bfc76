package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// hangingCalls makes 4,000 calls to an upstream that never answers. Ceilings of calls
// in flight reserve capacity for requests that need no upstream.
func hangingCalls(t *testing.T, s *siege) {
	const calls = 4000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*calls {
		t.Skipf("the test needs %d descriptors, and has %d (%v)", 3*calls, limit.Cur, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	var wait sync.WaitGroup
	var answered, unanswered atomic.Int64
	statuses := make(map[string]int)
	var mu sync.Mutex
	for range calls {
		wait.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/endpoints", strings.NewReader(`{"key":"hang"}`))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+attackerKey)
			response, err := client.Do(request)
			if err != nil {
				if ctx.Err() == nil {
					unanswered.Add(1)
				}
				return
			}
			defer response.Body.Close()
			var failure struct {
				Error struct{ Code string }
			}
			_ = json.NewDecoder(response.Body).Decode(&failure)
			what := fmt.Sprintf("%d %s", response.StatusCode, failure.Error.Code)
			if response.Header.Get("Retry-After") == "" {
				what += " without Retry-After"
			}
			mu.Lock()
			statuses[what]++
			mu.Unlock()
			answered.Add(1)
		})
	}
	// Each call is in flight or refused.
	if err := until(gatewaytest.Patience, func() bool { return answered.Load()+unanswered.Load()+s.upstream.hanging.Load() >= calls }); err != nil {
		t.Errorf("%d calls hang, %d were answered, %d broke: the others wait, %v", s.upstream.hanging.Load(), answered.Load(), unanswered.Load(), err)
	}
	held := s.upstream.hanging.Load()
	if held == 0 || held > 2048 {
		t.Errorf("%d calls are held with 4,096 descriptors", held)
	}
	if n := unanswered.Load(); n > 0 {
		t.Errorf("%d calls got no answer", n)
	}
	// Requests with the same key that need no upstream are still answered.
	for path, body := range map[string]string{"/v1/prompts": `{"keys":["calm"]}`, "/v1/remoteconfigs": `{"keys":["calm"]}`, "/v1/metrics": `{"score":1}`} {
		if r := s.ask(t, attackerKey, path, body); r.status != http.StatusOK {
			t.Errorf("%s, of the same key: %s", path, r)
		}
	}
	time.Sleep(time.Second) // for more requests of the witness
	mu.Lock()
	for what := range statuses {
		if what != "429 rate_limited" && what != "503 overloaded" {
			t.Errorf("%d calls were answered %s", statuses[what], what)
		}
	}
	t.Logf("%d calls held, %v", held, statuses)
	mu.Unlock()
	cancel()
	wait.Wait()
	if err := until(gatewaytest.Patience, func() bool { return s.upstream.hanging.Load() == 0 }); err != nil {
		t.Errorf("%d calls are still held when all callers have left", s.upstream.hanging.Load())
	}
}

// switchedProtocols calls an upstream that answers 101. After that, net/http does not
// end the connection with the request.
func switchedProtocols(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	for _, stream := range []bool{false, true} {
		for _, endpoint := range []string{"switching", "switching_fallback"} {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second+ceilings.patience)
				defer cancel()
				r, err := s.send(ctx, attackerKey, "/v1/endpoints", strings.NewReader(fmt.Sprintf(`{"key":%q,"stream":%v}`, endpoint, stream)))
				failed := r.status == http.StatusBadGateway || r.status == http.StatusGatewayTimeout || r.status == http.StatusServiceUnavailable
				if endpoint == "switching_fallback" {
					failed = r.status == http.StatusOK && strings.Contains(r.body, "Later.")
				}
				if err != nil || !failed {
					t.Errorf("%s, stream %v: %v %s", endpoint, stream, err, r)
				}
			})
		}
	}
	wait.Wait()
	if err := until(gatewaytest.Patience, func() bool { return s.upstream.hanging.Load() == 0 }); err != nil {
		t.Errorf("%d connections to the upstream are still open when all calls have ended", s.upstream.hanging.Load())
	}
}

// endlessUpstreams calls upstreams whose answers never end or never begin.
func endlessUpstreams(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	for _, endpoint := range []string{"endless_header", "endless_error", "endless_line", "endless_event", "endless_events", "endless_body", "drip"} {
		for i := range 16 {
			wait.Go(func() {
				stream := i%2 == 0
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second+2*ceilings.patience)
				defer cancel()
				r, err := s.send(ctx, attackerKey, "/v1/endpoints", strings.NewReader(fmt.Sprintf(`{"key":%q,"stream":%v}`, endpoint, stream)))
				if ctx.Err() != nil {
					t.Errorf("%s, stream %v: no end: %v %s", endpoint, stream, err, r)
				}
				if strings.Contains(r.body, `"is_final":true`) {
					t.Errorf("%s, stream %v: passed for an answer: %s", endpoint, stream, r)
				}
				if r.status != http.StatusOK && r.status/100 != 5 {
					t.Errorf("%s, stream %v: %s", endpoint, stream, r)
				}
			})
		}
	}
	wait.Wait()
}

// largeModel calls an upstream whose answers have a model name of 8 MiB, which lists of
// traces would contain.
func largeModel(t *testing.T, s *siege) {
	for range 12 {
		r := s.ask(t, attackerKey, "/v1/endpoints", `{"key":"large_model"}`)
		if served := r.header.Get("Cadenza-Served-By"); r.status != http.StatusOK || len(served) > 1024 {
			t.Fatalf("a model of 8 MiB: %s", r)
		}
	}
	if err := until(gatewaytest.Patience, func() bool {
		_, text := s.get(t, "/cadenza/traces?workspace=alpha&key=large_model&limit=100")
		if int64(len(text)) > ceilings.list {
			t.Errorf("a page of traces has %d MB", len(text)/1e6)
			return true
		}
		return strings.Count(text, `"trace_id"`) == 12
	}); err != nil {
		t.Errorf("the traces are not listed: %v", err)
	}
}
