//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// A scripted model stands in for the upstream of one agent. It speaks the four APIs that
// providers have, asks for the calls of its scripts, and holds that each request has the
// conversation so far: every call once, with its result.
type scripted struct {
	talks []*talk
	// broken is closed when a conversation is not what its script says.
	broken chan struct{}

	mu       sync.Mutex
	mistakes []string
	thinks   bool // a request asked for thoughts
	caches   bool // a request says what to cache
	sees     bool // a request has an image
	tools    []string
}

// talk is a conversation that an agent, or one that it starts, has with its model.
type talk struct {
	task   string // what only this conversation has, or it and those before it
	script []scriptStep

	answered int       // how many steps of the script the agent has had
	failed   int       // how often the next one has failed
	early    time.Time // before this the next request comes too early
	signed   []string  // the signatures that answers had, in their order
	returned []string  // those of the last request
}

// ended reports whether the agent has had all of the scripts.
func (s *scripted) ended() bool {
	return !slices.ContainsFunc(s.talks, func(t *talk) bool { return t.answered < len(t.script) })
}

// scriptStep is an answer of the model.
type scriptStep struct {
	say   string
	calls []scriptCall
	// used is how many tokens the model says it has read, or 0 for a few.
	used int
	// fails are the answers to the first requests for the step. One that says nothing has
	// no other: the agent has to go on in another conversation.
	fails []failure
}

// failure is an answer that is none: with a status, or within a stream if that is 200.
type failure struct {
	status int
	header string        // of Retry-After
	wait   time.Duration // that the next request is to be later
	body   string
}

type scriptCall struct {
	tool      string
	arguments map[string]any
	result    string // what the result contains
	// argued returns the arguments that follow from the calls before, or is nil.
	argued func(before []heldCall) map[string]any
}

// conversation is what a request has, in any API.
type conversation struct {
	stream     bool
	thinks     bool           // thoughts are asked for
	signs      bool           // and the API signs them
	caches     bool           // it says what to cache
	sees       bool           // it has a PNG
	tools      map[string]any // their schemas, by name
	users      []string
	calls      []heldCall
	signatures []string
}

type heldCall struct {
	id, name  string
	arguments map[string]any
	results   []string
}

// scriptedModels serves each model below its name: /NAME/v1/messages, say.
type scriptedModels map[string]*scripted

func (m scriptedModels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	model := m[name]
	body, err := io.ReadAll(r.Body)
	if model == nil || err != nil {
		http.Error(w, "no such model", http.StatusNotFound)
		return
	}
	var request map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	dialect, ok := dialectOf(path)
	if !ok {
		http.Error(w, "no such route", http.StatusNotFound)
		return
	}
	asked := dialect.read(request)
	asked.sees = bytes.Contains(body, []byte("iVBORw0KGgo"))
	if strings.HasSuffix(path, ":streamGenerateContent") {
		asked.stream = true
	}
	answer, fails := model.answer(asked)
	if asked.stream && (fails == nil || fails.status == http.StatusOK) {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	if fails != nil {
		if fails.header != "" {
			w.Header().Set("Retry-After", fails.header)
		}
		w.WriteHeader(fails.status)
		io.WriteString(w, fails.body)
		return
	}
	dialect.write(w, answer, asked.stream)
}

// upstreamAPI is how an API is read and written.
type upstreamAPI struct {
	read  func(request map[string]any) *conversation
	write func(w io.Writer, answer *scriptAnswer, stream bool)
}

func dialectOf(path string) (upstreamAPI, bool) {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return upstreamAPI{readChat, writeChat}, true
	case strings.HasSuffix(path, "/responses"):
		return upstreamAPI{readResponses, writeResponses}, true
	case strings.HasSuffix(path, "/messages"):
		return upstreamAPI{readMessages, writeMessages}, true
	case strings.Contains(path, "enerateContent"):
		return upstreamAPI{readGemini, writeGemini}, true
	}
	return upstreamAPI{}, false
}

// scriptAnswer is what the model says to one request.
type scriptAnswer struct {
	number int
	sign   string // the signature of its thoughts; without one it has none
	scriptStep
}

// read returns how many tokens the model has read.
func (a *scriptAnswer) read() int { return max(a.used, 100) }

// id returns the id of the answer's call, as an API has them.
func (a *scriptAnswer) id(prefix string, call int) string {
	return fmt.Sprintf("%s_%02d%02dabcdefgh", prefix, a.number, call)
}

// find returns the talk that a conversation is, the last of those that it may be, with its
// index.
func (s *scripted) find(asked *conversation) (int, *talk) {
	for i, t := range slices.Backward(s.talks) {
		// The call for a title offers no tools; that for a summary has calls.
		offers := len(asked.calls) > 0 || asked.tools[t.script[0].calls[0].tool] != nil
		if offers && slices.ContainsFunc(asked.users, func(text string) bool { return strings.Contains(text, t.task) }) {
			return i, t
		}
	}
	return 0, nil
}

// answer returns the next step of the script, or how it fails. A conversation that is none
// of the agent's own, as the one that finds a title, has a short answer.
func (s *scripted) answer(asked *conversation) (*scriptAnswer, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index, t := s.find(asked)
	if t == nil {
		if len(asked.tools) > 1 {
			s.tools = slices.Sorted(maps.Keys(asked.tools))
		}
		return &scriptAnswer{number: 99, scriptStep: scriptStep{say: "Two files"}}, nil
	}
	s.tools = slices.Sorted(maps.Keys(asked.tools))
	s.thinks, s.caches, s.sees = s.thinks || asked.thinks, s.caches || asked.caches, s.sees || asked.sees
	t.returned = asked.signatures
	step, held := 0, asked.calls
	for ; step < len(t.script) && len(held) > 0; step++ {
		want := t.script[step].calls
		if len(held) < len(want) {
			break
		}
		for i, call := range want {
			if call.argued != nil {
				call.arguments = call.argued(asked.calls[:len(asked.calls)-len(held)])
			}
			if why := call.holds(&held[i]); why != "" {
				return s.mistake("call %d of step %d: %s", i+1, step+1, why), nil
			}
		}
		held = held[len(want):]
	}
	if len(held) > 0 {
		return s.mistake("after %d steps of the script the conversation has more calls: %v", step, held), nil
	}
	// An agent that has lost the last calls asks for them again, and may do so forever.
	if step < t.answered {
		return s.mistake("step %d is asked for again: the conversation does not have what it was answered", step+1), nil
	}
	if early := time.Until(t.early); early > 0 {
		return s.mistake("step %d is asked for %v before the agent was told to", step+1, early), nil
	}
	if fails := t.script[step].fails; t.failed < len(fails) {
		t.failed++
		if t.failed == len(fails) && t.script[step].say == "" {
			t.answered = step + 1
		}
		why := &fails[t.failed-1]
		t.early = time.Now().Add(why.wait)
		return nil, why
	}
	t.answered, t.failed = step+1, 0
	answer := &scriptAnswer{number: 10*index + step, scriptStep: t.script[step]}
	answer.calls = slices.Clone(answer.calls)
	for i, call := range answer.calls {
		if call.argued != nil {
			answer.calls[i].arguments = call.argued(asked.calls)
		}
		if asked.tools[call.tool] == nil {
			return s.mistake("the agent offers no tool %s, but: %s", call.tool, s.tools), nil
		}
	}
	if asked.signs {
		answer.sign = fmt.Sprintf("c2lnbmF0dXJl%04d", answer.number)
		if len(answer.calls) > 0 {
			t.signed = append(t.signed, answer.sign)
		}
	}
	return answer, nil
}

func (s *scripted) mistake(format string, arguments ...any) *scriptAnswer {
	s.mistakes = append(s.mistakes, fmt.Sprintf(format, arguments...))
	if len(s.mistakes) == 1 {
		close(s.broken)
	}
	return &scriptAnswer{number: 98, scriptStep: scriptStep{say: "This conversation is broken."}}
}

// holds says what is wrong with the call that a conversation has in place of this one.
func (c *scriptCall) holds(held *heldCall) string {
	if held.name != c.tool {
		return fmt.Sprintf("is of %s, not of %s", held.name, c.tool)
	}
	for name, value := range c.arguments {
		if !reflect.DeepEqual(held.arguments[name], value) {
			return fmt.Sprintf("%s is %v, not %v", name, held.arguments[name], value)
		}
	}
	if len(held.results) != 1 || !strings.Contains(held.results[0], c.result) {
		return fmt.Sprintf("has the results %q, not one with %q", held.results, c.result)
	}
	return ""
}

// The rest reads and writes the APIs. What is not there is zero.

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }
func text(v any) string           { s, _ := v.(string); return s }

// texts returns the text of a content: one text, or parts.
func texts(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var all strings.Builder
	for _, part := range list(v) {
		all.WriteString(text(object(part)["text"]))
		if nested := object(part)["content"]; nested != nil {
			all.WriteString(texts(nested))
		}
	}
	return all.String()
}

func parsed(v any) (arguments map[string]any) {
	_ = json.Unmarshal([]byte(text(v)), &arguments)
	return arguments
}

// result gives its call a result. The last call of an id has it.
func (c *conversation) result(id, text string) {
	for i := len(c.calls) - 1; i >= 0; i-- {
		if c.calls[i].id == id {
			c.calls[i].results = append(c.calls[i].results, text)
			return
		}
	}
	c.calls = append(c.calls, heldCall{name: "a result without its call: " + id})
}

func readChat(request map[string]any) *conversation {
	c := &conversation{stream: request["stream"] == true, tools: map[string]any{}}
	effort := text(request["reasoning_effort"])
	c.thinks = effort != "" && effort != "none"
	for _, tool := range list(request["tools"]) {
		function := object(object(tool)["function"])
		c.tools[text(function["name"])] = function["parameters"]
	}
	for _, m := range list(request["messages"]) {
		message := object(m)
		switch message["role"] {
		case "user":
			c.users = append(c.users, texts(message["content"]))
		case "tool":
			c.result(text(message["tool_call_id"]), texts(message["content"]))
		}
		for _, call := range list(message["tool_calls"]) {
			function := object(object(call)["function"])
			c.calls = append(c.calls, heldCall{id: text(object(call)["id"]), name: text(function["name"]), arguments: parsed(function["arguments"])})
		}
	}
	return c
}

func readResponses(request map[string]any) *conversation {
	c := &conversation{stream: request["stream"] == true, tools: map[string]any{}}
	effort := text(object(request["reasoning"])["effort"])
	c.thinks = effort != "" && effort != "none"
	c.signs = slices.Contains(list(request["include"]), any("reasoning.encrypted_content"))
	for _, tool := range list(request["tools"]) {
		c.tools[text(object(tool)["name"])] = object(tool)["parameters"]
	}
	if input, ok := request["input"].(string); ok {
		c.users = append(c.users, input)
	}
	for _, i := range list(request["input"]) {
		item := object(i)
		switch {
		case item["type"] == "function_call":
			c.calls = append(c.calls, heldCall{id: text(item["call_id"]), name: text(item["name"]), arguments: parsed(item["arguments"])})
		case item["type"] == "function_call_output":
			c.result(text(item["call_id"]), texts(item["output"]))
		case item["type"] == "reasoning":
			c.signatures = append(c.signatures, text(item["encrypted_content"]))
		case item["role"] == "user":
			c.users = append(c.users, texts(item["content"]))
		}
	}
	return c
}

func readMessages(request map[string]any) *conversation {
	c := &conversation{stream: request["stream"] == true, tools: map[string]any{}}
	kind := text(object(request["thinking"])["type"])
	c.thinks = kind == "enabled" || kind == "adaptive"
	c.signs = c.thinks
	c.caches = request["cache_control"] != nil
	for _, tool := range list(request["tools"]) {
		c.tools[text(object(tool)["name"])] = object(tool)["input_schema"]
		c.caches = c.caches || object(tool)["cache_control"] != nil
	}
	for _, block := range list(request["system"]) {
		c.caches = c.caches || object(block)["cache_control"] != nil
	}
	for _, m := range list(request["messages"]) {
		message := object(m)
		if message["role"] == "user" {
			c.users = append(c.users, texts(message["content"]))
		}
		for _, b := range list(message["content"]) {
			block := object(b)
			c.caches = c.caches || block["cache_control"] != nil
			switch block["type"] {
			case "tool_use":
				c.calls = append(c.calls, heldCall{id: text(block["id"]), name: text(block["name"]), arguments: object(block["input"])})
			case "tool_result":
				c.result(text(block["tool_use_id"]), texts(block["content"]))
			case "thinking":
				c.signatures = append(c.signatures, text(block["signature"]))
			}
		}
	}
	return c
}

// readGemini gives results to their calls by the ids, and by their order where there are
// none: Gemini's own calls have none.
func readGemini(request map[string]any) *conversation {
	c := &conversation{tools: map[string]any{}, signs: true}
	c.thinks = object(request["generationConfig"])["thinkingConfig"] != nil
	for _, tool := range list(request["tools"]) {
		for _, function := range list(object(tool)["functionDeclarations"]) {
			c.tools[text(object(function)["name"])] = function
		}
	}
	answered := 0
	for _, content := range list(request["contents"]) {
		for _, p := range list(object(content)["parts"]) {
			part := object(p)
			if signature := text(part["thoughtSignature"]); signature != "" {
				c.signatures = append(c.signatures, signature)
			}
			if object(content)["role"] == "user" && part["text"] != nil {
				c.users = append(c.users, text(part["text"]))
			}
			if call := object(part["functionCall"]); call != nil {
				c.calls = append(c.calls, heldCall{id: text(call["id"]), name: text(call["name"]), arguments: object(call["args"])})
			}
			if response := object(part["functionResponse"]); response != nil {
				said, _ := json.Marshal(response["response"])
				plain := string(said)
				for _, value := range object(response["response"]) {
					plain += texts(value)
				}
				switch id := text(response["id"]); {
				case id != "":
					c.result(id, plain)
				case answered == len(c.calls) || c.calls[answered].name != response["name"]:
					c.calls = append(c.calls, heldCall{name: "a result out of its order: " + text(response["name"])})
				default:
					c.calls[answered].results = append(c.calls[answered].results, plain)
					answered++
				}
			}
		}
	}
	return c
}

// sse writes a server-sent event with a name, or without.
func sse(w io.Writer, name string, data any) {
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	encoded, _ := json.Marshal(data)
	fmt.Fprintf(w, "data: %s\n\n", encoded)
}

func whole(w io.Writer, data any) { _ = json.NewEncoder(w).Encode(data) }

type m = map[string]any

func writeChat(w io.Writer, a *scriptAnswer, stream bool) {
	finish, calls := "stop", []any{}
	for i, call := range a.calls {
		finish = "tool_calls"
		arguments, _ := json.Marshal(call.arguments)
		calls = append(calls, m{"index": i, "id": a.id("call", i), "type": "function", "function": m{"name": call.tool, "arguments": string(arguments)}})
	}
	usage := m{"prompt_tokens": a.read(), "completion_tokens": 10, "total_tokens": a.read() + 10}
	head := func(choice m) m {
		return m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{choice}}
	}
	if !stream {
		message := m{"role": "assistant", "content": a.say}
		if len(calls) > 0 {
			message["tool_calls"] = calls
		}
		answer := head(m{"index": 0, "message": message, "finish_reason": finish})
		answer["object"], answer["usage"] = "chat.completion", usage
		whole(w, answer)
		return
	}
	sse(w, "", head(m{"index": 0, "delta": m{"role": "assistant", "content": ""}}))
	sse(w, "", head(m{"index": 0, "delta": m{"content": a.say}}))
	for i, c := range calls {
		function := object(object(c)["function"])
		arguments := text(function["arguments"])
		function["arguments"] = ""
		sse(w, "", head(m{"index": 0, "delta": m{"tool_calls": []any{c}}}))
		for _, piece := range []string{arguments[:3], arguments[3:]} {
			sse(w, "", head(m{"index": 0, "delta": m{"tool_calls": []any{m{"index": i, "function": m{"arguments": piece}}}}}))
		}
	}
	sse(w, "", head(m{"index": 0, "delta": m{}, "finish_reason": finish}))
	last := head(nil)
	last["choices"], last["usage"] = []any{}, usage
	sse(w, "", last)
	io.WriteString(w, "data: [DONE]\n\n")
}

func writeMessages(w io.Writer, a *scriptAnswer, stream bool) {
	reason, blocks := "end_turn", []m{}
	if a.sign != "" {
		blocks = append(blocks, m{"type": "thinking", "thinking": "I think.", "signature": a.sign})
	}
	blocks = append(blocks, m{"type": "text", "text": a.say})
	for i, call := range a.calls {
		reason = "tool_use"
		blocks = append(blocks, m{"type": "tool_use", "id": a.id("toolu", i), "name": call.tool, "input": call.arguments})
	}
	message := m{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": blocks,
		"stop_reason": reason, "stop_sequence": nil, "usage": m{"input_tokens": a.read(), "output_tokens": 10},
	}
	if !stream {
		whole(w, message)
		return
	}
	message["content"], message["stop_reason"] = []any{}, nil
	sse(w, "message_start", m{"type": "message_start", "message": message})
	for i, block := range blocks {
		var deltas []m
		switch block["type"] {
		case "thinking":
			deltas = []m{{"type": "thinking_delta", "thinking": block["thinking"]}, {"type": "signature_delta", "signature": block["signature"]}}
			block["thinking"], block["signature"] = "", ""
		case "text":
			deltas = []m{{"type": "text_delta", "text": block["text"]}}
			block["text"] = ""
		default:
			input, _ := json.Marshal(block["input"])
			deltas = []m{{"type": "input_json_delta", "partial_json": string(input[:3])}, {"type": "input_json_delta", "partial_json": string(input[3:])}}
			block["input"] = m{}
		}
		sse(w, "content_block_start", m{"type": "content_block_start", "index": i, "content_block": block})
		for _, delta := range deltas {
			sse(w, "content_block_delta", m{"type": "content_block_delta", "index": i, "delta": delta})
		}
		sse(w, "content_block_stop", m{"type": "content_block_stop", "index": i})
	}
	sse(w, "message_delta", m{"type": "message_delta", "delta": m{"stop_reason": reason, "stop_sequence": nil}, "usage": m{"output_tokens": 10}})
	sse(w, "message_stop", m{"type": "message_stop"})
}

// writeGemini signs the first call, as the API does.
func writeGemini(w io.Writer, a *scriptAnswer, stream bool) {
	parts := []any{m{"text": a.say}}
	for i, call := range a.calls {
		part := m{"functionCall": m{"name": call.tool, "args": call.arguments}}
		if i == 0 && a.sign != "" {
			part["thoughtSignature"] = a.sign
		}
		parts = append(parts, part)
	}
	answer := func(finish string, parts ...any) m {
		candidate := m{"index": 0, "content": m{"role": "model", "parts": parts}}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		return m{
			"candidates": []any{candidate}, "modelVersion": "scripted", "responseId": "r1",
			"usageMetadata": m{"promptTokenCount": a.read(), "candidatesTokenCount": 10, "totalTokenCount": a.read() + 10},
		}
	}
	if !stream {
		whole(w, answer("STOP", parts...))
		return
	}
	for i, part := range parts {
		finish := ""
		if i == len(parts)-1 {
			finish = "STOP"
		}
		sse(w, "", answer(finish, part))
	}
}

func writeResponses(w io.Writer, a *scriptAnswer, stream bool) {
	var items []m
	if a.sign != "" {
		items = append(items, m{"type": "reasoning", "id": a.id("rs", 0), "summary": []any{m{"type": "summary_text", "text": "I think."}}, "encrypted_content": a.sign})
	}
	items = append(items, m{"type": "message", "id": a.id("msg", 0), "role": "assistant", "status": "completed", "content": []any{m{"type": "output_text", "text": a.say, "annotations": []any{}}}})
	for i, call := range a.calls {
		arguments, _ := json.Marshal(call.arguments)
		items = append(items, m{"type": "function_call", "id": a.id("fc", i), "call_id": a.id("call", i), "name": call.tool, "arguments": string(arguments), "status": "completed"})
	}
	response := m{
		"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "scripted", "output": items,
		"usage": m{"input_tokens": a.read(), "output_tokens": 10, "total_tokens": a.read() + 10, "input_tokens_details": m{"cached_tokens": 0}, "output_tokens_details": m{"reasoning_tokens": 0}},
	}
	if !stream {
		whole(w, response)
		return
	}
	sequence := 0
	send := func(name string, data m) {
		data["type"], data["sequence_number"] = name, sequence
		sequence++
		sse(w, name, data)
	}
	begun := maps.Clone(response)
	begun["status"], begun["output"], begun["usage"] = "in_progress", []any{}, nil
	send("response.created", m{"response": begun})
	send("response.in_progress", m{"response": begun})
	for i, item := range items {
		at := func(more m) m {
			more["item_id"], more["output_index"] = item["id"], i
			return more
		}
		started := maps.Clone(item)
		started["status"] = "in_progress"
		switch item["type"] {
		case "reasoning":
			started["summary"] = []any{}
			part := m{"type": "summary_text", "text": "I think."}
			send("response.output_item.added", m{"output_index": i, "item": started})
			send("response.reasoning_summary_part.added", at(m{"summary_index": 0, "part": m{"type": "summary_text", "text": ""}}))
			send("response.reasoning_summary_text.delta", at(m{"summary_index": 0, "delta": "I think."}))
			send("response.reasoning_summary_text.done", at(m{"summary_index": 0, "text": "I think."}))
			send("response.reasoning_summary_part.done", at(m{"summary_index": 0, "part": part}))
		case "message":
			started["content"] = []any{}
			send("response.output_item.added", m{"output_index": i, "item": started})
			send("response.content_part.added", at(m{"content_index": 0, "part": m{"type": "output_text", "text": "", "annotations": []any{}}}))
			send("response.output_text.delta", at(m{"content_index": 0, "delta": a.say}))
			send("response.output_text.done", at(m{"content_index": 0, "text": a.say}))
			send("response.content_part.done", at(m{"content_index": 0, "part": list(item["content"])[0]}))
		default:
			arguments := text(item["arguments"])
			started["arguments"] = ""
			send("response.output_item.added", m{"output_index": i, "item": started})
			send("response.function_call_arguments.delta", at(m{"delta": arguments[:3]}))
			send("response.function_call_arguments.delta", at(m{"delta": arguments[3:]}))
			send("response.function_call_arguments.done", at(m{"arguments": arguments}))
		}
		send("response.output_item.done", m{"output_index": i, "item": item})
	}
	send("response.completed", m{"response": response})
}
