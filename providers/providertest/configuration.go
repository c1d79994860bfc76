package providertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Caddyfile is a provider's block in a Caddyfile.
type Caddyfile = struct {
	// Input is the block. Want is the JSON that it is adapted to, or Err part
	// of the error.
	Input, Want, Err string
}

// CheckCaddyfile checks how blocks are adapted. Parse makes a module of a block:
// new(Module), after its UnmarshalCaddyfile with caddyfile.NewTestDispenser.
// Where the error is that a secret "must be a reference", the error must not
// repeat the secret, which is the last word of the block.
func CheckCaddyfile(t *testing.T, parse func(input string) (module any, err error), tests []Caddyfile) {
	t.Helper()
	for _, test := range tests {
		module, err := parse(test.Input)
		if test.Err != "" {
			if err == nil || !strings.Contains(err.Error(), test.Err) {
				t.Errorf("%s\nerror %v, want %q", test.Input, err, test.Err)
			}
			words := strings.Fields(strings.Trim(test.Input, " \n}"))
			if err != nil && test.Err == "must be a reference" && strings.Contains(err.Error(), words[len(words)-1]) {
				t.Errorf("the error repeats the literal: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s\n%v", test.Input, err)
		}
		got, err := json.Marshal(module)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.Want, string(got)); diff != "" {
			t.Errorf("%s\n%s", test.Input, diff)
		}
	}
}

// Provisioning is a module of type M as it is configured.
type Provisioning[M any] = struct {
	Name   string
	Module M
	// Err is part of the error of the module's Provision, Unavailable part of
	// why the provisioned module takes no requests. Empty means none.
	Err         string
	Unavailable string
}

// CheckProvision checks what becomes of configurations. No error may have secret
// in it, and a provider that says that it is unavailable must not answer req.
func CheckProvision[M any, P interface {
	*M
	providers.Provider
}](t *testing.T, secret string, req *providers.Request, provision func(t *testing.T, m P) error, tests []Provisioning[M]) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			m := P(&test.Module)
			err := provision(t, m)
			if (err == nil) != (test.Err == "") || err != nil && !strings.Contains(err.Error(), test.Err) {
				t.Fatalf("error %v, want %q", err, test.Err)
			}
			if err != nil {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds the key: %v", err)
				}
				return
			}
			reason := providers.Availability(m)
			if (reason == nil) != (test.Unavailable == "") || reason != nil && !strings.Contains(reason.Error(), test.Unavailable) {
				t.Errorf("unavailable: %v, want %q", reason, test.Unavailable)
			}
			if reason != nil {
				if _, err := m.Invoke(t.Context(), req); err == nil {
					t.Error("a provider without its key answers")
				}
			}
		})
	}
}
