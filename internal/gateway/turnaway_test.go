package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// slowing returns a gateway that delays up to maximum refusals.
func slowing(maximum int64) *Gateway {
	g := &Gateway{process: &Process{maxSlowed: maximum}, scarce: func() bool { return false }}
	g.exiting, g.cancelExit = context.WithCancelCause(context.Background())
	return g
}

// TestRefusedCallersAreSlowed checks that an answer over HTTP/1 is delayed by a varying
// time between leastSlowed and mostSlowed, and that over HTTP/2 it is not delayed.
func TestRefusedCallersAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowing(100)
		refusals := newRefusals(&inflight.Limits{Process: 1})
		full := refusals.error(inflight.OfProcess)
		to, _ := find("/v1/endpoints")
		took := func(r *http.Request, err *wire.Error) time.Duration {
			began := time.Now()
			w := httptest.NewRecorder()
			g.writeError(w, r, to, outcome{err, unread})
			if w.Code != err.Status || w.Header().Get("Connection") != "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			return time.Since(began)
		}
		seen := make(map[time.Duration]bool)
		for range 50 {
			waited := took(httptest.NewRequest(http.MethodPost, "/v1/endpoints", strings.NewReader("{}")), full)
			if waited < leastSlowed || waited >= mostSlowed {
				t.Fatalf("it took %v", waited)
			}
			seen[waited] = true
		}
		if len(seen) < 40 {
			t.Errorf("50 waits have %d lengths", len(seen))
		}
		// A caller that must wait for a window to end, or made a mistake, is answered at once.
		for _, code := range []wire.Code{wire.RateLimited, wire.InvalidRequest} {
			err := wire.Errorf(code, "", "No.")
			err.Limit = "fair"
			if waited := took(httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil), err); waited > 0 {
				t.Errorf("%s took %v", code.Name, waited)
			}
		}
		g.scarce = func() bool { return true }
		w, began := httptest.NewRecorder(), time.Now()
		g.writeError(w, httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil), to, outcome{full, unread})
		if waited := time.Since(began); w.Header().Get("Connection") != "close" || waited > 0 {
			t.Errorf("where connections are scarce it took %v: %v", waited, w.Header())
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil)
		r.ProtoMajor = 2
		if waited := took(r, full); waited > 0 {
			t.Errorf("over HTTP/2 it took %v", waited)
		}
	})
}

// TestSlowedCallersAreBounded checks that callers above the maximum are answered at once,
// and so are callers that leave, and all callers when the process exits.
func TestSlowedCallersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowing(3)
		began := time.Now()
		ended := make(chan string, 3)
		caller, leave := context.WithCancelCause(t.Context())
		for name, ctx := range map[string]context.Context{"leaves": caller, "stays": t.Context(), "stays, too": t.Context()} {
			go func() {
				g.slow(ctx)
				ended <- name
			}()
		}
		synctest.Wait()
		g.slow(t.Context())
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a fourth one waited %v", waited)
		}
		leave(errors.New("gone"))
		if name := <-ended; name != "leaves" || time.Since(began) > 0 {
			t.Errorf("the one who %s ended after %v", name, time.Since(began))
		}
		g.EndCalls()
		<-ended
		<-ended
		synctest.Wait()
		if waited, left := time.Since(began), g.process.slowed.Load(); waited > 0 || left != 0 {
			t.Errorf("at the exit they waited %v, and %d wait still", waited, left)
		}
	})
}

// TestRetryAfterOfRefusals checks that callers refused together get different times.
func TestRetryAfterOfRefusals(t *testing.T) {
	refusals := newRefusals(&inflight.Limits{Process: 7, Workspace: 5, Key: 3, Host: 4})
	for _, by := range inflight.Ceilings {
		waits := make(map[time.Duration]bool)
		for range 100 {
			waits[refusals.error(by).RetryAfter] = true
		}
		if len(waits) != 3 || !waits[time.Second] || !waits[2*time.Second] || !waits[3*time.Second] {
			t.Errorf("%v: Retry-After %v", by, waits)
		}
	}
}

// BenchmarkRefusal measures writing a refusal without net/http.
func BenchmarkRefusal(b *testing.B) {
	refusals := newRefusals(&inflight.Limits{Process: 7})
	for _, path := range []string{"/v1/endpoints", "/v1/messages"} {
		to, _ := find(path)
		b.Run(to.name, func(b *testing.B) {
			b.ReportAllocs()
			w := httptest.NewRecorder()
			for b.Loop() {
				w.Body.Reset()
				to.writeErrorOnly(w, refusals.error(inflight.OfProcess))
			}
		})
	}
}
