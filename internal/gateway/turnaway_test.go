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

// slowing is a gateway that refuses, and so many wait for that.
func slowing(most int64) *Gateway {
	g := &Gateway{process: &Process{maxSlowed: most}, scarce: func() bool { return false }}
	g.exiting, g.cancelExit = context.WithCancelCause(context.Background())
	return g
}

// TestRefusedCallersAreSlowed: over HTTP/1 the answer comes between leastSlowed and
// mostSlowed later, each time another one, and over HTTP/2 at once.
func TestRefusedCallersAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowing(100)
		refusals := newRefusals(&inflight.Limits{Process: 1})
		by := &refusals[inflight.OfProcess]
		to, _ := find("/v1/endpoints")
		took := func(r *http.Request, err *wire.Error) time.Duration {
			began := time.Now()
			w := httptest.NewRecorder()
			g.writeError(w, r, to, outcome{err, unread}, by)
			if w.Code != err.Status || w.Header().Get("Connection") != "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			return time.Since(began)
		}
		seen := make(map[time.Duration]bool)
		for range 50 {
			waited := took(httptest.NewRequest(http.MethodPost, "/v1/endpoints", strings.NewReader("{}")), &by.err)
			if waited < leastSlowed || waited >= mostSlowed {
				t.Fatalf("it took %v", waited)
			}
			seen[waited] = true
		}
		if len(seen) < 40 {
			t.Errorf("50 waits have %d lengths", len(seen))
		}
		// Who waits for the end of a window, or has made a mistake, is told at once.
		for _, code := range []wire.Code{wire.RateLimited, wire.InvalidRequest} {
			err := wire.Errorf(code, "", "No.")
			err.Limit = "fair"
			if waited := took(httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil), err); waited > 0 {
				t.Errorf("%s took %v", code.Name, waited)
			}
		}
		g.scarce = func() bool { return true }
		w, began := httptest.NewRecorder(), time.Now()
		g.writeError(w, httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil), to, outcome{&by.err, unread}, by)
		if waited := time.Since(began); w.Header().Get("Connection") != "close" || waited > 0 {
			t.Errorf("where connections are scarce it took %v: %v", waited, w.Header())
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/endpoints", nil)
		r.ProtoMajor = 2
		if waited := took(r, &by.err); waited > 0 {
			t.Errorf("over HTTP/2 it took %v", waited)
		}
	})
}

// TestSlowedCallersAreBounded: one more than may wait is answered at once, and so are all
// who leave, and all when the process exits.
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

// TestPreparedRefusals compares what is sent with what an error's own writer sends, for
// each ceiling in each API.
func TestPreparedRefusals(t *testing.T) {
	for _, adaptive := range []bool{false, true} {
		refusals := newRefusals(&inflight.Limits{Process: 7, Workspace: 5, Key: 3, Host: 4, Adaptive: adaptive})
		for _, by := range inflight.Ceilings {
			for i := range routes {
				to := &routes[i]
				if !to.calls {
					continue
				}
				own, got := httptest.NewRecorder(), httptest.NewRecorder()
				retries := make(map[string]bool)
				to.writeErrorOnly(own, &refusals[by].err)
				for range 100 {
					got = httptest.NewRecorder()
					got.Header().Set("Etag", "of the answer that there is not")
					to.writePrepared(got, &refusals[by])
					retries[got.Header().Get("Retry-After")] = true
				}
				if len(retries) != 3 || !retries["1"] || !retries["2"] || !retries["3"] {
					t.Errorf("%s, %v: Retry-After %v", to.path, by, retries)
				}
				got.Header().Set("Retry-After", own.Header().Get("Retry-After"))
				body, want := got.Body.String(), own.Body.String()
				if to.requestID != "" {
					id, other := got.Header().Get(to.requestID), own.Header().Get(to.requestID)
					if len(id) != 36 || id == other {
						t.Errorf("%s, %v: the ids are %q and %q", to.path, by, id, other)
					}
					body = strings.ReplaceAll(body, id, other)
					got.Header().Set(to.requestID, other)
				}
				if body != want || got.Code != own.Code {
					t.Errorf("%s, %v: %d %s\nwant %d %s", to.path, by, got.Code, body, own.Code, want)
				}
				if len(got.Header()) != len(own.Header()) {
					t.Errorf("%s, %v: headers %v, want %v", to.path, by, got.Header(), own.Header())
				}
				for name := range own.Header() {
					if got.Header().Get(name) != own.Header().Get(name) {
						t.Errorf("%s, %v: %s: %q, want %q", to.path, by, name, got.Header().Get(name), own.Header().Get(name))
					}
				}
			}
		}
	}
}

// BenchmarkRefusal is what writing a refusal takes beside net/http.
func BenchmarkRefusal(b *testing.B) {
	refusals := newRefusals(&inflight.Limits{Process: 7})
	by := &refusals[inflight.OfProcess]
	for _, path := range []string{"/v1/endpoints", "/v1/messages"} {
		to, _ := find(path)
		b.Run(to.name, func(b *testing.B) {
			b.ReportAllocs()
			w := httptest.NewRecorder()
			for b.Loop() {
				w.Body.Reset()
				to.writePrepared(w, by)
			}
		})
	}
}
