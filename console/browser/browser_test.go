package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

const (
	required  = "CADENZA_REQUIRE_BROWSER"
	axeScript = "../../testdata/clients/node_modules/axe-core/axe.min.js"
)

// browser is the context of the one Chromium of the package.
var (
	browser context.Context
	axe     string // the script
	missing string // what is not installed
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	script, err := os.ReadFile(axeScript)
	axe = string(script)
	switch {
	case program == "":
		missing = "chromium (Debian: apt-get install chromium)"
	case err != nil:
		missing = "axe-core (npm ci --prefix testdata/clients)"
	}
	if missing != "" {
		return m.Run()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WSURLReadTimeout(gatewaytest.Patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	browser, cancel = chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "starting Chromium:", err)
		return 1
	}
	return m.Run()
}

// needBrowser skips a test where what it needs is not installed, or fails it where that is
// required.
func needBrowser(t *testing.T) {
	t.Helper()
	switch {
	case missing == "":
	case os.Getenv(required) != "" || os.Getenv("CI") == "true":
		t.Fatal("not installed: " + missing)
	default:
		t.Skip("NOT TESTED: the console in a browser. Not installed: " + missing)
	}
}

// watching has a page say which of its policies was violated, in the way that the tab
// collects.
const watching = `document.addEventListener("securitypolicyviolation", (e) => console.error("policy violated: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample))`

// tab is a tab with cookies of its own.
type tab struct {
	t   *testing.T
	g   *gateway
	ctx context.Context
	// elsewhere is the host of the page, where it is not the gateway's.
	elsewhere string

	mu       sync.Mutex
	problems []string
}

// newTab opens a tab. Its end fails the test if a problem is left that no test took.
func (g *gateway) newTab() *tab {
	g.t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{t: g.t, g: g, ctx: ctx}
	g.t.Cleanup(func() {
		for _, problem := range b.take() {
			g.t.Error(problem)
		}
		cancel()
	})
	b.must(chromedp.Listen(ctx, b.hear))
	b.inject(watching)
	return b
}

// inject has a script run before those of each page.
func (b *tab) inject(script string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	b.must(err)
}

// hear collects errors of scripts, what the browser logs as an error, and requests to
// other hosts.
func (b *tab) hear(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError && len(e.Args) > 0 {
			problem = "console: " + string(e.Args[0].Value) + e.Args[0].Description
		}
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			problem = fmt.Sprintf("log: %s (%s)", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err != nil || to.Host != b.g.address && to.Host != b.elsewhere && to.Scheme != "data" {
			problem = "request: " + e.Request.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, problem)
	}
}

// take returns the problems since the last call.
func (b *tab) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.problems
	b.problems = nil
	return taken
}

// takeExpected takes problems that a step of a test is expected to make.
func (b *tab) takeExpected(parts ...string) {
	b.t.Helper()
	for _, problem := range b.take() {
		if !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(problem, part) }) {
			b.t.Error(problem)
		}
	}
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// do runs steps, in at most a minute.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, gatewaytest.Patience)
	defer cancel()
	b.must(chromedp.Do(ctx, steps...))
}

// value returns what a script is worth, which may be a promise.
func value[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, gatewaytest.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", script, err)
	}
	return v
}

// eventually waits until a script is true. A page that is being left has no value.
func (b *tab) eventually(what, script string) {
	b.t.Helper()
	deadline := time.Now().Add(gatewaytest.Patience)
	for {
		if v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script)); err == nil && v {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s\n%s", gatewaytest.Patience, what, b.html())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// visit opens a page of the console, and waits until its script has run. Pages of those
// who are not signed in have none.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.g.url(path)))
	b.eventually("the page is ready: "+path, `document.documentElement.hasAttribute("data-ready") || document.readyState == "complete" && !document.querySelector("script")`)
}

// path returns the path of the page with its query.
func (b *tab) path() string {
	b.t.Helper()
	return value[string](b, `location.pathname + location.search`)
}

// html returns the page's markup as it is now.
func (b *tab) html() string {
	b.t.Helper()
	return value[string](b, `document.documentElement.outerHTML`)
}

// signIn fills in the form of the page, and waits for the answer.
func (b *tab) signIn(key string) {
	b.t.Helper()
	b.do(chromedp.SetValue("#key", key))
	b.submit("button")
}

// submit clicks a button whose form opens another page, and waits for it.
func (b *tab) submit(selector string) {
	b.t.Helper()
	value[bool](b, `(window.former = true)`)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).click()`, selector)))
	b.eventually("another page is there", `!window.former && document.readyState == "complete"`)
}

// signedIn opens a tab, signs in with the key of a name and opens the first page.
func (g *gateway) signedIn(name string) *tab {
	g.t.Helper()
	b := g.newTab()
	b.visit("")
	b.signIn(keyOf(name))
	if path := b.path(); path != "/console/" {
		g.t.Fatalf("signed in as %s, and %s is open", name, path)
	}
	return b
}

// fetched is the answer of a request that a page makes.
type fetched struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
}

// fetch makes a request from the page, with its cookies.
func (b *tab) fetch(method, path string) fetched {
	b.t.Helper()
	return value[fetched](b, fmt.Sprintf(`fetch(%q, {method: %q, redirect: "manual"}).then(async (r) => ({status: r.status, text: await r.text()}))`, "/console/"+path, method))
}
