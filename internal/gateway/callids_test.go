package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestCallIDs has a model that gives its calls no ids. The ids that callers get are those
// of no other answer, in every API, whole and streamed, and also of an answer that the
// cache has.
func TestCallIDs(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", "cache: { ttl: 1h }\n"} {
		g, s := startScripted(t, more, logContent)
		s.result.FinishReason = providers.FinishToolCalls
		s.result.ToolCalls = []providers.ToolCall{{Name: "own", Arguments: `{"a":1}`}, {Name: "own", Arguments: `{}`}, {ID: "own_id", Name: "own", Arguments: `{}`}}
		for path, request := range map[string]string{
			"/v1/endpoints":        `{"key":"team/talk","messages":[` + user + `]`,
			"/v1/chat/completions": `{"model":"team/talk","messages":[` + user + `]`,
			"/v1/responses":        `{"model":"team/talk","input":"Hi."`,
			"/v1/messages":         `{"model":"team/talk","max_tokens":100,"messages":[` + user + `]`,
		} {
			for _, stream := range []string{"false", "true"} {
				for range 2 {
					a := g.post(path, request+`,"stream":`+stream+`}`)
					if a.status != http.StatusOK {
						t.Fatalf("%s %d %s", path, a.status, a.body)
					}
					text := string(a.body)
					record := string(g.ended(t, a.header.Get("Cadenza-Trace-Id")).ToolCalls)
					for n := range 3 {
						id := callID(a, n+1)
						if n == 2 && a.header.Get("Cadenza-Attempts") != "0" {
							id = "own_id"
						}
						if !strings.Contains(text, `"`+id+`"`) || !strings.Contains(record, `"`+id+`"`) {
							t.Errorf("%s %s stream=%s: no id %s in\n%s\nand the trace\n%s", more, path, stream, id, text, record)
						}
					}
					if more != "" && strings.Contains(text, "own_id") != (a.header.Get("Cadenza-Attempts") != "0") {
						t.Errorf("an answer that was given again has the ids of the first: %s", text)
					}
				}
			}
		}
	}
}

// TestCallIDsAfterFailures has a target that fails before another one calls tools, in
// each turn of a conversation. The ids of the turns differ, and each result finds its
// call.
func TestCallIDsAfterFailures(t *testing.T) {
	t.Parallel()
	s := &scripted{result: providers.Result{FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{Name: "own", Arguments: "{}"}}}}
	failing := &scripted{fail: true}
	g := startGateway(t, conversation(""), withProvider("scripted", failing), withProvider("other", s))
	messages := []string{user}
	var ids []string
	for range 3 {
		a := g.post("/v1/chat/completions", `{"model":"team/talk","messages":[`+strings.Join(messages, ",")+`]}`)
		id := callID(a, 1)
		if a.status != http.StatusOK || a.header.Get("Cadenza-Served-By") != "other/large" || !strings.Contains(string(a.body), `"id":"`+id+`"`) || slices.Contains(ids, id) {
			t.Fatalf("%d, served by %s: %s", a.status, a.header.Get("Cadenza-Served-By"), a.body)
		}
		ids = append(ids, id)
		messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"own","arguments":"{}"}}]},{"role":"tool","tool_call_id":%q,"content":"found"}`, id, id))
	}
	got, _ := s.last()
	for _, id := range ids[:2] {
		if strings.Count(got, `"`+id+`"`) != 2 {
			t.Errorf("the provider got %s, without the call and the result of %s", got, id)
		}
	}
}
