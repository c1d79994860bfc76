//go:build !race

// Not under the race detector, which finds nothing here and takes half a minute.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/anthropic"
	"github.com/cadenza-gateway/cadenza/providers/azure"
	"github.com/cadenza-gateway/cadenza/providers/bedrock"
	"github.com/cadenza-gateway/cadenza/providers/gemini"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// wireType is the type of a request's body in a provider's own SDK.
type wireType struct {
	name   string
	models []string
	// source has the imports and the declaration of the type Body.
	source string
	// thoughts and calls are opaque data of thoughts and of calls, in the form of the
	// provider's package. Each has the signature c2ln.
	thoughts, calls []string
	// searched is the opaque data of what a search left, which goes out beside functions;
	// searches reports that requests of the type Body search.
	searched string
	searches bool
	connect  func(t *testing.T, base string) providers.Provider
}

// wire converts the types of an SDK to the types of its JSON: enumerations to texts,
// bytes to base64.
const wire = `
type Wire<T> = T extends Uint8Array ? string : T extends string ? ` + "`${T}`" + ` :
	T extends (infer U)[] ? Wire<U>[] : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;
`

var wireTypes = []wireType{
	{
		name: "openai", models: []string{"gpt-4o-mini", "gpt-5.1"},
		source: `import type { ChatCompletionCreateParams as Body } from "openai/resources/chat/completions";`,
		connect: func(t *testing.T, base string) providers.Provider {
			// The client has quirks for OpenAI's own host: the test's server is its proxy.
			return connected(t)(openai.New(openai.Config{Key: "sk-test", Upstream: upstream.Config{
				BaseURL: address(t, "http://api.openai.com/v1"), Proxy: address(t, base),
			}}))
		},
	}, {
		name: "openai_responses", models: []string{"gpt-5.6-sol", "gpt-4.1-mini"},
		source:   `import type { ResponseCreateParams as Body } from "openai/resources/responses/responses";`,
		searches: true,
		thoughts: []string{`{"type":"reasoning","id":"rs_1","encrypted_content":"c2ln"}`},
		connect: func(t *testing.T, base string) providers.Provider {
			return connected(t)(openai.New(openai.Config{Key: "sk-test", API: openai.APIResponses, Upstream: upstream.Config{
				BaseURL: address(t, "http://api.openai.com/v1"), Proxy: address(t, base),
			}}))
		},
	}, {
		name: "azure", models: []string{"a-deployment"},
		source: `import type { ChatCompletionCreateParams as Body } from "openai/resources/chat/completions";`,
		connect: func(t *testing.T, base string) providers.Provider {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
			t.Cleanup(cancel)
			t.Setenv("AZURE_TEST_KEY", "test")
			m := &azure.Module{Endpoint: base, APIKey: "{env.AZURE_TEST_KEY}"}
			if err := m.Provision(ctx); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Cleanup() })
			return m
		},
	}, {
		name: "anthropic", models: []string{"claude-sonnet-4-5", "claude-opus-4-7"},
		// Older models take these three, which the SDK no longer has.
		source: `import type { MessageCreateParams } from "@anthropic-ai/sdk/resources/messages";
type Sampling = { temperature?: number; top_p?: number; top_k?: number };
type Body = MessageCreateParams & Sampling;`,
		searches: true,
		thoughts: []string{
			`{"type":"thinking","thinking":"Let me see.","signature":"c2ln"}`, `{"type":"redacted_thinking","data":"c2ln"}`,
		},
		connect: func(t *testing.T, base string) providers.Provider {
			return connected(t)(anthropic.New(anthropic.Config{Key: "test", Upstream: upstream.Config{BaseURL: address(t, base)}}))
		},
	}, {
		name: "gemini", models: []string{"gemini-2.5-flash", "gemini-3-pro-preview"},
		source: `import type { Content, GenerationConfig, Tool, ToolConfig } from "@google/genai";` + wire + `
type Body = Wire<{ contents: Content[]; systemInstruction?: Content; generationConfig?: GenerationConfig; tools?: Tool[]; toolConfig?: ToolConfig }>;`,
		searched: `part:{"toolCall":{"id":"h","toolType":"GOOGLE_SEARCH_WEB","args":{}},"thoughtSignature":"c2ln"}`, searches: true,
		thoughts: []string{"text:c2ln", "thought:c2ln"}, calls: []string{"c2ln"},
		connect: func(t *testing.T, base string) providers.Provider {
			return connected(t)(gemini.New(gemini.Config{Key: "test", Upstream: upstream.Config{BaseURL: address(t, base)}}))
		},
	}, {
		name: "bedrock", models: []string{"anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"},
		source: `import type { ConverseCommandInput } from "@aws-sdk/client-bedrock-runtime";` + wire + `
type Body = Omit<Wire<ConverseCommandInput>, "modelId">;`,
		thoughts: []string{
			`{"reasoningContent":{"reasoningText":{"text":"Let me see.","signature":"c2ln"}}}`, `{"reasoningContent":{"redactedContent":"c2ln"}}`,
		},
		connect: func(t *testing.T, base string) providers.Provider {
			return connected(t)(bedrock.New(bedrock.Config{
				Region: "eu-central-1", APIKey: func() (string, error) { return "test", nil },
				Upstream: upstream.Config{BaseURL: address(t, base)},
			}))
		},
	},
}

// connected returns a function that closes a client when the test ends.
func connected(t *testing.T) func(client interface {
	providers.Provider
	Close()
}, err error) providers.Provider {
	return func(client interface {
		providers.Provider
		Close()
	}, err error) providers.Provider {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
}

func address(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// histories returns messages with every kind of part, in every possible place, and with
// the provider's own thoughts.
func (w *wireType) histories() map[string][]providers.Message {
	const pixel = "iVBORw0KGgo="
	text := func(s string) providers.Part {
		return providers.Part{Kind: providers.PartText, Text: providers.Escape(s)}
	}
	image := func(m providers.Media) providers.Part { return providers.Part{Kind: providers.PartImage, Media: m} }
	file := func(m providers.Media) providers.Part { return providers.Part{Kind: providers.PartFile, Media: m} }
	call := func(id string) providers.Part {
		return providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: id, Name: "get_weather", Arguments: `{"z":"here","a":"<&>"}`}}
	}
	result := func(id string, failed bool, content ...providers.Part) providers.Part {
		return providers.Part{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: id, Name: "get_weather", Content: content, Failed: failed}}
	}
	thinking := providers.Part{Kind: providers.PartThinking, Text: "Let me see."}
	user := func(parts ...providers.Part) providers.Message { return providers.Message{Role: "user", Parts: parts} }
	assistant := func(parts ...providers.Part) providers.Message {
		return providers.Message{Role: "assistant", Parts: parts}
	}
	tool := func(parts ...providers.Part) providers.Message {
		return providers.Message{Role: "tool", Parts: parts}
	}
	asked := user(text("How is the weather?"))
	inline := providers.Media{Data: pixel, Type: "image/png"}
	all := map[string][]providers.Message{
		"text":       pt.Messages("user", "Hello."),
		"system":     pt.Messages("system", "Be brief.", "user", "Hello."),
		"developer":  pt.Messages("developer", "Be brief.", "user", "Hello."),
		"turns":      pt.Messages("system", "Be brief.", "user", "Hello.", "assistant", "Hi.", "user", "Bye."),
		"same role":  pt.Messages("user", "Hello.", "user", "Are you there?"),
		"text parts": {user(text("Hello."), text(" And again."))},
		"image URL":  {user(text("What is it?"), image(providers.Media{URL: "https://example.com/a.png", Type: "image/png", Detail: "high"}))},
		"image data": {user(image(inline), text("What is it?"), image(providers.Media{Data: pixel, Type: "image/jpeg", Detail: "low"}))},
		"audio":      {user(text("What is said?"), providers.Part{Kind: providers.PartAudio, Media: providers.Media{Data: pixel, Type: "audio/wav"}})},
		"mp3":        {user(providers.Part{Kind: providers.PartAudio, Media: providers.Media{Data: pixel, Type: "audio/mpeg"}})},
		"file":       {user(text("Sum it up."), file(providers.Media{Data: pixel, Type: "application/pdf", Name: "a b.pdf"}))},
		"text file":  {user(file(providers.Media{Data: "SGVsbG8=", Type: "text/plain", Name: "a.txt"}), text("Sum it up."))},
		"file URL":   {user(text("Sum it up."), file(providers.Media{URL: "https://example.com/a.pdf", Type: "application/pdf"}))},
		"tool":       {asked, assistant(call("call_1")), tool(result("call_1", false, text("Sunny.")))},
		"tools": {
			asked, assistant(text("I'll look."), call("call_1"), call("call_2")),
			tool(result("call_1", false, text("Sunny."))), tool(result("call_2", false, text(`{"sky":"blue"}`))),
			assistant(text("It is sunny.")), user(text("Thanks.")),
		},
		"failed tool": {asked, assistant(call("call_1")), tool(result("call_1", true, text("No such place.")))},
		"empty tool":  {asked, assistant(call("call_1")), tool(result("call_1", false))},
		"tool image":  {asked, assistant(call("call_1")), tool(result("call_1", false, text("See:"), image(inline)))},
		"thinking":    {asked, assistant(thinking, text("It is sunny.")), user(text("Thanks."))},
		"thinking and tool": {
			asked, assistant(thinking, call("call_1")), tool(result("call_1", false, text("Sunny."))),
		},
	}
	for i, opaque := range w.calls {
		signed := call("call_1")
		signed.Opaque = opaque
		all[fmt.Sprint("signed ", i)] = []providers.Message{asked, assistant(thinking, signed), tool(result("call_1", false, text("Sunny.")))}
	}
	if w.searched != "" {
		all["searched"] = []providers.Message{asked, assistant(providers.Part{Kind: providers.PartThinking, Opaque: w.searched}, call("call_1")), tool(result("call_1", false, text("Sunny.")))}
	}
	for i, opaque := range w.thoughts {
		thought := providers.Part{Kind: providers.PartThinking, Text: "Let me see.", Opaque: opaque}
		all[fmt.Sprint("signed thought ", i)] = []providers.Message{
			asked, assistant(thought, text("I'll look."), call("call_1")), tool(result("call_1", false, text("Sunny."))),
		}
	}
	return all
}

// parameters returns each parameter alone, no parameter, and all.
func parameters() map[string]providers.Parameters {
	all := pt.Everything()
	all.Temperature, all.TopP, all.TopK, all.MaxTokens = new(0.5), new(0.9), new(int64(40)), new(int64(400))
	all.FrequencyPenalty, all.PresencePenalty, all.Logprobs = new(-0.5), new(0.25), new(int64(2))
	all.Tools, all.ToolChoice = nil, nil
	return map[string]providers.Parameters{
		"none": {}, "all": all,
		"temperature": {Temperature: all.Temperature}, "top_p": {TopP: all.TopP}, "top_k": {TopK: all.TopK},
		"max_tokens": {MaxTokens: all.MaxTokens}, "frequency_penalty": {FrequencyPenalty: all.FrequencyPenalty},
		"presence_penalty": {PresencePenalty: all.PresencePenalty}, "seed": {Seed: all.Seed}, "stop": {Stop: all.Stop},
		"logprobs":    {Logprobs: all.Logprobs},
		"effort none": {ReasoningEffort: "none"}, "effort minimal": {ReasoningEffort: "minimal"}, "effort low": {ReasoningEffort: "low"},
		"effort medium": {ReasoningEffort: "medium"}, "effort high": {ReasoningEffort: "high"},
		"schema": {ResponseFormat: all.ResponseFormat}, "json": {ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}},
		"text": {ResponseFormat: &providers.ResponseFormat{Type: providers.FormatText}},
	}
}

// toolSets returns tools with each choice of tools.
func toolSets() map[string]providers.Parameters {
	tools := pt.Tools()
	search := &providers.Caller{Search: &providers.WebSearch{MaxUses: 3, ContextSize: "low", Location: json.RawMessage(`{"type":"approximate","city":"Utrecht"}`)}}
	return map[string]providers.Parameters{
		"no tools": {}, "tools": {Tools: tools},
		"one at a time": {Tools: tools, ParallelToolCalls: new(false)}, "parallel": {Tools: tools, ParallelToolCalls: new(true)},
		"auto":                {Tools: tools, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsAuto}},
		"none":                {Tools: tools, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNone}},
		"required":            {Tools: tools, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsRequired}, ParallelToolCalls: new(false)},
		"named":               {Tools: tools[:1], ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "get_weather"}},
		"search":              {Caller: search},
		"search beside tools": {Caller: search, Tools: tools, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsAuto}},
	}
}

// TestUpstreamTypes makes TypeScript check the bodies for providers against the types of
// their own SDKs: all kinds of messages with all tools and all parameters. The gateway's
// own answers are checked in the same way.
func TestUpstreamTypes(t *testing.T) {
	program, project := node(t)
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(project, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{} // the names of the requests, by file
	for i := range wireTypes {
		names, source := wireTypes[i].record(t)
		if err := os.WriteFile(filepath.Join(dir, wireTypes[i].name+".ts"), source, 0o600); err != nil {
			t.Fatal(err)
		}
		lines[wireTypes[i].name] = names
	}
	lines["members"] = []string{"", "", "internal/gateway/testdata/openai-members.json, chat", "the same, responses"}
	if err := os.WriteFile(filepath.Join(dir, "members.ts"), openaiMembers(t), 0o600); err != nil {
		t.Fatal(err)
	}
	names, answers := answersFile(t)
	lines["answers"] = names
	if err := os.WriteFile(filepath.Join(dir, "answers.ts"), answers, 0o600); err != nil {
		t.Fatal(err)
	}
	const config = `{"compilerOptions":{"strict":true,"noEmit":true,"skipLibCheck":true,"target":"esnext","module":"nodenext","types":[]},"include":["*.ts"]}`
	if err := os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program, filepath.Join(project, "node_modules/typescript/bin/tsc"), "--pretty", "false", "-p", dir).CombinedOutput()
	if err == nil {
		return
	}
	problems := regexp.MustCompile(`(?m)(\w+)\.ts\((\d+),\d+\): (.*(?:\n .*)*)`).FindAllSubmatch(output, -1)
	if len(problems) == 0 {
		t.Fatalf("%v\n%s", err, output)
	}
	reported := map[string]bool{}
	for _, m := range problems {
		provider, problem := string(m[1]), string(m[3])
		line, err := strconv.Atoi(string(m[2]))
		if err != nil || line > len(lines[provider]) {
			t.Fatalf("%s", output)
		}
		if !reported[provider+problem] {
			reported[provider+problem] = true
			t.Errorf("%s: %s\n%s", provider, lines[provider][line-1], problem)
		}
	}
}

// openaiMembers returns a file with which TypeScript checks that a test of the gateway
// sends all members of requests that the libraries of OpenAI and of Anthropic have.
func openaiMembers(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../internal/gateway/testdata/openai-members.json")
	if err != nil {
		t.Fatal(err)
	}
	var members map[string][]string
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	source := []byte(`import type { ChatCompletionCreateParamsBase } from "openai/resources/chat/completions/completions";
import type { ResponseCreateParamsBase } from "openai/resources/responses/responses";
import type { MessageCreateParams } from "@anthropic-ai/sdk/resources/beta/messages/messages";
`)
	for _, door := range [][2]string{{"/v1/chat/completions", "ChatCompletionCreateParamsBase"}, {"/v1/responses", "ResponseCreateParamsBase"}, {"/v1/messages", "MessageCreateParams"}} {
		source = fmt.Appendf(source, "({ %s: 1 }) satisfies Record<keyof %s, 1>;\n", strings.Join(members[door[0]], ": 1, "), door[1])
	}
	return source
}

// record sends all requests and returns a file that TypeScript checks. names has the
// request of each of its lines.
func (w *wireType) record(t *testing.T) (names []string, source []byte) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		rw.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	p := w.connect(t, server.URL)
	source = []byte(strings.ReplaceAll(w.source, "\n", " ") + "\n")
	names = []string{"the types"}
	known := map[string]bool{}
	refused := map[string]int{}
	messages, settings, tools := w.histories(), parameters(), toolSets()
	for _, model := range w.models {
		for _, m := range slices.Sorted(maps.Keys(messages)) {
			for _, s := range slices.Sorted(maps.Keys(settings)) {
				for _, c := range slices.Sorted(maps.Keys(tools)) {
					name := fmt.Sprintf("%s: messages %s, parameters %s, %s", model, m, s, c)
					request := providers.Request{Model: model, Messages: messages[m], Parameters: settings[s], Stream: len(names)%2 == 0}
					request.Parameters.Tools, request.Parameters.ToolChoice = tools[c].Tools, tools[c].ToolChoice
					request.Parameters.ParallelToolCalls = tools[c].ParallelToolCalls
					if request.Parameters.Caller = tools[c].Caller; request.Parameters.Caller != nil {
						if !w.searches {
							continue // it would be of another API
						}
						request.FitSearch(p)
					}
					body = nil
					_, err := p.Invoke(t.Context(), &request)
					if body == nil {
						failure, ok := errors.AsType[*providers.Error](err)
						if !ok || failure.Kind != providers.Status || failure.Reason == "" {
							t.Fatalf("%s: %s: neither sent nor refused by name: %v", w.name, name, err)
						}
						refused[failure.Reason]++
						continue
					}
					if !json.Valid(body) {
						t.Fatalf("%s: %s: %s", w.name, name, body)
					}
					if strings.HasPrefix(m, "signed ") && !strings.Contains(string(body), `"c2ln"`) {
						t.Errorf("%s: %s: its signature is gone: %s", w.name, name, body)
					}
					if known[string(body)] {
						continue
					}
					if len(known) == 0 {
						// A type that allows everything would prove nothing.
						source = fmt.Appendf(source, "// @ts-expect-error\n({\"unknown\":1,%s) satisfies Body;\n", body[1:])
						names = append(names, "an unknown member is allowed", "an unknown member")
					}
					known[string(body)] = true
					source = fmt.Appendf(source, "(%s) satisfies Body;\n", body)
					names = append(names, name+": "+string(body))
				}
			}
		}
	}
	t.Logf("%s: %d bodies", w.name, len(known))
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("%s: %d refused: %s", w.name, refused[reason], reason)
	}
	return names, source
}
