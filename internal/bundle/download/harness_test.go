package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/trace"
)

// signer returns a new key, of those that ParseSigningKey reads.
func signer(t testing.TB) bundle.SigningKey {
	t.Helper()
	return gatewaytest.NewBundleKeys(t).Signing
}

// pack builds a bundle with one file.
func pack(t testing.TB, key bundle.SigningKey, serial int64, content string) []byte {
	t.Helper()
	return packFor(t, key, bundle.Manifest{Revision: "r" + strconv.FormatInt(serial, 10), Serial: serial}, content)
}

func packFor(t testing.TB, key bundle.SigningKey, m bundle.Manifest, content string) []byte {
	t.Helper()
	b, err := bundle.Build([]trace.File{{Path: "prompts/a.yaml", Content: content}}, m, key)
	if err != nil {
		t.Fatal(err)
	}
	return b.Packed
}

// site is a web server in memory.
type site struct {
	mu       sync.Mutex
	packed   []byte
	tag      string // its ETag; empty: none
	media    string // its Content-Type
	bare304  bool   // a 304 has no ETag
	down     error  // no answer
	answer   func(*http.Request) *http.Response
	changed  chan struct{}
	requests []seen
}

// seen is a request that came.
type seen struct {
	at     time.Time
	status int // 0 while it waits
	header http.Header
	url    string
}

func (s *site) set(packed []byte, tag string) {
	s.change(func() { s.packed, s.tag = packed, tag })
}

// change changes the site, and wakes those who wait.
func (s *site) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// bodies counts the answers that were 200.
func (s *site) bodies() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.status == http.StatusOK {
			n++
		}
	}
	return n
}

func (s *site) last() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	index := len(s.requests)
	s.requests = append(s.requests, seen{at: time.Now(), header: r.Header.Clone(), url: r.URL.String()})
	var wait <-chan time.Time
	if text, ok := strings.CutPrefix(r.Header.Get("Prefer"), "wait="); ok && s.media == bundle.MediaType {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		wait = time.After(time.Duration(seconds) * time.Second)
	}
	for {
		if s.down != nil {
			s.mu.Unlock()
			return nil, s.down
		}
		if s.answer != nil {
			answer := s.answer
			s.mu.Unlock()
			response := answer(r)
			s.mu.Lock()
			s.requests[index].status = response.StatusCode
			s.mu.Unlock()
			return response, nil
		}
		fresh := s.tag == "" || r.Header.Get("If-None-Match") != s.tag
		if fresh || wait == nil {
			response := reply(http.StatusOK, s.packed)
			if !fresh {
				response = reply(http.StatusNotModified, nil)
			}
			if s.tag != "" && (fresh || !s.bare304) {
				response.Header.Set("ETag", s.tag)
			}
			if fresh {
				response.Header.Set("Content-Type", s.media)
			}
			s.requests[index].status = response.StatusCode
			s.mu.Unlock()
			response.Request = r
			return response, nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-wait:
			wait = nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		s.mu.Lock()
	}
}

func reply(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
}

// hosts are sites by their host.
type hosts map[string]http.RoundTripper

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if h[r.URL.Host] == nil {
		return nil, fmt.Errorf("no host %s", r.URL.Host)
	}
	return h[r.URL.Host].RoundTrip(r)
}

// gateway is what serves bundles.
type gateway struct {
	*Downloader
	config   Config
	logs     *bytes.Buffer
	served   []string // contents, in their order
	refusing error    // of Activate
}

const address = "https://one.example/shop/bundle.tar.gz"

// follow makes a Downloader of a source, and of a mirror unless it is nil.
func follow(t testing.TB, key bundle.SigningKey, one, two http.RoundTripper, change ...func(*Config)) *gateway {
	t.Helper()
	g := &gateway{logs: new(bytes.Buffer)}
	g.config = Config{
		URL: address, Keys: []bundle.PublicKey{key.Public()}, Node: "node-1",
		Client: &http.Client{Transport: hosts{"one.example": one, "two.example": two}},
		File:   filepath.Join(t.TempDir(), "state", "bundle"),
		Logger: slog.New(slog.NewTextHandler(g.logs, nil)),
	}
	if two != nil {
		g.config.Mirror = "https://two.example/mirror.tar.gz"
	}
	for _, f := range change {
		f(&g.config)
	}
	g.start()
	return g
}

// start makes a Downloader, as a process that starts does.
func (g *gateway) start() {
	g.config.Activate = func(b *bundle.Bundle) error {
		if g.refusing != nil {
			return g.refusing
		}
		g.served = append(g.served, b.Files[0].Content)
		return nil
	}
	g.Downloader = New(g.config)
}

// run runs the Downloader until the test's function ends.
func (g *gateway) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	d := g.Downloader
	go func() { defer close(done); d.Run(ctx) }()
	return func() { cancel(); <-done }
}

// serves fails unless these contents were activated, in that order.
func (g *gateway) serves(t testing.TB, want ...string) {
	t.Helper()
	synctest.Wait()
	if fmt.Sprint(g.served) != fmt.Sprint(want) {
		t.Fatalf("activated %q, want %q\n%+v\n%s", g.served, want, g.Status(), g.logs)
	}
}

// pulled fails unless a pull has that result.
func (g *gateway) pulled(t testing.TB, result string) Outcome {
	t.Helper()
	o, err := g.Pull(t.Context())
	if err != nil || o.Result != result {
		t.Fatalf("%+v, %v, want %s\n%+v", o, err, result, g.Status())
	}
	return o
}

func (g *gateway) restored(t testing.TB) {
	t.Helper()
	if err := g.Restore(); err != nil {
		t.Fatal(err)
	}
}

// elapse lets time go by, until all that is due then has been done.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errDown = errors.New("connection refused")
