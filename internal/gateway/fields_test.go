package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/trace"
)

// fieldsSeed is the environment variable that repeats a run.
const fieldsSeed = "CADENZA_FIELDS_SEED"

// answered is a request with a 200 answer, and the model's input.
type answered struct {
	asked  map[string]any // the body that the provider got
	text   string         // the same body as text
	header http.Header
	answer string
}

// An effect reports whether a member had its effect on an answered request.
type effect func(a *answered) bool

// field is a member of a request with its value.
type field struct {
	path   string // a name, or "parameters." and a name
	value  string // JSON
	effect effect // nil: it can have no effect
	// below is the name of an additional member somewhere in the value, and text is that
	// member's text. It may have no effect although the value has one.
	below, text string
	// usual reports that the value asks for the default behaviour.
	usual bool
	// stored is its part in the trace's metadata.
	stored map[string]string
}

// sendable makes values of a member, most of which have an effect.
type sendable struct {
	// kinds are the JSON types of its values: o(bject), a(rray), s(tring), n(umber),
	// b(oolean). Any other type is invalid.
	kinds string
	valid func(r *rand.Rand) field
	// own reports that the gateway takes it from any caller, without accept.
	own bool
	// odd are values of its type that have no effect.
	odd []string
	// with is a member that it needs to have an effect.
	with string
}

// door is a route, and the members of its requests.
type door struct {
	path, key string
	members   map[string]sendable
}

func mark(r *rand.Rand) string { return fmt.Sprintf("mark%08x", r.Uint32()) }

func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// saw is the effect that the model got all of the texts.
func saw(texts ...string) effect {
	return func(a *answered) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(a.text, text) })
	}
}

// got is the effect that the provider got a value under a path of names.
func got(want any, path ...string) effect {
	return func(a *answered) bool {
		var at any = a.asked
		for _, name := range path {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		return reflect.DeepEqual(at, want)
	}
}

// unchanged is the effect of a value that asks for the default behaviour.
func unchanged(*answered) bool { return true }

// fixed is a member whose only valid values ask for the default behaviour.
func fixed(kinds string, values ...string) sendable {
	return sendable{kinds: kinds, own: true, valid: func(r *rand.Rand) field {
		return field{value: values[r.IntN(len(values))], effect: unchanged, usual: true}
	}}
}

// without is a member that never has an effect.
func without() sendable { return sendable{} }

func number(name string, lo, hi float64, odd ...string) sendable {
	return sendable{kinds: "n", odd: odd, valid: func(r *rand.Rand) field {
		v := float64(int((lo+r.Float64()*(hi-lo))*1000)) / 1000
		return field{value: quote(v), effect: got(v, name)}
	}}
}

func whole(name string, lo, hi int, odd ...string) sendable {
	return sendable{kinds: "n", odd: append(odd, "1.5", "1e300"), valid: func(r *rand.Rand) field {
		v := lo + r.IntN(hi-lo)
		return field{value: strconv.Itoa(v), effect: got(float64(v), name)}
	}}
}

func stored(name string, kinds string) sendable {
	return sendable{kinds: kinds, own: true, valid: func(r *rand.Rand) field {
		text := mark(r)
		f := field{value: quote(text), effect: unchanged, stored: map[string]string{name: text}}
		if kinds == "o" {
			f.value = `{"` + name + `":` + f.value + `}`
		}
		return f
	}}
}

// schema returns a JSON Schema that contains a mark.
func schema(text string) map[string]any {
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{text},
		"properties": map[string]any{text: map[string]any{"type": "string"}},
	}
}

var (
	bothSampling = map[string]sendable{
		"temperature":       number("temperature", 0, 2, "2.5", "-1"),
		"top_p":             number("top_p", 0, 1, "1.5", "-1"),
		"frequency_penalty": number("frequency_penalty", -2, 2, "3"),
		"presence_penalty":  number("presence_penalty", -2, 2, "-3"),
		"top_k":             whole("top_k", 1, 100, "-1"),
		"seed":              whole("seed", 0, 1_000_000),
		"stop": {kinds: "sa", odd: []string{`[1]`, `["a","b","c","d","e"]`, `[""]`}, valid: func(r *rand.Rand) field {
			text := mark(r)
			if r.IntN(2) == 0 {
				return field{value: quote(text), effect: saw(text)}
			}
			other := mark(r)
			return field{value: quote([]string{text, other}), effect: got([]any{text, other}, "stop")}
		}},
		// Without tools it has no effect.
		"parallel_tool_calls": {kinds: "b", valid: func(r *rand.Rand) field {
			v := r.IntN(2) == 0
			return field{value: quote(v), effect: func(a *answered) bool { return a.asked["tools"] == nil || a.asked["parallel_tool_calls"] == v }}
		}},
	}
	ours = map[string]sendable{
		"context": {kinds: "o", own: true, valid: func(*rand.Rand) field {
			return field{value: `{"locale":"nl"}`, effect: saw("Nederlands")}
		}},
		"variables": {kinds: "o", own: true, valid: func(r *rand.Rand) field {
			text := mark(r)
			return field{value: `{"name":"` + text + `"}`, effect: saw(text)}
		}},
		"metadata": stored("order", "o"),
		"stream": {kinds: "b", own: true, valid: func(r *rand.Rand) field {
			if r.IntN(2) == 0 {
				return field{value: "false", effect: func(a *answered) bool { return strings.HasPrefix(a.header.Get("Content-Type"), "application/json") }}
			}
			return field{value: "true", effect: func(a *answered) bool { return strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") }}
		}},
	}
	// With zero, the provider's request does not have it.
	alternatives = sendable{kinds: "n", with: "logprobs", odd: []string{"21", "-1", "1.5"}, valid: func(r *rand.Rand) field {
		n := r.IntN(21)
		return field{value: strconv.Itoa(n), effect: func(a *answered) bool {
			return n == 0 && a.asked["top_logprobs"] == nil || a.asked["top_logprobs"] == float64(n)
		}}
	}}
	effort = sendable{kinds: "s", odd: []string{`"a lot"`, `""`}, valid: func(r *rand.Rand) field {
		v := []string{"none", "minimal", "low", "medium", "high", "xhigh"}[r.IntN(6)]
		return field{value: quote(v), effect: got(v, "reasoning_effort")}
	}}
	chatParameters = join(bothSampling, map[string]sendable{
		"max_tokens":            whole("max_tokens", 1, 1000, "0", "-1"),
		"max_completion_tokens": whole("max_tokens", 1, 1000, "0", "-1"),
		"reasoning_effort":      effort,
		"logprobs": {kinds: "b", valid: func(r *rand.Rand) field {
			if r.IntN(3) == 0 {
				return field{value: "false", effect: unchanged, usual: true}
			}
			return field{value: "true", effect: got(true, "logprobs")}
		}},
		"top_logprobs": alternatives,
		"response_format": {kinds: "o", odd: []string{`{"type":"yaml"}`, `{"type":"json_schema"}`, `{"type":1}`}, valid: func(r *rand.Rand) field {
			name, property := mark(r), mark(r)
			switch r.IntN(3) {
			case 0:
				return field{value: `{"type":"text"}`, effect: unchanged, usual: true}
			case 1:
				return field{value: `{"type":"json_object"}`, effect: got("json_object", "response_format", "type")}
			}
			return field{
				value:  quote(map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": name, "strict": true, "schema": schema(property)}}),
				effect: both(saw(name, property), got(true, "response_format", "json_schema", "strict")),
			}
		}},
	})
	chatTurns = map[string]sendable{
		"messages": {kinds: "a", odd: []string{`[1]`, `[{"role":"pope","content":"x"}]`, `[{"role":"user"}]`, `[{"role":"user","content":[{"type":"smell"}]}]`}, valid: chatMessages},
		"tools": {kinds: "a", odd: []string{`[{"type":"web_search"}]`, `[{"type":"function"}]`, `[{"type":"function","function":{"name":"a b"}}]`}, valid: func(r *rand.Rand) field {
			name, description, property := mark(r), mark(r), mark(r)
			return field{
				value: quote([]any{map[string]any{"type": "function", "function": map[string]any{
					"name": name, "description": description, "strict": true, "parameters": schema(property),
				}}}),
				effect: saw(name, description, property, `"strict":true`),
			}
		}},
		"tool_choice": choice(func(name string) any {
			return map[string]any{"type": "function", "function": map[string]any{"name": name}}
		}),
	}
	doors = []door{
		{path: "/v1/chat/completions", key: "model", members: join(ours, chatParameters, chatTurns, map[string]sendable{
			"user": stored("user", "s"), "safety_identifier": stored("user", "s"),
			"n": fixed("n", "1"), "modalities": fixed("a", `["text"]`), "store": fixed("b", "false"), "logit_bias": fixed("o", "{}"),
			"stream_options": {kinds: "o", own: true, valid: func(*rand.Rand) field {
				return field{value: `{"include_usage":true}`, effect: func(a *answered) bool { return strings.Contains(a.answer, `"choices":[],"usage":{`) }}
			}},
			"audio": without(), "function_call": without(), "functions": without(), "moderation": without(), "prediction": without(),
			"prompt_cache_key": without(), "prompt_cache_options": without(), "prompt_cache_retention": without(),
			"service_tier": without(), "verbosity": without(), "web_search_options": without(),
		})},
		{path: "/v1/responses", key: "model", members: join(ours, bothSampling, map[string]sendable{
			"input": {kinds: "as", odd: []string{`[1]`, `[{"type":"item_reference","id":"x"}]`, `[{"role":"pope","content":"x"}]`}, valid: inputItems},
			"instructions": {kinds: "s", valid: func(r *rand.Rand) field {
				text := mark(r)
				return field{value: quote(text), effect: saw(text)}
			}},
			"max_output_tokens": whole("max_tokens", 16, 1000, "0", "-1"),
			"reasoning": {kinds: "o", odd: []string{`{"effort":"a lot"}`, `{"summary":"auto"}`, `{"effort":1}`}, valid: func(r *rand.Rand) field {
				f := effort.valid(r)
				f.value = `{"effort":` + f.value + `}`
				return f
			}},
			"text": {kinds: "o", odd: []string{`{"verbosity":"low"}`, `{"format":{"type":"yaml"}}`}, valid: func(r *rand.Rand) field {
				name, property := mark(r), mark(r)
				return field{
					value:  quote(map[string]any{"format": map[string]any{"type": "json_schema", "name": name, "strict": true, "schema": schema(property)}}),
					effect: both(saw(name, property), got(true, "response_format", "json_schema", "strict")),
				}
			}},
			"tools": {kinds: "a", odd: []string{`[{"type":"web_search"}]`, `[{"type":"function"}]`, `[{"type":"function","name":"a b"}]`}, valid: func(r *rand.Rand) field {
				name, description, property := mark(r), mark(r), mark(r)
				return field{
					value: quote([]any{map[string]any{
						"type": "function", "name": name, "description": description, "strict": true, "parameters": schema(property),
					}}),
					effect: saw(name, description, property, `"strict":true`),
				}
			}},
			"tool_choice": choice(func(name string) any { return map[string]any{"type": "function", "name": name} }),
			"include": {kinds: "a", odd: []string{`["file_search_call.results"]`, `[1]`, `["everything"]`}, valid: func(r *rand.Rand) field {
				if r.IntN(2) == 0 {
					return field{value: `["reasoning.encrypted_content"]`, effect: unchanged, usual: true}
				}
				return field{value: `["message.output_text.logprobs"]`, effect: got(true, "logprobs")}
			}},
			"top_logprobs": alternativesOf("include"),
			"user":         stored("user", "s"), "safety_identifier": stored("user", "s"),
			"store": fixed("b", "false"), "background": fixed("b", "false"), "truncation": fixed("s", `"disabled"`),
			"stream_options":  fixed("o", `{"include_obfuscation":false}`),
			"access_programs": without(), "context_management": without(), "conversation": without(), "image": without(),
			"max_tool_calls": without(), "moderation": without(), "previous_response_id": without(), "prompt": without(),
			"prompt_cache_key": without(), "prompt_cache_options": without(), "prompt_cache_retention": without(), "service_tier": without(),
		})},
		{path: "/v1/messages", key: "model", members: join(ours, map[string]sendable{
			"max_tokens":  whole("max_tokens", 1, 1000, "0", "-1"),
			"temperature": bothSampling["temperature"], "top_p": bothSampling["top_p"], "top_k": bothSampling["top_k"],
			"stop_sequences": {kinds: "a", odd: []string{`[1]`, `["a","b","c","d","e"]`, `[""]`}, valid: func(r *rand.Rand) field {
				one, other := mark(r), mark(r)
				return field{value: quote([]string{one, other}), effect: got([]any{one, other}, "stop")}
			}},
			"messages": {kinds: "a", odd: []string{`[1]`, `[{"role":"pope","content":"x"}]`, `[{"role":"user"}]`, `[{"role":"user","content":[{"type":"smell"}]}]`}, valid: anthropicMessages},
			"system": {kinds: "as", odd: []string{`[1]`, `[{"type":"image"}]`}, valid: func(r *rand.Rand) field {
				one, other := mark(r), mark(r)
				if r.IntN(2) == 0 {
					return field{value: quote(one), effect: saw(one)}
				}
				return field{value: `[{"type":"text","text":"` + one + `"},{"type":"text","text":"` + other + `"}]`, effect: saw(one, other)}
			}},
			"thinking": {kinds: "o", odd: []string{`{"type":"always"}`, `{"type":"enabled"}`, `{"type":"adaptive"}`}, valid: func(r *rand.Rand) field {
				if r.IntN(2) == 0 {
					return field{value: `{"type":"disabled"}`, effect: got("none", "reasoning_effort")}
				}
				n := r.IntN(3)
				return field{value: `{"type":"enabled","budget_tokens":` + []string{"1024", "5000", "20000"}[n] + `}`, effect: got([]string{"low", "medium", "high"}[n], "reasoning_effort")}
			}},
			"output_config": {kinds: "o", odd: []string{`{"effort":"a lot"}`, `{"format":{"type":"text"}}`}, valid: func(r *rand.Rand) field {
				if r.IntN(2) == 0 {
					f := effort.valid(r)
					f.value = `{"effort":` + f.value + `}`
					return f
				}
				f := anthropicFormat(r)
				f.value = `{"format":` + f.value + `}`
				return f
			}},
			"output_format": {kinds: "o", odd: []string{`{"type":"text"}`, `{"type":"json_schema"}`}, valid: anthropicFormat},
			"tools": {kinds: "a", odd: []string{`[{"type":"web_search_20250305","name":"a"}]`, `[{"name":"a"}]`, `[{"name":"a b","input_schema":{"type":"object"}}]`}, valid: func(r *rand.Rand) field {
				name, description, property := mark(r), mark(r), mark(r)
				return field{
					value:  quote([]any{map[string]any{"name": name, "description": description, "strict": true, "input_schema": schema(property)}}),
					effect: saw(name, description, property, `"strict":true`),
				}
			}},
			"tool_choice": {kinds: "o", with: "tools", odd: []string{`{"type":"perhaps"}`, `{"type":"tool"}`}, valid: func(r *rand.Rand) field {
				n := r.IntN(3)
				word := []string{"auto", "none", "required"}[n]
				return field{value: `{"type":"` + []string{"auto", "none", "any"}[n] + `"}`, effect: func(a *answered) bool {
					return a.asked["tool_choice"] == word || a.asked["tools"] == nil && word != "required"
				}}
			}},
			"betas": without(), "billing_policy": without(), "cache_control": without(), "compaction": without(), "container": without(),
			"context_management": without(), "diagnostics": without(), "fallback_credit_token": without(), "fallbacks": without(), "inference_geo": without(),
			"mcp_servers": without(), "service_tier": without(), "speed": without(), "thread": without(), "user_profile_id": without(), "workspace_id": without(),
		})},
		{path: "/v1/endpoints", key: "key", members: join(ours, chatTurns, below("parameters.", chatParameters))},
	}
)

func alternativesOf(with string) sendable {
	m := alternatives
	m.with = with
	return m
}

// both is the conjunction of two effects.
func both(a, b effect) effect { return func(x *answered) bool { return a(x) && b(x) } }

func join[V any](tables ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

func below(prefix string, table map[string]sendable) map[string]sendable {
	all := map[string]sendable{}
	for name, m := range table {
		if m.with != "" {
			m.with = prefix + m.with
		}
		all[prefix+name] = m
	}
	return all
}

// choice is a choice of tools. Without tools, only "required" must have an effect.
func choice(named func(name string) any) sendable {
	return sendable{kinds: "so", with: "tools", odd: []string{`"perhaps"`, quote(named("")), `{"type":"web_search"}`}, valid: func(r *rand.Rand) field {
		word := []string{"auto", "none", "required"}[r.IntN(3)]
		return field{value: quote(word), effect: func(a *answered) bool {
			return a.asked["tool_choice"] == word || a.asked["tools"] == nil && word != "required"
		}}
	}}
}

// chatMessages makes messages of the chat API, with a mark in each part.
func chatMessages(r *rand.Rand) field {
	var marks []string
	text := func() string {
		marks = append(marks, mark(r))
		return marks[len(marks)-1]
	}
	type object = map[string]any
	var messages []any
	for range 1 + r.IntN(3) {
		switch r.IntN(6) {
		case 0:
			messages = append(messages, object{"role": "user", "content": text()})
		case 1:
			messages = append(messages, object{"role": "user", "content": []any{
				object{"type": "text", "text": text()},
				object{"type": "image_url", "image_url": object{"url": "https://example.com/" + text(), "detail": "low"}},
			}})
		case 2:
			messages = append(messages, object{"role": "user", "content": []any{
				object{"type": "input_audio", "input_audio": object{"data": text(), "format": "wav"}},
				object{"type": "file", "file": object{"filename": text() + ".pdf", "file_data": "data:application/pdf;base64," + text()}},
			}})
		case 3:
			id := text()
			messages = append(messages,
				object{"role": "user", "content": text()},
				object{"role": "assistant", "content": text(), "tool_calls": []any{
					object{"id": id, "type": "function", "function": object{"name": text(), "arguments": `{"a":"` + text() + `"}`}},
				}},
				object{"role": "tool", "tool_call_id": id, "content": text()},
			)
		case 4:
			messages = append(messages, object{"role": []string{"system", "developer"}[r.IntN(2)], "content": text()})
		default:
			messages = append(messages, object{"role": "user", "content": text()}, object{"role": "assistant", "content": text()})
		}
	}
	messages = append(messages, object{"role": "user", "content": text()})
	return field{value: quote(messages), effect: saw(marks...)}
}

// inputItems makes the input of the Responses API, with a mark in each part.
func inputItems(r *rand.Rand) field {
	var marks []string
	text := func() string {
		marks = append(marks, mark(r))
		return marks[len(marks)-1]
	}
	if r.IntN(4) == 0 {
		return field{value: quote(text()), effect: saw(marks...)}
	}
	type object = map[string]any
	var list []any
	for range 1 + r.IntN(3) {
		switch r.IntN(5) {
		case 0:
			list = append(list, object{"type": "message", "role": "user", "content": []any{
				object{"type": "input_text", "text": text()},
				object{"type": "input_image", "image_url": "https://example.com/" + text(), "detail": "low"},
			}})
		case 1:
			list = append(list, object{"role": "user", "content": []any{
				object{"type": "input_file", "filename": text() + ".pdf", "file_data": "data:application/pdf;base64," + text()},
			}})
		case 2:
			id := text()
			list = append(list,
				object{"role": "user", "content": text()},
				object{"type": "function_call", "id": "fc_1", "call_id": id, "name": text(), "arguments": `{"a":"` + text() + `"}`, "status": "completed"},
				object{"type": "function_call_output", "call_id": id, "output": text()},
			)
		case 3:
			list = append(list, object{"role": []string{"system", "developer"}[r.IntN(2)], "content": text()})
		default:
			list = append(list, object{"role": "user", "content": text()}, object{
				"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
				"content": []any{object{"type": "output_text", "text": text(), "annotations": []any{}}},
			})
		}
	}
	list = append(list, object{"role": "user", "content": text()})
	return field{value: quote(list), effect: saw(marks...)}
}

// anthropicFormat makes a format of Anthropic's API.
func anthropicFormat(r *rand.Rand) field {
	property := mark(r)
	return field{
		value:  quote(map[string]any{"type": "json_schema", "schema": schema(property)}),
		effect: both(saw(property), got(true, "response_format", "json_schema", "strict")),
	}
}

// anthropicMessages makes messages of Anthropic's API, with a mark in each block.
func anthropicMessages(r *rand.Rand) field {
	var marks []string
	text := func() string {
		marks = append(marks, mark(r))
		return marks[len(marks)-1]
	}
	type object = map[string]any
	var messages []any
	for range 1 + r.IntN(3) {
		switch r.IntN(5) {
		case 0:
			messages = append(messages, object{"role": "user", "content": []any{
				object{"type": "text", "text": text()},
				object{"type": "image", "source": object{"type": "url", "url": "https://example.com/" + text()}},
			}})
		case 1:
			messages = append(messages, object{"role": "user", "content": []any{
				object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": text()}},
				object{"type": "document", "title": text() + ".pdf", "source": object{"type": "base64", "media_type": "application/pdf", "data": text()}},
				object{"type": "document", "source": object{"type": "text", "media_type": "text/plain", "data": text()}},
			}})
		case 2:
			id := text()
			messages = append(messages,
				object{"role": "user", "content": text()},
				object{"role": "assistant", "content": []any{
					object{"type": "text", "text": text()},
					object{"type": "tool_use", "id": id, "name": text(), "input": object{"a": text()}},
				}},
				object{"role": "user", "content": []any{
					object{"type": "tool_result", "tool_use_id": id, "content": []any{object{"type": "text", "text": text()}}},
					object{"type": "text", "text": text()},
				}},
			)
		case 3:
			messages = append(messages, object{"role": "system", "content": text()})
		default:
			messages = append(messages, object{"role": "user", "content": text()}, object{"role": "assistant", "content": text()})
		}
	}
	messages = append(messages, object{"role": "user", "content": text()})
	return field{value: quote(messages), effect: saw(marks...)}
}

// random makes a member of a request: usually one with an effect, sometimes one that can't
// have any.
func (m sendable) random(r *rand.Rand, path string) field {
	f := field{path: path}
	switch n := r.IntN(10); {
	case n == 0:
		f.value, f.effect = "null", unchanged // as if it were absent
	case n < 7 && m.valid != nil:
		f = m.valid(r)
		f.path = path
		if n == 1 {
			f.insert(r)
		}
	case n == 7 && len(m.odd) > 0:
		f.value = m.odd[r.IntN(len(m.odd))]
	default:
		values := map[string]string{
			"o": `{"` + mark(r) + `":1}`, "a": `[{"` + mark(r) + `":1}]`, "s": quote(mark(r)), "n": strconv.Itoa(-1_000_000_000 - r.IntN(1000)),
			"b": "true",
		}
		kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(k string) bool { return strings.Contains(m.kinds, k) })
		f.value = values[kinds[r.IntN(len(kinds))]]
	}
	return f
}

// elsewhere are members that the API knows in some objects.
var elsewhere = []string{"name", "refusal", "audio", "function_call", "annotations", "cache_control", "phase", "namespace", "strict", "description", "metadata"}

// insert adds a member to one of the objects of the value, but not to a schema or to an
// object with names of the caller.
func (f *field) insert(r *rand.Rand) {
	if slices.Contains([]string{"context", "variables", "metadata"}, f.path) {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(f.value), &value); err != nil {
		panic(err)
	}
	var objects []map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			objects = append(objects, v)
			for name, element := range v {
				if name != "parameters" && name != "schema" {
					walk(element)
				}
			}
		}
	}
	walk(value)
	if len(objects) == 0 {
		return
	}
	f.below, f.text = mark(r), mark(r)
	if r.IntN(2) == 0 {
		f.below = elsewhere[r.IntN(len(elsewhere))]
	}
	object := objects[r.IntN(len(objects))]
	if _, ok := object[f.below]; ok {
		f.below = f.text
	}
	object[f.below] = f.text
	f.value = quote(value)
}

// covers reports whether a path named by the gateway is the field's path or is inside the
// field.
func (f *field) covers(path string) bool {
	rest, ok := strings.CutPrefix(path, f.path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// TestNoFieldIsDropped sends requests with random members, valid and invalid, to each route
// of endpoints. It removes the members that the gateway refuses, until the request is
// answered: each remaining member had its effect, or is named in Cadenza-Ignored.
func TestNoFieldIsDropped(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(fieldsSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", fieldsSeed, seed)
	r := rand.New(rand.NewPCG(seed, 0))

	var asked string
	upstream := newUpstream(t, func(_ int64, w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		asked = string(body)
		if strings.Contains(asked, `"stream":true`) {
			io.WriteString(w, chunk("Fine.", "stop")+"data: [DONE]\n\n")
			return
		}
		completion(w, "Fine.")
	})
	const prompt = `default: en
variables: { name: { default: Ada } }
variants:
  en: { provider: fake, model: m, messages: [ { role: system, content: "English for {{name}}" }, { history: true }, { role: user, content: Go on. } ] }
  nl: { extends: en, messages: [ { role: system, content: "Nederlands voor {{name}}" }, { history: true }, { role: user, content: Vooruit. } ] }
columns: [ locale, value ]
matrix: [ [ nl, nl ] ]
`
	const accept = `prompt: talk
accept:
  history: true
  tools: true
  parameters: [temperature, max_tokens, top_p, top_k, frequency_penalty, presence_penalty, seed, stop, reasoning_effort, response_format, parallel_tool_calls, logprobs]
`
	g := startGateway(t, map[string]string{
		"definitions/context.yaml":          "fields: { locale: { type: string } }\n",
		"definitions/prompts/talk.yaml":     prompt,
		"definitions/endpoints/open.yaml":   accept + "  system: true\n",
		"definitions/endpoints/unled.yaml":  accept,
		"definitions/prompts/own.yaml":      strings.ReplaceAll(prompt, "{ history: true }, ", ""),
		"definitions/endpoints/closed.yaml": "prompt: own\n",
	}, fakeProvider(upstream.URL))

	text, err := os.ReadFile("testdata/openai-members.json") // which cmd/caddy checks
	if err != nil {
		t.Fatal(err)
	}
	var known map[string][]string
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	for i := range doors {
		for _, name := range known[doors[i].path] {
			if _, ok := doors[i].members[name]; !ok && name != "model" {
				t.Errorf("%s: %s is never sent", doors[i].path, name)
			}
		}
	}

	const requests = 10_000
	sent, effects := 0, map[string]int{}
	metadata := map[string]map[string]string{} // by the trace's id
	idle := func() (names []string) {          // what never had an effect
		for i := range doors {
			for _, name := range slices.Sorted(maps.Keys(doors[i].members)) {
				if doors[i].members[name].valid != nil && effects[doors[i].path+" "+name] == 0 {
					names = append(names, doors[i].path+": "+name)
				}
			}
		}
		return names
	}
	// The rarest has an effect a dozen times, and none at all once in a great many runs.
	for (sent < requests/fewer || sent < 3*requests && idle() != nil) && !t.Failed() {
		d := &doors[r.IntN(len(doors))]
		endpoint := []string{"open", "open", "open", "unled", "closed"}[r.IntN(5)]
		names := slices.Sorted(maps.Keys(d.members))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var fields []field
		names = names[:1+r.IntN(8)]
		for _, name := range names {
			if with := d.members[name].with; with != "" && !slices.Contains(names, with) {
				names = append(names, with)
			}
		}
		for _, name := range names {
			fields = append(fields, d.members[name].random(r, name))
		}
		if r.IntN(4) == 0 {
			f := without().random(r, mark(r))
			// Our own API ignores unknown members, for compatibility, except in the
			// members that accept allows.
			if d.key == "key" {
				f.path = "parameters." + f.path
			}
			fields = append(fields, f)
		}
		for !t.Failed() {
			sent++
			asked = ""
			body := bodyOf(d.key, endpoint, fields)
			request := httptest.NewRequest(http.MethodPost, d.path, strings.NewReader(body))
			request.Header = bearer(testKey)
			w := httptest.NewRecorder()
			g.serve(w, request)
			if w.Code == http.StatusOK {
				a := answered{text: asked, header: w.Header(), answer: w.Body.String()}
				if err := json.Unmarshal([]byte(asked), &a.asked); err != nil {
					t.Fatalf("%s %s: the provider got %q: %v", d.path, body, asked, err)
				}
				for i := range fields {
					f := &fields[i]
					refusable := endpoint == "closed" && !d.members[f.path].own || endpoint == "unled" && (f.path == "instructions" || f.path == "system")
					if problem := f.dropped(&a, refusable); problem != "" {
						t.Errorf("%s %s\n%s = %s: %s\nCadenza-Ignored: %s\nThe provider got: %s", d.path, body, f.path, f.value, problem, w.Header().Get("Cadenza-Ignored"), asked)
					}
					if f.effect != nil && f.value != "null" {
						effects[d.path+" "+f.path]++
					}
					if f.stored != nil && len(f.named(w.Header())) == 0 {
						if id := w.Header().Get("Cadenza-Trace-Id"); metadata[id] != nil || len(metadata) < 200 {
							metadata[id] = join(metadata[id], f.stored)
						}
					}
				}
				break
			}
			var refusal struct {
				Error struct {
					Message, Param string
					Details        struct{ Param string } // of Anthropic's API
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil || w.Code != http.StatusBadRequest {
				t.Fatalf("%s %s: %d %s", d.path, body, w.Code, w.Body)
			}
			if refusal.Error.Param == "" {
				refusal.Error.Param = refusal.Error.Details.Param
			}
			at := slices.IndexFunc(fields, func(f field) bool { return f.covers(refusal.Error.Param) })
			if at < 0 {
				t.Fatalf("%s %s\nwas refused for %q, which it does not have: %s", d.path, body, refusal.Error.Param, refusal.Error.Message)
			}
			if param, f := refusal.Error.Param, &fields[at]; param != f.path && !strings.ContainsAny(f.value[:1], "{[") {
				t.Errorf("%s %s\nwas refused for %q, but the value has nothing in it", d.path, body, param)
			}
			fields = slices.Delete(fields, at, at+1)
		}
	}
	t.Logf("%d requests", sent)
	if names := idle(); names != nil && !t.Failed() {
		t.Errorf("these never had an effect: %q", names)
	}
	for id, want := range metadata {
		var record *trace.Record
		eventually(t, "the trace "+id, func() (ok bool) {
			record, ok = g.trace("data/cadenza.db", id)
			return ok
		})
		var have map[string]string
		if err := json.Unmarshal(record.Metadata, &have); err != nil || !maps.Equal(have, want) {
			t.Errorf("%s has the metadata %s, want %v", id, record.Metadata, want)
		}
	}
}

// named returns the paths in Cadenza-Ignored that belong to the field.
func (f *field) named(header http.Header) (paths []string) {
	for path := range strings.SplitSeq(header.Get("Cadenza-Ignored"), ",") {
		if path = strings.TrimSpace(path); f.covers(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// dropped returns the mistake with a field of an answered request, or an empty string.
// refusable says that the endpoint accepts no members of its kind.
func (f *field) dropped(a *answered, refusable bool) string {
	named := f.named(a.header)
	switch {
	case f.value == "null" || slices.Contains(named, f.path):
		return ""
	case f.below != "" && !strings.Contains(a.text, f.text) && !slices.ContainsFunc(named, func(path string) bool { return strings.HasSuffix(path, f.below) }):
		return "its member " + f.below + " was dropped"
	case f.effect == nil && len(named) == 0:
		return "it has no effect, and was neither refused nor named"
	case f.effect == nil || len(named) > 0:
		return ""
	case refusable && !f.usual:
		return "the endpoint does not accept it, and did not refuse it"
	case !f.effect(a):
		return "it has not had its effect"
	}
	return ""
}

// bodyOf writes a request.
func bodyOf(key, endpoint string, fields []field) string {
	members := []string{quote(key) + ":" + quote(endpoint)}
	var parameters []string
	for _, f := range fields {
		if name, ok := strings.CutPrefix(f.path, "parameters."); ok {
			parameters = append(parameters, quote(name)+":"+f.value)
			continue
		}
		members = append(members, quote(f.path)+":"+f.value)
	}
	if len(parameters) > 0 {
		members = append(members, `"parameters":{`+strings.Join(parameters, ",")+"}")
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestLeftOutParametersAreNamed checks that a provider omits a caller's parameter that it
// does not have, and that the answer names the parameter.
func TestLeftOutParametersAreNamed(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "Fine.") })
	g := startGateway(t, map[string]string{
		"definitions/prompts/p.yaml":   "provider: fake\nmodel: m\nseed: 3\nmessages: [ { history: true } ]\n",
		"definitions/endpoints/p.yaml": "prompt: p\naccept: { history: true, parameters: [seed, top_k, temperature] }\n",
	}, withProvider("fake", openaiProvider(upstream.URL, openai.Quirks{NoSeed: true, NoTopK: true})))
	for body, want := range map[string]string{
		`"temperature":1`: "", // the definition, not the caller, has a seed
		`"seed":1`:        "seed",
		`"service_tier":"auto","top_k":3,"seed":1,"temperature":1`: "service_tier, top_k, seed",
	} {
		for _, stream := range []string{`,"stream":false`, `,"stream":true`} {
			a := g.post("/v1/chat/completions", `{"model":"p","messages":[{"role":"user","content":"Hi."}],`+body+stream+`}`)
			if got := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || got != want {
				t.Errorf("%s%s: %d, Cadenza-Ignored %q, want %q", body, stream, a.status, got, want)
			}
		}
	}
}
