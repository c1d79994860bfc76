package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestSignIn holds who may see what: a wrong key and a key without a role see the form,
// a viewer no content, an editor no export, and nobody anything after signing out or once
// the key has expired.
func TestSignIn(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	asked := g.post(http.StatusOK, "/v1/endpoints", object{"key": "support_chat", "variables": object{"question": "Is this seen by viewers?"}})
	id := traced(t, asked)
	g.stored(id)
	const question, answer = "Is this seen by viewers?", "You can return anything within 30 days."

	t.Run("no role", func(t *testing.T) {
		for name, key := range map[string]string{"a wrong key": "cadenza-key-of-nobody-01", "a key without a role": keyOf("app")} {
			b := g.newTab()
			b.visit("traces/" + id)
			b.signIn(key)
			if alert := value[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); !strings.Contains(alert, "no valid API key with a role") {
				t.Errorf("%s: the form says %q", name, alert)
			}
			b.visit("")
			if path := b.path(); !strings.HasPrefix(path, "/console/sign-in?") {
				t.Errorf("%s: then %s is open", name, path)
			}
			if got := b.fetch("GET", "api/status"); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: the API answers %d %s", name, got.Status, got.Text)
			}
			b.takeExpected("status of 403", "status of 401")
		}
	})
	t.Run("in and out", func(t *testing.T) {
		b := g.newTab()
		b.visit("traces?key=faq&since=2h")
		b.signIn(keyOf("ops"))
		if path := b.path(); path != "/console/traces?key=faq&since=2h" {
			t.Errorf("%s is open, in place of the page that was asked for", path)
		}
		if cookie := value[string](b, `document.cookie`); cookie != "" {
			t.Errorf("scripts read the cookie %s", cookie)
		}
		b.submit(`.side form[action$="sign-out"] button`)
		b.visit("traces")
		if path := b.path(); !strings.HasPrefix(path, "/console/sign-in?") {
			t.Errorf("signed out, and %s is open", path)
		}
	})
	for _, test := range []struct {
		name    string
		content bool
		export  int
	}{{"vic", false, http.StatusForbidden}, {"eve", true, http.StatusForbidden}, {"ops", true, http.StatusOK}} {
		t.Run(test.name, func(t *testing.T) {
			b := g.signedIn(test.name)
			b.visit("traces/" + id)
			page := b.html()
			if !strings.Contains(page, id) {
				t.Fatalf("this is not the trace:\n%s", page)
			}
			api := b.fetch("GET", "api/traces/"+id)
			if api.Status != http.StatusOK || !strings.Contains(api.Text, id) {
				t.Fatalf("the API answers %d %s", api.Status, api.Text)
			}
			for _, text := range []string{question, answer} {
				if strings.Contains(page, text) != test.content || strings.Contains(api.Text, text) != test.content {
					t.Errorf("%q: the page has it: %t, the API: %t", text, strings.Contains(page, text), strings.Contains(api.Text, text))
				}
			}
			if got := b.fetch("GET", "api/export"); got.Status != test.export {
				t.Errorf("export: %d %.200s, want %d", got.Status, got.Text, test.export)
			}
			if test.export == http.StatusForbidden {
				if got := b.fetch("DELETE", "api/traces?key=support_chat"); got.Status != http.StatusForbidden {
					t.Errorf("erasure: %d %s", got.Status, got.Text)
				}
				if _, kept := gatewaytest.Trace(t, g.dir+"/data/cadenza.db", id); !kept {
					t.Error("the trace was erased")
				}
			}
			b.takeExpected("status of 403")
		})
	}
	t.Run("expiry", func(t *testing.T) {
		b := g.signedIn("vic")
		g.writeKeys(roles, map[string]time.Time{"vic": time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)})
		b.eventually("the session has ended with its key", `fetch("/console/api/status").then((r) => { document.title = r.status; }), document.title == "401"`)
		b.visit("costs")
		b.signIn(keyOf("vic"))
		if alert := value[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); !strings.Contains(alert, "no valid API key") {
			t.Errorf("the key has expired, and the form says %q", alert)
		}
		b.takeExpected("status of 401", "status of 403")
	})
}
