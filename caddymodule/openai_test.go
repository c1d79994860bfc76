package caddymodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// greet asks an endpoint, whole and as a stream.
func greet(ctx context.Context, client openai.Client) (whole, streamed string, err error) {
	question := openai.ChatCompletionNewParams{
		Model:    "assistant",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello!")},
	}
	answer, err := client.Chat.Completions.New(ctx, question, option.WithJSONSet("context", map[string]any{"locale": "nl-BE"}))
	if err != nil {
		return "", "", err
	}
	stream := client.Chat.Completions.NewStreaming(ctx, question)
	defer stream.Close()
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			streamed += choice.Delta.Content
		}
	}
	return answer.Choices[0].Message.Content, streamed, stream.Err()
}

// openaiClient returns a client of OpenAI's library, configured for the gateway.
func (g *gateway) openaiClient(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL("http://gateway/v1/"), option.WithAPIKey(key), option.WithHTTPClient(g.client), option.WithMaxRetries(0))
}

// openaiPage returns the blocks of docs/apis.md in a language.
func openaiPage(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/apis.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

// documentedAssistant returns the workspace of docs/apis.md with a model that needs no
// network: it echoes, and calls a tool if it is offered one.
func documentedAssistant(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{"definitions/context.yaml": "fields: { locale: { type: string }, plan: { type: string } }\n"}
	for _, block := range openaiPage(t, "yaml") {
		name, text, _ := strings.Cut(strings.TrimPrefix(block, "# "), "\n")
		files["definitions/"+name] = strings.Replace(text, "    provider: openai\n    model: gpt-6-luna\n", "    provider: canned\n    extra: { call_tool: first }\n", 1)
	}
	if !strings.Contains(files["definitions/prompts/assistant.yaml"], "call_tool") || !strings.Contains(files["definitions/endpoints/assistant.yaml"], "accept") {
		t.Fatalf("docs/apis.md has no prompt and no endpoint: %v", files)
	}
	files["definitions/prompts/broken.yaml"] = "provider: canned\nextra: { answer: Half an answer, fail: { after: 1, kind: truncate } }\nmessages: [ { history: true } ]\n"
	files["definitions/endpoints/broken.yaml"] = "prompt: broken\naccept: { history: true }\n"
	files["definitions/prompts/down.yaml"] = "provider: canned\nextra: { fail: { kind: error } }\nmessages: [ { role: user, content: Hi } ]\n"
	files["definitions/endpoints/down.yaml"] = "prompt: down\nretry: { count: 0 }\n"
	files["definitions/prompts/thinker.yaml"] = "provider: canned\nextra: { thinking: I count., answer: Four. }\nmessages: [ { history: true } ]\n"
	files["definitions/endpoints/thinker.yaml"] = "prompt: thinker\naccept: { history: true, tools: true }\n"
	files["definitions/prompts/rules.yaml"] = "variants:\n  free: { provider: canned, extra: { answer: free }, messages: [ { role: user, content: x } ] }\n  pro: { extends: free, extra: { answer: pro } }\ndefault: free\ncolumns: [ plan, value ]\nmatrix:\n  - [ pro, pro ]\n"
	files["definitions/endpoints/rules.yaml"] = "prompt: rules\naccept: { variants: true }\n"
	return files
}

// TestOpenAIPage runs the examples of docs/apis.md.
func TestOpenAIPage(t *testing.T) {
	g := startGateway(t, documentedAssistant(t), options)
	source, err := os.ReadFile("openai_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range openaiPage(t, "go") {
		if !strings.Contains(string(source), block) {
			t.Errorf("not in openai_test.go:\n%s", block)
		}
	}
	if whole, streamed, err := greet(t.Context(), g.openaiClient(testKey)); err != nil || whole != "Hello!" || streamed != whole {
		t.Errorf("%q, %q, %v", whole, streamed, err)
	}
	calls := 0
	for _, block := range openaiPage(t, "sh") {
		match := regexp.MustCompile(`(?s)http://localhost:8080(/v1/chat/\S+) .*-d '(.*?)'`).FindStringSubmatch(block)
		if match == nil {
			continue
		}
		calls++
		if a := g.post(match[1], match[2]); a.status != http.StatusOK || !strings.Contains(string(a.body), "Hello!") {
			t.Errorf("%s\n%d %s", block, a.status, a.body)
		}
	}
	if calls < 2 {
		t.Errorf("%d calls", calls)
	}
	// The error in the page.
	refused := g.post("/v1/chat/completions", `{"model":"broken","messages":[],"temperature":1}`)
	checkError(t, refused, "invalid_request", "temperature")
	shown := openaiPage(t, "text")[0]
	message := refused.json(t)["error"].(map[string]any)["message"].(string)
	if quoted, _ := json.Marshal(message); !strings.Contains(shown, string(quoted)) {
		t.Errorf("the page shows %s, the gateway says %s", shown, quoted)
	}
}

// TestOpenAILibrary calls endpoints through OpenAI's library.
func TestOpenAILibrary(t *testing.T) {
	g := startGateway(t, documentedAssistant(t), options)
	client, ctx := g.openaiClient(testKey), t.Context()
	hello := []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello!")}

	t.Run("tools", func(t *testing.T) {
		params := openai.ChatCompletionNewParams{
			Model: "assistant", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather?")},
			Temperature: openai.Float(0.5), MaxCompletionTokens: openai.Int(100), PromptCacheKey: openai.String("k"),
			Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
				Name: "get_weather", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
			})},
		}
		for _, streamed := range []bool{false, true} {
			params := params
			params.Messages = slices.Clone(params.Messages)
			ask := func() openai.ChatCompletionChoice {
				t.Helper()
				if !streamed {
					var response *http.Response
					answer, err := client.Chat.Completions.New(ctx, params, option.WithResponseInto(&response))
					if err != nil {
						t.Fatal(err)
					}
					if ignored := response.Header.Get("Cadenza-Ignored"); ignored != "prompt_cache_key" {
						t.Errorf("ignored: %q", ignored)
					}
					if id := response.Header.Get("X-Request-Id"); id == "" || answer.ID != "chatcmpl-"+strings.ReplaceAll(id, "-", "") {
						t.Errorf("the answer %s has the request id %q", answer.ID, id)
					}
					if answer.Usage.TotalTokens == 0 || answer.Model != "assistant" {
						t.Errorf("%+v", answer)
					}
					return answer.Choices[0]
				}
				params.StreamOptions.IncludeUsage = openai.Bool(true)
				var response *http.Response
				stream := client.Chat.Completions.NewStreaming(ctx, params, option.WithResponseInto(&response))
				var acc openai.ChatCompletionAccumulator
				for stream.Next() {
					acc.AddChunk(stream.Current())
				}
				if err := stream.Err(); err != nil || acc.Usage.TotalTokens == 0 || acc.ID != "chatcmpl-"+strings.ReplaceAll(response.Header.Get("X-Request-Id"), "-", "") {
					t.Fatalf("%v, %+v, %v", err, acc, response)
				}
				return acc.Choices[0]
			}
			first := ask()
			if first.FinishReason != "tool_calls" || len(first.Message.ToolCalls) != 1 || first.Message.ToolCalls[0].Function.Name != "get_weather" || !json.Valid([]byte(first.Message.ToolCalls[0].Function.Arguments)) {
				t.Fatalf("%+v", first)
			}
			params.Messages = append(params.Messages, first.Message.ToParam(), openai.ToolMessage("It rains.", first.Message.ToolCalls[0].ID))
			if second := ask(); second.FinishReason != "stop" || second.Message.Content != "It rains." {
				t.Errorf("%+v", second)
			}
		}
	})

	t.Run("errors", func(t *testing.T) {
		for name, c := range map[string]struct {
			client openai.Client
			params openai.ChatCompletionNewParams
			status int
			code   string
			param  string
			kind   string
		}{
			"key":       {g.openaiClient("sk-wrong-key-0000001"), openai.ChatCompletionNewParams{Model: "assistant"}, 401, "invalid_api_key", "", "authentication_error"},
			"model":     {client, openai.ChatCompletionNewParams{Model: "gpt-5", Messages: hello}, 404, "model_not_found", "model", "not_found_error"},
			"member":    {client, openai.ChatCompletionNewParams{Model: "assistant", Messages: hello, N: openai.Int(2)}, 400, "invalid_request", "n", "invalid_request_error"},
			"ceiling":   {client, openai.ChatCompletionNewParams{Model: "assistant", Messages: hello, MaxTokens: openai.Int(801)}, 400, "invalid_request", "max_tokens", "invalid_request_error"},
			"parameter": {client, openai.ChatCompletionNewParams{Model: "assistant", Messages: hello, Seed: openai.Int(1)}, 400, "invalid_request", "seed", "invalid_request_error"},
			"system":    {client, openai.ChatCompletionNewParams{Model: "assistant", Messages: append(slices.Clone(hello), openai.SystemMessage("Obey."))}, 400, "invalid_request", "messages[1].role", "invalid_request_error"},
			"history":   {client, openai.ChatCompletionNewParams{Model: "down", Messages: hello}, 400, "invalid_request", "messages", "invalid_request_error"},
			"variant":   {client, openai.ChatCompletionNewParams{Model: "assistant@friendly", Messages: hello}, 400, "invalid_request", "model", "invalid_request_error"},
			"upstream":  {client, openai.ChatCompletionNewParams{Model: "down"}, 502, "upstream_error", "", "server_error"},
		} {
			_, err := c.client.Chat.Completions.New(ctx, c.params)
			apiErr, ok := errors.AsType[*openai.Error](err)
			if !ok {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if apiErr.StatusCode != c.status || apiErr.Code != c.code || apiErr.Param != c.param || apiErr.Type != c.kind || apiErr.Message == "" || apiErr.Response.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s: %d %s, %v", name, apiErr.StatusCode, apiErr.RawJSON(), apiErr.Response.Header)
			}
		}
	})

	t.Run("broken stream", func(t *testing.T) {
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "broken", Messages: hello})
		said := ""
		for stream.Next() {
			said += stream.Current().Choices[0].Delta.Content
		}
		if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "upstream_interrupted") || !strings.HasPrefix("Half an answer", said) || said == "" {
			t.Errorf("%q, %v", said, err)
		}
	})

	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
		}
		if !slices.Equal(ids, []string{"assistant", "broken", "coder", "down", "rules", "support", "thinker"}) {
			t.Errorf("%q", ids)
		}
		if m, err := client.Models.Get(ctx, "thinker"); err != nil || m.ID != "thinker" || m.OwnedBy != "cadenza" || m.Created == 0 {
			t.Errorf("%+v, %v", m, err)
		}
		if _, err := client.Models.Get(ctx, "gpt-5"); err == nil || !strings.Contains(err.Error(), "404") {
			t.Error(err)
		} else if apiErr, _ := errors.AsType[*openai.Error](err); apiErr.Code != "model_not_found" {
			t.Error(apiErr.RawJSON())
		}
	})

	t.Run("rules", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"model":"rules"}`:                                                     "free",
			`{"model":"rules","context":{"plan":"pro"}}`:                            "pro",
			`{"model":"rules","metadata":{"plan":"pro"}}`:                           "pro",
			`{"model":"rules","metadata":{"plan":"pro"},"context":{"plan":"free"}}`: "free",
			`{"model":"rules@pro"}`:                                                 "pro",
		} {
			a := g.post("/v1/chat/completions", body)
			if a.status != http.StatusOK || !strings.Contains(string(a.body), `"content":"`+want+`"`) {
				t.Errorf("%s: %d %s", body, a.status, a.body)
			}
		}
		a := g.post("/v1/chat/completions", `{"model":"rules","metadata":{"run":"7"},"user":"u-1"}`)
		eventually(t, "the trace has the metadata and the user", func() bool {
			record, ok := g.trace("data/cadenza.db", a.header.Get("X-Request-Id"))
			return ok && strings.Contains(string(record.Metadata), `"run":"7"`) && strings.Contains(string(record.Metadata), `"user":"u-1"`)
		})
	})

	t.Run("reasoning", func(t *testing.T) {
		a := g.post("/v1/chat/completions", `{"model":"thinker","messages":[{"role":"user","content":"2 and 2?"}]}`)
		var answer struct {
			Choices []struct {
				Message json.RawMessage
			}
		}
		if err := json.Unmarshal(a.body, &answer); err != nil || len(answer.Choices) != 1 {
			t.Fatalf("%s, %v", a.body, err)
		}
		message := string(answer.Choices[0].Message)
		if !strings.Contains(message, `"reasoning_content":"I count."`) || !strings.Contains(message, `"signature":"cdz1_`) {
			t.Fatal(message)
		}
		type reply struct {
			status  int
			ignored string
		}
		again := func(message string) reply {
			a := g.post("/v1/chat/completions", `{"model":"thinker","messages":[{"role":"user","content":"2 and 2?"},`+message+`,{"role":"user","content":"Sure?"}]}`)
			return reply{a.status, a.header.Get("Cadenza-Ignored")}
		}
		if got := again(message); got != (reply{200, ""}) {
			t.Errorf("%+v", got)
		}
		// Data of no target of the endpoint has no effect, and is named.
		if got := again(strings.Replace(message, "cdz1_", "abc", 1)); got != (reply{200, "messages[1].reasoning_details"}) {
			t.Errorf("%+v", got)
		}
	})
}
