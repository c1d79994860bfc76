package definition

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhatTargetsLack holds what makes an endpoint fail the first time that it
// needs a target: found at load, with and without the Caddyfile.
func TestWhatTargetsLack(t *testing.T) {
	const (
		silent  = "there is nothing to answer with: give extra an answer, tool_calls, fail or, to send the last message back, echo: true"
		alone   = silent + " (an answer in the Caddyfile counts where that is known)"
		noModel = " has no model: name the one that backup is to call by the member model"
	)
	configured := Providers{
		"openai": {Module: "openai"}, "canned": {Module: "canned"}, "backup": {Module: "canned", Answer: "Later."}, "quiet": {Module: "canned"},
	}
	for _, test := range []struct {
		fallback string
		// The mistakes if nothing is known of the providers, and if the
		// Caddyfile is.
		alone, known string
	}{
		{"{ provider: openai, model: m }", "", ""},
		{"{ provider: openai }", "3:5: FALLBACK has no model: name the one that openai is to call by the member model", "alone"},
		{"{ provider: openai, modle: m }", `3:25: unknown member "modle" in a fallback: did you mean "model"?`, "alone"},
		{"{ provider: canned, extra: { answer: fine } }", "", ""},
		{"{ provider: canned, extra: { answer: '' } }", "", ""},
		{"{ provider: canned, extra: { echo: true } }", "", ""},
		{"{ provider: canned, extra: { tool_calls: [ { name: f } ] } }", "", ""},
		{"{ provider: canned, extra: { fail: { status: 503 } } }", "", ""},
		{"{ provider: canned }", "3:5: FALLBACK: " + alone, "3:5: FALLBACK: " + silent},
		{"{ provider: canned, model: m, extra: { pace: 1ms } }", "3:5: FALLBACK: " + alone, "3:5: FALLBACK: " + silent},
		{"{ provider: canned, extra: { echo: false } }", "3:5: FALLBACK: " + alone, "3:5: FALLBACK: " + silent},
		{"{ provider: canned, extra: { fail: { times: 1 } } }", "3:5: FALLBACK: " + alone, "3:5: FALLBACK: " + silent},
		{"{ provider: canned, extra: { answer: x, anwser: y } }", `3:45: FALLBACK: extra.anwser is not known: did you mean "answer"?`, "alone"},
		{"{ provider: canned, extra: { answer: x, pace: fast } }", `3:45: FALLBACK: extra.pace must be a duration such as "20ms", at most 1m0s`, "alone"},
		// A provider with the name of another module may be canned all the
		// same.
		{"{ provider: backup, extra: { answer: x } }", "", ""},
		{"{ provider: backup }", "3:5: FALLBACK" + noModel, ""},
		{"{ provider: backup, model: any }", "", ""},
		{"{ provider: backup, model: any, extra: { anwser: x } }", "", `3:46: FALLBACK: extra.anwser is not known: did you mean "answer"?`},
		{"{ provider: backup, extra: { anwser: x } }", "3:5: FALLBACK" + noModel, `3:34: FALLBACK: extra.anwser is not known: did you mean "answer"?`},
		{"{ provider: quiet, model: any }", "", "3:5: FALLBACK: " + silent},
		// So may one that is not configured, where the Caddyfile is not known.
		{"{ provider: else, extra: { echo: true } }", "", `3:17: the provider "else", which the endpoint e calls, is not configured (configured: backup, canned, openai, quiet): add it to the cadenza block of the Caddyfile, or name another`},
		{"{ provider: opnai }", "3:5: FALLBACK has no model: name the one that opnai is to call by the member model", `3:17: the provider "opnai", which the endpoint e calls, is not configured: did you mean "openai"?`},
	} {
		dir := workspace(t, map[string]string{
			"prompts/p.yaml":   "provider: openai\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
			"endpoints/e.yaml": "prompt: p\nfallback:\n  - " + test.fallback + "\n",
		})
		if test.known == "alone" {
			test.known = test.alone
		}
		_, aloneErr := Load(dir)
		_, knownErr := Load(dir, Configuration{Providers: configured})
		for _, r := range []struct {
			err  error
			want string
		}{{aloneErr, test.alone}, {knownErr, test.known}} {
			if r.want == "" {
				if r.err != nil {
					t.Errorf("%s: %v", test.fallback, r.err)
				}
				continue
			}
			wantErrors(t, dir, r.err, "endpoints/e.yaml:"+strings.ReplaceAll(r.want, "FALLBACK", "this fallback of the endpoint e"))
		}
	}
}

// TestVariantsThatEndpointsCall holds that a variant is checked where an endpoint
// calls it, and reported once.
func TestVariantsThatEndpointsCall(t *testing.T) {
	files := map[string]string{
		"prompts/p.yaml": "default: a\nvariants:\n" +
			"  a: { provider: openai, messages: [ { role: user, content: x } ] }\n" +
			"  b: { extends: a, model: m }\n" +
			"  c: { extends: a, provider: canned, extra: { anwser: x } }\n" +
			"  d: { extends: c, extra: { answer: x } }\n",
		"prompts/fetched.yaml": "provider: openai\nmessages: [ { role: user, content: x } ]\n",
	}
	dir := workspace(t, files)
	mustLoad(t, dir) // no endpoint calls them
	for _, name := range []string{"e", "f"} {
		write(t, dir+"/endpoints/"+name+".yaml", "prompt: p\n")
	}
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`prompts/p.yaml:3:6: the variant a, which the endpoint e calls, has no model: name the one that openai is to call by the member model`,
		`prompts/p.yaml:5:47: the variant c, which the endpoint e calls: extra.anwser is not known: did you mean "answer"?`,
		`prompts/p.yaml:5:47: the variant d, which the endpoint e calls: extra.anwser is not known: did you mean "answer"?`,
	)
}

// TestMistakesLeaveNoOthersBehind checks that the missing members of a variant with
// a mistake are not reported with the mistake.
func TestMistakesLeaveNoOthersBehind(t *testing.T) {
	for text, want := range map[string]string{
		"  b: { extends: q, messages: [ { role: user, content: x } ] }\n":   `prompts/p.yaml:4:17: there is no variant "q" to extend (known: a, b)`,
		"  b: { provider: [], messages: [ { role: user, content: x } ] }\n": `prompts/p.yaml:4:18: provider must be text, this is a list`,
		"  b: 7\n": `prompts/p.yaml:4:6: a variant must be a mapping, this is "7"`,
		"  b: { provider: openai, modle: m, messages: [ { role: user, content: x } ] }\n": `prompts/p.yaml:4:26: unknown member "modle" in a variant: did you mean "model"?`,
	} {
		dir := workspace(t, map[string]string{
			"prompts/p.yaml":   "default: a\nvariants:\n  a: { provider: openai, model: m, messages: [ { role: user, content: x } ] }\n" + text,
			"endpoints/e.yaml": "prompt: p\n",
		})
		_, err := Load(dir)
		wantErrors(t, dir, err, want)
	}
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "provider: openai\nmodle: m\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml": "prompt: p\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err, `prompts/p.yaml:2:1: unknown member "modle" in a prompt: did you mean "model"?`)
}

// TestSourceOfSeveralGateways holds that a set is served where one of the gateways
// can use it.
func TestSourceOfSeveralGateways(t *testing.T) {
	endpoint := func(fallback string) map[string]string {
		return map[string]string{
			"prompts/p.yaml":   "provider: openai\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
			"endpoints/e.yaml": "prompt: p\nfallback: [ { provider: " + fallback + " } ]\n",
		}
	}
	openai := Provider{Module: "openai"}
	answers, silent := Providers{"openai": openai, "canned": {Module: "canned", Answer: "x"}}, Providers{"openai": openai, "canned": {Module: "canned"}}
	dir := workspace(t, endpoint("canned"))
	if _, err := Open(dir); err == nil {
		t.Fatal("nothing is known, and canned may be silent")
	}
	s := opened(t, dir, Configuration{Providers: answers})
	leave := s.Use(Configuration{Providers: answers})
	if err := s.Snapshot().CheckConfigured(Configuration{Providers: silent}); err == nil {
		t.Error("the silent one can use the set")
	}
	leaveSilent := s.Use(Configuration{Providers: silent})
	if err := s.Reload(); err != nil {
		t.Errorf("one of them can use it: %v", err)
	}
	leave()
	if err := s.Reload(); err == nil || strings.Contains(err.Error(), "Caddyfile") {
		t.Errorf("the silent one alone cannot: %v", err)
	}
	leaveSilent()
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "Caddyfile") {
		t.Errorf("nothing is known again: %v", err)
	}
}

func TestParseProviders(t *testing.T) {
	got, err := ParseProviders(map[string]json.RawMessage{
		"canned": json.RawMessage(`{"module":"canned","answer":"Later.","pace":1}`),
		"other":  json.RawMessage(`{"module":"other","answer":{"a":1}}`),
		"openai": json.RawMessage(`{"module":"openai"}`),
		"groq":   json.RawMessage(`{"module":"openai","base_url":"https://api.groq.com/openai/v1"}`),
		"local":  json.RawMessage(`{"module":"openai","base_url":"http://[::1]:8000/v1"}`),
		"later":  json.RawMessage(`{"module":"openai","base_url":"{env.URL}"}`),
		"azure":  json.RawMessage(`{"module":"azure","endpoint":"https://acme.openai.azure.com"}`),
		"odd":    json.RawMessage(`{"module":"anthropic","base_url":7}`),
	})
	want := Providers{
		"canned": {"canned", "Later.", ""}, "other": {"other", "", ""},
		"openai": {"openai", "", "api.openai.com"}, "groq": {"openai", "", "api.groq.com"}, "local": {"openai", "", "::1"}, "later": {"openai", "", ""},
		"azure": {"azure", "", "acme.openai.azure.com"}, "odd": {"anthropic", "", "api.anthropic.com"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	if none, err := ParseProviders(nil); none == nil || err != nil {
		t.Errorf("%v %v: a gateway without providers is known", none, err)
	}
	if _, err := ParseProviders(map[string]json.RawMessage{"x": json.RawMessage(`7`)}); err == nil || !strings.Contains(err.Error(), "provider x") {
		t.Error(err)
	}
}
