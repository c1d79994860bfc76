package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// TestGatewayFieldsOfAProcess checks that a table selects another row while a provider
// cools down, also without a context; that a budget missing in the Caddyfile is reported
// as a mistake; and that the decisions can be proved afterwards.
func TestGatewayFieldsOfAProcess(t *testing.T) {
	t.Parallel()
	n := newBadNight(t)
	const (
		limits  = "\nlimit daily {\n\tby api_key\n\trequests 1000/1d\n}\nprovider canned\nprovider flaky canned {\n\tanswer fine\n}\n"
		segment = "segments: { strained: [ { health.flaky: down }, { budget.daily: 80.. } ] }\n"
	)
	n.write("definitions/context.yaml", "fields:\n  plan: { type: string, values: [free, pro] }\n"+segment)
	n.write("definitions/prompts/p.yaml", "provider: flaky\nextra: { fail: { status: 429, retry_after: \"1m\" } }\nmessages: [ { role: user, content: hello } ]\n")
	n.write("definitions/endpoints/e.yaml", "prompt: p\nretry: { count: 0 }\nfallback: [ { provider: canned, extra: { answer: later } } ]\n")
	n.write("definitions/remoteconfigs/c.yaml", "type: string\ndefault: calm\nrules: [ { id: strained, when: { segment: strained }, value: strained } ]\ntests:\n  - { context: { health.flaky: down }, value: strained }\n")
	if code, output := n.do("validate", "--config", n.caddyfile); code == 0 || !strings.Contains(output, `the provider \"flaky\"`) {
		t.Errorf("validate without the provider: %d %s", code, output)
	}
	n.configure(strings.Replace(limits, "limit daily", "limit dayly", 1))
	if code, output := n.do("validate"); code == 0 || !strings.Contains(output, `context.yaml:3:51: there is no limit \"daily\", whose share the field budget.daily is: did you mean \"dayly\"?`) {
		t.Errorf("validate with another limit: %d %s", code, output)
	}
	n.configure(limits)
	n.startWith(n.caddyfile)

	want := func(value string) {
		t.Helper()
		n.answers("/v1/remoteconfigs", `{"keys":["c"]}`, `"value":"`+value+`"`)
	}
	want("calm")
	if status, _, body, err := post(context.Background(), http.DefaultClient, n.url+"/v1/endpoints", `{"key":"e"}`); err != nil || status != http.StatusOK || !strings.Contains(body, "later") {
		t.Fatalf("%d %s %v", status, body, err)
	}
	want("strained")
	// An edit is served at once, and a limit that definitions name can't be removed.
	n.write("definitions/remoteconfigs/c.yaml", "type: string\ndefault: calm\ncolumns: [health.flaky, budget.daily, value]\nmatrix: [ [ down, ..<80, edited ] ]\n")
	want("edited")
	n.configure("\nprovider canned\nprovider flaky canned {\n\tanswer fine\n}\n")
	if code, output := n.do("reload"); code == 0 || !strings.Contains(output, "there is no limit") {
		t.Errorf("reload without the limit: %d %s", code, output)
	}
	n.configure(limits + "max_body_size 2MiB\n")
	if code, output := n.do("reload"); code != 0 {
		t.Errorf("reload: %d %s", code, output)
	}
	want("edited") // the provider's health outlives the configuration

	n.eventually("all traces are proved", func() bool {
		_, output := n.do("cadenza", "prove", "--since", "1h", "--limit", "1000")
		return strings.Contains(output, " 0 differ, 0 can't say")
	})
	if _, output := n.do("cadenza", "traces", "--key", "c", "--limit", "1", "--json"); !strings.Contains(output, `"inputs":{"budget.daily":0,"health.flaky":"down"}`) || !strings.Contains(output, `"context: none"`) {
		t.Errorf("%s", output)
	}
	n.kill()
}
