package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// limited is a gateway with limits, and its provider.
type limited struct {
	*badNight
	upstream *httptest.Server
	calls    atomic.Int64
	gate     atomic.Pointer[chan struct{}] // calls wait until it is closed; nil: they do not wait
	transport
}

type transport struct{ client *http.Client }

// The usage that the provider reports for a call, and its cost in US dollars.
const (
	limitedUsage = `{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60}`
	limitedCost  = (10*2 + 50*10) / 1e6
)

func newLimited(t *testing.T, limits string) *limited {
	l := &limited{badNight: newBadNight(t), transport: transport{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}}
	t.Cleanup(l.client.CloseIdleConnections)
	l.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		l.calls.Add(1)
		if gate := l.gate.Load(); gate != nil {
			select {
			case <-*gate:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":`+limitedUsage+`}`)
	}))
	t.Cleanup(l.upstream.Close)
	l.environ = append(l.environ, "CADENZA_TEST_UPSTREAM_KEY=0123456789abcdef0123")
	l.write("definitions/prompts/p.yaml", "provider: fake\nmodel: m\nmax_tokens: 50\nmessages: [ { role: user, content: hello } ]\n")
	l.write("definitions/endpoints/e.yaml", "prompt: p\nmax_attempts: 1\n")
	l.limit(limits)
	l.startWith(l.caddyfile)
	return l
}

// limit writes the Caddyfile.
func (l *limited) limit(limits string) {
	l.write("Caddyfile", fmt.Sprintf(`{
	admin %s
	persist_config off
	grace_period 2s
	cadenza {
		definitions %s/definitions
		store sqlite %s
		api_key app {env.CADENZA_API_KEY}
		price m 2 10
		in_flight {
			process 3000
			workspace 3000
			key 3000
			host 3000
		}
		provider fake openai {
			base_url %s/v1
			api_key {env.CADENZA_TEST_UPSTREAM_KEY}
		}
		%s
	}
}
%s {
	cadenza
}
`, l.admin, l.dir, l.store(), l.upstream.URL, limits, l.url))
}

// ask calls the endpoint and returns the status.
func (l *limited) ask() int {
	for deadline := time.Now().Add(gatewaytest.Patience); ; {
		status, _, body, err := post(context.Background(), l.client, l.url+"/v1/endpoints", `{"key":"e"}`)
		if err != nil {
			return 0
		}
		if !isStarting(status, body) || time.Now().After(deadline) {
			return status
		}
	}
}

// isStarting reports whether an answer refuses a call, which does not count, because the
// gateway still reads what was used of the limits: after a second, when its disk is busy.
func isStarting(status int, body string) bool {
	return status == http.StatusServiceUnavailable && strings.Contains(body, "it reads what has been used of the limits")
}

// use is the use of a limit by its fullest subject.
type use struct{ Used, Reserved float64 }

// standing returns the fullest subject of a limit.
func (l *limited) standing(name string) (u use) {
	l.t.Helper()
	var status struct {
		Workspaces map[string]struct {
			Limits []struct {
				Name    string
				Fullest []use
			}
		}
	}
	if err := json.Unmarshal(l.status(), &status); err != nil {
		l.t.Fatal(err)
	}
	for _, limit := range status.Workspaces["default"].Limits {
		if limit.Name == name && len(limit.Fullest) > 0 {
			return limit.Fullest[0]
		}
	}
	return use{}
}

// TestABudgetIsNeverOvershot makes a thousand concurrent calls that compete for the last
// hundredth of a budget.
func TestABudgetIsNeverOvershot(t *testing.T) {
	const budget = 0.0526
	l := newLimited(t, "limit budget {\nmoney 0.0526usd/366d\n}")
	for range 100 {
		if status := l.ask(); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	if share := l.standing("budget").Used / budget; share < 0.985 || share > 0.99 {
		t.Fatalf("%g of the budget are used before", share)
	}
	var answered, refused atomic.Int64
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			switch l.ask() {
			case http.StatusOK:
				answered.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	group.Wait()
	used := l.standing("budget")
	if paid := float64(l.calls.Load()) * limitedCost; paid > budget || fmt.Sprintf("%.9f", used.Used) != fmt.Sprintf("%.9f", paid) || used.Reserved != 0 {
		t.Errorf("the provider was paid %g of %g dollars, and the gateway counts %+v", paid, budget, used)
	}
	if answered.Load() != 1 || answered.Load()+refused.Load() != 1000 {
		t.Errorf("%d answered, %d refused", answered.Load(), refused.Load())
	}
}

// TestLimitsSurviveACrash kills the gateway with running calls, restarts it, reloads it
// with other ceilings and stops it normally.
func TestLimitsSurviveACrash(t *testing.T) {
	t.Parallel()
	const limits = "limit calls {\nrequests 100/366d\n}\nlimit tokens {\nby workspace\ntokens 1000000/366d\nin_flight 1000000\n}"
	l := newLimited(t, limits)
	for range 3 {
		if status := l.ask(); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	gate := make(chan struct{})
	l.gate.Store(&gate)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { l.ask() })
	}
	l.eventually("all calls are under way", func() bool { return l.calls.Load() >= 8 })
	// A call waits 20 ms for what it sets aside, and goes on without it on a busy machine.
	l.eventually("what the calls set aside is in the file", func() bool { return !strings.Contains(string(l.status()), "limits_unsaved") })
	before := l.standing("tokens")
	if before.Used != 3*60 || before.Reserved < 5*50 {
		t.Fatalf("before: %+v", before)
	}
	l.kill()
	group.Wait()
	l.gate.Store(nil)

	l.startWith(l.caddyfile)
	want := use{Used: before.Used + before.Reserved}
	if got := l.standing("tokens"); got != want {
		t.Errorf("after the crash: %+v, want %+v", got, want)
	}
	if got := l.standing("calls"); got != (use{Used: 8}) {
		t.Errorf("after the crash: %+v requests", got)
	}
	if status := l.ask(); status != http.StatusOK {
		t.Error(status)
	}
	want.Used += 60

	l.limit(strings.Replace(limits, "100/366d", "10/366d", 1))
	if code, output := l.do("reload", "--address", l.admin); code != 0 {
		t.Fatal(output)
	}
	l.client.CloseIdleConnections() // which the server closes, too
	if got := l.standing("tokens"); got != want {
		t.Errorf("after a reload: %+v, want %+v", got, want)
	}
	if status := l.ask(); status != http.StatusOK {
		t.Error(status)
	}
	want.Used += 60
	if status := l.ask(); status != http.StatusTooManyRequests {
		t.Errorf("beyond an edited ceiling: %d", status)
	}
	l.terminate()
	l.startWith(l.caddyfile)
	if got := l.standing("tokens"); got != want {
		t.Errorf("after a restart: %+v, want %+v", got, want)
	}
	if status := l.ask(); status != http.StatusTooManyRequests {
		t.Errorf("after a restart: %d", status)
	}
}
