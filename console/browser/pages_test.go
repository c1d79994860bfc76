package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// shop answers as a provider whose large model is out of order. It takes its time, so that
// pictures show what pages say about that.
func shop(w http.ResponseWriter, r *http.Request) {
	const named = `{"id":"c1","object":"chat.completion%s","created":1,"model":"gpt-6-luna","choices":[%s],"usage":{"prompt_tokens":1204,"completion_tokens":311,"total_tokens":1515}}`
	body, _ := io.ReadAll(r.Body)
	time.Sleep(60 * time.Millisecond)
	switch {
	case bytes.Contains(body, []byte("gpt-6-sol")):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error"}}`)
	case bytes.Contains(body, []byte(`"stream":true`)):
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"Your parcel ", "left our warehouse ", "on Tuesday, ", "and arrives tomorrow."} {
			_, _ = io.WriteString(w, gatewaytest.Chunk(word, ""))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(30 * time.Millisecond)
		}
		_, _ = fmt.Fprintf(w, "%sdata: "+named+"\n\ndata: [DONE]\n\n", gatewaytest.Chunk("", "stop"), ".chunk", "")
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, named, "", `{"index":0,"message":{"role":"assistant","content":"You can return anything within 30 days.\n\n1. Print the label from your account.\n2. Bring the parcel to a shop."},"finish_reason":"stop"}`)
	}
}

// sent are the ids of what traffic leaves behind.
type sent struct{ streamed, failed, configuration, decision string }

// traffic sends requests of each kind: whole, streamed, failing and refused ones, and
// reports.
func (g *gateway) traffic() sent {
	g.t.Helper()
	ask := func(key, question string, stream bool) object {
		return object{"key": key, "stream": stream, "variables": object{"question": question}, "context": object{"locale": "en-GB", "plan": "pro"}, "metadata": object{"customer": "c-1042", "page": "/help"}}
	}
	var ids sent
	for range 3 {
		g.post(200, "/v1/endpoints", ask("support_chat", "How do I return a jacket?", false))
	}
	streamed := g.post(200, "/v1/endpoints", ask("support_chat", "Where is my parcel?", true))
	_, id, _ := strings.Cut(string(streamed.Body), `"trace_id":"`)
	ids.streamed, _, _ = strings.Cut(id, `"`)
	g.post(200, "/v1/endpoints", ask("faq", "Are you open on Sundays?", false))
	g.post(200, "/v1/endpoints", ask("summary", "A long thread of mails.", false))
	failed := g.post(502, "/v1/endpoints", ask("translate", "Bonjour à tous.", false))
	ids.failed = failed.Header.Get("Cadenza-Trace-Id")
	g.post(200, "/v1/metrics", object{"trace_id": ids.streamed, "score": 10, "values": object{"resolved": 0}, "metadata": object{"reason": "not what I asked"}, "conversation_id": "talk/7"})

	pro := object{"environment": "production", "plan": "pro", "seats": 12, "locale": "nl-BE"}
	answer := g.post(200, "/v1/remoteconfigs", object{"keys": []string{"model_limits", "banner_text"}, "context": pro})
	ids.configuration = gatewaytest.TraceIDs(g.t, answer.Body)["model_limits"]
	decided := g.post(200, "/v1/decisions", object{"prompts": []string{"support_reply"}, "remoteconfigs": []string{"model_limits", "banner_text"}, "context": pro, "variables": object{"question": "Waar is mijn pakket?"}})
	ids.decision, _ = gatewaytest.Object(g.t, decided.Body)["decision_id"].(string)

	g.post(404, "/v1/prompts", object{"keys": []string{"support_replies"}})
	g.post(400, "/v1/prompts", object{"keys": []string{"support_reply"}})
	g.send(401, "/v1/prompts", object{"keys": []string{"support_reply"}}, http.Header{"Authorization": {"Bearer not-a-key-of-anybody"}})
	for range 12 - 7 {
		g.post(200, "/v1/endpoints", ask("faq", "Where is the shop?", false))
	}
	g.post(429, "/v1/endpoints", ask("faq", "Where is the shop?", false))
	for _, id := range []string{ids.streamed, ids.failed, ids.configuration} {
		g.stored(id)
	}
	return ids
}

// returns is a prompt with splits, findings and tests.
const returns = `
description: Helps with returns.
default: en
variables: { rate: { config: model_limits, path: rpm } }
variants:
  en:
    provider: openai
    model: gpt-6-luna
    messages:
      - { role: system, content: "You help with returns. Answer in English, in at most 80 words, at {{rate}}." }
      - { history: true, max_messages: 40 }
  nl:
    extends: en
    temperature: 0.2
    messages: [ { role: system, content: "Je helpt met retourzendingen, in hoogstens 80 woorden." }, { history: true } ]
rules:
  - id: dutch
    when: { locale: nl, plan: [pro, enterprise] }
    split: { by: seats, of: [ { value: nl, share: 50% }, { value: en, share: 30% } ] }
  - { id: all, when: { locale: nl }, value: nl }
  - { id: lost, when: { locale: nl, seats: 100.. }, value: en }
tests:
  - { name: a Fleming, context: { locale: nl-BE }, variant: nl }
`

// checkout has cells that are empty, and so links that show nothing.
const checkout = `
type: boolean
default: false
rules:
  - { id: larger, when: { environment: production, locale: nl, plan: [pro, enterprise], seats: 10.. }, value: true }
  - { split: { by: seats, of: [ { value: true, share: 20%, name: new } ] } , id: ramp }
  - { from: 2030-12-01T09:00:00+01:00, value: true }
`

// sizes are those of a small phone, a tablet and a desktop.
var sizes = []struct {
	name          string
	width, height int64
}{{"phone", 360, 780}, {"tablet", 1024, 768}, {"desktop", 1440, 900}}

// violation is a rule of axe-core that a page breaks.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

// TestPages opens every page at each size in light and dark. No page breaks a rule of
// axe-core, is wider than its window, logs an error or violates its policy.
func TestPages(t *testing.T) {
	needBrowser(t)
	files := maps.Clone(definitions)
	files["definitions/prompts/returns.yaml"] = returns
	files["definitions/remoteconfigs/new_checkout.yaml"] = checkout
	g := startGateway(t, files, shop)
	ids := g.traffic()
	b := g.signedIn("ops")
	gatewaytest.Write(t, g.dir, "definitions/prompts/returns.yaml", strings.Replace(returns, "in at most 80 words", "in at most 60 words", 1))
	compared := func(path string) string {
		query := ""
		gatewaytest.Eventually(t, path+" can be compared", func() bool {
			b.visit(path)
			query = value[string](b, `(() => {
				const all = [...document.querySelectorAll("select[name=from] option")].map((o) => o.textContent);
				return all.length > 1 ? "?from=" + all[1] + "&to=" + all[0] : "";
			})()`)
			return query != ""
		})
		return path + query
	}
	guest := g.newTab()
	for _, p := range []struct {
		name, path string
		tab        *tab
	}{
		{"signin", "sign-in", guest},
		{"now", "", b},
		{"traces", "traces", b},
		{"traces-none", "traces?key=no_such_key", b},
		{"traces-problem", "traces?since=yesterday", b},
		{"trace", "traces/" + ids.streamed, b},
		{"trace-failed", "traces/" + ids.failed, b},
		{"trace-configuration", "traces/" + ids.configuration, b},
		{"trace-proved", "traces/" + ids.configuration + "?prove", b},
		{"traces-sorted", "traces?sort=latency", b},
		{"decision", "traces/" + ids.decision, b},
		{"conversation", "conversations/talk%2F7", b},
		{"find", "find?id=" + ids.streamed[:8], b},
		{"find-none", "find?id=nothing", b},
		{"now-day", "?last=day", b},
		{"refused", "refused", b},
		{"refused-none", "refused?since=30d&code=nothing", b},
		{"definitions", "definitions", b},
		{"definition", "definitions/prompt/support_reply", b},
		{"definition-compared", compared("definitions/prompt/returns"), b},
		{"definition-endpoint", "definitions/endpoint/support_chat", b},
		{"definition-configuration", "definitions/remoteconfig/model_limits", b},
		{"definition-rules", "definitions/remoteconfig/new_checkout", b},
		{"edit", "edit?file=prompts/support_reply.yaml", b},
		{"edit-value", "edit?file=remoteconfigs/model_limits.yaml&line=7&column=19", b},
		{"edit-new", "edit?new=prompt", b},
		{"plan-new", "plan?action=text&file=remoteconfigs/new.yaml&text=type:%20boolean%0Adefault:%20true", b},
		{"plan-problem", "plan?action=text&file=remoteconfigs/new.yaml&text=type:%20bool", b},
		{"revisions", "revisions", b},
		{"revisions-compared", compared("revisions"), b},
		{"try", "try?field.plan=pro&field.locale=nl-BE", b},
		{"costs", "costs", b},
		{"costs-why", "costs?why=total&by=metadata.customer", b},
		{"models", "models", b},
		{"models-week", "models?over=7d", b},
		{"limits", "limits", b},
		{"limits-subject", "limits?subject=c-1042", b},
		{"limits-nobody", "limits?subject=nobody", b},
		{"playground", "playground?trace=" + ids.streamed + "&two=1", b},
		{"playground-empty", "playground", b},
		{"keys", "keys", b},
		{"erase", "erase", b},
		{"audit", "audit", b},
	} {
		t.Run(p.name, func(t *testing.T) {
			p.tab.t = t
			defer func() { p.tab.t = g.t }()
			p.tab.hold(p.name, p.path)
		})
	}
}

// hold opens a page at each size in light and dark, and holds it against the rules.
func (b *tab) hold(name, path string) {
	b.t.Helper()
	b.visit(path)
	for _, problem := range b.take() {
		b.t.Error(problem)
	}
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	for _, size := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			b.look(size.width, size.height, scheme)
			if !strings.Contains(name, "-") {
				b.picture(name, size.name, scheme)
			}
			b.check(fmt.Sprintf("%s, %d×%d, %s", name, size.width, size.height, scheme))
		}
	}
	b.take() // what axe-core does is not the page's
}

// look gives the window a size and a colour scheme.
func (b *tab) look(width, height int64, scheme string) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	if width < 700 {
		options = append(options, chromedp.EmulateMobile)
	}
	b.do(chromedp.EmulateViewport(width, height, options...))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.must(err)
}

// check looks at the page with all of its details closed, for its width, and open.
func (b *tab) check(where string) {
	b.t.Helper()
	for _, open := range []bool{false, true} {
		width := value[string](b, fmt.Sprintf(`(() => {
			for (const d of document.querySelectorAll("details")) d.open = %t;
			const root = document.documentElement;
			if (root.scrollWidth <= root.clientWidth) return "";
			const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > root.clientWidth + 0.5 && !e.parentElement.closest(".scroll"));
			return root.scrollWidth + " > " + root.clientWidth + ": " + wide.slice(0, 6).map((e) => e.tagName + "." + e.getAttribute("class") + " " + Math.round(e.getBoundingClientRect().right)).join(", ");
		})()`, open))
		if width != "" {
			b.t.Errorf("%s: wider than the window (details open: %t): %s", where, open, width)
		}
	}
	for _, v := range value[[]violation](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.target.join(" ") + " " + n.html.slice(0, 120) + " " + n.any.concat(n.all, n.none).map((c) => c.message).join("; "))})))`) {
		b.t.Errorf("%s: %s (%s)\n\t%s", where, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = false; })`))
}

// picture writes a picture of the page into docs/console, if CADENZA_SCREENSHOTS is set.
func (b *tab) picture(name, size, scheme string) {
	b.t.Helper()
	switch {
	case os.Getenv("CADENZA_SCREENSHOTS") == "":
		return
	case size == "desktop" && (scheme == "light" || name == "now"):
		name += "-" + scheme
	case size == "phone" && scheme == "light":
		name += "-phone"
	default:
		return
	}
	host, _ := os.Hostname()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(%q, "/srv/shop").replaceAll(%q, "gw-1");
		scrollTo(0, 0);
		document.activeElement?.blur();
	}`, b.g.dir, host)))
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.must(err)
	picture = fewerColors(b.t, picture)
	folder := filepath.Join("..", "..", "docs", "console")
	b.must(os.MkdirAll(folder, 0o755))
	b.must(os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644))
	if len(picture) > 150<<10 {
		b.t.Errorf("%s.png has %d KiB, more than 150", name, len(picture)>>10)
	}
}

// fewerColors returns a PNG with the 256 colours that a picture has most of. What is
// between those, at the edges of letters, gets the nearest.
func fewerColors(t *testing.T, text []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	bounds := picture.Bounds()
	counts := make(map[color.Color]int)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[picture.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	palette := color.Palette(most[:min(len(most), 256)])
	index := make(map[color.Color]uint8)
	for _, c := range most {
		index[c] = uint8(palette.Index(c))
	}
	smaller := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			smaller.SetColorIndex(x, y, index[picture.At(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, smaller); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
