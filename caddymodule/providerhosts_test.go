package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestProvidersNameTheirHost holds each provider module that is linked in to
// saying which host it calls: otherwise two of them at one host would not share
// its ceiling.
func TestProvidersNameTheirHost(t *testing.T) {
	found := 0
	for _, module := range caddy.GetModules(providerNamespace) {
		provider, ok := module.New().(providers.Provider)
		if !ok {
			continue
		}
		found++
		if _, says := provider.(interface{ Host() string }); !says && !strings.HasPrefix(module.ID.Name(), "test_") {
			t.Errorf("%s has no method Host", module.ID)
		}
	}
	if found == 0 {
		t.Error("no provider is linked in")
	}
}

type hostless struct{ providers.Provider }

type hosted struct{ hostless }

func (hosted) Host() string { return "api.example.com:443" }

// TestProviderWithoutAHostCountsForItself is about providers of third parties.
func TestProviderWithoutAHostCountsForItself(t *testing.T) {
	one, two := &Workspace{name: "one"}, &Workspace{name: "two"}
	if one.hostOf("acme", hostless{}) == two.hostOf("acme", hostless{}) || one.hostOf("acme", hostless{}) == "" {
		t.Error("two providers of a name share a ceiling, or have none")
	}
	if one.hostOf("a", hosted{}) != two.hostOf("b", hosted{}) {
		t.Error("two providers at a host do not share its ceiling")
	}
}

// TestFull is about the targets of a call before anything is recorded of it.
func TestFull(t *testing.T) {
	const host = "full.example.com:443"
	inFlight.EnterHost(host, 1)
	defer inFlight.LeaveHost(host)
	at := func(host string) invoke.Target { return invoke.Target{Provider: hosted{}, Host: host} }
	for _, test := range []struct {
		name    string
		targets []invoke.Target
		want    bool
	}{
		{"full", []invoke.Target{at(host)}, true},
		{"both full", []invoke.Target{at(host), at(host)}, true},
		{"one has a place", []invoke.Target{at(host), at("free.example.com:443")}, false},
		{"one has no network", []invoke.Target{at(host), at("")}, false},
		{"the other is not configured", []invoke.Target{at(host), {}}, true},
		{"none is configured", []invoke.Target{{}}, false},
		{"unknown yet", nil, false},
	} {
		if got := full(test.targets, 1); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestCeilingsAreProvisioned gives some ceilings and finds the others by those.
func TestCeilingsAreProvisioned(t *testing.T) {
	for _, test := range []struct {
		name      string
		process   *ProcessInFlight
		workspace *InFlight
		want      inflight.Limits // zero: refused
	}{
		{"some", &ProcessInFlight{Process: 16}, &InFlight{Key: 5}, inflight.Limits{Process: 16, Workspace: 12, Key: 5, Host: 6}},
		{"all", &ProcessInFlight{Process: 16}, &InFlight{Workspace: 1, Key: 2, Host: 3}, inflight.Limits{Process: 16, Workspace: 1, Key: 2, Host: 3}},
		{"none", nil, nil, inflight.Limits{}.WithDefaults(inflight.Descriptors())},
		{"a negative process", &ProcessInFlight{Process: -1}, nil, inflight.Limits{}},
		{"a negative workspace", nil, &InFlight{Workspace: -1}, inflight.Limits{}},
		{"a negative key", nil, &InFlight{Key: -1}, inflight.Limits{}},
		{"a negative host", nil, &InFlight{Host: -1}, inflight.Limits{}},
	} {
		w := &Workspace{name: "ceilings", InFlight: test.workspace, logger: zap.NewNop()}
		a := &App{InFlight: test.process, Workspaces: map[string]*Workspace{"ceilings": w}, logger: zap.NewNop(), metrics: collectors()}
		err := a.provisionInFlight()
		if (err != nil) != (test.want == inflight.Limits{}) {
			t.Errorf("%s: %v", test.name, err)
		} else if err == nil && w.ceilings != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, w.ceilings, test.want)
		}
	}
}
