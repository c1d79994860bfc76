package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// largeBodies are bodies of 7.9 MB for an endpoint that takes a caller's messages. The
// content decides how much memory the copies need.
var largeBodies = []struct {
	name, path, body string
	requests, atOnce int   // the number of concurrent requests, and of requests processed at least
	cgroup           int64 // the memory limit of the gateway's cgroup; 0: none
}{
	{"a text", "/v1/chat/completions", chatOf(strings.Repeat("a", 7_900_000)), 64, 6, 0},
	{"control characters", "/v1/chat/completions", chatOf(strings.Repeat(`\u0001`, 1_310_000)), 24, 6, 0},
	{"control characters in a cgroup", "/v1/chat/completions", chatOf(strings.Repeat(`\u0001`, 1_310_000)), 64, 6, 512 << 20},
	{"quotes", "/v1/responses", `{"model":"open","input":"` + strings.Repeat(`\"`, 3_950_000) + `"}`, 24, 6, 0},
	// Its 24,000 values need more memory than its bytes.
	{"many messages", "/v1/messages", `{"model":"open","max_tokens":9,"messages":[` +
		strings.Repeat(`{"role":"user","content":"`+strings.Repeat("b", 945)+`"},`, 8_000) + `{"role":"user","content":"b"}]}`, 24, 3, 0},
}

func chatOf(text string) string {
	return `{"model":"open","messages":[{"role":"user","content":"` + text + `"}]}`
}

// slowUpstream answers calls of OpenAI's API when it has six of them, or after a while.
// This is long until it has had as many as it must: they come late on a busy machine.
type slowUpstream struct {
	*httptest.Server
	mu      sync.Mutex
	here    int
	highest int
	more    chan struct{} // closed when enough have come
}

func newSlowUpstream(t *testing.T, atOnce int) *slowUpstream {
	u := &slowUpstream{more: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		u.mu.Lock()
		u.here++
		if u.here == 6 || u.here == atOnce && u.highest < atOnce {
			close(u.more)
			u.more = make(chan struct{})
		}
		u.highest = max(u.highest, u.here)
		more, while := u.more, 2*time.Second
		if u.highest < atOnce {
			while = 30 * time.Second
		}
		u.mu.Unlock()
		select {
		case <-more:
		case <-time.After(while):
		case <-r.Context().Done():
		}
		time.Sleep(100 * time.Millisecond)
		u.mu.Lock()
		u.here--
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(u.Close)
	return u
}

// open returns definitions with an endpoint that takes a caller's messages.
func open() map[string]string {
	files := besieged()
	files["prompts/p_open.yaml"] = "provider: slow\nmodel: m\nmessages: [ { history: true } ]\n"
	files["endpoints/open.yaml"] = "prompt: p_open\naccept: { history: true, parameters: [ max_tokens ] }\nmax_attempts: 1\ntimeout: { total: 60s, first_token: 60s }\n"
	return files
}

// sendLarge sends concurrent requests with one body, repeats each until it is answered, and
// returns the number of refusals.
func sendLarge(t *testing.T, s *siege, requests int, path, body string) (refusals int64) {
	t.Helper()
	var wait sync.WaitGroup
	var again, answered atomic.Int64
	end := time.Now().Add(2 * time.Minute)
	for range requests {
		wait.Go(func() {
			for time.Now().Before(end) {
				r, err := s.send(t.Context(), attackerKey, path, strings.NewReader(body))
				switch {
				case err == nil && r.status == http.StatusOK:
					answered.Add(1)
					return
				case err == nil && r.status != http.StatusServiceUnavailable:
					t.Errorf("%s", r)
					return
				case s.gone():
					return
				}
				again.Add(1)
				time.Sleep(time.Second + rand.N(time.Second))
			}
		})
	}
	wait.Wait()
	if n := answered.Load(); n != int64(requests) {
		t.Errorf("%d of %d requests are answered", n, requests)
	}
	return again.Load()
}

// TestMustHoldLargeBodies sends concurrent bodies of 8 MB, half as many without
// CADENZA_FULL=1. Some are processed, the others are refused with a Retry-After, and the
// memory stays below its ceiling.
func TestMustHoldLargeBodies(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is not the gateway's")
	}
	for _, b := range largeBodies {
		t.Run(b.name, func(t *testing.T) {
			s := newSiege(t, open())
			if b.cgroup > 0 {
				s.around = fmt.Sprintf("echo $$ > %s/cgroup.procs && ", newCgroup(t, b.cgroup))
			}
			u := newSlowUpstream(t, b.atOnce)
			s.slow = u.URL
			s.begin(t, gatewayBinary(t), "")
			w := s.watch(t)
			refusals := sendLarge(t, s, max(gatewaytest.Full(b.requests), b.requests/2), b.path, b.body)
			w.served(t)
			s.holds(t)
			t.Logf("%d at a time, %d refusals", u.highest, refusals)
			if u.highest < b.atOnce {
				t.Errorf("%d requests are worked on at a time, at least %d should be", u.highest, b.atOnce)
			}
		})
	}
}
