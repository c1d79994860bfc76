package gateway_test

import (
	"encoding/json"
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

// TestRepeatedCallIDs has a conversation in which ids repeat, within a message and between
// messages. It is taken in every API, each result finds its call by order, and the
// provider gets each id once, the same one in each turn.
func TestRepeatedCallIDs(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	type turn []string // the ids of its calls
	conversation := []turn{{"call_1", "call_2"}, {"call_1"}, {"call_1", "call_1"}, {"call_1_2", "call_9"}}
	const want = "call_1 call_2 | call_1_2 | call_1_3 call_1_4 | call_1_2_2 call_9 | "
	apis := map[string]func(turns []turn) string{
		"/v1/chat/completions": func(turns []turn) string {
			list := []string{user}
			for i, turn := range turns {
				var calls, results []string
				for j, id := range turn {
					calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"own","arguments":"{\"n\":\"%d.%d\"}"}}`, id, i, j))
					results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"result %d.%d"}`, id, i, j))
				}
				list = append(list, `{"role":"assistant","content":null,"tool_calls":[`+strings.Join(calls, ",")+`]}`)
				list = append(list, results...)
			}
			return `{"model":"team/talk","messages":[` + strings.Join(list, ",") + `]}`
		},
		"/v1/messages": func(turns []turn) string {
			list := []string{user}
			for i, turn := range turns {
				var calls, results []string
				for j, id := range turn {
					calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"own","input":{"n":"%d.%d"}}`, id, i, j))
					results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"result %d.%d"}`, id, i, j))
				}
				list = append(list, `{"role":"assistant","content":[`+strings.Join(calls, ",")+`]}`, `{"role":"user","content":[`+strings.Join(results, ",")+`]}`)
			}
			return `{"model":"team/talk","max_tokens":100,"messages":[` + strings.Join(list, ",") + `]}`
		},
		"/v1/responses": func(turns []turn) string {
			list := []string{user}
			for i, turn := range turns {
				var results []string
				for j, id := range turn {
					list = append(list, fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"own","arguments":"{\"n\":\"%d.%d\"}"}`, id, i, j))
					results = append(results, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"result %d.%d"}`, id, i, j))
				}
				list = append(list, results...)
			}
			return `{"model":"team/talk","input":[` + strings.Join(list, ",") + `]}`
		},
	}
	apis["/v1/endpoints"] = func(turns []turn) string {
		return strings.Replace(apis["/v1/chat/completions"](turns), `"model"`, `"key"`, 1)
	}
	for path, request := range apis {
		for n := range conversation {
			a := g.post(path, request(conversation[:n+1]))
			if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "" {
				t.Fatalf("%s: %d %s, ignored %q", path, a.status, a.body, a.header.Get("Cadenza-Ignored"))
			}
			got, _ := s.last()
			var sent struct{ Parts [][]providers.Part }
			if err := json.Unmarshal([]byte(got), &sent); err != nil {
				t.Fatal(err)
			}
			var ids strings.Builder
			said := map[string]string{} // by the id, what the call and the result are
			open := 0
			for _, parts := range sent.Parts {
				for _, p := range parts {
					switch p.Kind {
					case providers.PartToolCall:
						if said[p.Call.ID] != "" {
							t.Errorf("%s: the id %s is sent twice", path, p.Call.ID)
						}
						said[p.Call.ID] = p.Call.Arguments
						fmt.Fprintf(&ids, "%s ", p.Call.ID)
						open++
					case providers.PartToolResult:
						number := strings.TrimPrefix(p.Result.Content[0].Text.Plain(), "result ")
						if !strings.Contains(said[p.Result.Call], `"`+number+`"`) || p.Result.Name != "own" {
							t.Errorf("%s: the result %s is that of the call %s", path, number, said[p.Result.Call])
						}
						if open--; open == 0 {
							ids.WriteString("| ")
						}
					}
				}
			}
			if !strings.HasPrefix(want, ids.String()) || strings.Count(ids.String(), "|") != n+1 {
				t.Errorf("%s: the ids %s, want the beginning of %s", path, ids.String(), want)
			}
		}
	}
}
