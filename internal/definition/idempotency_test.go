package definition

import "testing"

func TestIdempotency(t *testing.T) {
	for text, want := range map[string]bool{
		"":                     false,
		"idempotency: true\n":  true,
		"idempotency: false\n": false,
		"idempotency: ~\n":     false,
	} {
		if e, warnings := endpointOf(t, text); e.Idempotency != want || warnings != nil {
			t.Errorf("%q: %t, %q", text, e.Idempotency, warnings)
		}
	}
	for text, want := range map[string]string{
		"idempotency: 24h\n":   `endpoints/e.yaml:2:14: idempotency must be true or false, this is "24h"`,
		"idempotency: {}\n":    `endpoints/e.yaml:2:14: idempotency must be true or false, this is a mapping`,
		"idempotancy: false\n": `endpoints/e.yaml:2:1: unknown member "idempotancy" in an endpoint: did you mean "idempotency"?`,
	} {
		dir := workspace(t, map[string]string{
			"prompts/p.yaml":   "provider: a\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
			"endpoints/e.yaml": "prompt: p\n" + text,
		})
		_, err := Load(dir)
		wantErrors(t, dir, err, want)
	}
	with, _ := endpointOf(t, "idempotency: true\n")
	without, _ := endpointOf(t, "idempotency: false\n")
	if plain, _ := endpointOf(t, ""); with.Version == plain.Version || without.Version != plain.Version {
		t.Errorf("versions: with %s, without %s, not given %s", with.Version, without.Version, plain.Version)
	}
}
