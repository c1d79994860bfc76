package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	firstToken  = "the-first-token-0001"
	secondToken = "the-second-token-0002"
)

// packed returns a bundle of some bytes.
func packed(text string, serial int64) *bundle.Bundle {
	return &bundle.Bundle{Manifest: bundle.Manifest{Revision: "rev-" + text, Serial: serial}, Packed: []byte(text)}
}

// ask sends a request to the handler.
func ask(ctx context.Context, h *Handler, method string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/bundle.tar.gz", nil)
	if header != nil {
		r.Header = header
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	h := &Handler{Latest: new(bundle.Latest), Open: true}
	b := packed("some bytes", 1)
	h.Latest.Set(b)
	for _, test := range []struct {
		name, method string
		header       http.Header
		status       int
		body, cache  string
	}{
		{"read", "GET", nil, 200, "some bytes", "public, max-age=5, must-revalidate, no-transform"},
		{"head", "HEAD", nil, 200, "", "public, max-age=5, must-revalidate, no-transform"},
		{"another", "GET", http.Header{"If-None-Match": {`"other"`}}, 200, "some bytes", "public, max-age=5, must-revalidate, no-transform"},
		{"known", "GET", http.Header{"If-None-Match": {`"other", W/` + b.Tag()}}, 304, "", "public, max-age=5, must-revalidate, no-transform"},
		{"any", "HEAD", http.Header{"If-None-Match": {"*"}}, 304, "", "public, max-age=5, must-revalidate, no-transform"},
		{"another, waiting", "GET", http.Header{"If-None-Match": {`"other"`}, "Prefer": {"wait=60"}}, 200, "some bytes", "no-store, no-transform"},
	} {
		w := ask(t.Context(), h, test.method, test.header)
		head := w.Header()
		if w.Code != test.status || w.Body.String() != test.body || head.Get("Cache-Control") != test.cache {
			t.Errorf("%s: %d %q, %s", test.name, w.Code, w.Body, head.Get("Cache-Control"))
		}
		if head.Get("ETag") != b.Tag() || head.Get("Vary") != "Prefer" || head.Get("Cadenza-Revision") != "rev-some bytes" {
			t.Errorf("%s: %v", test.name, head)
		}
		media, length := bundle.MediaType, strconv.Itoa(len(b.Packed))
		if test.status == 304 {
			media, length = "", ""
		}
		if head.Get("Content-Type") != media || head.Get("Content-Length") != length {
			t.Errorf("%s: %v", test.name, head)
		}
	}

	w := ask(t.Context(), h, "POST", nil)
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" || !strings.Contains(w.Body.String(), `"code":"method_not_allowed"`) {
		t.Errorf("%d %s, allowed is %q", w.Code, w.Body, w.Header().Get("Allow"))
	}
}

func TestAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secondToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVE_TEST_TOKEN", firstToken)
	bearers := []*secret.Rotating{secret.Reference("{env.SERVE_TEST_TOKEN}").Rotating(nil), secret.Reference("{file." + file + "}").Rotating(nil)}
	unset := []*secret.Rotating{secret.Reference("{env.SERVE_TEST_UNSET}").Rotating(nil)}
	verified := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	sent := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}} // and not verified
	latest := new(bundle.Latest)
	latest.Set(packed("some bytes", 1))
	for _, test := range []struct {
		name          string
		handler       Handler
		authorization []string
		tls           *tls.ConnectionState
		code          string // of the error; empty: the bundle
	}{
		{"nothing", Handler{Bearer: bearers}, nil, nil, "invalid_api_key"},
		{"the first token", Handler{Bearer: bearers}, []string{"Bearer " + firstToken}, nil, ""},
		{"the second token", Handler{Bearer: bearers}, []string{"bearer " + secondToken}, nil, ""},
		{"a part of a token", Handler{Bearer: bearers}, []string{"Bearer " + firstToken[:19]}, nil, "invalid_api_key"},
		{"another token", Handler{Bearer: bearers}, []string{"Bearer the-third-token-0003"}, nil, "invalid_api_key"},
		{"two tokens", Handler{Bearer: bearers}, []string{"Bearer " + firstToken, "Bearer " + secondToken}, nil, "invalid_api_key"},
		{"another scheme", Handler{Bearer: bearers}, []string{"Basic " + firstToken}, nil, "invalid_api_key"},
		{"a token that is unset, and none", Handler{Bearer: unset}, nil, nil, "invalid_api_key"},
		{"a token that is unset, and an empty one", Handler{Bearer: unset}, []string{"Bearer "}, nil, "invalid_api_key"},
		{"a certificate in place of a token", Handler{Bearer: bearers}, nil, verified, "invalid_api_key"},
		{"a certificate", Handler{ClientCertificate: true}, nil, verified, ""},
		{"no certificate", Handler{ClientCertificate: true}, nil, new(tls.ConnectionState), "key_not_allowed"},
		{"a certificate that was not verified", Handler{ClientCertificate: true}, nil, sent, "key_not_allowed"},
		{"no TLS", Handler{ClientCertificate: true}, []string{"Bearer " + firstToken}, nil, "key_not_allowed"},
		{"either, by certificate", Handler{Bearer: bearers, ClientCertificate: true}, nil, verified, ""},
		{"either, by token", Handler{Bearer: bearers, ClientCertificate: true}, []string{"Bearer " + firstToken}, new(tls.ConnectionState), ""},
		{"either, and neither", Handler{Bearer: bearers, ClientCertificate: true}, nil, new(tls.ConnectionState), "invalid_api_key"},
		{"open", Handler{Open: true}, nil, nil, ""},
		{"nobody", Handler{}, []string{"Bearer "}, nil, "key_not_allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/bundle.tar.gz", nil)
			r.Header["Authorization"], r.TLS = test.authorization, test.tls
			test.handler.Latest = latest
			w := httptest.NewRecorder()
			test.handler.ServeHTTP(w, r)
			if test.code != "" {
				gatewaytest.CheckError(t, gatewaytest.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, test.code, "")
			} else if w.Code != 200 || w.Body.String() != "some bytes" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if cache := w.Header().Get("Cache-Control"); test.code == "" && !test.handler.Open && cache != "private, no-cache, no-transform" {
				t.Errorf("a cache may keep it for others: %s", cache)
			}
		})
	}
}

func TestWaitOf(t *testing.T) {
	for _, test := range []struct {
		prefer []string
		want   time.Duration
	}{
		{nil, 0},
		{[]string{"wait=20"}, 20 * time.Second},
		{[]string{"modes=snapshot,delta;wait=60"}, time.Minute},
		{[]string{"respond-async, Wait = \"30\""}, 30 * time.Second},
		{[]string{"return=minimal", "wait=5"}, 5 * time.Second},
		{[]string{"wait=86400"}, maxWait},
		{[]string{"wait=4294967296"}, maxWait},
		{[]string{"wait"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=soon"}, 0},
		{[]string{"awaits=5"}, 0},
	} {
		if got := waitOf(test.prefer); got != test.want {
			t.Errorf("%q: %s, want %s", test.prefer, got, test.want)
		}
	}
}

func FuzzWaitOf(f *testing.F) {
	f.Add("modes=snapshot,delta;wait=60", `wait="1"`)
	f.Fuzz(func(t *testing.T, first, second string) {
		if wait := waitOf([]string{first, second}); wait < 0 || wait > maxWait {
			t.Errorf("%q, %q: %s", first, second, wait)
		}
	})
}

// TestWaiting has requests wait for another bundle, and looks when they are answered, and
// how.
func TestWaiting(t *testing.T) {
	old, other := packed("old", 1), packed("other", 2)
	for _, test := range []struct {
		name   string
		first  *bundle.Bundle
		wait   string
		do     func(h *Handler, stop, leave func()) // after 10 s
		status int
		took   time.Duration
	}{
		{"none comes", old, "wait=60", nil, 304, time.Minute},
		{"no wait", old, "", nil, 304, 0},
		{"another comes", old, "wait=60", func(h *Handler, _, _ func()) { h.Latest.Set(other) }, 200, 10 * time.Second},
		{"the same bytes come", old, "wait=60", func(h *Handler, _, _ func()) { h.Latest.Set(packed("old", 1)) }, 304, time.Minute},
		{"the gateway stops", old, "wait=60", func(_ *Handler, stop, _ func()) { stop() }, 304, 10 * time.Second},
		{"the caller leaves", old, "wait=60", func(_ *Handler, _, leave func()) { leave() }, 304, 10 * time.Second},
		{"longer than the bound", old, "wait=86400", nil, 304, maxWait},
		{"another is there", other, "wait=60", nil, 200, 0},
		{"there is none", nil, "wait=60", nil, 503, firstWait},
		{"there is none, without wait", nil, "", nil, 503, firstWait},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopping, stop := context.WithCancel(t.Context())
				ctx, leave := context.WithCancel(t.Context())
				defer stop()
				defer leave()
				h := &Handler{Latest: new(bundle.Latest), Open: true, Stopping: stopping.Done()}
				if test.first != nil {
					h.Latest.Set(test.first)
				}
				if test.do != nil {
					time.AfterFunc(10*time.Second, func() { test.do(h, stop, leave) })
				}
				began := time.Now()
				w := ask(ctx, h, "GET", http.Header{"If-None-Match": {old.Tag()}, "Prefer": {test.wait}})
				if took := time.Since(began); w.Code != test.status || took != test.took {
					t.Errorf("%d after %s, want %d after %s", w.Code, took, test.status, test.took)
				}
				if w.Code == 200 && w.Body.String() != "other" {
					t.Errorf("the body is %q", w.Body)
				}
				if w.Code == 503 && w.Header().Get("Retry-After") != "5" {
					t.Errorf("503 with Retry-After %q", w.Header().Get("Retry-After"))
				}
			})
		})
	}
}

// pipes is a listener in memory, so that a server runs in simulated time.
type pipes struct {
	conns  chan net.Conn
	closed sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, open := <-p.conns; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	p.closed.Do(func() { close(p.conns) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// dial connects to the server.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// TestTimeoutsOfAServer has a poll wait for longer than the server gives others.
func TestTimeoutsOfAServer(t *testing.T) {
	for protocol := 1; protocol <= 2; protocol++ {
		synctest.Test(t, func(t *testing.T) {
			h := &Handler{Latest: new(bundle.Latest), Open: true}
			b := packed("some bytes", 1)
			h.Latest.Set(b)
			listener := &pipes{conns: make(chan net.Conn)}
			server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
			server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
			server.EnableHTTP2 = protocol == 2
			server.TLS = &tls.Config{SessionTicketsDisabled: true} // which nobody reads from a pipe
			server.StartTLS()
			defer server.Close()
			defer server.Client().CloseIdleConnections()
			server.Client().Transport.(*http.Transport).DialContext = listener.dial
			request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("If-None-Match", b.Tag())
			request.Header.Set("Prefer", "wait=60")
			began := time.Now()
			response, err := server.Client().Do(request)
			if err != nil {
				t.Errorf("HTTP/%d: %v", protocol, err)
				return
			}
			response.Body.Close()
			if took := time.Since(began); response.StatusCode != http.StatusNotModified || took != time.Minute || response.ProtoMajor != protocol {
				t.Errorf("%s: %d after %s", response.Proto, response.StatusCode, took)
			}
		})
	}
}

// TestFirstBundle has the first bundle come while requests wait for it.
func TestFirstBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Latest: new(bundle.Latest), Open: true}
		first := packed("first", 1)
		time.AfterFunc(time.Second, func() { h.Latest.Set(first) })
		if w := ask(t.Context(), h, "GET", nil); w.Code != 200 || w.Body.String() != "first" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
