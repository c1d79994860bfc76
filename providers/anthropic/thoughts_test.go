package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// block begins a block, piece is a piece of it and end its end, all with what the API
// has in the member.
func block(index int, content string) string {
	return fmt.Sprintf("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":%s}\n\n", index, content)
}

func piece(index int, delta string) string {
	return fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":%s}\n\n", index, delta)
}

func end(index int) string {
	return fmt.Sprintf("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%d}\n\n", index)
}

func thinks(index int, said, signature string) string {
	return block(index, `{"type":"thinking","thinking":"","signature":""}`) + piece(index, `{"type":"thinking_delta","thinking":`+quote(said)+`}`) +
		piece(index, `{"type":"signature_delta","signature":`+quote(signature)+`}`) + end(index)
}

func says(index int, said string) string {
	return block(index, `{"type":"text","text":""}`) + piece(index, `{"type":"text_delta","text":`+quote(said)+`}`) + end(index)
}

func calls(index int, id, input string) string {
	return block(index, `{"type":"tool_use","id":`+quote(id)+`,"name":"f","input":{}}`) + piece(index, `{"type":"input_json_delta","partial_json":`+quote(input)+`}`) + end(index)
}

func TestThoughtsAndPiecesOfCalls(t *testing.T) {
	const none = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`
	thinking := func(text, signature string) string {
		return `{"type":"thinking","thinking":` + quote(text) + `,"signature":"` + signature + `"}`
	}
	for _, test := range []struct {
		name   string
		stream string
		want   string
	}{
		{"a thought in pieces", block(0, `{"type":"thinking","thinking":"","signature":""}`) + piece(0, `{"type":"thinking_delta","thinking":"Hm"}`) + ping + piece(0, `{"type":"thinking_delta","thinking":" <m>\n."}`) +
			piece(0, `{"type":"signature_delta","signature":"Eq"}`) + piece(0, `{"type":"signature_delta","signature":"B/+=="}`) + end(0) + says(1, "a"),
			"~Hm~~ <m>\n.~<" + `{"type":"thinking","thinking":"Hm <m>\n.","signature":"EqB/+=="}` + ">a"},
		{"a thought at once", block(0, thinking("Hm.", "Eq")) + end(0) + says(1, "a"), "~Hm.~<" + thinking("Hm.", "Eq") + ">a"},
		{"a thought that is not shown", block(0, `{"type":"thinking","thinking":"","signature":""}`) + piece(0, `{"type":"signature_delta","signature":"Eq"}`) + end(0) + says(1, "a"), "<" + thinking("", "Eq") + ">a"},
		{"a redacted thought", block(0, `{"type":"redacted_thinking","data":"EmwK"}`) + end(0) + thinks(1, "Hm.", "Eq") + says(2, "a"), "<" + hidden + ">~Hm.~<" + thinking("Hm.", "Eq") + ">a"},
		{"no signature", block(0, `{"type":"thinking","thinking":""}`) + piece(0, `{"type":"thinking_delta","thinking":"Hm."}`) + end(0) + thinks(1, "So.", "Eq") + says(2, "a"), "~Hm.~~So.~<" + thinking("So.", "Eq") + ">a"},
		{"an empty thought", block(0, `{"type":"thinking","thinking":""}`) + end(0) + says(1, "a"), "a"},
		{"no end of a thought", strings.Replace(thinks(0, "Hm.", "Eq"), end(0), "", 1) + says(1, "a"), "~Hm.~<" + thinking("Hm.", "Eq") + ">a"},
		{"no end of the last thought", says(0, "a") + strings.Replace(thinks(1, "Hm.", "Eq"), end(1), "", 1), "a~Hm.~<@1,0:" + thinking("Hm.", "Eq") + ">"},
		{"pieces of no thought", piece(7, `{"type":"thinking_delta","thinking":"x"}`) + piece(7, `{"type":"signature_delta","signature":"x"}`) + end(7) + says(0, "a"), "a"},
		{"pieces of another thought", block(0, `{"type":"thinking","thinking":""}`) + piece(1, `{"type":"thinking_delta","thinking":"x"}`) + piece(1, `{"type":"signature_delta","signature":"x"}`) + end(0) + says(1, "a"), "a"},
		{"half a character at the end of a piece", block(0, `{"type":"thinking","thinking":""}`) + piece(0, `{"type":"thinking_delta","thinking":"a\ud83d"}`) + piece(0, `{"type":"thinking_delta","thinking":"\ude00"}`) + piece(0, `{"type":"signature_delta","signature":"Eq"}`) + end(0) + says(1, "b"),
			"~a~~😀~<" + thinking("a😀", "Eq") + ">b"},
		{"thoughts between calls", thinks(0, "Hm.", "Eq") + says(1, "Let me see. é") + calls(2, "t1", `{"a":1}`) + thinks(3, "So.", "Er") + calls(4, "t2", "") + thinks(5, "Well.", "Es") + says(6, "!"),
			"~Hm.~<" + thinking("Hm.", "Eq") + ">Let me see. é[0 t1 f ][0   {\"a\":1}]~So.~<@14,1:" + thinking("So.", "Er") + ">[1 t2 f ][1   {}]~Well.~<@14,2:" + thinking("Well.", "Es") + ">!"},
		{"a tool of the API's own in between", thinks(0, "Hm.", "Eq") + block(1, none) + piece(1, `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`) + end(1) + block(2, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`) + end(2) + thinks(3, "So.", "Er") + says(4, "a"),
			"~Hm.~<" + thinking("Hm.", "Eq") + ">~So.~<" + thinking("So.", "Er") + ">a"},
		{"an input that is cut in an escape", block(0, `{"type":"tool_use","id":"t","name":"f","input":{}}`) + piece(0, `{"type":"input_json_delta","partial_json":"{\"a\":\"\\"}`) + piece(0, `{"type":"input_json_delta","partial_json":"n\\ud8"}`) + piece(0, `{"type":"input_json_delta","partial_json":"3d\\ude00\"}"}`) + end(0),
			`[0 t f ][0   {"a":"\][0   n\ud8][0   3d\ude00"}]`},
		{"an input that is cut in a character", block(0, `{"type":"tool_use","id":"t","name":"f","input":{}}`) + piece(0, `{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}`) + piece(0, `{"type":"input_json_delta","partial_json":"\ude00`+"\xf0\x9f"+`"}`) + piece(0, `{"type":"input_json_delta","partial_json":"`+"\x98\x80"+`\"}"}`) + end(0),
			`[0 t f ][0   {"a":"][0   😀][0   😀"}]`},
		{"an input that comes with its call", block(0, `{"type":"tool_use","id":"t","name":"f","input":{"a":[1.0]}}`) + end(0), `[0 t f {"a":[1.0]}]`},
		{"no end of a call", strings.Replace(calls(0, "t1", "{}"), end(0), "", 1) + calls(1, "t2", "{}"), `[0 t1 f ][0   {}][1 t2 f ][1   {}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := subject.Told(t, pt.SSE(messageStart, test.stream, messageDelta("end_turn", 9), messageStop))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAThoughtOfACutAnswer holds that a thought that was cut has no data.
func TestAThoughtOfACutAnswer(t *testing.T) {
	whole := thinks(0, "Hm.", "Eq")
	got, r, err := subject.Told(t, pt.SSE(messageStart, whole[:strings.Index(whole, end(0))]))
	if e, ok := err.(*providers.Error); !ok || e.Kind != providers.Truncated {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]providers.Thought{{Text: "Hm."}}, r.Thoughts); diff != "" || got != "~Hm.~" {
		t.Errorf("%s %s", got, diff)
	}
}

func TestThoughtsOfAWholeAnswer(t *testing.T) {
	content := hidden + `,{"type":"thinking","thinking":"Hm.","signature":"EqQB/+=="},{"type":"text","text":"é"},{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"thinking","thinking":"So.","signature":"Er"},{"type":"server_tool_use","id":"x","name":"y","input":{}},{"type":"thinking","thinking":"?"},{"type":"text","text":"b"},{"type":"tool_use","id":"t2","name":"f","input":{"a":1}}`
	got, r, err := subject.Told(t, pt.JSON(200, `{"type":"message","model":"m","content":[`+content+`],"stop_reason":"tool_use"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "<" + hidden + ">~Hm.~<" + signed + `>é[0 t1 f {}]~So.~<@2,1:{"type":"thinking","thinking":"So.","signature":"Er"}>~?~b[1 t2 f {"a":1}]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]providers.Thought{{Opaque: hidden}, {Text: "Hm.", Opaque: signed}, {Text: "So.", Opaque: `@2,1:{"type":"thinking","thinking":"So.","signature":"Er"}`}, {Text: "?"}}, r.Thoughts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// The history that comes back is the answer, but for the lost parts.
	parts := []providers.Part{pt.Text("éb"), pt.Call("t1", "f", "{}"), pt.Call("t2", "f", `{"a":1}`)}
	for _, thought := range r.Thoughts {
		parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
	}
	body, _, err := bodyOf(t, pt.Message("assistant", parts...))
	again := strings.NewReplacer(`,{"type":"server_tool_use","id":"x","name":"y","input":{}},{"type":"thinking","thinking":"?"}`, "").Replace(content)
	if diff := cmp.Diff(`[{"role":"assistant","content":[`+again+`]}]`, body); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestATooLongSignature checks that the memory held for an answer is bounded: the
// thought has no data then.
func TestATooLongSignature(t *testing.T) {
	long := piece(0, `{"type":"signature_delta","signature":"`+strings.Repeat("x", 1<<20)+`"}`)
	events := []string{messageStart, block(0, `{"type":"thinking","thinking":"Hm."}`)}
	for range upstream.MaxBody>>20 + 1 {
		events = append(events, long)
	}
	got, _, err := subject.Told(t, pt.SSE(append(events, end(0), messageDelta("end_turn", 1), messageStop)...))
	if err != nil || got != "~Hm.~" {
		t.Errorf("%.100s, error %v", got, err)
	}
}

// FuzzThoughts has thoughts of any text and data: they come back as the API sent them.
func FuzzThoughts(f *testing.F) {
	f.Add("Hm.", "EqQB/+==", "text", `{"a":1}`)
	f.Add("\"\\\n<é😀\u2028", "=", "", "{}")
	f.Fuzz(func(t *testing.T, thought, signature, said, input string) {
		for _, s := range []*string{&thought, &signature, &said} {
			*s = strings.ToValidUTF8(*s, "?")
		}
		var object map[string]any
		if json.Unmarshal([]byte(input), &object) != nil || object == nil {
			input = "{}"
		}
		stream := says(0, said) + calls(1, "t", input) + thinks(2, thought, signature) + calls(3, "u", "{}")
		_, r, err := subject.Told(t, pt.SSE(messageStart, stream, messageDelta("tool_use", 9), messageStop))
		if err != nil {
			t.Skip(err)
		}
		parts := []providers.Part{pt.Text(said)}
		for _, c := range r.ToolCalls {
			parts = append(parts, pt.Call(c.ID, c.Name, c.Arguments))
		}
		for _, thought := range r.Thoughts {
			parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
		}
		body, _, err := bodyOf(t, pt.Message("assistant", parts...))
		if err != nil {
			t.Fatal(err)
		}
		var got []struct {
			Content []struct{ Type, ID, Thinking, Signature string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if signature == "" {
			return
		}
		blocks := got[0].Content[len(got[0].Content)-3:]
		if blocks[0].ID != "t" || blocks[1].Thinking != thought || blocks[1].Signature != signature || blocks[2].ID != "u" {
			t.Errorf("%s", body)
		}
	})
}
