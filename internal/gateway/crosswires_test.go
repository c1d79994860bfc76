package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go/eventstream"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/anthropic"
	"github.com/cadenza-gateway/cadenza/providers/bedrock"
	"github.com/cadenza-gateway/cadenza/providers/gemini"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// crossTarget is a format of providers.
type crossTarget struct {
	name, model string
	thinks      bool
	noIDs       bool     // it knows calls by their order
	lacks       []string // the kinds of leaves that it refuses
	// cached and failed are what marks for the cache and results that failed have in a
	// body; empty: it has none.
	cached, failed string
	connect        func(t *testing.T, base string) providers.Provider
	write          func(u *crossUpstream, stream bool) []string
}

var crossTargets = []crossTarget{
	{"openai", "gpt-4.1-mini", false, false, []string{"fileURL"}, "", "", func(t *testing.T, base string) providers.Provider {
		return official(t, base, openai.APIChat)
	}, (*crossUpstream).openai},
	{"responses", "gpt-5.6-sol", true, false, []string{"audio", "stop"}, "", "", func(t *testing.T, base string) providers.Provider {
		return official(t, base, openai.APIResponses)
	}, (*crossUpstream).responses},
	{"anthropic", "claude-sonnet-4-5", true, false, []string{"audio"}, `"cache_control":`, `"is_error":true`, func(t *testing.T, base string) providers.Provider {
		return pt.Client(t, anthropic.New, anthropic.Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}})
	}, (*crossUpstream).anthropic},
	{"gemini", "gemini-2.5-flash", true, true, nil, "", `"response":{"error":`, func(t *testing.T, base string) providers.Provider {
		return pt.Client(t, gemini.New, gemini.Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}})
	}, (*crossUpstream).gemini},
	{"gemini 3", "gemini-3-pro-preview", true, true, nil, "", `"response":{"error":`, func(t *testing.T, base string) providers.Provider {
		return pt.Client(t, gemini.New, gemini.Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}})
	}, (*crossUpstream).gemini},
	{"bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", true, false, []string{"audio", "imageURL", "fileURL"}, `"cachePoint":`, `"status":"error"`, func(t *testing.T, base string) providers.Provider {
		key := func() (string, error) { return testKey, nil }
		return pt.Client(t, bedrock.New, bedrock.Config{Region: "eu-central-1", APIKey: key, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}})
	}, (*crossUpstream).bedrock},
}

// official is a client of OpenAI's own API, whose proxy the test's server is.
func official(t *testing.T, base string, api string) providers.Provider {
	of, err := url.Parse("http://api.openai.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	return pt.Client(t, openai.New, openai.Config{Key: testKey, API: api, Upstream: upstream.Config{BaseURL: of, Proxy: pt.URL(t, base)}})
}

// mayRefuse reports whether the provider lacks what a refusal names, or no API has it: our
// own refuses that.
func (d *drawing) mayRefuse(to *crossTarget, param string, sent []spot) bool {
	return slices.ContainsFunc(d.leaves, func(l leaf) bool {
		return param != "" && (slices.Contains(to.lacks, l.kind) || l.kind == unheardOf && d.path == "/v1/endpoints") &&
			slices.ContainsFunc(sent, func(s spot) bool { return strings.Contains(s.text, l.mark) && covers(param, s.path) })
	})
}

// reply is a random answer of a provider.
type reply struct {
	blocks  []block
	finish  string // stop, length, content_filter or tool_calls
	refused bool
	why     string // of a refusal, in the provider's own words
	usage   [3]int // the prompt's, the answer's, and of the former the cached tokens
	ids     bool   // the format that may leave out the ids of calls has them
}

// reply draws the answer to a conversation.
func (c *crossing) reply(d *drawing) reply {
	r := reply{finish: "stop", ids: d.chance(2), usage: [3]int{100 + c.r.IntN(900), 1 + c.r.IntN(900), c.r.IntN(100)}}
	say := func() string { return around[c.r.IntN(len(around))] + c.mark() + around[c.r.IntN(len(around))] }
	for {
		if c.to.thinks && d.chance(2) {
			b := block{kind: "thought", text: say(), id: padded(c.mark())}
			if c.to.name == "anthropic" && d.chance(3) {
				b.text = ""
			}
			r.blocks = append(r.blocks, b)
		} else if len(r.blocks) > 0 {
			break
		}
		calls := c.r.IntN(4)
		if d.tools == nil || d.set["tool_choice"] == "none" {
			calls = 0
		}
		if calls == 0 || d.chance(2) {
			r.blocks = append(r.blocks, block{kind: "text", text: say()})
		}
		for range calls {
			r.finish = "tool_calls"
			name, id := []string{"find", "read_file"}[c.r.IntN(2)], fmt.Sprintf("call_own%d", c.marks)
			r.blocks = append(r.blocks, block{kind: "call", id: id, name: name, text: quote(object{"a": say(), "b": []any{1.5, nil, object{"é": "\u2028"}}})})
		}
	}
	// JSON that was cut is an error.
	if r.finish == "stop" && d.set["response_format"] == nil && d.chance(4) {
		r.finish = []string{"length", "content_filter"}[c.r.IntN(2)]
	}
	if c.to.name == "anthropic" && r.finish == "content_filter" && d.chance(2) {
		r.why = "Because of " + c.mark() + "."
	}
	// A refusal alone is an error.
	r.refused = c.to.name == "openai" && r.finish == "stop" && d.chance(8)
	if refuses := c.to.name == "openai" || c.to.name == "responses"; refuses && r.finish == "stop" && !r.refused && d.chance(8) {
		r.blocks = append(r.blocks, block{kind: "refusal", text: say()})
	}
	return r
}

// mark returns a mark that no conversation draws.
func (c *crossing) mark() string {
	c.marks++
	return fmt.Sprintf("m9%06dz", c.marks)
}

func (r *reply) thinks() bool {
	return slices.ContainsFunc(r.blocks, func(b block) bool { return b.kind == "thought" })
}

// seen is what a caller gets by a door.
func (r *reply) seen(to *crossTarget, path string) (s seen) {
	s.Finish = r.finish
	signed := false
	for i, b := range r.blocks {
		switch b.kind {
		case "text":
			s.Text += b.text
		case "refusal":
			if s.Finish = "content_filter"; path == "/v1/chat/completions" || path == "/v1/responses" {
				s.Refusal = b.text
			} else {
				s.Text += b.text
			}
		case "thought":
			s.Thoughts += b.text
			s.Secrets++
		case "call":
			s.call(b.name, b.text)
			// Gemini's calls have data of their own from the first signature on.
			own := i > 0 && r.blocks[i-1].kind == "thought"
			if signed = signed || own; to.noIDs && signed && r.ids && !own {
				s.Secrets++
			}
		}
	}
	if s.Refusal += r.why; path == "/v1/endpoints" {
		s.Text, s.Refusal = s.Text+s.Refusal, ""
	}
	switch path {
	case "/v1/messages":
		s.Finish = map[string]string{"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}[s.Finish]
	case "/v1/responses":
		s.Finish = map[string]string{"stop": "stop", "length": "max_output_tokens", "content_filter": "content_filter", "tool_calls": "stop"}[s.Finish]
	}
	s.Usage = [3]float64{float64(r.usage[0]), float64(r.usage[1]), float64(r.usage[2])}
	return s
}

// crossUpstream is the provider. It keeps what it got and what it sent last.
type crossUpstream struct {
	t     *testing.T
	r     *rand.Rand
	write func(u *crossUpstream, stream bool) []string
	reply reply
	body  []byte
	sent  string
}

func (u *crossUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	if u.body, err = io.ReadAll(r.Body); err != nil {
		u.t.Error(err)
	}
	stream := bytes.Contains(u.body, []byte(`"stream":true`)) || strings.HasSuffix(r.URL.Path, ":streamGenerateContent") || strings.HasSuffix(r.URL.Path, "/converse-stream")
	u.sent = strings.Join(u.write(u, stream), "")
	switch {
	case !stream:
		w.Header().Set("Content-Type", "application/json")
	case strings.HasSuffix(r.URL.Path, "/converse-stream"):
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	default:
		w.Header().Set("Content-Type", "text/event-stream")
	}
	random := u.r // the next call may come before the last piece is written
	for rest := u.sent; rest != ""; {
		n := len(rest)
		if random.IntN(3) > 0 {
			n = 1 + random.IntN(n)
		}
		io.WriteString(w, rest[:n])
		w.(http.Flusher).Flush()
		rest = rest[n:]
	}
}

// cut cuts a text at random, between two characters.
func (u *crossUpstream) cut(text string) (pieces []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := 1 + u.r.IntN(len(runes))
		pieces = append(pieces, string(runes[:n]))
		runes = runes[n:]
	}
	return pieces
}

// event is a server-sent event.
func event(data any) string {
	if o, ok := data.(object); ok && o["type"] != nil {
		return "event: " + o["type"].(string) + "\ndata: " + quote(data) + "\n\n"
	}
	return "data: " + quote(data) + "\n\n"
}

func (u *crossUpstream) openai(stream bool) (all []string) {
	r := &u.reply
	usage := object{"prompt_tokens": r.usage[0], "completion_tokens": r.usage[1], "total_tokens": r.usage[0] + r.usage[1], "prompt_tokens_details": object{"cached_tokens": r.usage[2]}}
	said := "content"
	if r.refused {
		said = "refusal"
	}
	chunk := func(delta object, finish any) {
		all = append(all, event(object{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	message := object{"role": "assistant", "content": nil, "refusal": nil}
	chunk(object{"role": "assistant", "content": ""}, nil)
	var calls []any
	for _, b := range r.blocks {
		if b.kind != "call" {
			if b.kind == "refusal" {
				said = b.kind
			}
			message[said] = b.text
			for _, piece := range u.cut(b.text) {
				chunk(object{said: piece}, nil)
			}
			continue
		}
		chunk(object{"tool_calls": []any{object{"index": len(calls), "id": b.id, "type": "function", "function": object{"name": b.name, "arguments": ""}}}}, nil)
		for _, piece := range u.cut(b.text) {
			chunk(object{"tool_calls": []any{object{"index": len(calls), "function": object{"arguments": piece}}}}, nil)
		}
		calls = append(calls, object{"id": b.id, "type": "function", "function": object{"name": b.name, "arguments": b.text}})
		message["tool_calls"] = calls
	}
	if !stream {
		return []string{quote(object{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage, "choices": []any{object{"index": 0, "message": message, "finish_reason": r.finish}}})}
	}
	chunk(object{}, r.finish)
	return append(all, event(object{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": []any{}, "usage": usage}), pt.Done)
}

var usagePattern = regexp.MustCompile(`"usage":\{"input_tokens":.*?"total_tokens":\d+\}`)

func (u *crossUpstream) responses(stream bool) []string {
	r := &u.reply
	var items []pt.ResponsesItem
	refusal := ""
	for _, b := range r.blocks {
		if b.kind == "refusal" {
			refusal = b.text
		}
		switch b.kind {
		case "text", "refusal":
			items = append(items, pt.ResponsesItem{Words: u.cut(b.text)})
		case "thought":
			items = append(items, pt.ResponsesItem{Thought: &providers.Thought{Text: b.text, Opaque: b.id}})
		case "call":
			items = append(items, pt.ResponsesItem{Call: &providers.ToolCall{ID: b.id, Name: b.name, Arguments: b.text}})
		}
	}
	end := pt.ResponsesEnd{Incomplete: map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"}[r.finish]}
	answer := pt.ResponsesAnswer(end, items...)
	if stream {
		answer = pt.ResponsesStream(end, items...)
	}
	if refusal != "" { // of the last item
		place, part := fmt.Sprintf(`"item_id":"msg_%d"`, len(items)-1), `{"type":"output_text","annotations":[],"logprobs":[],"text":`+pt.Quote(refusal)
		for i, e := range answer.Body {
			if e = strings.ReplaceAll(e, part, `{"type":"refusal","refusal":`+pt.Quote(refusal)); strings.Contains(e, place) {
				e = strings.ReplaceAll(e, "output_text", "refusal")
			}
			answer.Body[i] = e
		}
	}
	usage := fmt.Sprintf(`"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"total_tokens":%d}`, r.usage[0], r.usage[2], r.usage[1], r.usage[0]+r.usage[1])
	return []string{usagePattern.ReplaceAllLiteralString(answer.Text(), usage)}
}

func (u *crossUpstream) anthropic(stream bool) []string {
	r := &u.reply
	usage := object{"input_tokens": r.usage[0] - r.usage[2], "cache_read_input_tokens": r.usage[2], "output_tokens": r.usage[1]}
	all := []string{event(object{"type": "message_start", "message": object{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil, "usage": usage}})}
	var content []any
	for i, b := range r.blocks {
		var whole, start object
		var deltas []object
		switch {
		case b.kind == "text":
			whole, start = object{"type": "text", "text": b.text}, object{"type": "text", "text": ""}
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"type": "text_delta", "text": piece})
			}
		case b.kind == "thought" && b.text == "":
			whole = object{"type": "redacted_thinking", "data": b.id}
			start = whole
		case b.kind == "thought":
			whole, start = object{"type": "thinking", "thinking": b.text, "signature": b.id}, object{"type": "thinking", "thinking": "", "signature": ""}
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"type": "thinking_delta", "thinking": piece})
			}
			deltas = append(deltas, object{"type": "signature_delta", "signature": b.id})
		default:
			whole, start = object{"type": "tool_use", "id": b.id, "name": b.name, "input": jsonOf(b.text)}, object{"type": "tool_use", "id": b.id, "name": b.name, "input": object{}}
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
			}
		}
		content = append(content, whole)
		all = append(all, event(object{"type": "content_block_start", "index": i, "content_block": start}))
		for _, delta := range deltas {
			all = append(all, event(object{"type": "content_block_delta", "index": i, "delta": delta}))
		}
		all = append(all, event(object{"type": "content_block_stop", "index": i}))
	}
	reason := map[string]string{"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}[r.finish]
	var details any
	if r.why != "" {
		details = object{"type": "refusal", "category": nil, "explanation": r.why}
	}
	if !stream {
		return []string{quote(object{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason, "stop_details": details, "usage": usage})}
	}
	return append(all, event(object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_details": details}, "usage": usage}), event(object{"type": "message_stop"}))
}

func (u *crossUpstream) gemini(stream bool) (all []string) {
	r := &u.reply
	usage := object{"promptTokenCount": r.usage[0], "candidatesTokenCount": r.usage[1], "cachedContentTokenCount": r.usage[2], "totalTokenCount": r.usage[0] + r.usage[1]}
	var parts []any
	signature := ""
	add := func(part object) {
		if signature != "" && part["thought"] == nil {
			part["thoughtSignature"], signature = signature, ""
		}
		parts = append(parts, part)
		all = append(all, event(object{"candidates": []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}}}}))
	}
	for _, b := range r.blocks {
		pieces := []string{b.text}
		if stream {
			pieces = u.cut(b.text)
		}
		switch b.kind {
		case "call":
			call := object{"name": b.name, "args": jsonOf(b.text)}
			if r.ids {
				call["id"] = b.id
			}
			add(object{"functionCall": call})
		case "text":
			for _, piece := range pieces {
				add(object{"text": piece})
			}
		case "thought":
			for _, piece := range pieces {
				add(object{"text": piece, "thought": true})
			}
			signature = b.id
		}
	}
	finish := map[string]string{"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "tool_calls": "STOP"}[r.finish]
	if !stream {
		return []string{quote(object{"candidates": []any{object{"index": 0, "finishReason": finish, "content": object{"role": "model", "parts": parts}}}, "usageMetadata": usage})}
	}
	return append(all, event(object{"candidates": []any{object{"index": 0, "finishReason": finish, "content": object{"role": "model", "parts": []any{object{"text": ""}}}}}, "usageMetadata": usage}))
}

func (u *crossUpstream) bedrock(stream bool) (all []string) {
	r := &u.reply
	usage := object{"inputTokens": r.usage[0] - r.usage[2], "cacheReadInputTokens": r.usage[2], "outputTokens": r.usage[1], "totalTokens": r.usage[0] + r.usage[1]}
	message := func(kind string, payload object) {
		var b bytes.Buffer
		m := eventstream.Message{Payload: []byte(quote(payload))}
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
		m.Headers.Set(":event-type", eventstream.StringValue(kind))
		if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
			u.t.Error(err)
		}
		all = append(all, b.String())
	}
	message("messageStart", object{"role": "assistant"})
	var content []any
	for i, b := range r.blocks {
		var deltas []object
		switch b.kind {
		case "text":
			content = append(content, object{"text": b.text})
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"text": piece})
			}
		case "thought":
			content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": b.text, "signature": b.id}}})
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"reasoningContent": object{"text": piece}})
			}
			deltas = append(deltas, object{"reasoningContent": object{"signature": b.id}})
		case "call":
			use := object{"toolUseId": b.id, "name": b.name}
			message("contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": use}})
			for _, piece := range u.cut(b.text) {
				deltas = append(deltas, object{"toolUse": object{"input": piece}})
			}
			content = append(content, object{"toolUse": object{"toolUseId": b.id, "name": b.name, "input": jsonOf(b.text)}})
		}
		for _, delta := range deltas {
			message("contentBlockDelta", object{"contentBlockIndex": i, "delta": delta})
		}
		message("contentBlockStop", object{"contentBlockIndex": i})
	}
	reason := map[string]string{"stop": "end_turn", "length": "max_tokens", "content_filter": "content_filtered", "tool_calls": "tool_use"}[r.finish]
	if !stream {
		return []string{quote(object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": reason, "usage": usage, "metrics": object{"latencyMs": 1}})}
	}
	message("messageStop", object{"stopReason": reason})
	message("metadata", object{"usage": usage, "metrics": object{"latencyMs": 1}})
	return all
}
