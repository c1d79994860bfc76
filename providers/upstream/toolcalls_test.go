package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// pieces feeds a list of pieces, as OpenAI streams them, to an assembler. Taken are the
// pieces that it hands out after each, and at the end.
func pieces(t testing.TB, text string) (_ *ToolCalls, taken [][]providers.CallPiece) {
	t.Helper()
	var body Body
	defer body.Rest()
	v, err := body.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var calls ToolCalls
	for _, p := range v.GetArray() {
		calls.Piece(p.GetInt("index"), p.GetStringBytes("id"), p.GetStringBytes("name"))
		calls.Value(p.GetInt("index"), p.Get("arguments"))
		taken = append(taken, calls.take())
	}
	if _, err := calls.Finish(); err == nil {
		taken = append(taken, calls.take())
	}
	return &calls, taken
}

// joined puts handed out pieces together, and checks that the pieces of two calls don't
// mix.
func joined(t testing.TB, taken [][]providers.CallPiece) (calls []providers.ToolCall) {
	t.Helper()
	for _, p := range slices.Concat(taken...) {
		begins := p.Index == len(calls)
		if begins {
			calls = append(calls, providers.ToolCall{ID: p.ID, Name: p.Name})
		}
		if p.Index != len(calls)-1 || !begins && p.ID != "" || begins != (p.Name != "") || !utf8.ValidString(p.Arguments) {
			t.Fatalf("the piece %+v comes when there are %d calls", p, len(calls))
		}
		calls[p.Index].Arguments += p.Arguments
		calls[p.Index].Opaque += p.Opaque
	}
	return calls
}

func TestToolCalls(t *testing.T) {
	for _, test := range []struct {
		name, pieces string
		want         []providers.ToolCall
	}{
		{"none", `[]`, nil},
		{"whole", `[{"index":0,"id":"a","name":"f","arguments":"{\"x\": 1}"}]`, []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x": 1}`}}},
		{"in pieces", `[{"index":0,"id":"a","name":"f","arguments":""},{"index":0,"arguments":"{\"x\""},{"index":0,"arguments":":1}"}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}}},
		{"id and name again in each piece", `[{"index":0,"id":"a","name":"f","arguments":"{\"x\""},{"index":0,"id":"a","name":"f","arguments":":1}"}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}}},
		{"two, interleaved", `[{"index":0,"id":"a","name":"f","arguments":"{"},{"index":1,"id":"b","name":"g","arguments":"["},{"index":0,"arguments":"}"},{"index":1,"arguments":"]"}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{}`}, {ID: "b", Name: "g", Arguments: `[]`}}},
		{"two by one index", `[{"index":0,"id":"a","name":"f","arguments":"{}"},{"index":0,"id":"b","name":"g","arguments":"{}"}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{}`}, {ID: "b", Name: "g", Arguments: `{}`}}},
		{"in an order of its own", `[{"index":7,"id":"a","name":"f","arguments":"1"},{"index":-1,"id":"b","name":"g","arguments":"2"}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `1`}, {ID: "b", Name: "g", Arguments: `2`}}},
		{"no arguments", `[{"id":"a","name":"f"},{"index":1,"id":"b","name":"g","arguments":" \n"},{"index":2,"id":"c","name":"h","arguments":null}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{}`}, {ID: "b", Name: "g", Arguments: `{}`}, {ID: "c", Name: "h", Arguments: `{}`}}},
		{"arguments as an object", `[{"id":"a","name":"f","arguments":{"x":[1.50,"ü\n\u2028"]}}]`,
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[1.50,"ü\n\u2028"]}`}}},
		{"no ids", `[{"name":"f","arguments":"{}"},{"index":1,"name":"g"}]`,
			[]providers.ToolCall{{Name: "f", Arguments: `{}`}, {Name: "g", Arguments: `{}`}}},
		{"an id that comes late", `[{"name":"f","arguments":"{"},{"id":"a","arguments":"}"}]`, []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{}`}}},
	} {
		calls, taken := pieces(t, test.pieces)
		if diff := cmp.Diff(test.want, joined(t, taken)); diff != "" {
			t.Errorf("%s: pieces (-want +got):\n%s", test.name, diff)
		}
		if calls.Any() != (len(test.want) > 0) {
			t.Errorf("%s: any %t", test.name, calls.Any())
		}
		for range 2 {
			got, err := calls.Finish()
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
			}
		}
	}
}

func TestToolCallPieces(t *testing.T) {
	for _, test := range []struct {
		name, pieces string
		want         []string // "index id name arguments" of the pieces after each, and at the end
	}{
		{"as they arrive", `[{"id":"a","name":"f","arguments":""},{"arguments":"{\"x\""},{"arguments":":1}"}]`, []string{"0 a f ", `0   {"x"`, "0   :1}", ""}},
		{"two, one after the other", `[{"id":"a","name":"f","arguments":"{}"},{"index":1,"id":"b","name":"g","arguments":"{"},{"index":1,"arguments":"}"}]`,
			[]string{"0 a f {}", "1 b g {", "1   }", ""}},
		{"two, interleaved", `[{"id":"a","name":"f","arguments":"{"},{"index":1,"id":"b","name":"g","arguments":"{"},{"arguments":"}"},{"index":1,"arguments":"}"},{"index":2,"id":"c","name":"h"}]`,
			[]string{"0 a f {", "", "0   }", "", "1 b g {} 2 c h ", "2   {}"}},
		{"two by one index", `[{"id":"a","name":"f"},{"id":"b","name":"g","arguments":"{"},{"arguments":"}"}]`, []string{"0 a f ", "0   {} 1 b g {", "1   }", ""}},
		{"arguments before the name, then the id", `[{"arguments":"{"},{"name":"f"},{"id":"a","arguments":"}"}]`, []string{"", "", "0 a f {}", ""}},
		{"no id for long", `[{"name":"f","arguments":"{"},{"arguments":"\"x\""},{"id":"late","arguments":":1}"},{"id":"b","name":"g","arguments":"{}"}]`, []string{"", `0  f {"x"`, "0   :1}", "1 b g {}", ""}},
		{"no id", `[{"name":"f","arguments":"{}"}]`, []string{"", "0  f {}"}},
		{"an object, then a call without arguments", `[{"id":"a","name":"f","arguments":{"x":1}},{"index":1,"id":"b","name":"g","arguments":" \n"}]`,
			[]string{`0 a f {"x":1}`, "1 b g ", "1   {}"}},
		{"half a character", `[{"id":"a","name":"f","arguments":"\"\ud83d"},{"arguments":"\ude00\ud83d"},{"arguments":"\""}]`, []string{`0 a f "`, "0   😀", "0   \ufffd\"", ""}},
	} {
		_, taken := pieces(t, test.pieces)
		var got []string
		for _, list := range taken {
			var texts []string
			for _, p := range list {
				texts = append(texts, fmt.Sprintf("%d %s %s %s", p.Index, p.ID, p.Name, p.Arguments))
			}
			got = append(got, strings.Join(texts, " "))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestToolCallsThatBeginAndEnd has the calls of a provider that says when one begins and ends.
func TestToolCallsThatBeginAndEnd(t *testing.T) {
	var calls ToolCalls
	calls.Begin(3, []byte("a"), []byte("f"))
	calls.Opaque(3, []byte("signature"))
	calls.Begin(5, nil, []byte("g"))
	taken := [][]providers.CallPiece{calls.take()}
	if len(taken[0]) != 1 {
		t.Errorf("the pieces %v, while the first call may go on", taken)
	}
	calls.End(3)
	taken = append(taken, calls.take())
	if len(taken[1]) != 2 {
		t.Errorf("the pieces %v, after the end of the first call", taken[1])
	}
	calls.Next([]byte("c"), []byte("h"))
	taken = append(taken, calls.take())
	calls.Opaque(2, []byte("late"))
	calls.End(9)
	whole, err := calls.Finish()
	taken = append(taken, calls.take())
	want := []providers.ToolCall{{ID: "a", Name: "f", Arguments: "{}", Opaque: "signature"}, {Name: "g", Arguments: "{}"}, {ID: "c", Name: "h", Arguments: "{}", Opaque: "late"}}
	if diff := cmp.Diff(want, whole); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(want, joined(t, taken)); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestBrokenToolCalls(t *testing.T) {
	for _, test := range []struct{ pieces, want string }{
		{`[{"id":"a","name":"f","arguments":"{\"x\":"}]`, "tool call 1 has arguments that are not JSON"},
		{`[{"id":"a","name":"f","arguments":"{}{}"}]`, "not JSON"},
		{`[{"id":"a","name":"f","arguments":"{x:1}"}]`, "not JSON"},
		{`[{"id":"a","name":"f"},{"index":1,"id":"b","arguments":"{}"}]`, "tool call 2 has no name"},
	} {
		assembler, _ := pieces(t, test.pieces)
		if calls, err := assembler.Finish(); calls != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", test.pieces, calls, err)
		}
	}
}

func TestToolCallLimits(t *testing.T) {
	var many ToolCalls
	for range maxToolCalls + 1 {
		many.Next([]byte("a"), []byte("f"))
	}
	var large ToolCalls
	large.Begin(0, []byte("a"), []byte("f"))
	for range 17 {
		large.Arguments(0, make([]byte, 1<<20))
	}
	for name, calls := range map[string]*ToolCalls{"too many": &many, "too large": &large} {
		if got, err := calls.Finish(); got != nil || err == nil || !strings.Contains(err.Error(), "limits") {
			t.Errorf("%s: %d calls, error %v", name, len(got), err)
		}
	}
	if n := large.calls[0].arguments.Len(); n > MaxBody {
		t.Errorf("%d bytes are kept", n)
	}
	var none ToolCalls
	if none.Arguments(0, []byte("{}")) || none.Any() {
		t.Error("arguments of no call were taken")
	}
}

// FuzzToolCalls adds pieces of any kind. Each result is whole.
func FuzzToolCalls(f *testing.F) {
	f.Add(`[{"index":0,"id":"a","name":"f","arguments":"{\"x\""},{"index":0,"arguments":":1}"}]`)
	f.Add(`[{"index":1e99,"id":"a","name":"f","arguments":{"\ud800":["\u0000"]}}]`)
	f.Add(`[{"name":"f","arguments":"{} "},{"index":1,"name":"g","id":"b","arguments":" {}"},{"arguments":" "},{"arguments":"\\ud83d"},{"id":"a","arguments":"\\ude00"}]`)
	f.Add(`[{"name":"f","arguments":[[[[]]]]},{"index":-1,"id":1,"name":[],"arguments":"\ud83d"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := new(Body).Parse([]byte(text)); err != nil {
			return
		}
		calls, taken := pieces(t, text)
		got, err := calls.Finish()
		if err != nil {
			return
		}
		if calls.Any() != (len(got) > 0) {
			t.Errorf("%d calls", len(got))
		}
		if diff := cmp.Diff(got, joined(t, taken)); diff != "" {
			t.Errorf("the pieces are others (-whole +pieces):\n%s", diff)
		}
		for _, c := range got {
			if c.Name == "" || !json.Valid([]byte(c.Arguments)) {
				t.Errorf("%+v", c)
			}
		}
	})
}
