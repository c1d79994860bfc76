package upstream

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

func TestHost(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.example.com/v1":       "api.example.com:443",
		"https://API.Example.com:443/v2":   "api.example.com:443",
		"https://api.example.com./v1":      "api.example.com:443",
		"http://api.example.com":           "api.example.com:80",
		"https://api.example.com:8443/v1/": "api.example.com:8443",
		"http://127.0.0.1:11434/v1":        "127.0.0.1:11434",
		"https://[::1]/v1":                 "[::1]:443",
	} {
		u, err := ParseBaseURL(base)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewClient(Config{BaseURL: u})
		if err != nil {
			t.Fatal(err)
		}
		if c.Host() != want {
			t.Errorf("%s: %s, want %s", base, c.Host(), want)
		}
	}
}

// TestIdleConnectionsFitTheReserve holds three clients' idle connections to the
// part of the descriptors that callers and calls leave, next to two dozen
// files.
func TestIdleConnectionsFitTheReserve(t *testing.T) {
	for descriptors := 1024; descriptors <= 1<<20; descriptors *= 2 {
		process := inflight.DefaultProcess(descriptors)
		left := descriptors - process - inflight.MaxConnections(descriptors, process)
		if idle := 3 * idleConnections(descriptors); idle+24 > left {
			t.Errorf("of %d descriptors %d are left for %d idle connections", descriptors, left, idle)
		}
	}
	// If they suffice there are as many as calls that may be in flight.
	if n := idleConnections(1 << 20); n != 1536 || n != (inflight.Limits{}).WithDefaults(1<<20).Host {
		t.Errorf("%d idle connections where there is room", n)
	}
}
