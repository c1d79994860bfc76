package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// blind is a provider that takes no images.
type blind struct{ *scripted }

func (p blind) Invoke(ctx context.Context, r *providers.Request) (providers.Stream, error) {
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			if r.Messages[i].Parts[j].Kind == providers.PartImage {
				return nil, providers.LacksPart("blind", i, "images")
			}
		}
	}
	return p.scripted.Invoke(ctx, r)
}

// TestPartsThatNoTargetTakes checks that parts from the caller are the caller's mistake,
// which libraries do not retry, and that parts of a definition are the definition's.
func TestPartsThatNoTargetTakes(t *testing.T) {
	t.Parallel()
	s := &scripted{content: "Fine.", result: providers.Result{FinishReason: providers.FinishStop}}
	g := startGateway(t, map[string]string{
		"definitions/prompts/talk.yaml":   "provider: blind\nmodel: m\nmessages: [ { history: true } ]\n",
		"definitions/prompts/look.yaml":   "provider: blind\nmodel: m\nmessages: [ { role: user, content: [ { image: 'https://example.com/a.png' } ] }, { history: true } ]\n",
		"definitions/endpoints/talk.yaml": "prompt: talk\naccept: { history: true }\n",
		"definitions/endpoints/look.yaml": "prompt: look\naccept: { history: true }\n",
	}, withProvider("blind", blind{s}))
	const text = `{"role":"user","content":"Hi."}`
	const image = `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}`
	for _, test := range []struct {
		endpoint, messages string
		status             int
		code               string
		param              any
	}{
		{"talk", text, http.StatusOK, "", nil},
		{"talk", text + "," + image, http.StatusBadRequest, "invalid_request", "messages"},
		{"look", text, http.StatusBadGateway, "upstream_rejected", nil},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			a := g.post("/v1/chat/completions", `{"model":"`+test.endpoint+`","messages":[`+test.messages+`]`+stream+`}`)
			if a.status != test.status {
				t.Errorf("%s %s: %d %s", test.endpoint, test.messages, a.status, a.body)
				continue
			}
			if test.code == "" {
				continue
			}
			e, _ := a.json(t)["error"].(map[string]any)
			if e["code"] != test.code || e["param"] != test.param || !strings.Contains(e["message"].(string), "take no images") {
				t.Errorf("%s %s: %s", test.endpoint, test.messages, a.body)
			}
			if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); got.Status != test.status {
				t.Errorf("%s %s: a trace of %d", test.endpoint, test.messages, got.Status)
			}
		}
	}
}

// TestStopThatNoTargetHas checks that a caller's stop which OpenAI's Responses API lacks is
// the caller's to leave out, in each API.
func TestStopThatNoTargetHas(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int64, _ http.ResponseWriter, _ *http.Request) { t.Error("a call") })
	base, err := upstream.ParseBaseURL(up.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	provider := pt.Client(t, openai.New, openai.Config{Key: testKey, API: openai.APIResponses, Upstream: upstream.Config{BaseURL: base}})
	g := startGateway(t, map[string]string{
		"definitions/prompts/talk.yaml":   "provider: fake\nmodel: m\nmessages: [ { history: true } ]\n",
		"definitions/endpoints/talk.yaml": "prompt: talk\naccept: { history: true, parameters: [stop] }\n",
	}, withProvider("fake", provider))
	const messages = `"messages":[{"role":"user","content":"Hi."}],`
	checkError(t, g.post("/v1/endpoints", `{"key":"talk",`+messages+`"parameters":{"stop":"a"}}`), "invalid_request", "parameters.stop")
	checkMessagesError(t, g.post("/v1/messages", `{"model":"talk",`+messages+`"stop_sequences":["a"]}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", "stop_sequences")
}

// TestMembersOfMediaAreNamed checks that members of media that the answering provider left
// out are named by their message, also those in a tool's result.
func TestMembersOfMediaAreNamed(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	messages := `"messages":[` + user + `,{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},
		{"type":"image_url","image_url":{"url":"https://example.com/b.png","detail":"auto"}}]},
		{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"}}]}]`
	document := `"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"document","title":"a.pdf","source":{"type":"url","url":"https://example.com/a.pdf"}}]}]}]`
	for _, test := range []struct {
		path, messages string
		leftOut        []string
		want           string
	}{
		{"chat/completions", messages, []string{"detail"}, "messages[1].detail"},
		{"chat/completions", messages, []string{"detail", "filename"}, "messages[1].detail, messages[2].filename"},
		{"chat/completions", messages, []string{"filename of a URL"}, ""},
		{"messages", document, []string{"filename of a URL"}, "messages[2].filename"},
		{"messages", document, []string{"detail", "seed"}, ""},
	} {
		s.mu.Lock()
		s.result = providers.Result{FinishReason: providers.FinishStop, LeftOut: test.leftOut}
		s.mu.Unlock()
		for _, stream := range []string{"false", "true"} {
			a := g.post("/v1/"+test.path, `{"model":"team/talk","stream":`+stream+`,`+test.messages+`}`)
			if got := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || got != test.want {
				t.Errorf("%s without %v: %d %s, Cadenza-Ignored %q, want %q", test.path, test.leftOut, a.status, a.body, got, test.want)
			}
		}
	}
}
