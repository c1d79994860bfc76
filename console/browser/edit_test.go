package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// placeOf returns the query of the page that edits the value at the beginning of a text of
// a file.
func (g *gateway) placeOf(file, text string) string {
	g.t.Helper()
	before, _, found := strings.Cut(g.definition(file), text)
	if !found {
		g.t.Fatalf("%s has no %q", file, text)
	}
	return fmt.Sprintf("edit?file=%s&line=%d&column=%d", file, 1+strings.Count(before, "\n"), len([]rune(before[strings.LastIndex(before, "\n")+1:]))+1)
}

func (g *gateway) definition(file string) string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, "definitions", file))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(data)
}

// reviewed opens the page of a value, writes another and reviews it.
func (b *tab) reviewed(query, text string) {
	b.t.Helper()
	b.visit(query)
	b.do(chromedp.SetValue("#text", text))
	b.submit("button[value=review]")
}

// sees fails unless the page shows all parts.
func (b *tab) sees(parts ...string) {
	b.t.Helper()
	text := value[string](b, `document.querySelector("main").innerText`)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Errorf("the page lacks %q:\n%s", part, text)
		}
	}
}

// TestEdit edits a value until the gateway serves it, is refused a broken edit in its
// place, gets a patch that applies, and meets an edit of somebody else.
func TestEdit(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	b := g.signedIn("eve")
	const banner, limits = "remoteconfigs/banner_text.yaml", "remoteconfigs/model_limits.yaml"
	before := g.definition(banner)

	b.reviewed(g.placeOf(banner, `"Willkommen`), `Hallo: "Gratis" <b>#1</b>`)
	b.sees("Before saving", `Hallo: \"Gratis\" <b>#1</b>`, `{"locale":"de`, "nothing is found", "edit files")
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	for _, size := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			b.look(size.width, size.height, scheme)
			b.picture("before-saving", size.name, scheme)
			b.check(fmt.Sprintf("before saving, %d×%d, %s", size.width, size.height, scheme))
		}
	}
	b.take() // what axe-core does is not the page's

	g.post(200, "/v1/remoteconfigs", object{"keys": []string{"banner_text"}, "context": object{"locale": "de-CH"}})
	b.submit("button[value=plan]")
	gatewaytest.Eventually(t, "the decision is stored, and planned", func() bool {
		if !strings.Contains(value[string](b, `document.querySelector("main").innerText`), "no decisions were recorded") {
			return true
		}
		b.submit("button[value=plan]")
		return false
	})
	b.sees("Plan of "+banner, "100.0 %", "Willkommen", `Hallo: \"Gratis\" <b>#1</b>`)
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	for _, size := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			b.look(size.width, size.height, scheme)
			b.picture("plan", size.name, scheme)
			b.check(fmt.Sprintf("a plan, %d×%d, %s", size.width, size.height, scheme))
		}
	}
	b.take()
	b.visit(strings.TrimPrefix(value[string](b, `document.querySelector("a[href^='/console/plan?']").getAttribute("href")`), "/console/"))
	b.sees("Plan of "+banner, "100.0 %")
	b.submit("button[value=review]")
	b.sees("Before saving", "nothing is found")

	patch := value[string](b, `(() => {
		const button = document.querySelector("button[value=patch]");
		return fetch(button.form.getAttribute("action"), {method: "POST", body: new URLSearchParams(new FormData(button.form, button))}).then((r) => r.text());
	})()`)
	if _, err := exec.LookPath("git"); err == nil {
		copied := t.TempDir()
		gatewaytest.Write(t, copied, banner, before)
		cmd := exec.Command("git", "apply")
		cmd.Dir, cmd.Stdin = copied, strings.NewReader(patch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%s", out, patch)
		}
		if applied, _ := os.ReadFile(filepath.Join(copied, banner)); !strings.Contains(string(applied), `"Hallo: \"Gratis\" <b>#1</b>"`) {
			t.Errorf("the patch makes %s", applied)
		}
	}

	b.submit("button[value=save]")
	b.sees("Saved", "is served")
	if now := g.definition(banner); strings.Count(now, "\n") != strings.Count(before, "\n") || !strings.Contains(now, `[ [de, gsw], "Hallo: \"Gratis\" <b>#1</b>" ]`) {
		t.Errorf("the file: %s", now)
	}
	if a := g.post(200, "/v1/remoteconfigs", object{"keys": []string{"banner_text"}, "context": object{"locale": "de-CH"}}); !strings.Contains(string(a.Body), `Hallo: \"Gratis\"`) {
		t.Errorf("served: %s", a.Body)
	}

	whole := g.definition(limits)
	b.reviewed(g.placeOf(limits, "enterprise,  "), "nobody")
	b.sees("Not yet.", "7:19", "nobody")
	if !value[bool](b, `document.querySelector("#text").getAttribute("aria-invalid") == "true" && document.querySelector("button[value=save]").disabled`) {
		t.Error("the broken edit is not marked, or can be saved")
	}
	if g.definition(limits) != whole {
		t.Error("a broken edit was saved")
	}

	b.visit("edit?file=" + limits)
	b.do(chromedp.SetValue("#text", "# mine\n"+whole))
	gatewaytest.Write(t, g.dir, "definitions/"+limits, "# theirs\n"+whole)
	b.submit("button[value=review]")
	b.sees("Both texts", "was changed meanwhile")
	if got := value[string](b, `document.querySelector("#now").value.slice(0, 8) + document.querySelector("#yours").value.slice(0, 6)`); got != "# theirs# mine" {
		t.Errorf("the texts are %q", got)
	}
	b.submit("button[value=review]")
	b.sees("Before saving", "# theirs", "# mine", "No answer of a row changes.")
	if g.definition(limits) != "# theirs\n"+whole {
		t.Error("the conflict wrote something")
	}

	b.visit("edit?file=" + banner)
	b.do(chromedp.Evaluate[chromedp.Void](`window.former = true, dispatchEvent(new Event("x")), document.querySelector("#text").dispatchEvent(new KeyboardEvent("keydown", {key: "s", ctrlKey: true, bubbles: true}))`))
	b.eventually("Ctrl+S reviews", `!window.former && document.querySelector("main").innerText.includes("this changes nothing")`)
}

// TestWords writes a file with the words that the gateway offers.
func TestWords(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	b := g.signedIn("eve")
	b.visit("edit?file=prompts/support_reply.yaml")
	typed := func(text string) {
		t.Helper()
		b.do(chromedp.SendKeys("#text", text))
	}
	shown := func(what, words string) {
		t.Helper()
		b.eventually(what, `[...document.querySelectorAll("#words:not([hidden]) li")].map((li) => li.firstChild.data.trim()).join() === `+strconv.Quote(words))
	}
	ends := func(text string) {
		t.Helper()
		if got := value[string](b, `document.querySelector("#text").value`); !strings.HasSuffix(got, text) {
			t.Errorf("the text ends with %q, not with %q", got[max(len(got)-40, 0):], text)
		}
	}
	b.do(chromedp.Evaluate[chromedp.Void](`{ const text = document.querySelector("#text"); text.setSelectionRange(text.value.length, text.value.length); }`))
	typed("\nmax_t")
	shown("names are offered", "max_tokens")
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	b.check("with the list open")
	b.take() // what axe-core does is not the page's
	typed(kb.ArrowDown)
	if got := value[string](b, `document.getElementById(document.querySelector("#text").getAttribute("aria-activedescendant")).textContent`); !strings.HasPrefix(got, "max_tokens ") {
		t.Errorf("%q is chosen", got)
	}
	// By itself: SendKeys would send the character after a key that the page has taken.
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#text").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}))`))
	ends("\nmax_tokens: ")
	typed("5\nprovider: o")
	shown("providers are offered", "openai")
	typed(kb.Escape + "penai\n")
	ends("openai\n")
	shown("nothing is offered", "")
	typed("# plan")
	shown("in a comment nothing is offered", "")
	typed("\nconstructor: a")
	shown("what every object has is no value", "")
	typed("\npla")
	shown("fields of the data model are offered", "plan")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#text").setSelectionRange(3, 3)`))
	shown("elsewhere nothing is offered", "")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#text").setSelectionRange(1e6, 1e6)`))
	typed("n" + kb.Backspace)
	shown("they are offered again", "plan")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#words li").dispatchEvent(new MouseEvent("mousedown", {bubbles: true, cancelable: true}))`))
	ends("\nplan: ")
	b.submit("button[value=review]")
	b.sees("Before saving")
}

// TestServeAgain has an admin serve the revision before an edit again.
func TestServeAgain(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	const banner = "remoteconfigs/banner_text.yaml"
	before := g.definition(banner)
	b := g.signedIn("ops")
	b.reviewed(g.placeOf(banner, `"Willkommen`), "Hallo")
	b.submit("button[value=save]")
	b.sees("Saved")
	compare := ""
	gatewaytest.Eventually(t, "both revisions are stored", func() bool {
		b.visit("revisions")
		compare = value[string](b, `document.querySelector("td a")?.getAttribute("href") ?? ""`)
		return compare != ""
	})
	b.visit(strings.TrimPrefix(compare, "/console/"))
	b.sees("Hallo", "edited here by")
	b.submit("main button[value=review]")
	b.sees("Before saving", "the files become those of", "Hallo", "Willkommen")
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	for _, size := range sizes {
		b.look(size.width, size.height, "light")
		b.check("serving again, " + size.name)
	}
	b.take() // what axe-core does is not the page's
	b.submit("button[value=save]")
	b.sees("Saved", "is served")
	if now := g.definition(banner); now != before {
		t.Errorf("the file: %s", now)
	}
}
