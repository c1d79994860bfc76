package gateway_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// TestLargeRequestsTakeTurns has calls with large messages that wait for a provider:
// their messages count, their bodies do not. When the memory is full, only requests
// that need some of it are refused.
func TestLargeRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, endpointWith(""), fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) { c.MaxBodySize = 2 << 20 }))
	held := func() (all, own int64) { return g.process.HeldByRequests(g.memory["default"]) }
	const size = 500_000
	call := func(size int) string {
		return fmt.Sprintf(`{"key":"chat","variables":{"question":%q}}`, strings.Repeat("x", size))
	}
	waiting := newCrowd(g)
	waiting.add(testKey, call(size))
	waiting.add(testKey, chat)
	eventually(t, "the calls reach the upstream", func() bool { return u.Calls.Load() == 2 })
	if all, own := held(); own < 2*size || own > 2*size+100_000 || all < own { // as rendered, and as sent
		t.Errorf("a call with a message of %d bytes holds %d of %d", size, own, all)
	}

	release := g.memory["default"].FillRequests()
	large := fmt.Sprintf(`{"keys":["hello"],"variables":{"question":%q}}`, strings.Repeat("x", 100_000))
	for path, body := range map[string]string{"/v1/prompts": large, "/v1/endpoints": call(100_000), "/v1/metrics": `{"llm_response":` + large[16:] + `}`} {
		a := g.post(path, body)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		checkError(t, a, "overloaded", "")
	}
	// A message may be larger than the body from which it is rendered.
	if a := g.post("/v1/endpoints", call(50_000)); a.status != http.StatusServiceUnavailable {
		t.Errorf("a call with a message of 50,000 bytes: %d %s", a.status, a.body)
	}
	// Many values take more than their bytes.
	if a := g.post("/v1/prompts", `{"keys":["hello"],"variables":{"all":[`+strings.Repeat("0,", 20_000)+`0]}}`); a.status != http.StatusServiceUnavailable {
		t.Errorf("a request of 20,000 values: %d %s", a.status, a.body)
	}
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "a small request")
	release()
	g.post("/v1/prompts", large).ok(t, "with room again")
	close(u.release)
	if got := waiting.wait(); got[http.StatusOK] != 2 {
		t.Errorf("the calls: %v", got)
	}
	eventually(t, "all is given back", func() bool { _, own := held(); return own == 0 })
}

// TestLargeRequestsWaitForTheCollector has large requests make more memory than is collected
// at a time: the next one is not answered before what they left is collected. It is not
// parallel, so nobody else collects.
func TestLargeRequestsWaitForTheCollector(t *testing.T) {
	g := startGateway(t, endpointWith(""), fakeProvider("http://localhost"))
	large := fmt.Sprintf(`{"keys":["hello"],"variables":{"question":%q}}`, strings.Repeat("x", 100_000))
	for range 5 {
		buffers.Count(2 * buffers.Garbage)
		before := collections()
		g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "a small request")
		if n := collections(); n != before {
			t.Errorf("a small request waits for %d collections", n-before)
		}
		g.post("/v1/prompts", large).ok(t, "a large request")
		if n := collections(); n != before+1 {
			t.Errorf("a large request waits for %d collections", n-before)
		}
	}
}

// collections returns how often the collector was called.
func collections() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumForcedGC
}

// TestLargeRequestsLeaveNoMemory has memory made while a large request is answered: it is
// collected although no other request follows. It is not parallel, so nobody else collects.
func TestLargeRequestsLeaveNoMemory(t *testing.T) {
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		buffers.Count(buffers.Garbage)
		completion(w, "fine")
	})
	g := startGateway(t, endpointWith(""), fakeProvider(u.URL))
	before := collections()
	g.post("/v1/endpoints", fmt.Sprintf(`{"key":"chat","variables":{"question":%q}}`, strings.Repeat("x", 100_000))).ok(t, "a large request")
	eventually(t, "its memory is collected", func() bool { return collections() > before })
}

// TestLargeRequestsAreBounded sets the option so that one call is admitted and a second one
// is not. A text counts with its escaped length. A single call is always admitted.
func TestLargeRequestsAreBounded(t *testing.T) {
	t.Parallel()
	u := newHanging(t)
	g := startGateway(t, endpointWith(""), fakeProvider(u.URL), func(_ *gateway, c *gw.Config) { c.MaxLargeRequests = 3 << 19 })
	call := func(text string) string {
		return fmt.Sprintf(`{"key":"chat","variables":{"question":"%s"}}`, text)
	}
	waiting := newCrowd(g)
	waiting.add(testKey, call(strings.Repeat("x", 400_000)))
	eventually(t, "the call reaches the upstream", func() bool { return u.Calls.Load() == 1 })
	if a := g.post("/v1/endpoints", call(strings.Repeat("x", 400_000))); a.status != http.StatusServiceUnavailable {
		t.Errorf("a second one: %d %s", a.status, a.body)
	}
	// 120,000 bytes, which are 720,000 when escaped.
	if a := g.post("/v1/endpoints", call(strings.Repeat("\x7f", 120_000))); a.status != http.StatusServiceUnavailable {
		t.Errorf("a text that grows: %d %s", a.status, a.body)
	}
	waiting.add(testKey, call(strings.Repeat("x", 120_000)))
	eventually(t, "a text that does not grow reaches the upstream", func() bool { return u.Calls.Load() == 2 })
	close(u.release)
	if got := waiting.wait(); got[http.StatusOK] != 2 {
		t.Errorf("the calls: %v", got)
	}
	eventually(t, "all is given back", func() bool { _, own := g.process.HeldByRequests(g.memory["default"]); return own == 0 })
	g.post("/v1/endpoints", call(strings.Repeat("x", 900_000))).ok(t, "alone")
}
