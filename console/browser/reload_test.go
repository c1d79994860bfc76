package browser

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
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

// TestSlowPage waits for a page whose query never ends: the page before it says so, until
// the visitor does something else.
func TestSlowPage(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	b := g.signedIn("ops")
	gatewaytest.EndlessPeaks(t, gatewaytest.Database(t, filepath.Join(g.dir, "data/cadenza.db")))
	b.visit("limits")
	// The page does all by itself: it can't be asked while another is on its way.
	said := value[[]string](b, `new Promise((resolve) => {
		const line = document.querySelector(".offline"), said = [];
		const note = () => said.push(getComputedStyle(line).display + ": " + line.textContent);
		setTimeout(() => {
			note();
			stop();
			document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
			note();
			resolve(said);
		}, 1500);
		// A patch was downloaded before: its page stays.
		dispatchEvent(new SubmitEvent("submit", { submitter: Object.assign(document.createElement("button"), { value: "patch" }) }));
		dispatchEvent(new Event("beforeunload"));
		location.href = "limits?subject=x";
	})`)
	if len(said) != 2 || said[0] != "block: Reading… Esc, or the browser's Stop, ends it." || said[1] != "none: " {
		t.Errorf("the page says %q", said)
	}
	b.visit("")
	if path := b.path(); path != "/console/" {
		t.Errorf("%s is open", path)
	}
}
