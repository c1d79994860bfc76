package definition

import "testing"

// TestProvidersThatAreNotConfigured holds that each place that names one is reported
// once, however many variants and endpoints have it from there, and only where an
// endpoint calls it.
func TestProvidersThatAreNotConfigured(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/fetched.yaml": "provider: elsewhere\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
		"prompts/p.yaml": "default: a\nvariants:\n" +
			"  a: { provider: opnai, model: m, messages: [ { role: user, content: x } ] }\n" +
			"  b: { extends: a }\n" +
			"  c: { extends: a, provider: azure }\n" +
			"  d: { extends: a, provider: openai }\n",
		"endpoints/e.yaml": "prompt: p\n",
		"endpoints/f.yaml": "prompt: p\nfallback: [ { provider: opnai } ]\n",
	})
	if _, err := Load(dir, Configuration{Providers: Providers{"openai": {Module: "openai"}, "canned": {Module: "canned"}}}); err == nil {
		t.Fatal("no error")
	} else {
		wantErrors(t, dir, err,
			`endpoints/f.yaml:2:25: the provider "opnai", which the endpoint f calls, is not configured: did you mean "openai"?`,
			`prompts/p.yaml:3:18: the provider "opnai", which the endpoint e calls, is not configured: did you mean "openai"?`,
			`prompts/p.yaml:5:30: the provider "azure", which the endpoint e calls, is not configured (configured: canned, openai): add it to the cadenza block of the Caddyfile, or name another`)
	}
	_, err := Load(dir, Configuration{Providers: Providers{}})
	wantErrors(t, dir, err,
		`endpoints/f.yaml:2:25: the provider "opnai", which the endpoint f calls, is not configured: add it to the cadenza block of the Caddyfile, or name another`,
		`prompts/p.yaml:3:18: the provider "opnai", which the endpoint e calls, is not configured: add it to the cadenza block of the Caddyfile, or name another`,
		`prompts/p.yaml:5:30: the provider "azure", which the endpoint e calls, is not configured: add it to the cadenza block of the Caddyfile, or name another`,
		`prompts/p.yaml:6:30: the provider "openai", which the endpoint e calls, is not configured: add it to the cadenza block of the Caddyfile, or name another`)
}
