package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// payloads are texts that run where a page takes them for markup, for an attribute or for
// an address. Running leaves a mark on the page, or asks another host.
var payloads = []string{
	`<script>document.title='ran'</script><img src=x onerror="document.title='ran'">`,
	`</pre></textarea></title><svg onload="document.title='ran'"></svg><iframe srcdoc="<script>parent.document.title='ran'</script>"></iframe>`,
	`"' autofocus onfocus="document.title='ran'" style="background:url(http://elsewhere.example/a)" x='`,
	`javascript:document.title='ran'`,
	`<link rel=stylesheet href=http://elsewhere.example/b.css><img src=http://elsewhere.example/c.png><base href=http://elsewhere.example/>`,
	`{{.}}${document.title='ran'}<!--<style>@import url(http://elsewhere.example/d.css)</style>`,
}

// TestMarkup puts texts that are markup and scripts into every field that a caller or a
// provider reaches, and opens every page. Nothing runs, no policy is violated, and no
// request goes to another host.
func TestMarkup(t *testing.T) {
	needBrowser(t)
	everything := strings.Join(payloads, "\n")
	quoted := func(text string) string { q, _ := json.Marshal(text); return string(q) }

	files := maps.Clone(definitions)
	files["definitions/remoteconfigs/banner_text.yaml"] = fmt.Sprintf("type: string\ndescription: %s\ndefault: %[1]s\ncolumns: [ locale, value ]\nmatrix:\n  - [ nl-BE, %[1]s ]\n", quoted(everything))
	files["definitions/prompts/faq.yaml"] = fmt.Sprintf("variables: { question: { required: true } }\nvariants:\n  only:\n    provider: canned\n    extra: { answer: %s }\n    messages:\n      - { role: user, content: \"{{question}}\" }\n", quoted(strings.ReplaceAll(everything, "{{.}}", "")))
	files["definitions/endpoints/chat.yaml"] = "prompt: chat\nmax_attempts: 1\naccept: { history: true, tools: true }\n"
	files["definitions/prompts/chat.yaml"] = "variants:\n  only:\n    provider: openai\n    model: gpt-6-luna\n    messages:\n      - { history: true }\n"
	g := startGateway(t, files, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := quoted(everything)
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"fail `)) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%s,"type":%[1]s,"code":%[1]s,"param":%[1]s}}`, text)
			return
		}
		fmt.Fprintf(w, `{"id":%s,"object":"chat.completion","created":1,"model":%[1]s,"choices":[{"index":0,"message":{"role":"assistant","content":%[1]s,"tool_calls":[{"id":%[1]s,"type":"function","function":{"name":"find","arguments":%s}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, text, quoted(`{"a":`+text+`}`))
	})

	names := object{}
	for i, p := range payloads {
		names[p] = p
		names[fmt.Sprintf("n%d", i)] = p
	}
	known := object{"environment": everything, "locale": "nl-BE", "plan": everything, everything: everything}
	variables := object{"question": everything, "company": everything, everything: everything}
	about := func(more object) object {
		all := object{"context": known, "variables": variables, "metadata": names}
		maps.Copy(all, more)
		return all
	}
	pages := []string{"", "traces", "refused", "refused?since=30d", "definitions", "edit?file=remoteconfigs/banner_text.yaml", "edit?file=remoteconfigs/banner_text.yaml&line=3&column=10", "revisions", "costs", "costs?by=api_key", "costs?by=metadata.n0", "sign-in"}
	opened := func(id string) {
		g.stored(id)
		pages = append(pages, "traces/"+id, "playground?trace="+id)
	}
	for _, key := range []string{"faq", "support_chat"} {
		opened(traced(t, g.post(200, "/v1/endpoints", about(object{"key": key}))))
	}
	tools := []object{{"type": "function", "function": object{"name": "find", "description": everything, "parameters": object{"type": "object", "description": everything}}}}
	opened(traced(t, g.post(200, "/v1/endpoints", object{"key": "chat", "context": known, "metadata": names, "tools": tools, "messages": []object{
		{"role": "user", "content": everything},
		{"role": "user", "content": []object{{"type": "text", "text": everything}, {"type": "image_url", "image_url": object{"url": "http://elsewhere.example/e.png?" + url.QueryEscape(everything)}}}},
	}})))
	failed := g.post(502, "/v1/endpoints", object{"key": "chat", "metadata": names, "messages": []object{{"role": "user", "content": "fail " + everything}}})
	opened(failed.Header.Get("Cadenza-Trace-Id"))

	answer := g.post(200, "/v1/prompts", about(object{"keys": []string{"support_reply"}}))
	prompt := gatewaytest.TraceIDs(t, answer.Body)["support_reply"]
	g.post(200, "/v1/metrics", object{"trace_id": prompt, "score": 10, "values": object{"resolved": 1}, "metadata": names, "llm_response": everything, "chain_id": everything, "conversation_id": everything})
	opened(prompt)
	answer = g.post(200, "/v1/remoteconfigs", object{"keys": []string{"banner_text"}, "context": known, "metadata": names})
	opened(gatewaytest.TraceIDs(t, answer.Body)["banner_text"])
	alone := g.post(200, "/v1/metrics", object{"metadata": names, "llm_response": everything, "conversation_id": everything})
	pages = append(pages, "traces/"+traced(t, alone))
	decided := g.post(200, "/v1/decisions", about(object{"prompts": []string{"support_reply"}, "remoteconfigs": []string{"banner_text"}}))
	pages = append(pages, "traces/"+gatewaytest.Object(t, decided.Body)["decision_id"].(string))

	for _, p := range append(payloads, everything) {
		g.post(400, "/v1/prompts", object{"keys": []string{p}})
		g.post(400, "/v1/metrics", object{"trace_id": prompt, "values": object{p: 1}})
		g.send(401, "/v1/prompts", object{"keys": []string{"faq"}}, http.Header{"Authorization": {"Bearer " + strings.ReplaceAll(p, "\n", "")}})
		g.send(400, "/v1/prompts", object{"keys": []string{"faq"}}, http.Header{"Authorization": {"Bearer " + keyOf("app")}, "Cadenza-Log": {strings.ReplaceAll(p, "\n", "")}})
		escaped := url.QueryEscape(p)
		for _, page := range []string{"traces?key=", "traces?metadata=", "traces?since=", "traces?sort=", "traces?before=", "costs?by=", "costs?since=", "refused?since=", "find?id=", "edit?file=", "edit?new=", "traces?field=", "traces?label=", "limits?subject=", "audit?by=", "revisions?from=", "erase?metadata=", "traces/", "rollouts/", "conversations/", "definitions/prompt/", "sign-in?to=", "no/", "playground?of=endpoint%2Ffaq&variable.question="} {
			if strings.HasSuffix(page, "/") {
				pages = append(pages, page+url.PathEscape(p))
			} else {
				pages = append(pages, page+escaped)
			}
		}
	}

	b := g.signedIn("ops")
	shown := 0
	for _, page := range pages {
		b.visit(page)
		b.takeExpected("status of 400", "status of 404")
		got := value[struct {
			Title, Text string
			Live        int
		}](b, `({Title: document.title, Text: document.body.textContent, Live: document.querySelectorAll("iframe, img, base, main script, main style, main link, [onload], [onerror], [onfocus], a[href^='javascript:']").length})`)
		if got.Title == "ran" || got.Live > 0 {
			t.Errorf("%s: the title is %q, and %d elements come from a text", page, got.Title, got.Live)
		}
		if strings.Contains(got.Text, payloads[0]) {
			shown++
		}
	}
	if shown < 8 {
		t.Errorf("%d of %d pages show the texts: are they recorded?", shown, len(pages))
	}
}
