package gateway

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/providers"
)

type hostless struct{ providers.Provider }

type hosted struct{ hostless }

func (hosted) Host() string { return "api.example.com:443" }

// TestProviderWithoutAHostCountsForItself tests providers of third parties.
func TestProviderWithoutAHostCountsForItself(t *testing.T) {
	if hostOf("one", "acme", hostless{}) == hostOf("two", "acme", hostless{}) || hostOf("one", "acme", hostless{}) == "" {
		t.Error("two providers of a name share a ceiling, or have none")
	}
	if hostOf("one", "a", hosted{}) != hostOf("two", "b", hosted{}) {
		t.Error("two providers at a host do not share its ceiling")
	}
}

// TestFull tests the check of a call's targets before the call is recorded.
func TestFull(t *testing.T) {
	const host = "full.example.com:443"
	process := NewProcess()
	process.calls.EnterHost(host, inflight.HostLimit{Max: 1})
	at := func(host string) invoke.Target { return invoke.Target{Provider: hosted{}, Host: host} }
	for _, test := range []struct {
		name    string
		targets []invoke.Target
		want    inflight.Ceiling
	}{
		{"full", []invoke.Target{at(host)}, inflight.OfHost},
		{"both full", []invoke.Target{at(host), at(host)}, inflight.OfHost},
		{"one has a place", []invoke.Target{at(host), at("free.example.com:443")}, inflight.None},
		{"one has no network", []invoke.Target{at(host), at("")}, inflight.None},
		{"the other is not configured", []invoke.Target{at(host), {}}, inflight.OfHost},
		{"none is configured", []invoke.Target{{}}, inflight.None},
		{"unknown yet", nil, inflight.None},
	} {
		if got := process.full(test.targets, inflight.HostLimit{Max: 1}); got != test.want {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}
