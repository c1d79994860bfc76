package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestProvidersNameTheirHost checks that each linked provider module reports the host that it
// calls: otherwise two of them at one host would not share its ceiling.
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

// TestCeilingsAreProvisioned sets some ceilings, and checks the others, which depend on them.
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
		a := &App{InFlight: test.process, Workspaces: map[string]*Workspace{"ceilings": w}, logger: zap.NewNop()}
		err := a.provisionInFlight()
		if (err != nil) != (test.want == inflight.Limits{}) {
			t.Errorf("%s: %v", test.name, err)
		} else if err == nil && w.config.InFlight != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, w.config.InFlight, test.want)
		}
	}
}
