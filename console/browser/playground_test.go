package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// halting answers as shop, but for streams with CUT in the question, which break off, and
// with HANG, which go on until their caller leaves.
func halting(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	cut, hang := bytes.Contains(body, []byte("CUT")), bytes.Contains(body, []byte("HANG"))
	if !cut && !hang {
		r.Body = io.NopCloser(bytes.NewReader(body))
		shop(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, gatewaytest.Chunk("Your parcel <b>", ""))
	_ = http.NewResponseController(w).Flush()
	if cut {
		panic(http.ErrAbortHandler)
	}
	<-r.Context().Done()
}

// out returns what a column shows.
func (b *tab) out(column, name string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf(`document.querySelector('[data-column="%s"] [data-out="%s"]').textContent`, column, name))
}

// shows waits until a column's state is as wanted.
func (b *tab) shows(column, state string) {
	b.t.Helper()
	b.eventually(column+" is "+state, fmt.Sprintf(`document.querySelector('[data-column="%s"] [data-out="state"]').textContent.startsWith("%s")`, column, state))
}

// TestPlayground asks in two columns, changes a text, stops a stream, has one cut, and
// opens a trace in the playground.
func TestPlayground(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, halting)
	b := g.signedIn("eve")
	b.visit("playground?endpoint=support_chat&a.variant=en&b.variant=nl&b.target=openai%2Fgpt-6-luna&two=1")
	b.do(
		chromedp.SetValue(`[name="variable.question"]`, "Where is it?"),
		chromedp.SetValue(`[name="b.text.0"]`, "Je bent kort."),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("form.playground").dispatchEvent(new Event("change"))`),
	)
	b.eventually("the most is known", `document.querySelector('[data-column="b"] [data-out="most"]').textContent.includes("at most")`)
	if most := b.out("a", "most"); !strings.Contains(most, "openai/gpt-6-luna or canned may use at most ") {
		t.Errorf("most: %s", most)
	}
	if test := value[string](b, `document.querySelector('[data-out="test"]').textContent`); !strings.Contains(test, `context: {}, rule: "default" }`) {
		t.Errorf("test: %s", test)
	}
	ask := chromedp.Evaluate[chromedp.Void](`document.querySelector('[value="ask"]').click()`)
	b.do(ask)
	for _, column := range []string{"a", "b"} {
		b.shows(column, "stop")
		if text := b.out(column, "text"); text != "Your parcel left our warehouse on Tuesday, and arrives tomorrow." {
			t.Errorf("%s: %q", column, text)
		}
		if cost, tokens, first := b.out(column, "cost"), b.out(column, "tokens"), b.out(column, "first"); !strings.HasPrefix(cost, "$") || tokens != "1204 + 311" || first == "" {
			t.Errorf("%s: cost %s, tokens %s, first token %s", column, cost, tokens, first)
		}
	}
	if said := value[string](b, `document.querySelector('[data-out="said"]').textContent`); !strings.Contains(said, ": stop in ") {
		t.Errorf("the live region: %q", said)
	}
	id := value[string](b, `document.querySelector('[data-column="b"] [data-out="trace"]').href.split("/").pop()`)
	g.stored(id)
	if record, _ := gatewaytest.Trace(t, g.dir+"/data/cadenza.db", id); record.APIKey != "console:eve" || !strings.Contains(string(record.Messages), "Je bent kort.") {
		t.Errorf("%s: %s", record.APIKey, record.Messages)
	}

	b.do(chromedp.SetValue(`[name="variable.question"]`, "HANG"), ask)
	b.shows("a", "streaming")
	b.shows("b", "streaming")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-column="a"] [data-out="stop"]').click()`))
	b.shows("a", "stopped")
	b.do(chromedp.KeyEvent("\x1b"), chromedp.Evaluate[chromedp.Void](`document.querySelector("play-ground").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }))`))
	b.shows("b", "stopped")
	if text := b.out("a", "text"); text != "Your parcel <b>" {
		t.Errorf("after a stop: %q", text)
	}

	b.do(chromedp.SetValue(`[name="variable.question"]`, "CUT"), ask)
	b.shows("a", "failed: ")
	if text := b.out("a", "text"); text != "Your parcel <b>" {
		t.Errorf("after a cut: %q", text)
	}
	b.do(chromedp.SetValue(`[name="b.text.0"]`, "{{nobody}}"), ask)
	b.eventually("the second is refused", `document.querySelector('[data-column="b"] [data-out="problem"]').textContent.includes("{{nobody}} is not declared")`)
	b.takeExpected("status of 400")

	b.visit("traces/" + id)
	b.submit(`a[href*="playground?trace="]`)
	if filled := value[string](b, `document.querySelector('[name="variable.question"]').value + document.querySelector('[name="a.variant"]').value`); filled != "Where is it?nl" {
		t.Errorf("from a trace: %q", filled)
	}
}
