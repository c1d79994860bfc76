package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readmeCall is a curl command of a page, with the answer that follows it.
type readmeCall struct {
	command, path, body, answer string
}

var (
	shBlock   = regexp.MustCompile("(?s)```sh\n(.*?)\n```\n+```(?:json|text)?\n(.*?)\n```")
	curlPath  = regexp.MustCompile(`http://localhost:8080(/[^\s'"]*)`)
	curlBody  = regexp.MustCompile(`-d '((?:[^']|'\$TRACE_ID')*)'`)
	anyTrace  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	traceHole = regexp.MustCompile(`'?\$TRACE_ID'?`)
)

func readmeCalls(t *testing.T, page string) []readmeCall {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	var calls []readmeCall
	for _, match := range shBlock.FindAllStringSubmatch(string(text), -1) {
		path := curlPath.FindStringSubmatch(match[1])
		if path == nil {
			continue
		}
		call := readmeCall{command: match[1], path: path[1], answer: match[2]}
		if body := curlBody.FindStringSubmatch(match[1]); body != nil {
			call.body = body[1]
		}
		calls = append(calls, call)
	}
	return calls
}

// TestREADME makes the calls of the README, of the API's manual and of OpenFeature's page, and compares the
// answers with the page. Trace ids differ: if a call has one, the test replaces it with
// the id of the previous answer, or in the manual with the id of a prompt. An ellipsis in
// an answer matches any number of events.
func TestREADME(t *testing.T) {
	p := newProcess(t, t.TempDir())
	p.start()
	for _, page := range []string{"README.md", "docs/http-api.md", "docs/openfeature.md"} {
		t.Run(page, func(t *testing.T) { testCalls(t, p, page) })
	}
	t.Run("the example's chat", func(t *testing.T) { testChat(t, p) })
}

// testChat checks the README's claim about the endpoint chat: without a provider's key a
// conversation with a tool comes to its end.
func testChat(t *testing.T, p *process) {
	type message = map[string]any
	messages := []message{{"role": "user", "content": "Hello!"}}
	ask := func(tools string) (answer struct {
		Content   *string `json:"content"`
		ToolCalls []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}) {
		t.Helper()
		list, err := json.Marshal(messages)
		if err != nil {
			t.Fatal(err)
		}
		status, _, body, err := post(context.Background(), http.DefaultClient, p.url+"/v1/chat/completions", `{"model":"chat","messages":`+string(list)+tools+`}`)
		var whole struct {
			Choices []struct{ Message json.RawMessage }
		}
		if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &whole) != nil || len(whole.Choices) != 1 {
			t.Fatalf("%d %s %v", status, body, err)
		}
		if err := json.Unmarshal(whole.Choices[0].Message, &answer); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, message{})
		if err := json.Unmarshal(whole.Choices[0].Message, &messages[len(messages)-1]); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if a := ask(""); a.Content == nil || *a.Content != "Hello!" {
		t.Errorf("without tools: %+v", a)
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`
	messages = append(messages, message{"role": "user", "content": "Weather?"})
	a := ask(tools)
	if len(a.ToolCalls) != 1 || a.ToolCalls[0].Function.Name != "weather" || a.ToolCalls[0].Function.Arguments != `{"city":"city"}` {
		t.Fatalf("with a tool: %+v", a)
	}
	messages = append(messages, message{"role": "tool", "tool_call_id": a.ToolCalls[0].ID, "content": "18 degrees"})
	if a := ask(tools); a.Content == nil || *a.Content != "18 degrees" || a.ToolCalls != nil {
		t.Errorf("with a result: %+v", a)
	}
}

func testCalls(t *testing.T, p *process, page string) {
	last := ""
	routes := map[string]bool{}
	for _, call := range readmeCalls(t, page) {
		kind, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(call.path, "/v1/"), "/v2/"), "/"), "/")
		routes[kind] = true
		fill := func(text string) string { return traceHole.ReplaceAllString(text, last) }
		status, header, body, err := post(context.Background(), http.DefaultClient, p.url+fill(call.path), fill(call.body))
		if err != nil || status != http.StatusOK {
			t.Errorf("%s\n%d %s %v", call.command, status, body, err)
			continue
		}
		if page == "README.md" || kind == "prompts" {
			last = header.Get("Cadenza-Trace-Id")
		}
		want, got := normal(t, call.answer), normal(t, body)
		if before, after, elided := strings.Cut(call.answer, "\n\n…\n\n"); elided {
			// The ellipsis matches the gateway's events in its place.
			first, rest := len(strings.Split(before, "\n\n")), len(strings.Split(strings.TrimSpace(after), "\n\n"))
			events := strings.Split(strings.TrimSpace(body), "\n\n")
			if len(events) < first+rest {
				t.Errorf("%s\nonly %d events", call.command, len(events))
				continue
			}
			middle := strings.Join(events[first:len(events)-rest], "\n\n")
			want = normal(t, before+"\n\n"+middle+"\n\n"+after)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\nthe page's answer (-) is not the gateway's (+):\n%s", call.command, diff)
		}
	}
	want := []string{"prompts", "endpoints", "remoteconfigs", "metrics"}
	if page == "docs/openfeature.md" {
		want = []string{"ofrep"}
	}
	for _, route := range want {
		if !routes[route] {
			t.Errorf("%s has no call of %s with its answer", page, route)
		}
	}
}

// normal returns an answer without the parts that differ from run to run.
func normal(t *testing.T, text string) any {
	t.Helper()
	text = strings.TrimSpace(anyTrace.ReplaceAllString(text, "<trace_id>"))
	if strings.HasPrefix(text, "{") {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return value
	}
	return strings.Split(text, "\n")
}
