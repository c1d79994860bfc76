package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestLoopByOpenAIsResponses has callers of each API go through a loop of two parallel tool
// calls with a model that refuses tools on chat completions. The model must see each call
// once, with its result, and its own encrypted thoughts before them.
func TestLoopByOpenAIsResponses(t *testing.T) {
	t.Parallel()
	const encrypted = "gAAAAAB-encrypted=="
	calls := []providers.ToolCall{{ID: "call_a", Name: "own", Arguments: `{"a":1}`}, {ID: "call_b", Name: "own", Arguments: `{"b":2}`}}
	asked := []pt.ResponsesItem{{Thought: &providers.Thought{Text: "Hm.", Opaque: encrypted}}, {Words: []string{"Let me ", "see."}}, {Call: &calls[0]}, {Call: &calls[1]}}
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		if refusal, ok := pt.RefusesTools(r); ok {
			return refusal
		}
		items := asked
		if strings.Contains(r.Body, "function_call_output") {
			items = []pt.ResponsesItem{{Words: []string{"Done."}}}
		}
		if strings.Contains(r.Body, `"stream":true`) {
			return pt.ResponsesStream(pt.ResponsesEnd{}, items...)
		}
		return pt.ResponsesAnswer(pt.ResponsesEnd{}, items...)
	})
	files := conversation("")
	files["definitions/prompts/talk.yaml"] = "provider: scripted\nmodel: gpt-5.6-sol\ntools: [ { name: own } ]\nmessages: [ { role: system, content: Be brief. }, { history: true } ]\n"
	g := startGateway(t, files, withProvider("scripted", openaiProvider(up.URL, openai.Quirks{Responses: true})), withProvider("other", openaiProvider(up.URL, openai.Quirks{})))

	for _, door := range []struct {
		path, history string
		// replay is the caller's history of an answer: the answer, and the results of its
		// calls.
		replay func(answer []byte) string
	}{
		{"/v1/chat/completions", "messages", func(answer []byte) string {
			var a struct {
				Choices []struct{ Message json.RawMessage }
			}
			mustParse(t, answer, &a)
			return string(a.Choices[0].Message) + `,{"role":"tool","tool_call_id":"call_a","content":"one"},{"role":"tool","tool_call_id":"call_b","content":"two"}`
		}},
		{"/v1/messages", "messages", func(answer []byte) string {
			var a struct{ Content json.RawMessage }
			mustParse(t, answer, &a)
			return `{"role":"assistant","content":` + string(a.Content) + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a","content":"one"},{"type":"tool_result","tool_use_id":"call_b","content":"two"}]}`
		}},
		{"/v1/responses", "input", replayResponse(t)},
		{"/v1/responses streamed", "input", replayResponse(t)},
	} {
		path, stream := strings.CutSuffix(door.path, " streamed")
		post := func(history string) answer {
			body := `{"model":"team/talk",` + `"` + door.history + `":[` + history + `]}`
			if stream {
				body = `{"stream":true,` + body[1:]
			}
			a := g.post(path, body)
			if a.status != http.StatusOK || a.header.Get("Cadenza-Served-By") != "scripted/gpt-5.6-sol" || a.header.Get("Cadenza-Ignored") != "" {
				t.Fatalf("%s: %d %v %s", door.path, a.status, a.header, a.body)
			}
			if stream {
				// The last event has the whole answer.
				_, a.body, _ = cutLast(a.body, `"response":`)
				a.body = a.body[:strings.LastIndex(string(a.body), "}")]
			}
			return a
		}
		first := post(user)
		if strings.Contains(string(first.body), encrypted) {
			t.Errorf("%s: the data has no seal: %s", door.path, first.body)
		}
		last := post(user + "," + door.replay(first.body))
		if !strings.Contains(string(last.body), "Done.") {
			t.Errorf("%s: %s", door.path, last.body)
		}
		requests := up.Requests()
		got := requests[len(requests)-1]
		want := `{"input":[{"role":"system","content":"Be brief."},{"role":"user","content":"How are you?"},` +
			`{"type":"reasoning","id":"rs_0","encrypted_content":"` + encrypted + `","summary":[{"type":"summary_text","text":"Hm."}]},` +
			`{"role":"assistant","content":"Let me see.","phase":"commentary"},` +
			`{"type":"function_call","call_id":"call_a","name":"own","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"call_b","name":"own","arguments":"{\"b\":2}"},` +
			`{"type":"function_call_output","call_id":"call_a","output":"one"},{"type":"function_call_output","call_id":"call_b","output":"two"}],` +
			`"include":["reasoning.encrypted_content"],"model":"gpt-5.6-sol","store":false,`
		if got.Path != "/v1/responses" || !strings.HasPrefix(got.Body, want) {
			t.Errorf("%s: %s got\n%s, want\n%s", door.path, got.Path, got.Body, want)
		}
		record := g.ended(t, first.header.Get("Cadenza-Trace-Id"))
		if u := record.Attempts[0]; len(record.Attempts) != 1 || u.PromptTokens != 9 || u.ReasoningTokens != 7 {
			t.Errorf("%s: the trace has %+v", door.path, record.Attempts)
		}
	}
}

func mustParse(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func replayResponse(t *testing.T) func([]byte) string {
	return func(answer []byte) string {
		var a struct{ Output []json.RawMessage }
		mustParse(t, answer, &a)
		items := make([]string, len(a.Output))
		for i, item := range a.Output {
			items[i] = string(item)
		}
		return strings.Join(items, ",") + `,{"type":"function_call_output","call_id":"call_a","output":"one"},{"type":"function_call_output","call_id":"call_b","output":"two"}`
	}
}

// cutLast cuts a text around the last place of a separator.
func cutLast(text []byte, separator string) (before, after []byte, ok bool) {
	i := strings.LastIndex(string(text), separator)
	if i < 0 {
		return text, nil, false
	}
	return text[:i], text[i+len(separator):], true
}
