package caddymodule_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestConsoleRollouts moves a rollout in the page, is refused, and loses the database of its
// rows.
func TestConsoleRollouts(t *testing.T) {
	const guarded = "type: string\ndefault: plain\nrules:\n  - { id: colours, split: { by: seats, guard: { new: green, control: blue, steps: [5%, 100%], every: 1h, stop: [ { value: broken, as: rate, ratio: 1.2 } ] } } }\n"
	g, text := consoleSite(t, "edit files", map[string]string{"definitions/remoteconfigs/button.yaml": guarded})
	const list, page = "/console/rollouts", "/console/rollouts/remoteconfigs/button/colours"
	viewer, editor := g.signIn("our_viewer"), g.signIn("our_editor")
	shows := func(what, path string, wants ...string) {
		t.Helper()
		eventually(t, what, func() bool {
			body := string(g.do("GET", path, "", viewer).ok(t).body)
			for _, want := range wants {
				if !strings.Contains(body, want) {
					return false
				}
			}
			return true
		})
	}
	shows("it begins", list, `<a href="`+page+`">`, "running", "5 %")
	shows("so says its page", page, "running", "needs the role editor")
	ask := func(do string, session http.Header) answer {
		return g.do("POST", page, url.Values{"do": {do}}.Encode(), form(session))
	}
	if a := ask("hold", viewer); a.status != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.status)
	}
	if a := ask("hold", nil); a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Location"), "sign-in") {
		t.Errorf("nobody: %d %v", a.status, a.header)
	}
	if a := ask("hold", editor); a.status != http.StatusSeeOther || a.header.Get("Location") != page {
		t.Errorf("an editor: %d %s", a.status, a.body)
	}
	shows("it is held", page, "held by our_editor", "asked by a person")
	shows("the definition has its share", "/console/definitions/remoteconfig/button", "green 5 %, blue 95 %", `<a href="`+page+`">rollout held</a>`)
	if body := string(g.do("GET", "/console/audit?action=rollout", "", g.signIn("our_admin")).ok(t).body); !strings.Contains(body, "hold, 5 %") || !strings.Contains(body, `<option value="rollout">`) {
		t.Error(body)
	}
	refused := func(do, why string) {
		t.Helper()
		if a := ask(do, editor); a.status != http.StatusOK || !strings.Contains(string(a.body), `role="alert"`) || !strings.Contains(string(a.body), why) || !strings.Contains(string(a.body), "held by our_editor") {
			t.Errorf("%s: %d %s", do, a.status, a.body)
		}
	}
	refused("hold", "there is nothing to hold")
	refused("<b>jump", "&lt;b&gt;jump")
	if a := g.do("POST", page+"s", url.Values{"do": {"hold"}}.Encode(), form(editor)); a.status != http.StatusNotFound {
		t.Errorf("no rollout: %d", a.status)
	}
	t.Setenv("CADENZA_TEST_DATABASE", "postgres://127.0.0.1:1/none?connect_timeout=1")
	if err := g.loadText(strings.Replace(text, "log content\n", "log content\ntrace_key {env.CADENZA_TEST_KEY}\nsink postgres {env.CADENZA_TEST_DATABASE}\n", 1)); err != nil {
		t.Fatal(err)
	}
	refused("resume", "can&#39;t be kept")
}
