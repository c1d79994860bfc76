package providertest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TakeMemory takes all memory for answers of upstreams, as if other calls used it, and
// returns a function that releases it.
func TakeMemory(t testing.TB) (release func()) {
	t.Helper()
	var one, other providers.Held // two, because a single one is never refused
	release = func() { one.Release(); other.Release() }
	t.Cleanup(release)
	if err := one.Take(1 << 20); err != nil {
		t.Fatal(err)
	}
	for bytes := 1 << 20; bytes > 0; {
		if other.Take(bytes) != nil {
			bytes /= 2
		}
	}
	return release
}

// testMemory reads a large answer while there is no memory for it, and again when there is.
func testMemory(t *testing.T, factory Factory) {
	if factory(t, Behaviour{Fail: Silent, Status: http.StatusOK}, request(false)) == nil {
		t.Skip("the provider has no upstream, and so no answers to hold")
	}
	large := strings.Repeat("x", 1<<20)
	for _, stream := range []bool{false, true} {
		release := TakeMemory(t)
		for _, room := range []bool{false, true} {
			if room {
				release()
			}
			req := request(stream)
			s := invoke(t, factory(t, Behaviour{Words: []string{large}}, req), req)
			o := Read(s)
			s.Close()
			switch {
			case !room && !errors.Is(o.Err, providers.ErrNoRoom):
				t.Errorf("stream=%v, without memory: error %v, want one that wraps providers.ErrNoRoom", stream, o.Err)
			case room && (o.Err != nil || o.Text != large):
				t.Errorf("stream=%v: %d bytes, error %v", stream, len(o.Text), o.Err)
			}
		}
		if n := providers.HeldBytes(); n != 0 {
			t.Errorf("stream=%v: the closed answers hold %d bytes", stream, n)
		}
	}
}
