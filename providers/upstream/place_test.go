package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// inPlace writes the parts as InPlace has them: thoughts as <data>, calls as [id].
func inPlace(parts ...providers.Part) string {
	var b strings.Builder
	_ = InPlace(parts, func(p *providers.Part) error {
		switch p.Kind {
		case providers.PartText:
			b.WriteString(`"` + p.Text.Plain() + `"`)
		case providers.PartToolCall:
			b.WriteString("[" + p.Call.ID + "]")
		case providers.PartThinking:
			b.WriteString("<" + p.Text.Plain() + p.Opaque + ">")
		default:
			b.WriteString(p.Kind.String())
		}
		return nil
	})
	return b.String()
}

func TestInPlace(t *testing.T) {
	text := func(s string) providers.Part {
		return providers.Part{Kind: providers.PartText, Text: providers.Escape(s)}
	}
	call := func(id string) providers.Part {
		return providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: id}}
	}
	thought := func(at Place, data string) providers.Part {
		return providers.Part{Kind: providers.PartThinking, Opaque: at.Opaque(data)}
	}
	found := providers.Part{Kind: providers.PartFound}
	raw := func(opaque string) providers.Part {
		return providers.Part{Kind: providers.PartThinking, Opaque: opaque}
	}
	for _, test := range []struct {
		name  string
		parts []providers.Part
		want  string
	}{
		{"nothing", nil, ""},
		{"as a history has it", []providers.Part{thought(Place{}, "a"), text("x"), call("1"), call("2")}, `<a>"x"[1][2]`},
		{"thoughts between calls", []providers.Part{thought(Place{}, "a"), thought(Place{Text: 0, Calls: 1}, "b"), call("1"), call("2")}, `<a>[1]<b>[2]`},
		{"everything", []providers.Part{thought(Place{}, "a"), thought(Place{Text: 2, Calls: 1}, "b"), text("abcd"), call("1"), call("2")}, `<a>"ab"[1]<b>"cd"[2]`},
		{"in order already", []providers.Part{thought(Place{}, "a"), text("ab"), call("1"), thought(Place{Text: 2, Calls: 1}, "b"), text("cd"), call("2")}, `<a>"ab"[1]<b>"cd"[2]`},
		{"a cut in the second text", []providers.Part{thought(Place{Text: 3, Calls: 0}, "a"), text("ab"), text("cd")}, `"ab""c"<a>"d"`},
		{"three cuts in a text", []providers.Part{thought(Place{Text: 1, Calls: 0}, "a"), thought(Place{Text: 2, Calls: 0}, "b"), thought(Place{Text: 2, Calls: 0}, "c"), text("xyz")}, `"x"<a>"y"<b><c>"z"`},
		{"less text than there was", []providers.Part{thought(Place{Text: 9, Calls: 3}, "a"), text("ab"), call("1")}, `"ab"[1]<a>`},
		{"a cut in a character", []providers.Part{thought(Place{Text: 1, Calls: 0}, "a"), text("éa")}, `"é"<a>"a"`},
		{"thoughts that are not in order", []providers.Part{thought(Place{Text: 2, Calls: 0}, "a"), thought(Place{Text: 1, Calls: 0}, "b"), text("xyz")}, `"xy"<a><b>"z"`},
		{"other parts", []providers.Part{{Kind: providers.PartImage}, text("a")}, `"a"image`},
		{"between searches", []providers.Part{thought(Place{}, "a"), thought(Place{Found: 1}, "b"), thought(Place{Text: 2, Found: 2}, "c"), found, text("ab"), found, text("cd")}, `<a>web_search<b>"ab"web_search<c>"cd"`},
		{"searches that are gone", []providers.Part{thought(Place{Found: 2}, "a"), text("ab"), found}, `<a>"ab"web_search`},
		{"a search after all", []providers.Part{thought(Place{Text: 1}, "a"), text("ab"), found, call("1")}, `"a"<a>"b"web_search[1]`},
		{"no data", []providers.Part{raw(""), text("a")}, `<>"a"`},
		{"data with a colon", []providers.Part{thought(Place{Text: 0, Calls: 1}, "a:b"), call("1")}, `[1]<a:b>`},
		{"data like a place", []providers.Part{raw("@a"), raw("@1:x"), raw("1,2:x"), raw("@x,1:y"), call("1")}, `<@a><@1:x><1,2:x>[1]<y>`},
		{"places that are none", []providers.Part{raw("@-1,-5:y"), raw("@99999999999999999999999,0:z"), text("a")}, `<y>"a"<z>`},
	} {
		if got := inPlace(test.parts...); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	failure, calls := errors.New("x"), 0
	if err := InPlace([]providers.Part{text("a"), text("b"), {Kind: providers.PartImage}}, func(*providers.Part) error {
		calls++
		return failure
	}); err != failure || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestJoined(t *testing.T) {
	text := func(s string) providers.Part {
		return providers.Part{Kind: providers.PartText, Text: providers.Escape(s)}
	}
	thought := func(opaque string) providers.Part {
		return providers.Part{Kind: providers.PartThinking, Opaque: opaque}
	}
	call := providers.Part{Kind: providers.PartToolCall}
	said := func(parts ...providers.Part) providers.Message {
		return providers.Message{Role: "assistant", Parts: parts}
	}
	asked, plain := providers.Message{Role: "user", Content: "ab"}, providers.Message{Role: "assistant", Content: "ab"}
	for _, test := range []struct {
		name     string
		messages []providers.Message
		want     []int // the parts of each message
		order    string
	}{
		{"three of one answer", []providers.Message{asked, said(thought("a"), text("ab")), said(thought("@2,0:b"), text("cd")), said(thought("@4,0:c"), text("ef"), call)}, []int{0, 7, 0, 0}, "a ab b cd c ef call "},
		{"a text first", []providers.Message{plain, said(thought("@2,0:b"), text("cd"))}, []int{3, 0}, "ab b cd "},
		{"a thought without data first", []providers.Message{plain, said(thought(""), thought("@4,0:b"), text("cd"), text("ef"))}, []int{5, 0}, " ab cd b ef "},
		{"thoughts behind their text", []providers.Message{asked, said(thought("a"), text("abcdef")), said(thought("@2,0:b"), thought("@4,0:c"))}, []int{0, 4, 0}, "a ab b cd c ef "},
		{"a thought behind all of its text", []providers.Message{said(text("ab"), text("cd")), said(thought("@4,0:b"))}, []int{3, 0}, "ab cd b "},
		{"an answer with text of its own", []providers.Message{plain, said(thought("@1,0:b"), text("cd"), call)}, []int{0, 3}, "c b d call "},
		{"two answers", []providers.Message{plain, said(thought("a"), text("cd"))}, []int{0, 2}, ""},
		{"two answers with places", []providers.Message{plain, said(thought("@3,0:b"), text("cde"))}, []int{0, 2}, ""},
		{"calls between", []providers.Message{said(text("ab"), call), said(thought("@2,0:b"), text("cd"))}, []int{2, 2}, ""},
		{"a question between", []providers.Message{plain, asked, said(thought("@2,0:b"), text("cd"))}, []int{0, 0, 2}, ""},
	} {
		before, order := fmt.Sprint(test.messages), ""
		joined := Joined(test.messages)
		for i, m := range joined {
			if len(m.Parts) != test.want[i] {
				t.Errorf("%s: message %d has %d parts, want %d", test.name, i, len(m.Parts), test.want[i])
			}
			if len(m.Parts) > 2 {
				_ = InPlace(m.Parts, func(p *providers.Part) error {
					if order += p.Text.Plain() + p.Opaque; p.Kind == providers.PartToolCall {
						order += "call"
					}
					order += " "
					return nil
				})
			}
		}
		if order != test.order {
			t.Errorf("%s: %q, want %q", test.name, order, test.order)
		}
		if fmt.Sprint(test.messages) != before {
			t.Errorf("%s: the request's own messages were changed", test.name)
		}
	}
}

func TestInPlaceCopiesNothing(t *testing.T) {
	parts := []providers.Part{
		{Kind: providers.PartThinking, Opaque: "a"}, {Kind: providers.PartText, Text: "b"}, {Kind: providers.PartToolCall},
	}
	n := 0
	each := func(*providers.Part) error { n++; return nil }
	if allocs := testing.AllocsPerRun(100, func() { _ = InPlace(parts, each) }); allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzInPlace has histories that were changed on their way.
func FuzzInPlace(f *testing.F) {
	f.Add("@1,0:a", "@3,1:b", "wörld", "x")
	f.Add("@2,9:", "@0,0:b", "é", "")
	f.Fuzz(func(t *testing.T, a, b, text, more string) {
		parts := []providers.Part{
			{Kind: providers.PartThinking, Opaque: a}, {Kind: providers.PartThinking, Opaque: b},
			{Kind: providers.PartText, Text: providers.Escape(text)}, {Kind: providers.PartText, Text: providers.Escape(more)},
			{Kind: providers.PartToolCall}, {Kind: providers.PartToolCall},
		}
		texts, calls, thoughts := "", 0, 0
		_ = InPlace(parts, func(p *providers.Part) error {
			switch p.Kind {
			case providers.PartText:
				texts += p.Text.Plain()
			case providers.PartToolCall:
				calls++
			case providers.PartThinking:
				thoughts++
			}
			return nil
		})
		if texts != text+more || calls != 2 || thoughts != 2 {
			t.Errorf("%q, %d calls, %d thoughts", texts, calls, thoughts)
		}
	})
}

// TestTextsStayAsTheyAre has a history without thoughts, no text of which is unescaped.
func TestTextsStayAsTheyAre(t *testing.T) {
	text := providers.Escape("\n  It said: \"yes\".")
	m := providers.Message{Role: "assistant", Parts: []providers.Part{{Kind: providers.PartText, Text: text}, {Kind: providers.PartToolCall}}}
	messages := []providers.Message{m, {Role: "assistant", Content: text}, m}
	if n := testing.AllocsPerRun(10, func() {
		for _, m := range Joined(messages) {
			_ = InPlace(m.Parts, func(*providers.Part) error { return nil })
		}
		if text.Blank() {
			t.Error("the text is blank")
		}
	}); n > 2 { // a walk for each message with parts
		t.Errorf("%v allocations", n)
	}
}
