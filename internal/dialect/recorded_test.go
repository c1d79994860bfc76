package dialect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
)

// recorded are the members that objects of the vendors' own answers have, as recordings of
// 2025 and 2026 in repositories of clients show them. An object is called by its dialect
// and by its member object or type, or by its place in another one. The letters are the
// types of a member: s(tring), n(umber), b(oolean), o(bject), a(rray), 0 for null. One with
// a question mark is not always there.
var recorded = map[string]string{
	"chat chat.completion":           "id:s object:s created:n model:s choices:a usage:o service_tier:s system_fingerprint:s",
	"chat chat.completion.choices":   "index:n message:o logprobs:o0 finish_reason:s",
	"chat message":                   "role:s content:s0 refusal:s0 annotations:a tool_calls?:a",
	"chat function":                  "id:s type:s function:o",
	"chat function.function":         "name:s arguments:s",
	"chat usage":                     "prompt_tokens:n completion_tokens:n total_tokens:n prompt_tokens_details:o completion_tokens_details:o",
	"chat prompt_tokens_details":     "cached_tokens:n audio_tokens:n",
	"chat completion_tokens_details": "reasoning_tokens:n audio_tokens:n accepted_prediction_tokens:n rejected_prediction_tokens:n",

	"chat chat.completion.chunk":         "id:s object:s created:n model:s choices:a usage?:o0 service_tier:s system_fingerprint:s obfuscation?:s",
	"chat chat.completion.chunk.choices": "index:n delta:o logprobs:o0 finish_reason:s0",
	"chat delta":                         "role?:s content?:s0 refusal?:s0 annotations?:a tool_calls?:a",
	"chat delta.tool_calls":              "index:n id?:s type?:s function:o",
	"chat delta.tool_calls.function":     "name?:s arguments:s",

	"messages message":        "id:s type:s role:s model:s content:a container?:0 stop_reason:s0 stop_sequence:s0 stop_details:o0 usage:o diagnostics?:0",
	"messages usage":          "input_tokens:n cache_creation_input_tokens:n cache_read_input_tokens:n cache_creation?:o output_tokens:n output_tokens_details?:o server_tool_use?:o service_tier?:s inference_geo?:s",
	"messages refusal":        "type:s category:s0 explanation:s0 recommended_model?:s",
	"messages thinking":       "type:s thinking:s signature:s",
	"messages text":           "type:s text:s citations?:a",
	"messages tool_use":       "type:s id:s name:s input:o caller?:o",
	"messages message_start":  "type:s message:o",
	"messages message_delta":  "type:s delta:o usage:o",
	"messages delta":          "stop_reason:s0 stop_sequence:s0 stop_details:o0 container?:0",
	"messages message_stop":   "type:s",
	"messages ping":           "type:s",
	"messages text_delta":     "type:s text:s",
	"messages thinking_delta": "type:s thinking:s",

	"messages content_block_start": "type:s index:n content_block:o",
	"messages content_block_delta": "type:s index:n delta:o",
	"messages content_block_stop":  "type:s index:n",
	"messages signature_delta":     "type:s signature:s",
	"messages input_json_delta":    "type:s partial_json:s",
	"messages citations_delta":     "type:s citation:o",

	"messages web_search_tool_result":     "type:s tool_use_id:s content:a caller?:o",
	"messages web_search_result":          "type:s url:s title:s encrypted_content:s page_age:s0",
	"messages web_search_result_location": "type:s url:s title:s encrypted_index:s cited_text:s",

	"responses response": "id:s object:s created_at:n status:s access_programs?:0 background:b billing?:o completed_at:n0 error:0 frequency_penalty:n incomplete_details:o0 instructions:s0 " +
		"max_output_tokens:n0 max_tool_calls:0 model:s moderation?:0 output:a parallel_tool_calls:b presence_penalty:n previous_response_id:0 prompt_cache_key:s0 prompt_cache_retention:s0 " +
		"reasoning:o safety_identifier:s0 service_tier:s store:b temperature:n text:o tool_choice:so tool_usage?:o tools:a top_logprobs:n top_p:n truncation:s usage:o0 user:s0 metadata:o",
	"responses response.reasoning":    "effort:s0 summary:s0 context?:s mode?:s",
	"responses response.text":         "format:o verbosity:s",
	"responses usage":                 "input_tokens:n input_tokens_details:o output_tokens:n output_tokens_details:o total_tokens:n",
	"responses input_tokens_details":  "cached_tokens:n cache_write_tokens?:n",
	"responses output_tokens_details": "reasoning_tokens:n",
	"responses message":               "id:s type:s status:s content:a role:s phase?:s",
	"responses reasoning":             "id:s type:s summary:a encrypted_content:s",
	"responses function_call":         "id:s type:s status:s arguments:s call_id:s name:s",
	"responses output_text":           "type:s annotations:a logprobs:a text:s",
	"responses summary_text":          "type:s text:s",
	"responses web_search_call":       "id:s type:s status:s action:o",
	"responses url_citation":          "type:s start_index:n end_index:n url:s title:s",

	"responses response.created":                       "type:s sequence_number:n response:o",
	"responses response.in_progress":                   "type:s sequence_number:n response:o",
	"responses response.completed":                     "type:s sequence_number:n response:o",
	"responses response.output_item.added":             "type:s sequence_number:n output_index:n item:o",
	"responses response.output_item.done":              "type:s sequence_number:n output_index:n item:o",
	"responses response.content_part.added":            "type:s sequence_number:n item_id:s output_index:n content_index:n part:o",
	"responses response.content_part.done":             "type:s sequence_number:n item_id:s output_index:n content_index:n part:o",
	"responses response.output_text.delta":             "type:s sequence_number:n item_id:s output_index:n content_index:n delta:s logprobs:a obfuscation?:s",
	"responses response.output_text.done":              "type:s sequence_number:n item_id:s output_index:n content_index:n text:s logprobs:a",
	"responses response.reasoning_summary_part.added":  "type:s sequence_number:n item_id:s output_index:n summary_index:n part:o",
	"responses response.reasoning_summary_part.done":   "type:s sequence_number:n item_id:s output_index:n summary_index:n part:o",
	"responses response.reasoning_summary_text.delta":  "type:s sequence_number:n item_id:s output_index:n summary_index:n delta:s obfuscation?:s",
	"responses response.reasoning_summary_text.done":   "type:s sequence_number:n item_id:s output_index:n summary_index:n text:s",
	"responses response.function_call_arguments.delta": "type:s sequence_number:n item_id:s output_index:n delta:s obfuscation?:s",
	"responses response.function_call_arguments.done":  "type:s sequence_number:n item_id:s output_index:n arguments:s",
}

// differs are the members in which the gateway's answers differ, with the reasons.
var differs = map[string]string{
	"chat chat.completion.service_tier":       "the tier is not told",
	"chat chat.completion.chunk.service_tier": "the tier is not told",
	"chat message.reasoning_content":          "OpenAI shows no thoughts there; others do",
	"chat message.reasoning_details":          "the same",
	"chat delta.reasoning_content":            "the same",
	"chat delta.reasoning_details":            "the same",

	"messages tool_use.input": "arguments that are no JSON are a string",

	"responses response.usage":                             "null before the end, for which the SDK's types have no place",
	"responses response.user":                              "null without a user, the same",
	"responses response.completed_at":                      "newer than the members that clients read",
	"responses response.frequency_penalty":                 "what the definition sets is not told",
	"responses response.presence_penalty":                  "the same",
	"responses response.temperature":                       "the same: null where the request has none",
	"responses response.top_p":                             "the same",
	"responses response.text.verbosity":                    "the same",
	"responses response.error":                             "an object in response.failed, which was not recorded",
	"responses reasoning.encrypted_content":                "known at the end of the thought, where it is in the item",
	"responses function_call.namespace":                    "of agents' tools",
	"responses response.function_call_arguments.done.name": "in the API's manual",
}

// streams are the orders of the vendors' events, by their types. A text that turns out to be
// a refusal has no output_text.done: that is ours.
var streams = map[string]*regexp.Regexp{
	"messages": regexp.MustCompile(`^message_start (content_block_start (content_block_delta )*content_block_stop )*message_delta message_stop $`),
	"responses": regexp.MustCompile(`^created in_progress (output_item.added (` +
		`content_part.added (output_text.delta )*(output_text.annotation.added )*(output_text.done )?content_part.done |content_part.added (refusal.delta )*refusal.done content_part.done |` +
		`(reasoning_summary_part.added (reasoning_summary_text.delta )*reasoning_summary_text.done reasoning_summary_part.done )*|` +
		`(web_search_call.in_progress web_search_call.searching web_search_call.completed )|(function_call_arguments.delta )*function_call_arguments.done |(custom_tool_call_input.delta )*custom_tool_call_input.done )` +
		`output_item.done )*(completed|incomplete) $`),
}

// TestAnswersAreAsRecorded compares the dialects' answers with those of the vendors, member
// by member: the gateway leaves out what they leave out, sends what they always send, in
// their types and in the order of their events.
func TestAnswersAreAsRecorded(t *testing.T) {
	met, found := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"chat", "messages", "responses"} {
		order := ""
		for _, text := range dialecttest.GoldenAnswers(t, filepath.Join(name, "testdata")) {
			var answer map[string]any
			if err := json.Unmarshal(text, &answer); err != nil {
				t.Fatal(err)
			}
			kind, _ := answer["type"].(string)
			switch short := strings.TrimPrefix(kind, "response."); {
			case kind == "error", kind == "response.failed":
				order = ""
			case kind == "message_start", kind == "response.created":
				order = short + " "
			case kind != "ping" && order != "":
				if order += short + " "; slices.Contains([]string{"message_stop", "completed", "incomplete"}, short) && !streams[name].MatchString(order) {
					t.Errorf("%s: the events %s", name, order)
				}
			}
			walkRecorded(name, "", answer, func(object, member, problem string) {
				at := object + "." + member
				if found[at] = true; differs[at] == "" {
					t.Errorf("%s %s in %s", at, problem, text)
				}
			}, met)
		}
	}
	for at, why := range differs {
		if !found[at] {
			t.Errorf("%s does not differ any more: %s", at, why)
		}
	}
	for name := range recorded {
		if !met[name] {
			t.Errorf("no answer has the object %s", name)
		}
	}
}

// walkRecorded calls differ with the members of an object, and of those in it, that are
// not as recorded. place is its member's name in the object around it.
func walkRecorded(dialect, place string, o map[string]any, differ func(object, member, problem string), met map[string]bool) {
	key := place
	for _, name := range []string{"object", "type"} {
		if kind, ok := o[name].(string); ok {
			key = kind
			break
		}
	}
	if _, ok := recorded[dialect+" "+key]; !ok || strings.Contains(place, ".") && recorded[dialect+" "+place] != "" {
		key = place
	}
	object := dialect + " " + key
	types := map[string]string{}
	for field := range strings.FieldsSeq(recorded[object]) {
		name, kinds, _ := strings.Cut(field, ":")
		always := !strings.HasSuffix(name, "?")
		name = strings.TrimSuffix(name, "?")
		if types[name] = kinds; always && !has(o, name) {
			differ(object, name, "is missing")
		}
	}
	met[object] = true
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value := o[name]
		kind := "0"
		if value != nil {
			kind = map[string]string{"string": "s", "float64": "n", "bool": "b", "map[string]interface {}": "o", "[]interface {}": "a"}[fmt.Sprintf("%T", value)]
		}
		if len(types) > 0 && !strings.Contains(types[name], kind) {
			differ(object, name, "is not recorded as "+kind)
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, element := range list {
			below, ok := element.(map[string]any)
			if !ok || name == "input" || name == "tools" || name == "format" || name == "metadata" {
				continue
			}
			inner := name
			if long := key + "." + name; recorded[dialect+" "+long] != "" {
				inner = long
			}
			walkRecorded(dialect, inner, below, differ, met)
		}
	}
}

func has(o map[string]any, name string) bool { _, ok := o[name]; return ok }
