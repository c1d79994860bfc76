package gatewaytest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BundleKeys are a pair of keys for bundles.
type BundleKeys struct {
	Signing bundle.SigningKey
	Public  string // in PEM
}

// NewBundleKeys makes a pair.
func NewBundleKeys(t testing.TB) BundleKeys {
	t.Helper()
	private, public, err := bundle.MakeKeys()
	if err != nil {
		t.Fatal(err)
	}
	signing, err := bundle.ParseSigningKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return BundleKeys{signing, string(public)}
}

// BundleSource is a web server with a bundle of the scope "shops".
type BundleSource struct {
	*httptest.Server
	Keys BundleKeys

	t      testing.TB
	mu     sync.Mutex
	packed []byte // nil: every answer is 503
	header http.Header
}

// NewBundleSource starts a server that has no bundle yet.
func NewBundleSource(t testing.TB) *BundleSource {
	s := &BundleSource{t: t, Keys: NewBundleKeys(t)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers with the bundle.
func (s *BundleSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = r.Header.Clone()
	if s.packed == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	tag := (&bundle.Bundle{Packed: s.packed}).Tag()
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(s.packed)
}

// Asked returns the header of the last request.
func (s *BundleSource) Asked() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header
}

// Has has the server have a bundle of these files, with the serial and signed so.
func (s *BundleSource) Has(keys BundleKeys, serial int64, files map[string]string) {
	s.t.Helper()
	var list []trace.File
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, trace.File{Path: path, Content: files[path]})
	}
	b, err := bundle.Build(list, bundle.Manifest{Revision: fmt.Sprint("commit-", serial), Serial: serial, Scope: "shops"}, keys.Signing)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packed = b.Packed
}

// HasNothing has the server fail.
func (s *BundleSource) HasNothing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packed = nil
}
