package wire

import (
	"bytes"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

func requestOf(body string) *Request {
	r := AcquireRequest()
	r.body = append(r.body[:0], body...)
	return r
}

// isMark reports whether a value stands for a literal.
func isMark(v *fastjson.Value) bool { return bytes.HasPrefix(v.GetStringBytes(), []byte{mark}) }

func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		name, body string
		path       []string // of the string
		want       jsontext.Text
		marked     bool
	}{
		{"the content of a message", `{"messages":[{"role":"user","content":"a\n\"b\" \\ é"}]}`, []string{"messages", "0", "content"}, `a\n\"b\" \\ é`, true},
		{"without a text", `{"messages":[{"content":""}]}`, []string{"messages", "0", "content"}, "", true},
		{"escapes that nothing needs", `{"messages":[{"content":"\u0061\/\u00e9\ud83d\ude42\u0022\u005c\u007f"}]}`, []string{"messages", "0", "content"}, "a/é🙂\\\"\\\\\x7f", true},
		{"an escaped slash before a control character", `{"messages":[{"content":"\/\u0001"}]}`, []string{"messages", "0", "content"}, `/\u0001`, true},
		{"an escaped blank", `{"messages":[{"content":"\u0020"}]}`, []string{"messages", "0", "content"}, " ", true},
		{"escapes of control characters", `{"messages":[{"content":"\b\u0008\u001F\u000a"}]}`, []string{"messages", "0", "content"}, `\b\u0008\u001F\u000a`, true},
		{"half a surrogate pair", `{"messages":[{"content":"\ud83d"}]}`, []string{"messages", "0", "content"}, "\uFFFD", true},
		{"a part", `{"messages":[{"content":[{"type":"text","text":"a"}]}]}`, []string{"messages", "0", "content", "0", "text"}, "a", true},
		{"the type of a part", `{"messages":[{"content":[{"type":"text","text":"a"}]}]}`, []string{"messages", "0", "content", "0", "type"}, "text", false},
		{"a part of a part", `{"messages":[{"content":[{"content":[{"text":"a"}]}]}]}`, []string{"messages", "0", "content", "0", "content", "0", "text"}, "a", true},
		{"after another container", `{"tools":[{"text":"x"}],"input":[{"a":{},"output":"b"}]}`, []string{"input", "0", "output"}, "b", true},
		{"the text of the request", `{"input":"a\nb"}`, []string{"input"}, `a\nb`, true},
		{"a tool's own arguments", `{"messages":[{"content":[{"input":{"content":"a\nb"}}]}]}`, []string{"messages", "0", "content", "0", "input", "content"}, `a\nb`, false},
		{"a variable", `{"variables":{"text":"a"}}`, []string{"variables", "text"}, "a", false},
		{"a member of metadata", `{"metadata":{"messages":[{"content":"a"}]}}`, []string{"metadata", "messages", "0", "content"}, "a", false},
		{"an element", `{"messages":["a"]}`, []string{"messages", "0"}, "a", false},
		{"what looks like a mark", `{"messages":[{"role":"\u00ff0","content":"a"}]}`, []string{"messages", "0", "role"}, "ÿ0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := requestOf(c.body)
			defer r.Release()
			body, err := r.Conversation()
			if err != nil {
				t.Fatal(err)
			}
			v := body.Get(c.path[0]).Get(c.path[1:]...)
			if isMark(v) != c.marked {
				t.Errorf("%q, want a mark: %t", v.GetStringBytes(), c.marked)
			}
			if got := r.Literal(v); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestUnread has a text that only something else than Literal reads.
func TestUnread(t *testing.T) {
	r := requestOf(`{"messages":[{"content":"a\nb"},{"content":"c"}]}`)
	defer r.Release()
	read := func(n int) []*fastjson.Value {
		body, err := r.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		list := body.Get("messages").GetArray()
		for range 2 { // twice is once
			for _, m := range list[:n] {
				r.Literal(m.Get("content"))
			}
		}
		return list
	}
	if read(2); r.Unread(false) {
		t.Error("all texts were read")
	}
	read(1)
	if !r.Unread(false) {
		t.Error("a text was not read")
	}
	if text := read(1)[1].Get("content").GetStringBytes(); string(text) != "c" || r.Unread(false) || r.Unread(true) {
		t.Errorf("the text is %q at the second time", text)
	}

	failed := requestOf(`{"messages":[{"content":"a"}]}`)
	defer failed.Release()
	body, _ := failed.Conversation()
	failed.Literal(body.Get("messages").Get("0", "content"))
	if !failed.Unread(true) {
		t.Error("an error may quote a mark")
	}
	if none := requestOf(`{"messages":[]}`); none.Unread(true) {
		t.Error("there is nothing to read again")
	}
}

// FuzzConversation compares each body's values with those of Object.
func FuzzConversation(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"a\nb"},{"content":[{"text":"\u00e9","content":{"output":"\/"}}],"input":{"text":"x"}}],"system":"s"}`)
	f.Add(`{"input":[[{"output":"a"},{"output":["b",{"text":""}]}],"c"],"content":"d","messages":{"text":"e"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		cut, whole := requestOf(text), requestOf(text)
		defer cut.Release()
		defer whole.Release()
		got, err := cut.Conversation()
		want, wrong := whole.Object()
		if (err == nil) != (wrong == nil) || err != nil && err.Message != wrong.Message {
			t.Fatalf("%v, want %v", err, wrong)
		}
		if err != nil {
			return
		}
		sameObject(t, cut, got, want)
	})
}

func sameObject(t *testing.T, cut *Request, got, want *fastjson.Object) {
	if got.Len() != want.Len() {
		t.Fatalf("%d members, want %d", got.Len(), want.Len())
	}
	want.Visit(func(name []byte, v *fastjson.Value) { sameValue(t, cut, got.Get(string(name)), v) })
}

func sameValue(t *testing.T, cut *Request, got, want *fastjson.Value) {
	if got.Type() != want.Type() {
		t.Fatalf("%s, want %s", got.Type(), want.Type())
	}
	switch want.Type() {
	case fastjson.TypeObject:
		sameObject(t, cut, got.GetObject(), want.GetObject())
	case fastjson.TypeArray:
		if len(got.GetArray()) != len(want.GetArray()) {
			t.Fatalf("%d elements, want %d", len(got.GetArray()), len(want.GetArray()))
		}
		for i, element := range want.GetArray() {
			sameValue(t, cut, got.GetArray()[i], element)
		}
	case fastjson.TypeString:
		if plain := cut.Literal(got).Plain(); plain != string(want.GetStringBytes()) {
			t.Fatalf("%q, want %q", plain, want.GetStringBytes())
		}
	default:
		if got.String() != want.String() {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
