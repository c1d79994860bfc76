package messages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// parse parses a body. The result is valid until the test ends.
func parse(t testing.TB, body string) (*dialect.Call, *wire.Error) {
	t.Helper()
	call, _, err := dialecttest.Parse(t, Dialect, body)
	return call, err
}

func TestMessages(t *testing.T) {
	const (
		asked  = `{"role":"user","content":"Hi"}`
		called = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a": 1.50}},{"type":"tool_use","id":"c2","name":"g","input":{},"caller":{"type":"direct"}}]}`
		result = `{"type":"tool_result","tool_use_id":"c1","content":"12"}`
		second = `{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"b"}}]}`
	)
	for _, c := range []struct{ name, body, want, ignored string }{
		{"text", `"messages":[` + asked + `]`, "messages[0] user: \"Hi\"\n", ""},
		{"content in a result", `"messages":[` + asked + `,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"document","source":{"type":"content","content":"a"}},` +
			`{"type":"document","title":"t","source":{"type":"content","content":[{"type":"text","text":"b"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]}}]}]}]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: tool_call(c1 f {}|)\nmessages[2] tool: tool_result(c1 f text(a) text(b) image(https://x/y.png  ))\n", "messages[2].content[0].content[1].title"},
		{"none", `"messages":[]`, "", ""},
		{"null", `"messages":null,"system":null`, "", ""},
		{"system", `"messages":[` + asked + `],"system":"Be brief."`, "system system: \"Be brief.\"\nmessages[0] user: \"Hi\"\n", ""},
		{"system alone", `"system":"Be brief."`, "system system: \"Be brief.\"\n", ""},
		{"system blocks", `"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":""},{"type":"text","text":"b"}],"messages":[` + asked + `]`,
			"system system: text(a)+5m\nsystem system: \"b\"\nmessages[0] user: \"Hi\"\n", ""},
		{"empty system", `"system":"","messages":[` + asked + `]`, "messages[0] user: \"Hi\"\n", ""},
		{"roles", `"messages":[` + asked + `,{"role":"assistant","content":"Hm."},{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` + asked + `]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: \"Hm.\"\nmessages[2] system: text(a) text(b)\nmessages[3] user: \"Hi\"\n", ""},
		{"a caller that has more", `"messages":[` + asked + `,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{},"caller":{"type":"direct","tool_id":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: tool_call(c f {}|)\nmessages[2] tool: tool_result(c f)\n", "messages[1].content[0].caller.tool_id"},
		{"an empty answer", `"messages":[` + asked + `,{"role":"assistant","content":[]},` + asked + `]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: \"\"\nmessages[2] user: \"Hi\"\n", ""},
		{"blocks", `"messages":[{"role":"user","content":[{"type":"text","text":"a","citations":[]},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"aGk="}},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"aGk="}},{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"aGk="}},` +
			`{"type":"image","source":{"type":"url","url":"https://x/y.png"},"cache_control":{"type":"ephemeral","ttl":"1h"}},` +
			`{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"aGk="},"citations":{"enabled":false}},` +
			`{"type":"document","title":"b.pdf","source":{"type":"url","url":"https://x/y.pdf"},"citations":{"enabled":true},"context":"c"},` +
			`{"type":"document","title":"t","source":{"type":"text","media_type":"text/plain","data":"plain"}},` +
			`{"type":"document","source":{"type":"content","content":"one"}},` +
			`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"two","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"url","url":"https://x/z.png"}}]}}]}]`,
			"messages[0] user: text(a) image(aGk= image/png ) image(aGk= image/jpeg ) image(aGk= image/gif ) image(aGk= image/webp ) image(https://x/y.png  )+1h file(aGk= application/pdf a.pdf) file(https://x/y.pdf  b.pdf) text(plain) text(one) text(two) image(https://x/z.png  )+5m\n",
			"messages[0].content[7].citations, messages[0].content[7].context, messages[0].content[8].title"},
		{"tools", `"messages":[` + asked + `,` + called + `,{"role":"user","content":[` + second + `,` + result + `,{"type":"text","text":"And?"},{"type":"text","text":"So?"}]},{"role":"assistant","content":[{"type":"text","text":"Hm."}]},` + asked + `]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: tool_call(c1 f {\"a\":1.50}|) tool_call(c2 g {}|)\n" +
				"messages[2] tool: tool_result(c2 g failed text(a) image(https://x/y.png  ) text(b))\nmessages[2] tool: tool_result(c1 f text(12))\nmessages[2] user: text(And?) text(So?)\n" +
				"messages[3] assistant: \"Hm.\"\nmessages[4] user: \"Hi\"\n", ""},
		{"results in two messages", `"messages":[` + called + `,{"role":"user","content":[` + result + `]},{"role":"user","content":[` + second + `]}]`,
			"messages[0] assistant: tool_call(c1 f {\"a\":1.50}|) tool_call(c2 g {}|)\nmessages[1] tool: tool_result(c1 f text(12))\nmessages[2] tool: tool_result(c2 g failed text(a) image(https://x/y.png  ) text(b))\n", ""},
		{"a result of nothing", `"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{},"cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":false,"cache_control":{"type":"ephemeral"}}]}]`,
			"messages[0] assistant: tool_call(c1 f {}|)+5m\nmessages[1] tool: tool_result(c1 f)+5m\n", ""},
		{"thoughts", `"messages":[` + asked + `,{"role":"assistant","content":[{"type":"thinking","thinking":"So.","signature":"cdz1_a"},{"type":"redacted_thinking","data":"cdz1_b"},{"type":"text","text":"Hm."},{"type":"thinking","thinking":"","signature":""},{"type":"thinking","thinking":"Well.","signature":null}]}]`,
			"messages[0] user: \"Hi\"\nmessages[1] assistant: thinking(So.|cdz1_a) thinking(|cdz1_b) thinking(Well.|) text(Hm.)\n", "messages[1].content[3]"},
		{"in another order", `"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"text","text":"Hm."},{"type":"thinking","thinking":"So.","signature":"cdz1_a"}]},{"role":"user","content":[` + result + `]}]`,
			"messages[0] assistant: thinking(So.|cdz1_a) text(Hm.) tool_call(c1 f {}|)\nmessages[1] tool: tool_result(c1 f text(12))\n", ""},
		{"a call's own data", `"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"call_YzE.cdz1_c"},{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"tool_use","id":"c2","name":"g","input":{}},{"type":"redacted_thinking","data":"call_YzI.cdz1_d"}]},{"role":"user","content":[` + result + `,{"type":"tool_result","tool_use_id":"c2"}]}]`,
			"messages[0] assistant: tool_call(c1 f {}|cdz1_c) tool_call(c2 g {}|cdz1_d)\nmessages[1] tool: tool_result(c1 f text(12))\nmessages[1] tool: tool_result(c2 g)\n", ""},
		{"data of no call", `"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"call_YzE.cdz1_c"},{"type":"text","text":"Hm."}]}]`, "messages[0] assistant: \"Hm.\"\n", "messages[0].content[0].data"},
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
				t.Error("a thought is not named by its message")
			}
			if got := strings.Join(call.Ignored, ", "); got != c.ignored {
				t.Errorf("ignored: %s, want %s", got, c.ignored)
			}
		})
	}
}

// TestMarksForTheCache checks where marks stand, which ones can't, and that their paths are
// in the order in which models read them.
func TestMarksForTheCache(t *testing.T) {
	const mark, hour = `"cache_control":{"type":"ephemeral"}`, `"cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}`
	call, err := parse(t, `{"model":"m",`+mark+`,"messages":[{"role":"user","content":[{"type":"text","text":"a",`+mark+`},{"type":"text","text":" ",`+mark+`}]},`+
		`{"role":"assistant","content":[{"type":"thinking","thinking":"b","signature":"c",`+mark+`},{"type":"tool_use","id":"c1","name":"f","input":{}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"d",`+hour+`},{"type":"text","text":"e"}]},{"type":"text","text":"f"}]}],`+
		`"system":[{"type":"text","text":"s",`+mark+`},{"type":"text","text":" ",`+mark+`}],"tools":[{"name":"f","input_schema":{"type":"object"},`+hour+`}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := "system system: text(s)+5m\nsystem system: \" \"\nmessages[0] user: text(a)+5m text( )\nmessages[1] assistant: thinking(b|c) tool_call(c1 f {}|)\n" +
		"messages[2] tool: tool_result(c1 f text(d) text(e))+1h\nmessages[2] user: text(f)+5m\n"
	if diff := cmp.Diff(want, dialecttest.Describe(call)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, want := strings.Join(call.Marks, " "), "tools[0].cache_control system[0].cache_control messages[0].content[0].cache_control messages[2].content[0].content[0].cache_control cache_control"; got != want {
		t.Errorf("marks %s, want %s", got, want)
	}
	if got, want := strings.Join(call.Ignored, " "), "messages[0].content[1].cache_control messages[1].content[0].cache_control messages[2].content[0].content[0].cache_control.scope system[1].cache_control tools[0].cache_control.scope"; got != want || call.Parameters.Tools[0].Cache != providers.CacheHour {
		t.Errorf("ignored %s, want %s; %+v", got, want, call.Parameters.Tools)
	}
	refuses(t, map[string]string{
		`"cache_control":1`:                                             `cache_control must be an object`,
		`"cache_control":{"type":"forever"}`:                            `cache_control.type must be ephemeral`,
		`"cache_control":{"type":"ephemeral","ttl":"1d"}`:               `cache_control.ttl must be 5m or 1h`,
		`"system":[{"type":"text","text":"a",` + `"cache_control":{}}]`: `system[0].cache_control.type must be ephemeral`,
	})
	alone, err := parse(t, `{"model":"m",`+mark+`,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" "}]}`)
	if err != nil || dialecttest.Describe(alone) != "messages[0] user: text(a)+5m\nmessages[1] assistant: \" \"\n" {
		t.Errorf("%v\n%s", err, dialecttest.Describe(alone))
	}
}

// TestDataOfCallsIsBounded holds that a message has no more data of calls than calls:
// each is looked for among all of its blocks.
func TestDataOfCallsIsBounded(t *testing.T) {
	call, err := parse(t, `{"model":"m","messages":[{"role":"assistant","content":[`+strings.Repeat(`{"type":"redacted_thinking","data":"call_YzE.a"},`, 128)+`{"type":"redacted_thinking","data":"call_YzI.b"},{"type":"tool_use","id":"c2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if p := call.Turns[0].Parts[0]; p.Opaque != "" || len(call.Ignored) != 129 || call.Ignored[0] != "messages[0].content[128].data" {
		t.Errorf("%+v, %d are ignored: %s", p, len(call.Ignored), call.Ignored[0])
	}
}

func TestMessagesAreRefused(t *testing.T) {
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
	user := func(block string) string { return `"messages":[{"role":"user","content":[` + block + `]}]` }
	assistant := func(block string) string { return `"messages":[{"role":"assistant","content":[` + block + `]}]` }
	result := func(members string) string {
		return `"messages":[` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"` + members + `}]}]`
	}
	refuses(t, map[string]string{
		`"messages":1`:                                        `messages must be an array`,
		`"messages":[1]`:                                      `messages[0] must be an object`,
		`"messages":[{"content":"a"}]`:                        `messages[0].role must be user, assistant or system`,
		`"messages":[{"role":"tool","content":"a"}]`:          `messages[0].role must be user, assistant or system`,
		`"messages":[{"role":"user"}]`:                        `messages[0].content is required`,
		`"messages":[{"role":"user","content":1}]`:            `messages[0].content must be a string or an array of blocks`,
		`"messages":[{"role":"user","content":[]}]`:           `messages[0].content must not be an empty array`,
		`"messages":[{"role":"user","content":"a","name":1}]`: `messages[0].name is not known`,
		`"messages":[{"role":"assistant","content":1}]`:       `messages[0].content must be a string or an array of blocks`,
		`"messages":[{"role":"assistant","content":[1]}]`:     `messages[0].content[0] must be an object`,
		user(`1`):                                                       `messages[0].content[0] must be an object`,
		user(`{}`):                                                      `messages[0].content[0].type is "", but here it must be text, image, document or tool_result`,
		user(`{"type":"search_result"}`):                                `messages[0].content[0].type is "search_result"`,
		user(`{"type":"container_upload"}`):                             `messages[0].content[0].type is "container_upload"`,
		user(`{"type":"thinking","thinking":"a"}`):                      `messages[0].content[0].type is "thinking"`,
		user(`{"type":"text"}`):                                         `messages[0].content[0].text is required`,
		user(`{"type":"text","text":1}`):                                `messages[0].content[0].text must be a string`,
		user(`{"type":"text","text":"a","x":1}`):                        `messages[0].content[0].x is not known`,
		user(`{"type":"image"}`):                                        `messages[0].content[0].source is required`,
		user(`{"type":"image","source":1}`):                             `messages[0].content[0].source must be an object`,
		user(`{"type":"image","source":{"type":"file","file_id":"f"}}`): `messages[0].content[0].source is a file that Anthropic holds`,
		user(`{"type":"image","source":{"type":"text"}}`):               `messages[0].content[0].source.type is "text"`,
		user(`{"type":"image","source":{"type":"url"}}`):                `messages[0].content[0].source.url must be a URL`,
		user(`{"type":"image","source":{"type":"url","url":"https://x","data":"a"}}`):                    `messages[0].content[0].source.data is not known`,
		user(`{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"aGk="}}`):      `messages[0].content[0].source.media_type must be image/png`,
		user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}`):          `messages[0].content[0].source.data is not base64`,
		user(`{"type":"image","source":{"type":"base64","media_type":"image/png"}}`):                     `messages[0].content[0].source.data must be a string`,
		user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk=","x":1}}`): `messages[0].content[0].source.x is not known`,
		user(`{"type":"image","source":{"type":"url","url":"https://x"},"transformations":{}}`):          `messages[0].content[0].transformations is not known`,
		user(`{"type":"document"}`):                                                                                   `messages[0].content[0].source is required`,
		user(`{"type":"document","source":{"type":"file","file_id":"f"}}`):                                            `messages[0].content[0].source is a file that Anthropic holds`,
		user(`{"type":"document","source":{}}`):                                                                       `messages[0].content[0].source.type is ""`,
		user(`{"type":"document","source":{"type":"base64","media_type":"text/html","data":"aGk="}}`):                 `messages[0].content[0].source.media_type must be application/pdf`,
		user(`{"type":"document","source":{"type":"text","media_type":"text/html","data":"a"}}`):                      `messages[0].content[0].source.media_type must be text/plain`,
		user(`{"type":"document","source":{"type":"text","media_type":"text/plain"}}`):                                `messages[0].content[0].source.data must be a string`,
		user(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a","x":1}}`):               `messages[0].content[0].source.x is not known`,
		user(`{"type":"document","title":1,"source":{"type":"url","url":"https://x"}}`):                               `messages[0].content[0].title must be a string`,
		user(`{"type":"document","source":{"type":"content"}}`):                                                       `messages[0].content[0].source.content is required`,
		user(`{"type":"document","source":{"type":"content","content":"a","x":1}}`):                                   `messages[0].content[0].source.x is not known`,
		user(`{"type":"document","source":{"type":"content","content":[{"type":"document"}]}}`):                       `messages[0].content[0].source.content[0].type is "document", but here it must be text or image`,
		user(`{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"c1"}`):                                  `messages[0].content[1].type is tool_result, but results come before`,
		user(`{"type":"tool_result","tool_use_id":"c1"}`):                                                             `messages[0].content[0].tool_use_id is "c1", but the message before it has no such call`,
		user(`{"type":"tool_result"}`):                                                                                `messages[0].content[0].tool_use_id is required`,
		`"messages":[{"role":"system","content":[{"type":"image"}]}]`:                                                 `messages[0].content[0].type is "image", but here it must be text`,
		assistant(`{"type":"image","source":{"type":"url","url":"https://x"}}`):                                       `messages[0].content[0].type is "image", but here it must be text, thinking`,
		assistant(`{"type":"thinking","signature":"a"}`):                                                              `messages[0].content[0].thinking is required`,
		assistant(`{"type":"thinking","thinking":"a","signature":1}`):                                                 `messages[0].content[0].signature must be a string`,
		assistant(`{"type":"redacted_thinking","data":1}`):                                                            `messages[0].content[0].data must be a string`,
		assistant(`{"type":"redacted_thinking","data":"a","thinking":"b"}`):                                           `messages[0].content[0].thinking is not known`,
		assistant(`{"type":"tool_use","name":"f","input":{}}`):                                                        `messages[0].content[0].id is required`,
		assistant(`{"type":"tool_use","id":"","name":"f","input":{}}`):                                                `messages[0].content[0].id must not be empty`,
		assistant(`{"type":"tool_use","id":"c","input":{}}`):                                                          `messages[0].content[0].name is required`,
		assistant(`{"type":"tool_use","id":"c","name":"f"}`):                                                          `messages[0].content[0].input is required`,
		assistant(`{"type":"tool_use","id":"c","name":"f","input":"{}"}`):                                             `messages[0].content[0].input must be an object`,
		assistant(`{"type":"tool_use","id":"c","name":"f","input":{},"caller":{"type":"code_execution_20260120"}}`):   `messages[0].content[0].caller must be`,
		assistant(strings.Repeat(`{"type":"tool_use","id":"c","name":"f","input":{}},`, 128) + `{"type":"tool_use"}`): `messages[0].content[128] is the 129th call`,
		`"messages":[` + call + `]`:                                                                                   `messages[0].content[0].id is "c1", a call without a result`,
		`"messages":[` + call + `,` + call + `]`:                                                                      `messages[0].content[0].id is "c1", a call without a result`,
		`"messages":[` + call + `,{"role":"user","content":"a"}]`:                                                     `messages[0].content[0].id is "c1", a call without a result`,
		`"messages":[` + call + `,{"role":"system","content":"a"}]`:                                                   `messages[0].content[0].id is "c1", a call without a result`,
		`"messages":[` + call + `,{"role":"user","content":[{"type":"text","text":"a"}]}]`:                            `messages[0].content[0].id is "c1", a call without a result`,
		result(`},{"type":"tool_result","tool_use_id":"c1"`):                                                          `messages[1].content[1].tool_use_id is "c1", but the message before it has no such call`,
		result(`,"content":1`):                           `messages[1].content[0].content must be a string or an array of blocks`,
		result(`,"content":[1]`):                         `messages[1].content[0].content[0] must be an object`,
		result(`,"content":[{"type":"tool_reference"}]`): `messages[1].content[0].content[0].type is "tool_reference", but here it must be text, image or document`,
		result(`,"is_error":1`):                          `messages[1].content[0].is_error must be true or false`,
		result(`,"toolset_name":"a"`):                    `messages[1].content[0].toolset_name is not known`,
	})
}

func TestMembersAreRefused(t *testing.T) {
	tool := func(members string) string {
		return `"tools":[{"name":"f","input_schema":{"type":"object"}` + members + `}]`
	}
	refuses(t, map[string]string{
		`"nothing":1`:                 `nothing is not known`,
		`"output_config.effort":"a"`:  `output_config.effort is not known`,
		`"stream":1`:                  `stream must be true or false`,
		`"max_tokens":0`:              `max_tokens must be a whole number from 1`,
		`"context":1`:                 `context must be an object`,
		`"variables":[]`:              `variables must be an object`,
		`"metadata":1`:                `metadata must be an object`,
		`"metadata":{"user_id":1}`:    `metadata.user_id must be a string`,
		`"system":1`:                  `system must be an array`,
		`"system":[1]`:                `system[0] must be an object`,
		`"system":[{"type":"image"}]`: `system[0].type is "image"`,
		`"system":[{"type":"text","text":"a","x":1}]`:       `system[0].x is not known`,
		`"stop_sequences":"a"`:                              `stop_sequences must be an array`,
		`"stop_sequences":["a",""]`:                         `stop_sequences[1] must be a string that is not empty`,
		`"stop_sequences":["a","b","c","d","e"]`:            `stop_sequences has 5 texts, but at most 4`,
		`"thinking":1`:                                      `thinking must be an object`,
		`"thinking":{"type":"always"}`:                      `thinking.type is "always"`,
		`"thinking":{"type":"adaptive","display":"all"}`:    `thinking.display must be summarized or omitted`,
		`"thinking":{"type":"enabled"}`:                     `thinking.budget_tokens is required`,
		`"thinking":{"type":"enabled","budget_tokens":0}`:   `thinking.budget_tokens must be a whole number`,
		`"thinking":{"type":"disabled","x":1}`:              `thinking.x is not known`,
		`"output_config":1`:                                 `output_config must be an object`,
		`"output_config":{"effort":"a lot"}`:                `output_config.effort is "a lot"`,
		`"output_config":{"x":1}`:                           `output_config.x is not known`,
		`"output_config":{"format":{"type":"text"}}`:        `output_config.format.type is "text"`,
		`"output_config":{"format":{"type":"json_schema"}}`: `output_config.format.schema is required`,
		`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"},"x":1}}`:                                                             `output_config.format.x is not known`,
		`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},"output_format":{"type":"json_schema","schema":{"type":"object"}}`: `output_format is there twice`,
		`"service_tier":"priority"`:        `service_tier must be auto, standard_only`,
		`"speed":"fast"`:                   `speed is not accepted. Have the endpoint's definition`,
		`"context_management":1`:           `context_management must be an object`,
		`"context_management":{"edits":1}`: `context_management.edits must be an array`,
		`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},{"type":"clear_tool_uses_20250919"}]}`: `context_management.edits[1] must be`,
		`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}]}`:       `context_management.edits[0] must be`,
		`"compaction":{}`: `compaction is not accepted. The endpoint's prompt`,
		`"tools":1`:       `tools must be an array`,
		`"tools":[1]`:     `tools[0] must be an object`,
		`"tools":[` + strings.Repeat(`{},`, maxTools) + `{}]`:                                                   `tools has 1001 tools`,
		`"tools":[{"name":"f"}]`:                                                                                `tools[0].input_schema is required`,
		`"tools":[{"name":"f","input_schema":{"type":"array"}}]`:                                                `tools[0].input_schema.type must be "object"`,
		`"tools":[{"name":"a b","input_schema":{"type":"object"}}]`:                                             `tools[0].name is "a b"`,
		`"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`: `tools[1].name is "f", which another tool has`,
		tool(`,"description":1`):                                                                                `tools[0].description must be a string`,
		tool(`,"strict":1`):                                                                                     `tools[0].strict must be true or false`,
		tool(`,"allowed_callers":["code_execution_20260120"]`):                                                  `tools[0].allowed_callers must be ["direct"]`,
		tool(`,"x":1`):                                                   `tools[0].x is not known`,
		`"tool_choice":"auto"`:                                           `tool_choice must be an object`,
		`"tool_choice":{"type":"required"}`:                              `tool_choice.type is "required"`,
		`"tool_choice":{"type":"tool"}`:                                  `tool_choice.name is required`,
		`"tool_choice":{"type":"any","name":"f"}`:                        `tool_choice.name is not known`,
		`"tool_choice":{"type":"none","disable_parallel_tool_use":true}`: `tool_choice.disable_parallel_tool_use is not known`,
		`"tool_choice":{"type":"any","disable_parallel_tool_use":1}`:     `tool_choice.disable_parallel_tool_use must be true or false`,
	})
	for _, body := range []string{`{}`, `{"model":null}`, `{"model":"a b"}`} {
		if _, err := parse(t, body); err == nil || err.Param != "model" {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := parse(t, `[]`); err == nil || err.Status != 400 {
		t.Error(err)
	}
}

// refuses holds that the members of a request are refused, each with the path and the
// message's beginning.
func refuses(t *testing.T, members map[string]string) {
	t.Helper()
	for body, want := range members {
		call, err := parse(t, `{"model":"m",`+body+`}`)
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

func TestParameters(t *testing.T) {
	for body, want := range map[string]string{
		`"max_tokens":5,"temperature":0.5,"top_p":0.25,"top_k":3,"stop_sequences":["a","b"]`: `max_tokens=5(max_tokens) temperature=0.5(temperature) top_p=0.25(top_p) top_k=3(top_k) stop=[a b](stop_sequences)`,
		`"stop_sequences":[]`:            ``,
		`"tools":[]`:                     ``,
		`"thinking":{"type":"disabled"}`: `reasoning_effort=none(thinking.type)`,
		`"thinking":{"type":"disabled","budget_tokens":2000}`:                               `reasoning_effort=none(thinking.type) -thinking.budget_tokens`,
		`"thinking":{"type":"enabled","budget_tokens":4095}`:                                `reasoning_effort=low(thinking.budget_tokens)`,
		`"thinking":{"type":"enabled","budget_tokens":4096}`:                                `reasoning_effort=medium(thinking.budget_tokens)`,
		`"thinking":{"type":"enabled","budget_tokens":16384,"display":"omitted"}`:           `thinking={true 16384 omitted}(thinking.display) reasoning_effort=high(thinking.budget_tokens)`,
		`"thinking":{"type":"between_tools","display":"omitted"}`:                           `reasoning_effort=none(thinking.type) -thinking.display`,
		`"thinking":{"type":"adaptive"}`:                                                    `thinking={true 0 }(thinking.type)`,
		`"thinking":{"type":"adaptive","budget_tokens":7},"output_config":{"effort":"max"}`: `thinking={true 0 }(thinking.type) reasoning_effort=max(output_config.effort) -thinking.budget_tokens`,
		`"thinking":{"type":"enabled","budget_tokens":1},"output_config":{"effort":"max"}`:  `reasoning_effort=max(output_config.effort) thinking={true 1 }(thinking.budget_tokens)`,
		`"thinking":{"type":"disabled"},"output_config":{"effort":"max"},"top_k":1`:         `top_k=1(top_k) reasoning_effort=none(thinking.type) -output_config.effort`,
		`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`:      `response_format=json_schema answer {"type":"object"} true(output_config.format)`,
		`"output_format":{"type":"json_schema","schema":{"type":"object"}}`:                 `response_format=json_schema answer {"type":"object"} true(output_format)`,
		`"tool_choice":{"type":"auto"}`:                                                     `tool_choice=auto (tool_choice)`,
		`"tool_choice":{"type":"any","disable_parallel_tool_use":true}`:                     `tool_choice=required (tool_choice) parallel_tool_calls=false(tool_choice.disable_parallel_tool_use)`,
		`"tool_choice":{"type":"none"}`:                                                     `tool_choice=none (tool_choice)`,
		`"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":false}`:        `tool_choice=named f(tool_choice) parallel_tool_calls=true(tool_choice.disable_parallel_tool_use)`,
		`"tools":[{"type":"custom","name":"f","description":"d","strict":true,"input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"},"allowed_callers":["direct"],"defer_loading":true,"eager_input_streaming":true,"input_examples":[{}]},{"name":"g","input_schema":{"type":"object"}}]`: `tools={f d {"type":"object"} true}{g  {"type":"object"} false}(tools) -tools[0].defer_loading -tools[0].eager_input_streaming -tools[0].input_examples`,
		`"cache_control":{"type":"ephemeral"},"service_tier":"auto","diagnostics":{}`:      `service_tier=auto(service_tier) -diagnostics -cache_control`,
		`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`: `-context_management`,
		`"context_management":{"edits":[]}`:                                                `-context_management`,
	} {
		call, err := parse(t, `{"model":"m",`+body+`}`)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		var got []string
		for _, g := range call.Given {
			p := &call.Parameters
			value := map[string]func() string{
				"max_tokens":          func() string { return fmt.Sprint(*p.MaxTokens) },
				"temperature":         func() string { return fmt.Sprint(*p.Temperature) },
				"top_p":               func() string { return fmt.Sprint(*p.TopP) },
				"top_k":               func() string { return fmt.Sprint(*p.TopK) },
				"stop":                func() string { return fmt.Sprint(p.Stop) },
				"reasoning_effort":    func() string { return p.ReasoningEffort },
				"service_tier":        func() string { return p.Caller.Tier },
				"thinking":            func() string { return fmt.Sprint(*p.Thinking) },
				"tool_choice":         func() string { return p.ToolChoice.Mode + " " + p.ToolChoice.Name },
				"parallel_tool_calls": func() string { return fmt.Sprint(*p.ParallelToolCalls) },
				"response_format": func() string {
					f := p.ResponseFormat
					return fmt.Sprintf("%s %s %s %v", f.Type, f.Name, f.Schema, f.Strict)
				},
				"tools": func() (all string) {
					for _, tool := range p.Tools {
						all += fmt.Sprintf("{%s %s %s %v}", tool.Name, tool.Description, tool.Parameters, tool.Strict)
					}
					return all
				},
			}[g.Name]
			got = append(got, g.Name+"="+value()+"("+g.Param+")")
		}
		for _, path := range call.Ignored {
			got = append(got, "-"+path)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s\n-want +got\n%s", body, diff)
		}
	}
}

// TestOfTheGateway reads the members that are the gateway's.
func TestOfTheGateway(t *testing.T) {
	call, err := parse(t, `{"model":"team/talk@nl","stream":true,"metadata":{"user_id":"u1","order":"7"},"variables":{"a":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if call.Endpoint != "team/talk" || call.Variant != "nl" || call.EndpointParam != "model" || !call.Stream || call.User != "u1" || call.UserParam != "metadata.user_id" {
		t.Errorf("%+v", call)
	}
	if string(call.Context.GetStringBytes("order")) != "7" || string(call.Metadata.GetStringBytes("user_id")) != "u1" || call.Variables.GetInt("a") != 1 {
		t.Errorf("%s, %s, %s", call.Context, call.Metadata, call.Variables)
	}
	call, err = parse(t, `{"model":"m","metadata":{"a":"b"},"context":{"c":"d"}}`)
	if err != nil || call.Context.Exists("a") || call.Stream || call.User != "" {
		t.Errorf("%v, %s", err, call.Context)
	}
}

func TestMembersHaveTheirFate(t *testing.T) {
	dialecttest.CheckFates(t, Dialect, members.List, []string{`1`, `"a"`, `"auto"`, `"low"`, `true`, `false`, `[]`, `{}`, `["a"]`, `[{"role":"user","content":"a"}]`, `[{"name":"f","input_schema":{"type":"object"}}]`, `{"type":"auto"}`, `{"type":"ephemeral"}`, `{"type":"disabled"}`, `{"a":1}`, `{"type":"json_schema","schema":{"type":"object"}}`})
}

func TestDocumented(t *testing.T) { dialecttest.CheckDocumented(t, members.List) }

func FuzzParse(f *testing.F) {
	f.Add(`{"model":"m","system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"call_YzE.x"},{"type":"thinking","thinking":"a","signature":"b"},{"type":"tool_use","id":"c1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]},{"type":"document","source":{"type":"content","content":"a"}}]}]}`)
	f.Add(`{"model":"m","thinking":{"type":"enabled","budget_tokens":1},"output_config":{"effort":"low"},"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{"type":"object"}}]}`)
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
	b.WriteString(`{"model":"support/chat","max_tokens":100,"messages":[`)
	text := strings.Repeat("a", size)
	for i := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		b.WriteString(`{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"}]}`)
	}
	b.WriteString(`]}`)
	return b.String()
}

// TestParseAllocations holds that a conversation is read without an allocation for each
// message.
func TestParseAllocations(t *testing.T) {
	allocations := func(messages int) float64 {
		r := dialecttest.Request(t, conversation(messages, 100))
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
	r := dialecttest.Request(b, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := dialect.Parse(Dialect, r); err != nil {
			b.Fatal(err)
		}
	}
}
