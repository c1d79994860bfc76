package responses

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// parse parses a body. The result is valid until the test ends.
func parse(t testing.TB, body string) (*dialect.Call, *wire.Error) {
	t.Helper()
	call, _, err := dialecttest.Parse(t, Dialect, body)
	return call, err
}

func TestInput(t *testing.T) {
	const (
		call   = `{"type":"function_call","id":"fc_1","status":"completed","call_id":"c1","name":"f","arguments":"{}"}`
		call2  = `{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"c1","output":"12"}`
		said   = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hm.","annotations":[],"logprobs":[]}]}`
		asked  = `{"role":"user","content":"Hi"}`
		though = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"So."}],"encrypted_content":"cdz1_a"}`
		secret = `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"call_YzE.cdz1_c"}`
	)
	for _, c := range []struct{ name, body, want, ignored string }{
		{"text", `"input":"Hi"`, "input user: \"Hi\"\n", ""},
		{"nothing", `"input":""`, "", ""},
		{"empty list", `"input":[]`, "", ""},
		{"null", `"input":null,"instructions":null`, "", ""},
		{"instructions", `"input":"Hi","instructions":"Be brief."`, "instructions system: \"Be brief.\"\ninput user: \"Hi\"\n", ""},
		{"instructions alone", `"instructions":"Be brief."`, "instructions system: \"Be brief.\"\n", ""},
		{"roles", `"input":[{"role":"system","content":"a"},{"type":"message","role":"developer","content":[{"type":"input_text","text":"b"}]},` + asked + `,` + said + `]`,
			"input[0] system: \"a\"\ninput[1] developer: \"b\"\ninput[2] user: \"Hi\"\ninput[3] assistant: \"Hm.\"\n", ""},
		{"parts", `"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"low"},` +
			`{"type":"input_image","image_url":"https://x/y.png"},{"type":"input_file","file_data":"data:application/pdf;base64,aGk=","filename":"a.pdf","detail":"low"},` +
			`{"type":"input_file","file_url":"https://x/y.pdf","file_id":null},{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}}]}]`,
			"input[0] user: text(a) image(aGk= image/png  low) image(https://x/y.png  ) file(aGk= application/pdf a.pdf) file(https://x/y.pdf  ) audio(aGk= audio/mpeg )\n",
			"input[0].content[3].detail"},
		{"tools", `"input":[` + asked + `,` + call + `,` + output + `,` + said + `]`,
			"input[0] user: \"Hi\"\ninput[1] assistant: tool_call(c1 f {}|)\ninput[2] tool: tool_result(c1 f text(12))\ninput[3] assistant: \"Hm.\"\n", ""},
		{"parallel", `"input":[` + asked + `,` + though + `,` + said + `,` + call + `,` + call2 + `,{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://x"}]},` + output + `]`,
			"input[0] user: \"Hi\"\ninput[1] assistant: thinking(So.|cdz1_a) text(Hm.) tool_call(c1 f {}|) tool_call(c2 g {}|)\n" +
				"input[5] tool: tool_result(c2 g text(a) image(https://x  ))\ninput[6] tool: tool_result(c1 f text(12))\n", ""},
		{"one after the other", `"input":[` + call + `,` + output + `,` + though + `,` + call2 + `,{"type":"function_call_output","call_id":"c2","output":""}]`,
			"input[0] assistant: tool_call(c1 f {}|)\ninput[1] tool: tool_result(c1 f text(12))\ninput[2] assistant: thinking(So.|cdz1_a) tool_call(c2 g {}|)\ninput[4] tool: tool_result(c2 g text())\n", ""},
		{"the same id again", `"input":[` + call + `,` + output + `,` + call + `,` + output + `]`,
			"input[0] assistant: tool_call(c1 f {}|)\ninput[1] tool: tool_result(c1 f text(12))\ninput[2] assistant: tool_call(c1 f {}|)\ninput[3] tool: tool_result(c1 f text(12))\n", ""},
		{"two answers", `"input":[` + said + `,` + said + `,` + though + `,` + said + `]`,
			"input[0] assistant: \"Hm.\"\ninput[1] assistant: \"Hm.\"\ninput[2] assistant: thinking(So.|cdz1_a) text(Hm.)\n", ""},
		{"in another order", `"input":[` + call + `,` + said + `,` + though + `,` + output + `]`,
			"input[0] assistant: thinking(So.|cdz1_a) text(Hm.) tool_call(c1 f {}|)\ninput[3] tool: tool_result(c1 f text(12))\n", ""},
		{"a call's own data", `"input":[` + secret + `,` + call + `,` + output + `]`,
			"input[1] assistant: tool_call(c1 f {}|cdz1_c)\ninput[2] tool: tool_result(c1 f text(12))\n", ""},
		{"a call's own data after it", `"input":[` + call + `,` + secret + `,` + output + `]`,
			"input[0] assistant: tool_call(c1 f {}|cdz1_c)\ninput[2] tool: tool_result(c1 f text(12))\n", ""},
		{"data of no call", `"input":[` + asked + `,` + secret + `]`, "input[0] user: \"Hi\"\n", "input[1].encrypted_content"},
		{"thoughts", `"input":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"raw"}]},{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":[{"type":"reasoning_text","text":"raw"}]},{"type":"reasoning","id":"rs","summary":[],"encrypted_content":null},{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]`,
			"input[0] assistant: thinking(raw|) thinking(a\n\nb|) thinking(|gAAA)\n", "input[1].content, input[2]"},
		{"a thought alone", `"input":[` + asked + `,` + though + `]`, "input[0] user: \"Hi\"\ninput[1] assistant: thinking(So.|cdz1_a)\n", ""},
		{"empty texts", `"input":[{"role":"assistant","content":""},` + though + `,{"role":"assistant","content":[{"type":"output_text","text":""},{"type":"output_text","text":""}]},` + asked + `,{"role":"assistant","content":[{"type":"output_text","text":""},{"type":"output_text","text":""}]}]`,
			"input[0] assistant: \"\"\ninput[1] assistant: thinking(So.|cdz1_a)\ninput[3] user: \"Hi\"\ninput[4] assistant: \"\"\n", ""},
		{"refusal", `"input":[{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]},{"role":"assistant","content":"plain"}]`,
			"input[0] assistant: \"No.\"\ninput[1] assistant: \"plain\"\n", ""},
		{"what the libraries add", `"input":[{"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation"}],"logprobs":[],"parsed":{"a":1}}]},` +
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}","parsed_arguments":{},"caller":{"type":"direct","id":"x"}},` + output + `,{"role":"user","content":[{"type":"input_text","text":"b","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`,
			"input[0] assistant: text(a) tool_call(c1 f {}|)\ninput[2] tool: tool_result(c1 f text(12))\ninput[3] user: \"b\"\n",
			"input[0].phase, input[0].content[0].annotations, input[0].content[0].parsed, input[1].parsed_arguments, input[1].caller.id, input[3].content[0].prompt_cache_breakpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call, err := parse(t, `{"model":"m",`+c.body+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, dialecttest.Describe(call)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if strings.Contains(c.want, "thinking") && call.TurnParams == nil {
				// The gateway would name its reasoning_details, which are the chat API's.
				t.Error("a thought is not named by its item")
			}
			if got := strings.Join(call.Ignored, ", "); got != c.ignored {
				t.Errorf("ignored: %s, want %s", got, c.ignored)
			}
		})
	}
}

// TestItemTypesAreRead holds that each type that the refusal of another names is read.
func TestItemTypesAreRead(t *testing.T) {
	for _, kind := range itemTypes {
		if _, err := parse(t, `{"model":"m","input":[{"type":"`+kind+`"}]}`); err != nil && strings.HasSuffix(err.Param, ".type") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestInputIsRefused(t *testing.T) {
	const call = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
	for body, want := range map[string]string{
		`"input":1`:              `input must be a string or an array of items, not a number`,
		`"input":[1]`:            `input[0] must be an object`,
		`"input":[{}]`:           `input[0].type is required`,
		`"input":[{"type":1}]`:   `input[0].type must be a string`,
		`"input":[{"type":"x"}]`: `input[0].type is "x", but must be one of message, agent_message, reasoning, function_call, function_call_output, custom_tool_call, custom_tool_call_output, local_shell_call, local_shell_call_output, additional_tools, compaction, compaction_summary, compaction_trigger.`,
		`"input":[{"type":"item_reference","id":"msg_1"}]`:                                                                      `input[0].id names an item that was not kept`,
		`"input":[{"id":"msg_1"}]`:                                                                                              `input[0].id names an item that was not kept`,
		`"input":[{"type":"agent_message","content":[{"type":"input_image"}]}]`:                                                 `input[0].content[0].type is "input_image", but here it must be input_text or encrypted_content`,
		`"input":[{"role":"user","content":[{"type":"encrypted_content","encrypted_content":"a"}]}]`:                            `input[0].content[0].type is "encrypted_content"`,
		`"input":[{"type":"custom_tool_call","call_id":"c"}]`:                                                                   `input[0].name is required`,
		`"input":[{"role":"tool","content":"a"}]`:                                                                               `input[0].role must be`,
		`"input":[{"role":"user"}]`:                                                                                             `input[0].content is required`,
		`"input":[{"role":"user","content":1}]`:                                                                                 `input[0].content must be a string or an array of parts`,
		`"input":[{"role":"user","content":[]}]`:                                                                                `input[0].content must not be an empty array`,
		`"input":[{"role":"user","content":[1]}]`:                                                                               `input[0].content[0] must be an object`,
		`"input":[{"role":"user","content":"a","name":"n"}]`:                                                                    `input[0].name is not known`,
		`"input":[{"role":"user","content":[{"type":"output_text","text":"a"}]}]`:                                               `input[0].content[0].type is "output_text"`,
		`"input":[{"role":"system","content":[{"type":"input_image","image_url":"https://x"}]}]`:                                `input[0].content[0].type is "input_image", but here it must be input_text`,
		`"input":[{"role":"user","content":[{"type":"input_text"}]}]`:                                                           `input[0].content[0].text is required`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":"a","x":1}]}]`:                                          `input[0].content[0].x is not known`,
		`"input":[{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}]`:                                       `input[0].content[0].file_id names a file`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"ftp://x"}]}]`:                                    `input[0].content[0].image_url must be a URL`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://x","detail":"original"}]}]`:              `input[0].content[0].detail must be`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:text/plain;base64,aGk="}]}]`:                `input[0].content[0].image_url has the type text/plain`,
		`"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]`:                                        `input[0].content[0].file_id names a file`,
		`"input":[{"role":"user","content":[{"type":"input_file","filename":"a"}]}]`:                                            `input[0].content[0].file_url is required`,
		`"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x","file_data":"data:a/b;base64,aGk="}]}]`: `input[0].content[0].file_url and file_data are one file twice`,
		`"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"ogg"}}]}]`:             `input[0].content[0].input_audio.format must be`,
		`"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"!","format":"wav"}}]}]`:                `input[0].content[0].input_audio.data is not base64`,
		`"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav"}}]}]`:                           `input[0].content[0].input_audio.data is required`,
		`"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav","x":1}}]}]`:       `input[0].content[0].input_audio.x is not known`,
		`"input":[{"role":"user","content":[{"type":"input_audio"}]}]`:                                                          `input[0].content[0].input_audio is required`,
		`"input":[` + call + `]`:                               `input[0].call_id is "c1", a call without an output`,
		`"input":[` + call + `,{"role":"user","content":"a"}]`: `input[0].call_id is "c1", a call without an output`,
		`"input":[` + call + `,` + call + `,{"type":"function_call_output","call_id":"c1","output":"a"}]`:                                                `input[1].call_id is "c1", a call without an output`,
		`"input":[{"type":"function_call_output","call_id":"c1","output":"a"}]`:                                                                          `input[0].call_id is "c1", but the assistant has no such call`,
		`"input":[` + call + `,{"type":"function_call_output","call_id":"c1","output":"a"},{"type":"function_call_output","call_id":"c1","output":"a"}]`: `input[2].call_id is "c1", but the assistant has no such call`,
		`"input":[` + call + `,{"type":"function_call_output","call_id":"c1"}]`:                                                                          `input[1].output is required`,
		`"input":[` + call + `,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_file","file_url":"https://x"}]}]`:                  `input[1].output[0].type is "input_file"`,
		`"input":[{"type":"function_call","call_id":"","name":"f","arguments":"{}"}]`:                                                                    `input[0].call_id must not be empty`,
		`"input":[{"type":"function_call","call_id":"c","arguments":"{}"}]`:                                                                              `input[0].name is required`,
		`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":{}}]`:                                                                     `input[0].arguments must be a string`,
		`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":"n"}]`:                                                   `input[0].call_id is "c", a call without an output`,
		`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","caller":{"type":"program"}}]`:                                       `input[0].caller must be`,
		`"input":[` + strings.Repeat(call+",", openai.MaxCalls) + call + `]`:                                                                             `input[128] is the 129th call`,
		`"input":[{"type":"reasoning","summary":"a"}]`:                                                                                                   `input[0].summary must be an array`,
		`"input":[{"type":"reasoning","summary":[{"type":"text","text":"a"}]}]`:                                                                          `input[0].summary[0].type must be summary_text`,
		`"input":[{"type":"reasoning","summary":[1]}]`:                                                                                                   `input[0].summary[0] must be an object`,
		`"input":[{"type":"reasoning","summary":[],"encrypted_content":1}]`:                                                                              `input[0].encrypted_content must be a string`,
		`"instructions":[]`: `instructions must be a string`,
	} {
		call, err := parse(t, `{"model":"m",`+body+`}`)
		if err = dialecttest.Strict(call, err); err == nil {
			t.Errorf("%.200s is taken", body)
			continue
		}
		path, rest, _ := strings.Cut(want, " ")
		if err.Param != path || !strings.HasPrefix(err.Message, `"`+path+`" `+rest) || err.Code != wire.InvalidRequest {
			t.Errorf("%.200s\n%s: %s\nwant %s", body, err.Param, err.Message, want)
		}
	}
}

func TestParameters(t *testing.T) {
	call, err := parse(t, `{"model":"support/chat@nl","stream":true,"background":false,"store":false,"truncation":"disabled",
		"context":{"plan":"pro"},"variables":{"question":"?"},"metadata":{"a":"b"},"safety_identifier":"u1","user":"u0",
		"max_output_tokens":100,"temperature":0.5,"top_p":0.9,"parallel_tool_calls":true,"seed":7,
		"reasoning":{"effort":"low","summary":"auto","context":"auto","mode":"standard"},
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true},"verbosity":"medium"},
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":null}],"tool_choice":{"type":"function","name":"f"},
		"include":["reasoning.encrypted_content","message.output_text.logprobs","web_search_call.results"],"top_logprobs":3,
		"service_tier":"auto","prompt_cache_key":"k","max_tool_calls":3,"stream_options":{"include_obfuscation":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	if call.Endpoint != "support/chat" || call.Variant != "nl" || call.EndpointParam != "model" || !call.Stream || call.User != "u1" ||
		call.Context == nil || call.Context == call.Metadata || call.Variables == nil || call.Metadata == nil || call.Turns != nil {
		t.Errorf("%+v", call)
	}
	p := &call.Parameters
	if *p.MaxTokens != 100 || *p.Temperature != 0.5 || *p.TopP != 0.9 || !*p.ParallelToolCalls || *p.Seed != 7 || p.ReasoningEffort != "low" ||
		p.ResponseFormat.Type != providers.FormatSchema || !p.ResponseFormat.Strict || len(p.Tools) != 1 || p.ToolChoice.Name != "f" || *p.Logprobs != 3 {
		t.Errorf("%+v", p)
	}
	var given []string
	for _, g := range call.Given {
		given = append(given, g.Name+"="+g.Param)
	}
	if diff := cmp.Diff("max_tokens=max_output_tokens temperature=temperature top_p=top_p parallel_tool_calls=parallel_tool_calls seed=seed "+
		"reasoning_effort=reasoning.effort thinking=reasoning.summary response_format=text.format tools=tools tool_choice=tool_choice service_tier=service_tier prompt_cache_key=prompt_cache_key logprobs=include[1]", strings.Join(given, " ")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("user reasoning.context text.verbosity include[2] max_tool_calls stream_options.include_obfuscation", strings.Join(call.Ignored, " ")); diff != "" {
		t.Error(diff)
	}
}

// TestMetadataIsTheContext checks that the rules see metadata if there is no context,
// and that only members without an effect are named.
func TestMetadataIsTheContext(t *testing.T) {
	call, err := parse(t, `{"model":"m","metadata":{"a":"b"},"top_logprobs":3,"user":"u0"}`)
	if err != nil {
		t.Fatal(err)
	}
	if call.Context == nil || call.Context != call.Metadata || call.User != "u0" || strings.Join(call.Ignored, " ") != "top_logprobs" || call.Parameters.Logprobs != nil {
		t.Errorf("%+v", call)
	}
}

func TestMembersAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                  `model is required`,
		`{"model":1}`:         `model must be a string`,
		`{"model":"a b"}`:     `model is "a b", but must be the key`,
		`{"model":"a@"}`:      `model is "a@"`,
		`{"model":"m","x":1}`: `x is not known`,
		`{"model":"m","text.format":{"type":"text"}}`:                                                      `text.format is not known`,
		`{"model":"m","store":true}`:                                                                       `store must be false. The gateway keeps no answer`,
		`{"model":"m","store":""}`:                                                                         `store must be false`,
		`{"model":"m","background":true}`:                                                                  `background must be false`,
		`{"model":"m","previous_response_id":"resp_1"}`:                                                    `previous_response_id is not accepted. The gateway keeps no answer: send the whole conversation`,
		`{"model":"m","conversation":"conv_1"}`:                                                            `conversation is not accepted`,
		`{"model":"m","prompt":"p"}`:                                                                       `prompt must be an object`,
		`{"model":"m","prompt":{}}`:                                                                        `prompt.id is required`,
		`{"prompt":{"id":"p@en"}}`:                                                                         `prompt.id is "p@en", but must be an alias`,
		`{"prompt":{"id":"p","x":1}}`:                                                                      `prompt.x is not known`,
		`{"prompt":{"id":"p","version":3}}`:                                                                `prompt.version must be a string`,
		`{"prompt":{"id":"p","variables":[]}}`:                                                             `prompt.variables must be an object`,
		`{"prompt":{"id":"p","variables":{"a":{"type":"input_image","image_url":"x"}}}}`:                   `prompt.variables.a.type must be input_text: a prompt's variable is a text`,
		`{"prompt":{"id":"p","variables":{"a":{"b":1}}}}`:                                                  `prompt.variables.a.type must be input_text`,
		`{"prompt":{"id":"p","variables":{"a":{"type":"input_text"}}}}`:                                    `prompt.variables.a.text is required`,
		`{"variables":{"a":"b"},"prompt":{"id":"p"}}`:                                                      `variables can't stand beside prompt. Send prompt.variables`,
		`{"model":"m","moderation":{}}`:                                                                    `moderation is not accepted`,
		`{"model":"m","context_management":[]}`:                                                            `context_management is not accepted`,
		`{"model":"m","truncation":"auto"}`:                                                                `truncation must be disabled`,
		`{"model":"m","reasoning":"low"}`:                                                                  `reasoning must be an object`,
		`{"model":"m","reasoning":{"mode":"pro"}}`:                                                         `reasoning.mode must be standard`,
		`{"model":"m","reasoning":{"effort":"x"}}`:                                                         `reasoning.effort is "x"`,
		`{"model":"m","reasoning":{"x":1}}`:                                                                `reasoning.x is not known`,
		`{"model":"m","text":{"format":{"type":"x"}}}`:                                                     `text.format.type is "x"`,
		`{"model":"m","stream":1}`:                                                                         `stream must be true or false`,
		`{"model":"m","stream_options":{"include_usage":true}}`:                                            `stream_options.include_usage is not known`,
		`{"model":"m","max_output_tokens":0}`:                                                              `max_output_tokens must be a whole number`,
		`{"model":"m","top_logprobs":21}`:                                                                  `top_logprobs must be a whole number`,
		`{"model":"m","temperature":"a"}`:                                                                  `temperature must be a number`,
		`{"model":"m","service_tier":"fast"}`:                                                              `service_tier must be`,
		`{"model":"m","include":["x"]}`:                                                                    `include[0] must be one of`,
		`{"model":"m","include":"x"}`:                                                                      `include must be an array`,
		`{"model":"m","user":1}`:                                                                           `user must be a string`,
		`{"model":"m","safety_identifier":"` + strings.Repeat("a", 513) + `"}`:                             `safety_identifier has 513 bytes`,
		`{"model":"m","tools":[{"type":"custom"}]}`:                                                        `tools[0].name is required`,
		`{"model":"m","tools":[{"type":"custom","name":"a b"}]}`:                                           `tools[0].name is "a b"`,
		`{"model":"m","tools":[{"type":"custom","name":"f","format":{"type":"x"}}]}`:                       `tools[0].format.type is "x"`,
		`{"model":"m","tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"x"}}]}`:    `tools[0].format.syntax must be`,
		`{"model":"m","tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"lark"}}]}`: `tools[0].format.definition is required`,
		`{"model":"m","tools":[{"type":"custom","name":"f"},{"type":"custom","name":"f"}]}`:                `tools[1].name is "f"`,
		`{"model":"m","tools":[{"type":"custom","name":"f"},{"type":"function","name":"f"}]}`:              `tools[1].name is "f"`,
		`{"model":"m","tools":[{"type":"namespace"}]}`:                                                     `tools[0].name is required`,
		`{"model":"m","tools":[{"type":"namespace","name":"n"}]}`:                                          `tools[0].tools is required`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[1]}]}`:                              `tools[0].tools[0] must be an object`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"n","tools":[]}]}]}`:                    `tools[0].tools[0] is not known`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}]}`: `tools[0].tools[1].name is "f"`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[` + manyTools(129) + `]}]}`:                                        `tools[0].tools[128] is the 129th tool`,
		`{"model":"m","context":1}`:   `context must be an object`,
		`{"model":"m","variables":1}`: `variables must be an object`,
		`{"model":"m","metadata":1}`:  `metadata must be an object`,
	} {
		call, err := parse(t, body)
		if err = dialecttest.Strict(call, err); err == nil {
			t.Errorf("%s is taken", body)
			continue
		}
		path, rest, _ := strings.Cut(want, " ")
		if err.Param != path || !strings.HasPrefix(err.Message, `"`+path+`" `+rest) {
			t.Errorf("%s\n%s: %s\nwant %s", body, err.Param, err.Message, want)
		}
	}
}

func TestMembersHaveTheirFate(t *testing.T) {
	dialecttest.CheckFates(t, Dialect, members.List, []string{`1`, `"a"`, `"auto"`, `"disabled"`, `"standard"`, `"medium"`, `"low"`, `true`, `false`, `[]`, `{}`, `["message.output_text.logprobs"]`, `[{"type":"function","name":"f"}]`, `{"type":"text"}`, `{"a":1}`, `{"id":"a"}`})
}

// TestMembersAreOpenAIs holds that the table has all members of OpenAI's library.
func TestMembersAreOpenAIs(t *testing.T) {
	names := map[string]bool{"stream": true}
	add := func(prefix string, of reflect.Type) {
		for f := range of.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				names[prefix+name] = true
			}
		}
	}
	add("", reflect.TypeFor[sdk.ResponseNewParams]())
	add("text.", reflect.TypeFor[sdk.ResponseTextConfigParam]())
	add("reasoning.", reflect.TypeFor[shared.ReasoningParam]())
	add("stream_options.", reflect.TypeFor[sdk.ResponseNewParamsStreamOptions]())
	if len(names) < 30 {
		t.Fatalf("only %d members were found", len(names))
	}
	table := map[string]bool{}
	for _, m := range members.List {
		if table[m.Path] {
			t.Errorf("%s is twice in the table", m.Path)
		}
		table[m.Path] = true
	}
	for name := range names {
		if !table[name] {
			t.Errorf("the table lacks %s", name)
		}
	}
}

func TestDocumented(t *testing.T) { dialecttest.CheckDocumented(t, members.List) }

// TestRoundTrip sends each golden answer back, with a result for each of its calls: the
// model's thoughts, texts and calls are in the turns again.
func TestRoundTrip(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a := dialecttest.Answer(c.answer)
			body := string(writerFor(t, c.request).Answer(nil, a))
			_, rest, _ := strings.Cut(body, `"output":[`)
			items, _, _ := strings.Cut(rest, `],"usage"`)
			for _, call := range a.ToolCalls {
				items += `,{"type":"function_call_output","call_id":"` + call.ID + `","output":"1"}`
			}
			call, err := parse(t, `{"model":"m","input":[`+items+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []providers.Part
			for _, m := range call.Turns { // a refusal is a message of its own
				switch {
				case m.Role != "assistant":
				case m.Parts == nil:
					got = append(got, providers.Part{Kind: providers.PartText, Text: m.Content})
				default:
					got = append(got, m.Parts...)
				}
			}
			for _, th := range a.Thoughts {
				want = append(want, providers.Part{Kind: providers.PartThinking, Text: providers.Escape(th.Text), Opaque: th.Opaque})
			}
			text, refusal := a.Said()
			if text != "" || refusal == "" && len(a.ToolCalls) == 0 {
				want = append(want, providers.Part{Kind: providers.PartText, Text: providers.Escape(text)})
			}
			if refusal != "" {
				want = append(want, providers.Part{Kind: providers.PartText, Text: providers.Escape(refusal)})
			}
			for _, tc := range a.ToolCalls {
				opaque := tc.Opaque
				tc.Arguments, tc.Opaque = arguments(tc.Arguments), ""
				want = append(want, providers.Part{Kind: providers.PartToolCall, Call: tc, Opaque: opaque})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, path := range call.Ignored {
				if path != "input[0].content[0].logprobs" {
					t.Errorf("%s is ignored", path)
				}
			}
		})
	}
}

// TestSecretsOfTwoCalls: two sealed thoughts belong to two calls of one answer, each to
// its own, whatever their order.
func TestSecretsOfTwoCalls(t *testing.T) {
	const (
		first  = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"call_YzE.cdz1_a"}`
		second = `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"call_YzI.cdz1_b"}`
	)
	for _, secrets := range []string{first + "," + second, second + "," + first} {
		call, err := parse(t, `{"model":"m","input":[`+secrets+`,
			{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
			{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c1","output":"1"},
			{"type":"function_call_output","call_id":"c2","output":"2"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, turn := range call.Turns {
			for _, p := range turn.Parts {
				if p.Kind == providers.PartToolCall {
					got[p.Call.ID] = p.Opaque
				}
			}
		}
		if got["c1"] != "cdz1_a" || got["c2"] != "cdz1_b" {
			t.Errorf("%s: %q", secrets, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[],"encrypted_content":"call_YzE.x"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"a"}]}`)
	f.Add(`{"model":"m","text":{"format":{"type":"text"}},"reasoning":{"effort":"low"},"include":[],"tools":[]}`)
	f.Add(`{"model":"m","tools":[{"type":"namespace","name":"n.1","tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]},{"type":"function","name":"n_1__f"},{"type":"mcp"}],"tool_choice":{"type":"custom","name":"c"},"input":[{"type":"additional_tools","tools":[{"type":"custom","name":"x"}]},{"type":"custom_tool_call","call_id":"a","name":"c","namespace":"n.1","input":"i"},{"type":"custom_tool_call_output","call_id":"a","output":"o"},{"type":"compaction","encrypted_content":"e"},{"type":"agent_message","content":[{"type":"encrypted_content","encrypted_content":"e"}]},{"type":"compaction_trigger"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		call, err := parse(t, body)
		if err != nil {
			if err.Status != 400 {
				t.Errorf("%d %s", err.Status, err.Message)
			}
			return
		}
		dialecttest.CheckCall(t, call)
	})
}

// conversation is the body of a request with so many messages of so many bytes.
func conversation(messages, size int) string {
	var b strings.Builder
	b.WriteString(`{"model":"support/chat","input":[`)
	text := strings.Repeat("a", size)
	for i := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		if i%2 == 0 {
			b.WriteString(`{"role":"user","content":[{"type":"input_text","text":"` + text + `"}]}`)
		} else {
			b.WriteString(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}]}`)
		}
	}
	b.WriteString(`]}`)
	return b.String()
}

// TestParseAllocations holds that a conversation is read without an allocation for each
// message.
func TestParseAllocations(t *testing.T) {
	allocations := func(messages int) float64 {
		body := conversation(messages, 100)
		r := wire.AcquireRequest()
		defer r.Release()
		if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 1<<24, time.Minute, 0, nil); err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(20, func() {
			if _, _, err := dialect.Parse(Dialect, r); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := allocations(20), allocations(200)
	if many > few+20 {
		t.Errorf("%v allocations for 20 messages, %v for 200", few, many)
	}
}

func BenchmarkParse(b *testing.B) {
	body := conversation(200, 5000)
	r := wire.AcquireRequest()
	defer r.Release()
	if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 1<<24, time.Minute, 0, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for range b.N {
		if _, _, err := dialect.Parse(Dialect, r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPrompts: a prompt of OpenAI's names the endpoint, a version and variables.
func TestPrompts(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":{"id":"pmpt_1"}}`: "pmpt_1  null []",
		`{"prompt":{"id":"pmpt_1","version":"3","variables":{"a":"b","n":1,"c":{"type":"input_text","text":"d"}}},"model":"gpt-5@x y","input":"Hi"}`: `pmpt_1 3 {"a":"b","n":1,"c":"d"} [model]`,
		`{"model":["ignored"],"prompt":{"variables":null,"version":null,"id":"p"}}`:                                                                  "p  null [model]",
		`{"model":"m","prompt":null,"variables":{"a":"b"}}`:                                                                                          `m  {"a":"b"} []`,
	} {
		c, w, err := dialecttest.Parse(t, Dialect, body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		variables := "null"
		if c.Variables != nil {
			variables = c.Variables.String()
		}
		if got := fmt.Sprint(c.Endpoint, " ", c.Version, " ", variables, " ", c.Ignored); got != want || c.Variant != "" {
			t.Errorf("%s\n%s\nwant %s", body, got, want)
		}
		if echo := string(w.(*writer).rest); strings.Contains(echo, `"prompt":{`) != (c.EndpointParam == "prompt.id") {
			t.Errorf("%s: %s is repeated", c.EndpointParam, echo)
		}
	}
}

// manyTools returns n functions, as the inside of a list.
func manyTools(n int) string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"type":"function","name":"f%d"}`, i)
	}
	return strings.Join(tools, ",")
}

// TestToolsOfAgents checks what the model gets of tools that are no plain functions, and
// that calls of them in a history are called the same.
func TestToolsOfAgents(t *testing.T) {
	long := strings.Repeat("n", 60)
	call, err := parse(t, `{"model":"m","tool_choice":{"type":"custom","name":"apply_patch"},"input":[
		{"type":"function_call","call_id":"c1","name":"spawn","namespace":"agents","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"b","namespace":"a","arguments":"{}"},
		{"type":"custom_tool_call","id":"ctc_1","status":"completed","call_id":"c3","name":"apply_patch","input":"*** \"Begin\"\n"},
		{"type":"local_shell_call","call_id":"c4","status":"completed","action":{"type":"exec","command":["ls"]}},
		{"type":"function_call","call_id":"c5","name":"gone","namespace":"old__","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":"2"},
		{"type":"custom_tool_call_output","call_id":"c3","output":[{"type":"input_text","text":"3"}]},{"type":"local_shell_call_output","id":"c4","output":"4"},{"type":"function_call_output","call_id":"c5","output":"5"},
		{"type":"agent_message","id":"amsg_1","author":"/root","recipient":"/root/sub","content":[{"type":"input_text","text":"Payload:"},{"type":"encrypted_content","encrypted_content":"Look."}]}],
		"tools":[{"type":"namespace","name":"agents","description":"Sub-agents.","tools":[{"type":"function","name":"spawn","description":"Begin one.","strict":false,"parameters":{"type":"object","properties":{}}},{"type":"custom","name":"say"}]},
		{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"}]},{"type":"function","name":"a__b"},{"type":"namespace","name":"a__b","tools":[{"type":"function","name":"c"}]},{"type":"namespace","name":"a","tools":[{"type":"function","name":"b__c"}]},
		{"type":"namespace","name":"`+long+`","tools":[{"type":"function","name":"one"},{"type":"function","name":"other"},{"type":"web_search"}]},{"type":"namespace","name":"1.2","tools":[{"type":"function","name":"x"}]},
		{"type":"custom","name":"apply_patch","description":"Edit files.","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}},{"type":"custom","name":"note","format":{"type":"text"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	tools := map[string]providers.Tool{}
	for _, tool := range call.Parameters.Tools {
		names = append(names, tool.Name)
		tools[tool.Name] = tool
		if len(tool.Name) > 64 {
			t.Errorf("%s has %d characters", tool.Name, len(tool.Name))
		}
	}
	hash := func(legal, namespace, name string) string { return hashedName(legal, namespace, name) }
	want := []string{"agents__spawn", "agents__say", hash("a__b", "a", "b"), "a__b", "a__b__c", hash("a__b__c", "a", "b__c"), hash(long, long, "one"), hash(long, long, "other"), hash("_1_2__x", "1.2", "x"), "apply_patch", "note"}
	if diff := cmp.Diff(want, names); diff != "" || len(tools) != len(names) {
		t.Error(diff)
	}
	if tool := tools["agents__spawn"]; tool.Description != "The tools of agents: Sub-agents.\n\nBegin one." || string(tool.Parameters) != `{"type":"object","properties":{}}` {
		t.Errorf("%+v", tool)
	}
	if tool := tools["apply_patch"]; tool.Description != "Edit files.\n\nThe input has to follow this grammar (lark):\nstart: \"a\"" || string(tool.Parameters) != inputSchema {
		t.Errorf("%+v", tool)
	}
	if choice := call.Parameters.ToolChoice; choice.Name != "apply_patch" {
		t.Errorf("%+v", choice)
	}
	if got := strings.Join(call.Ignored, " "); got != "tools[5].tools[2] tools[7].format" {
		t.Errorf("ignored: %s", got)
	}
	if got := call.ToolParams[1] + " " + call.ToolParams[9]; got != "tools[0].tools[1] tools[7]" {
		t.Error(got)
	}
	const history = `input[0] assistant: tool_call(c1 agents__spawn {}|) tool_call(c2 %s {}|) tool_call(c3 apply_patch {"input":"*** \"Begin\"\n"}|) tool_call(c4 local_shell {"type":"exec","command":["ls"]}|) tool_call(c5 old__gone {}|)
input[5] tool: tool_result(c1 agents__spawn text(1))
input[6] tool: tool_result(c2 %[1]s text(2))
input[7] tool: tool_result(c3 apply_patch text(3))
input[8] tool: tool_result(c4 local_shell text(4))
input[9] tool: tool_result(c5 old__gone text(5))
input[10] user: text(Payload:) text(Look.)
`
	if diff := cmp.Diff(fmt.Sprintf(history, hash("a__b", "a", "b")), dialecttest.Describe(call)); diff != "" {
		t.Error(diff)
	}
}

func TestInputOf(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"a\nb"}`: "a\nb", `{"input": ""}`: "", string(appendInput(nil, "\"<\u2028é")): "\"<\u2028é",
		``: ``, `*** Begin`: `*** Begin`, `{"input":1}`: `{"input":1}`, `{"patch":"a"}`: `{"patch":"a"}`, `{"input":"a","more":1}`: `{"input":"a","more":1}`,
	} {
		if got := inputOf(arguments); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}
