package browser

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// flagPage is a page of an app that reads flags by OpenFeature's SDK and a version of its
// provider, as npm installs them.
const flagPage = `<!doctype html>
<link rel="icon" href="data:,">
<script type="importmap">{"imports": {
	"@openfeature/core": "/node_modules/@openfeature/core/dist/esm/index.js",
	"@openfeature/web-sdk": "/node_modules/@openfeature/web-sdk/dist/esm/index.js",
	"@openfeature/ofrep-core": "/node_modules/{provider}/node_modules/@openfeature/ofrep-core/index.esm.js",
	"@openfeature/ofrep-web-provider": "/node_modules/{provider}/index.esm.js"
}}</script>
<script type="module">
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature, ProviderEvents } from "@openfeature/web-sdk";

const flags = OpenFeature.getClient();
const events = [];
for (const name of Object.values(ProviderEvents)) flags.addHandler(name, () => events.push(name));
const provider = new OFREPWebProvider({ baseUrl: "http://{gateway}", headers: [["Authorization", "Bearer {key}"]] });
const started = OpenFeature.setProviderAndWait(provider, { targetingKey: "c-1", plan: "free" }).then(() => "ready", String);
Object.assign(window, { OpenFeature, flags, events, started });
</script>
`

// flagDefinitions are flags of which one is not for pages.
var flagDefinitions = map[string]string{
	"definitions/context.yaml": "targeting_key: customer\nfields:\n  customer: string\n  plan: { type: string, values: [free, pro] }\n",
	"definitions/remoteconfigs/banner.yaml": `
type: string
client: true
default: Welcome!
columns: [ plan, value ]
matrix:
  - [ pro, "Welcome, pro!" ]
`,
	"definitions/remoteconfigs/internal.yaml": "type: string\ndefault: internal\n",
}

// app is a server of the page on an origin of its own, for a version of the provider.
func (g *gateway) app(provider string) (origin string) {
	g.t.Helper()
	modules := filepath.Join(filepath.Dir(axeScript), "..")
	if _, err := os.Stat(filepath.Join(modules, provider)); err != nil {
		g.t.Fatalf("%v: run npm ci --prefix testdata/clients", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/node_modules/", http.StripPrefix("/node_modules/", http.FileServer(http.Dir(modules))))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.NewReplacer("{gateway}", g.address, "{provider}", provider, "{key}", keyOf("page")).Replace(flagPage))
	})
	server := httptest.NewServer(mux)
	g.t.Cleanup(server.Close)
	return server.URL
}

// writePageKey writes the keys file with a client key for the pages of an origin.
func (g *gateway) writePageKey(origin string, revoked bool) {
	g.t.Helper()
	gatewaytest.Write(g.t, g.dir, "keys.json", fmt.Sprintf(`[{"name":"page","sha256":"%x","kind":"client","origins":[%q],"revoked":%t}]`, sha256.Sum256([]byte(keyOf("page"))), origin, revoked))
}

// fromPage sends a request as a browser does for a page of an origin.
func (g *gateway) fromPage(method, path, origin string) gatewaytest.Answer {
	g.t.Helper()
	header := http.Header{"Origin": {origin}}
	switch method {
	case http.MethodOptions:
		header.Set("Access-Control-Request-Method", http.MethodPost)
	case http.MethodPost:
		header.Set("Authorization", "Bearer "+keyOf("page"))
	}
	return gatewaytest.Do(g.t, &http.Client{Transport: toAddress(g.address)}, method, path, "{}", header)
}

// flagsFor waits until a page of an origin gets flags, and returns the path of its stream.
func (g *gateway) flagsFor(origin string) (stream string) {
	g.t.Helper()
	var a gatewaytest.Answer
	gatewaytest.Eventually(g.t, "the key is read", func() bool {
		a = g.fromPage(http.MethodPost, "/ofrep/v1/evaluate/flags", origin)
		return a.Status == http.StatusOK
	})
	var answer struct {
		EventStreams []struct{ Endpoint struct{ RequestURI string } }
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil || len(answer.EventStreams) != 1 || a.Header.Get("Access-Control-Allow-Origin") != origin {
		g.t.Fatalf("%v %s: %v", a.Header, a.Body, err)
	}
	return answer.EventStreams[0].Endpoint.RequestURI
}

// flagTab is a tab with the page, and what the gateway answered it, without preflights.
type flagTab struct {
	*tab
	mu      sync.Mutex
	answers map[string]int // how many, by path and status
}

// openFlags opens the page of an origin and returns how its provider started.
func (g *gateway) openFlags(origin string) (b *flagTab, started string) {
	g.t.Helper()
	b = &flagTab{tab: g.newTab(), answers: map[string]int{}}
	b.elsewhere = strings.TrimPrefix(origin, "http://")
	b.must(chromedp.Listen(b.ctx, func(event any) {
		e, ok := event.(*network.EventResponseReceived)
		if !ok || e.Type == network.ResourceTypePreflight {
			return
		}
		if u, err := url.Parse(e.Response.URL); err == nil && u.Host == g.address {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answers[fmt.Sprint(u.Path, " ", e.Response.Status)]++
		}
	}))
	b.do(chromedp.Navigate(origin))
	return b, value[string](b.tab, "started")
}

// The answers with flags, the answer that they have not changed, and the streams.
const (
	changedFlags = "/ofrep/v1/evaluate/flags 200"
	sameFlags    = "/ofrep/v1/evaluate/flags 304"
	flagStreams  = "/ofrep/v1/events 200"
)

// answered waits until the page got so many answers of a kind.
func (b *flagTab) answered(what string, n int) {
	b.t.Helper()
	gatewaytest.Eventually(b.t, fmt.Sprintf("%d times %s", n, what), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.answers[what] >= n
	})
}

// answeredAll fails unless the page got these answers, and no others.
func (b *flagTab) answeredAll(step string, changed, same, streams int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	got := []int{b.answers[changedFlags], b.answers[sameFlags], b.answers[flagStreams]}
	if want := []int{changed, same, streams}; fmt.Sprint(got) != fmt.Sprint(want) || len(b.answers) > 3 {
		b.t.Errorf("%s: answers with flags, without, and streams: %v, want %v; all: %v", step, got, want, b.answers)
	}
}

// shows waits until the page reads a value of the flag.
func (b *flagTab) shows(step, want string) {
	b.t.Helper()
	b.eventually(step+": "+want, fmt.Sprintf(`flags.getStringValue("banner", "none") === %q`, want))
}

// told waits until the provider has said once more that flags have changed, which it does
// when it has kept the answer.
func (b *flagTab) told(step string) {
	b.t.Helper()
	b.eventually(step+": the app is told", `(() => {
		const at = events.indexOf("PROVIDER_CONFIGURATION_CHANGED");
		return at >= 0 && events.splice(at, 1).length === 1;
	})()`)
}

// TestOpenFeatureInPage reads flags in a page of another origin by OpenFeature's SDK for
// browsers: an edit arrives, without polling and on the stream that is open already, a 304
// leaves the values, a change of context gets others, and a revoked key ends the stream.
func TestOpenFeatureInPage(t *testing.T) {
	needBrowser(t)
	for _, tt := range []struct {
		provider string
		cached   bool // a page that is loaded again has a stream though its flags have not changed
	}{
		// npm has no 0.4.2.
		{"ofrep-web-provider-0.4.1", false},
		{"ofrep-web-provider-0.4.3", true},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			if now := time.Now(); now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now) < 5*time.Minute {
				t.Skip("NOT TESTED: at midnight in UTC the addresses of streams change, and with them the tags of answers")
			}
			g := startGateway(t, flagDefinitions, shop)
			origin := g.app(tt.provider)
			g.writePageKey(origin, false)
			g.flagsFor(origin)
			file := flagDefinitions["definitions/remoteconfigs/banner.yaml"]
			edit := func(text string) {
				t.Helper()
				gatewaytest.Write(t, g.dir, "definitions/remoteconfigs/banner.yaml", strings.Replace(file, "Welcome", text, 2))
			}

			b, started := g.openFlags(origin)
			if started != "ready" {
				t.Fatalf("the provider: %s", started)
			}
			b.shows("at first", "Welcome!")
			if got := value[string](b.tab, `flags.getStringValue("internal", "none")`); got != "none" {
				t.Errorf("a flag that is not for pages is %q", got)
			}
			b.answered(flagStreams, 1)

			edit("Hello")
			b.shows("after an edit", "Hello!")
			b.told("after an edit")

			again := func(n int) { // as when the visitor comes back to the tab
				t.Helper()
				b.do(chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new Event("visibilitychange"))`))
				b.answered(sameFlags, n)
			}
			again(1)
			b.shows("after a 304", "Hello!")
			b.answeredAll("an edit and a 304", 2, 1, 1)

			value[bool](b.tab, `OpenFeature.setContext({ targetingKey: "c-1", plan: "pro" }).then(() => true)`)
			b.shows("in another context", "Hello, pro!")
			b.told("in another context")
			b.answered(flagStreams, 2) // the address has another state than before the edit
			edit("Salut")
			b.shows("after an edit, in that context", "Salut, pro!")
			b.told("after an edit, in that context")
			again(2)
			b.answeredAll("another context and an edit", 4, 2, 2)

			b.do(chromedp.Navigate(origin)) // its context is the first one
			b.shows("loaded again", "Salut!")
			b.told("loaded again")
			b.answered(flagStreams, 3)
			b.do(chromedp.Navigate(origin))
			b.answered(sameFlags, 3)
			b.shows("loaded again without a change", "Salut!")
			last := "Salut!"
			if tt.cached {
				b.answered(flagStreams, 4)
				edit("Hallo")
				last = "Hallo!"
				b.shows("after an edit, loaded again", last)
			} else {
				again(4)
				b.answeredAll("loaded again without a change", 5, 4, 3)
				value[bool](b.tab, `OpenFeature.setContext({ targetingKey: "c-2", plan: "free" }).then(() => true)`)
				b.answered(flagStreams, 4)
			}

			const ended = `events.includes("PROVIDER_STALE")`
			if value[bool](b.tab, ended) {
				t.Error("the stream has ended before its key was revoked")
			}
			stream := g.flagsFor(origin)
			g.writePageKey(origin, true)
			b.eventually("the stream of a revoked key ends", ended)
			if a := g.fromPage(http.MethodGet, stream, origin); a.Status != http.StatusUnauthorized {
				t.Errorf("a stream of a revoked key: %d %s", a.Status, a.Body)
			}
			b.shows("with a revoked key", last)
			b.do(chromedp.Navigate("about:blank")) // it would ask again and again
			b.takeExpected("CORS policy", "ERR_", "status of 401", "about:blank")
		})
	}
}

// TestOpenFeatureInOtherPage reads flags in a page of an origin that the key doesn't name.
func TestOpenFeatureInOtherPage(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, flagDefinitions, shop)
	const provider = "ofrep-web-provider-0.4.3"
	named, other := g.app(provider), g.app(provider)
	g.writePageKey(named, false)
	stream := g.flagsFor(named)
	for _, request := range []struct{ method, path string }{
		{http.MethodOptions, "/ofrep/v1/evaluate/flags"},
		{http.MethodPost, "/ofrep/v1/evaluate/flags"},
		{http.MethodGet, stream},
	} {
		a := g.fromPage(request.method, request.path, other)
		if allowed := a.Header.Values("Access-Control-Allow-Origin"); len(allowed) != 0 || strings.Contains(string(a.Body), "Welcome") || a.Status == http.StatusOK {
			t.Errorf("%s: %d %q %s", request.method, a.Status, allowed, a.Body)
		}
	}

	b, started := g.openFlags(other)
	if !strings.Contains(started, "The OFREP request failed") {
		t.Errorf("the provider: %s", started)
	}
	b.shows("what the app gives", "none")
	b.answeredAll("an origin that is not named", 0, 0, 0)
	opened := value[string](b.tab, fmt.Sprintf(`new Promise((resolve) => {
		const stream = new EventSource(%q);
		stream.onopen = () => resolve("open");
		stream.onerror = () => resolve("refused");
	})`, "http://"+g.address+stream))
	if opened != "refused" {
		t.Errorf("the stream is %s", opened)
	}
	b.takeExpected("CORS policy", "ERR_FAILED", "status of 403")
}
