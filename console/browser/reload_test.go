package browser

import (
	"strings"
	"testing"
)

// hurried has pages look for news every 200 ms, in place of every 10 s.
const hurried = `{ const wait = window.setInterval; window.setInterval = (f, ms) => wait(f, Math.min(ms, 200)); }`

// TestReloadAndRestart keeps a console open while the gateway gets another configuration,
// is away, comes back, and no longer gives the visitor's key a role.
func TestReloadAndRestart(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	b := g.newTab()
	b.inject(hurried)
	b.visit("")
	b.signIn(keyOf("ops"))

	g.load("api_key second {env.CADENZA_TEST_KEY}")
	b.eventually("the open page shows the new key", `document.querySelector("main").innerText.includes("second")`)
	b.visit("definitions")
	if path := b.path(); path != "/console/definitions" {
		t.Fatalf("after a reload %s is open", path)
	}

	b.visit("")
	g.stop()
	b.eventually("the page says that it is old", `document.body.classList.contains("stale")`)
	g.load("")
	b.eventually("the page has caught up", `!document.body.classList.contains("stale") && !document.querySelector("main").innerText.includes("second")`)
	b.visit("traces")
	if path := b.path(); path != "/console/traces" {
		t.Fatalf("after a restart %s is open", path)
	}
	b.takeExpected("ERR_CONNECTION", "ERR_EMPTY_RESPONSE")

	g.writeKeys(map[string]string{"ops": "", "eve": "editor", "app": ""}, nil)
	b.eventually("the session has ended", `fetch("/console/api/status").then((r) => { document.title = r.status; }), document.title == "401"`)
	b.visit("traces")
	if path := b.path(); !strings.HasPrefix(path, "/console/sign-in?") {
		t.Errorf("the key has no role, and %s is open", path)
	}
	b.takeExpected("status of 401")
}
