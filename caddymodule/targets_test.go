package caddymodule_test

import (
	"strings"
	"testing"
)

// TestProvidersDecideWhatTargetsNeed has definitions that need an answer of the Caddyfile,
// and removes it with a reload and with an edit.
func TestProvidersDecideWhatTargetsNeed(t *testing.T) {
	base := strings.Replace(options, "provider canned\n", "", 1)
	answering := base + "provider canned {\nanswer \"Call us.\"\n}\nprovider backup canned {\nanswer \"Later.\"\n}\n"
	files := map[string]string{
		"definitions/prompts/p.yaml":   "provider: canned\nmessages: [ { role: user, content: hello } ]\n",
		"definitions/endpoints/e.yaml": "prompt: p\nfallback: [ { provider: backup } ]\n",
	}
	g := startGateway(t, files, answering)
	says := func(want string) {
		t.Helper()
		if a := g.post("/v1/endpoints", `{"key":"e"}`); a.status != 200 || a.json(t)["content"] != want {
			t.Errorf("%d %s, want %q", a.status, a.body, want)
		}
	}
	says("Call us.")
	// A reload without the answers is refused, and the running configuration stays.
	err := g.load(base + "provider canned\nprovider backup openai {\napi_key {env.CADENZA_TEST_KEY}\n}\n")
	for _, want := range []string{
		"e.yaml:2:13: this fallback of the endpoint e has no model: name the one that backup is to call",
		"p.yaml:1:1: the variant p, which the endpoint e calls: there is nothing to answer with",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	says("Call us.")
	// The refused one has no effect: edits are checked with the running configuration.
	g.write("definitions/prompts/p.yaml", "provider: canned\nextra: { echo: true }\nmessages: [ { role: user, content: hello } ]\n")
	eventually(t, "the echo", func() bool { return g.post("/v1/endpoints", `{"key":"e"}`).json(t)["content"] == "hello" })
	g.write("definitions/prompts/p.yaml", "provider: canned\nextra: { ehco: true }\nmessages: [ { role: user, content: hello } ]\n")
	eventually(t, "the refusal", g.said("extra.ehco is not known: did you mean"))
	says("hello")
}
