package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// hanging is an upstream that answers no call until the test releases it.
type hanging struct {
	*gatewaytest.Upstream
	host    string
	release chan struct{}
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{release: make(chan struct{})}
	h.Upstream = newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		select {
		case <-h.release:
			completion(w, "at last")
		case <-r.Context().Done():
		case <-time.After(gatewaytest.Patience): // the test fails instead of hanging
			completion(w, "too late")
		}
	})
	h.host = strings.TrimPrefix(h.URL, "http://")
	return h
}

// crowd has callers that wait for their answers.
type crowd struct {
	g        *gateway
	group    sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
	mu       sync.Mutex
	statuses map[int]int
}

func newCrowd(g *gateway) *crowd {
	c := &crowd{g: g, statuses: make(map[int]int)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	g.t.Cleanup(func() { c.cancel(); c.group.Wait() })
	return c
}

// add adds a call with a key.
func (c *crowd) add(key, body string) {
	c.group.Go(func() {
		response, err := c.g.send(c.ctx, http.MethodPost, "/v1/endpoints", body, http.Header{"Authorization": {"Bearer " + key}})
		status := 0
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			status = response.StatusCode
		}
		c.mu.Lock()
		c.statuses[status]++
		c.mu.Unlock()
	})
}

// callsInFlight returns the number of calls in flight of the default workspace, including
// calls that wait for another call's answer.
func (g *gateway) callsInFlight() int { return g.process.CallsOf("default") }

func (c *crowd) wait() map[int]int {
	c.group.Wait()
	return c.statuses
}

const (
	keyA   = "cadenza-test-key-of-one-a"
	keyB   = "cadenza-test-key-of-one-b"
	keyTwo = "cadenza-test-key-of-two"
)

// ceilings sets some ceilings; the other ceilings follow from them.
func ceilings(limits inflight.Limits) setting {
	return with(func(c *gw.WorkspaceConfig) { c.InFlight = limits.WithDefaults(inflight.Descriptors()) })
}

// crowded configures the workspaces "one", with two keys, and "two".
func crowded(url string, limits inflight.Limits) setting {
	return all(
		withWorkspace("one", map[string]string{"a": keyA, "b": keyB}),
		withWorkspace("two", map[string]string{"test": keyTwo}),
		fakeProvider(url), ceilings(limits))
}

const chat = `{"key":"chat",` + question + `}`

// TestCeilingsOfCallsInFlight makes as many calls as each ceiling allows, and one more.
func TestCeilingsOfCallsInFlight(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ceiling string
		limits  inflight.Limits
		status  int
		code    string
		says    string
		// Whether calls with the other key of workspace one, and calls of
		// workspace two, are refused, too.
		keyB, two bool
	}{
		{"key", inflight.Limits{Key: 2}, 429, "rate_limited", "The API key has 2 calls in flight", false, false},
		{"workspace", inflight.Limits{Workspace: 2}, 503, "overloaded", "The workspace has 2 calls in flight", true, false},
		{"process", inflight.Limits{Process: 2, Workspace: 9, Key: 9, Host: 9}, 503, "overloaded", "The gateway has 2 calls in flight", true, true},
		{"host", inflight.Limits{Host: 2}, 503, "overloaded", "host has 2 calls in flight", true, true},
	} {
		t.Run(test.ceiling, func(t *testing.T) {
			u := newHanging(t)
			g := startGateway(t, single(), crowded(u.URL, test.limits))
			waiting := newCrowd(g)
			waiting.add(keyA, chat)
			waiting.add(keyA, chat)
			eventually(t, "both calls reach the upstream", func() bool { return u.Calls.Load() == 2 })

			_, before := g.process.CallMetrics("one", test.ceiling)
			a := g.postAs(keyA, "/v1/endpoints", chat)
			if a.status != test.status || a.json(t)["name"] != test.code || !strings.Contains(string(a.body), test.says) ||
				!strings.Contains(string(a.body), "in_flight: "+test.ceiling) {
				t.Errorf("%d %s", a.status, a.body)
			}
			if retry := a.header.Get("Retry-After"); retry < "1" || retry > "3" || a.header.Get("Cadenza-Trace-Id") != "" {
				t.Errorf("headers %v", a.header)
			}
			now, after := g.process.CallMetrics("one", test.ceiling)
			if now != 2 || after != before+1 {
				t.Errorf("the metrics: %v in flight, %v refused", now, after-before)
			}
			// A request that calls no provider is answered as usual.
			g.postAs(keyA, "/v1/prompts", `{"keys":["reply"],`+question+`}`).ok(t, "a prompt")
			g.postAs(keyA, "/v1/metrics", `{"score":50}`).ok(t, "metrics")
			// After a reload the running calls still count.
			g.load(crowded(u.URL, test.limits))
			if a := g.postAs(keyA, "/v1/endpoints", chat); a.status != test.status {
				t.Errorf("after a reload: %d %s", a.status, a.body)
			}
			// Other callers are refused if they share the ceiling.
			for key, refused := range map[string]bool{keyB: test.keyB, keyTwo: test.two} {
				calls := u.Calls.Load()
				if !refused {
					waiting.add(key, chat)
					eventually(t, "the call of another reaches the upstream", func() bool { return u.Calls.Load() == calls+1 })
				} else if a := g.postAs(key, "/v1/endpoints", chat); a.status != test.status {
					t.Errorf("of another key: %d %s", a.status, a.body)
				}
			}
			close(u.release)
			if statuses := waiting.wait(); len(statuses) != 1 {
				t.Errorf("those let in were answered %v", statuses)
			}
			g.postAs(keyA, "/v1/endpoints", chat).ok(t, "with a place again")
			eventually(t, "no call is left in the counts", func() bool {
				now, _ := g.process.CallMetrics("one", test.ceiling)
				process, atHost := g.process.CallsInFlight(u.host)
				return now == 0 && process == 0 && atHost == 0
			})
		})
	}
}

// TestRefusedCallsAreToldBeforeTheirBodies sends the headers of calls that a ceiling refuses,
// with and without their bodies. The gateway keeps a connection only if the body has come.
func TestRefusedCallsAreToldBeforeTheirBodies(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, single(), fakeProvider(u.URL), ceilings(inflight.Limits{Key: 1}))
	waiting := newCrowd(g)
	waiting.add(testKey, chat)
	eventually(t, "the call reaches the upstream", func() bool { return u.Calls.Load() == 1 })
	var group sync.WaitGroup // in parallel: the call in flight does not last for ever
	for name, test := range map[string]struct {
		header, body string
		closes       bool
	}{
		"a large body":           {"Content-Length: 1000000\r\n", "", true},
		"a small body":           {"Content-Length: 1000\r\n", "", true},
		"one of unknown length":  {"Transfer-Encoding: chunked\r\n", "", true},
		"one that waits":         {"Content-Length: 1000\r\nExpect: 100-continue\r\n", "", true},
		"a body that came":       {"Content-Length: 2\r\n", "{}", false},
		"a body that is no JSON": {"Content-Length: 2\r\n", "no", false},
	} {
		group.Go(func() {
			connection, err := net.Dial("unix", g.server.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(connection, "POST /v1/endpoints HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n%s\r\n%s", testKey, test.header, test.body)
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusTooManyRequests || response.Close != test.closes {
				t.Errorf("%s: %d, the connection closes: %t", name, response.StatusCode, response.Close)
			}
		})
	}
	group.Wait()
}

// TestFullGatewayAnswersWhatNeedsNoCall checks that a request is not refused before its
// body is read if a cache or an Idempotency-Key may answer it.
func TestFullGatewayAnswersWhatNeedsNoCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option string
		header http.Header
	}{
		"cache":           {"cache: { ttl: 1h }\n", bearer(testKey)},
		"idempotency key": {"idempotency: true\n", http.Header{"Authorization": {"Bearer " + testKey}, "Idempotency-Key": {"first"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newHanging(t)
			g := startGateway(t, endpointWith(test.option), fakeProvider(u.URL), ceilings(inflight.Limits{Key: 1}))
			close(u.release)
			g.do(http.MethodPost, "/v1/endpoints", ask("known", false), test.header).ok(t)
			u.release = make(chan struct{})
			waiting := newCrowd(g)
			waiting.add(testKey, ask("new", false))
			eventually(t, "it is full", func() bool { return g.callsInFlight() == 1 && u.Calls.Load() == 2 })
			g.do(http.MethodPost, "/v1/endpoints", ask("known", false), test.header).ok(t)
			if a := g.post("/v1/endpoints", ask("another", false)); a.status != http.StatusTooManyRequests {
				t.Errorf("a call: %d %s", a.status, a.body)
			}
			close(u.release)
			waiting.wait()
		})
	}
}

// TestFallbackTakesOverFromAFullHost checks that a target whose host is full is
// skipped, and that the trace and the metric say so.
func TestFallbackTakesOverFromAFullHost(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, endpointWith("fallback: [ { provider: canned, extra: { answer: fine } } ]\n"), fakeProvider(u.URL), ceilings(inflight.Limits{Host: 1}))
	waiting := newCrowd(g)
	waiting.add(testKey, chat)
	eventually(t, "the call reaches the upstream", func() bool { return u.Calls.Load() == 1 })
	_, before := g.process.CallMetrics("default", "host")
	a := g.post("/v1/endpoints", chat)
	if a.status != http.StatusOK || a.json(t)["content"] != "fine" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if _, refused := g.process.CallMetrics("default", "host"); refused != before+1 {
		t.Errorf("%v skips were counted", refused-before)
	}
	eventually(t, "the trace names what was skipped", func() bool {
		r, ok := g.trace("data/cadenza.db", a.header.Get("Cadenza-Trace-Id"))
		return ok && len(r.Notes) == 1 && strings.Contains(r.Notes[0], "skipped fake/small: as many calls as may be")
	})
}

// TestWhatAsksNoProviderIsNoCall makes as many calls as a key's ceiling allows: cached
// answers and replies to an idempotency key are still returned. A caller that waits for
// the answer of another call counts, because it keeps a connection open as long.
func TestWhatAsksNoProviderIsNoCall(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, endpointWith("cache: { ttl: 1h }\nidempotency: true\n"), fakeProvider(u.URL), ceilings(inflight.Limits{Key: 2}))
	waiting := newCrowd(g)
	header := http.Header{"Authorization": {"Bearer " + testKey}, "Idempotency-Key": {"first"}}
	first := make(chan answer, 1)
	go func() { first <- g.do(http.MethodPost, "/v1/endpoints", ask("known", false), header) }()
	eventually(t, "the first call reaches the upstream", func() bool { return u.Calls.Load() == 1 })
	close(u.release)
	if a := <-first; a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	u.release = make(chan struct{})
	waiting.add(testKey, ask("new", false))
	waiting.add(testKey, ask("new", false)) // waits for the previous call
	eventually(t, "both are in flight", func() bool {
		now, _ := g.process.CallMetrics("default", "key")
		return now == 2 && u.Calls.Load() == 2
	})
	if a := g.post("/v1/endpoints", ask("new", false)); a.status != http.StatusTooManyRequests {
		t.Errorf("a third who asks the same: %d %s", a.status, a.body)
	}
	g.post("/v1/endpoints", ask("known", false)).ok(t, "a remembered answer")
	if a := g.do(http.MethodPost, "/v1/endpoints", ask("known", false), header); a.status != http.StatusOK || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a reply: %d %s %v", a.status, a.body, a.header)
	}
	close(u.release)
	if statuses := waiting.wait(); statuses[http.StatusOK] != 2 {
		t.Errorf("those let in were answered %v", statuses)
	}
}

// TestRefusedRequestLeavesItsIdempotencyKey repeats a refused request below the
// ceiling: then the provider is asked.
func TestRefusedRequestLeavesItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, endpointWith("idempotency: true\n"), fakeProvider(u.URL), ceilings(inflight.Limits{Key: 1}))
	waiting := newCrowd(g)
	waiting.add(testKey, chat)
	eventually(t, "the call reaches the upstream", func() bool { return u.Calls.Load() == 1 })
	header := http.Header{"Authorization": {"Bearer " + testKey}, "Idempotency-Key": {"refused"}}
	if a := g.do(http.MethodPost, "/v1/endpoints", chat, header); a.status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", a.status, a.body)
	}
	close(u.release)
	waiting.wait()
	eventually(t, "the request is answered", func() bool {
		a := g.do(http.MethodPost, "/v1/endpoints", chat, header)
		return a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == ""
	})
}

// TestCallsThatBreakOffLeaveTheCounts has callers that leave at random, during answers
// and streams, alone or sharing a call. The upstream breaks off at random, too.
func TestCallsThatBreakOffLeaveTheCounts(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range call % 5 {
				_, _ = io.WriteString(w, chunk("piece ", ""))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Duration(call%7) * time.Millisecond)
			}
			if call%3 == 0 {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, chunk("end", "stop")+"data: [DONE]\n\n")
			return
		}
		time.Sleep(time.Duration(call%10) * time.Millisecond)
		if call%4 == 0 {
			panic(http.ErrAbortHandler)
		}
		completion(w, "whole")
	})
	files := endpointWith("cache: { ttl: 1h }\n")
	files["definitions/endpoints/plain.yaml"] = "prompt: reply\nmax_attempts: 2\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	host := strings.TrimPrefix(u.URL, "http://")
	var group sync.WaitGroup
	random := gatewaytest.Random(t)
	for n := range 300 {
		body := fmt.Sprintf(`{"key":%q,"stream":%t,"variables":{"question":"%d"}}`, []string{"chat", "plain"}[n%2], n%3 == 0, n/10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(60))*time.Millisecond)
		group.Go(func() {
			defer cancel()
			response, err := g.send(ctx, http.MethodPost, "/v1/endpoints", body, http.Header{"Authorization": {"Bearer " + testKey}})
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	group.Wait()
	eventually(t, "no call is left in the counts", func() bool {
		now, _ := g.process.CallMetrics("default", "key")
		process, atHost := g.process.CallsInFlight(host)
		return now == 0 && process == 0 && atHost == 0
	})
}

// BenchmarkRefusedCall measures the gateway's work for a call above its key's ceiling:
// the less it is, the more other calls are answered.
func BenchmarkRefusedCall(b *testing.B) {
	g := startGateway(b, workspace, ceilings(inflight.Limits{Key: 1}))
	leave := g.process.EnterCall("default", testKey)
	defer leave()
	reader := strings.NewReader("")
	request := httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil)
	request.ProtoMajor = 2 // over HTTP/1 the answer is delayed
	request.Header.Set("Authorization", "Bearer "+testKey)
	request.ContentLength = int64(len(chat))
	request.Body = io.NopCloser(reader)
	w := &discard{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(chat)
		clear(w.header)
		g.serve(w, request)
		if w.status != http.StatusTooManyRequests {
			b.Fatalf("status %d", w.status)
		}
	}
}
