package upstream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// pieces feeds a list of pieces, as OpenAI streams them, to an assembler.
func pieces(t testing.TB, text string) *ToolCalls {
	t.Helper()
	v, err := fastjson.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var calls ToolCalls
	for _, p := range v.GetArray() {
		calls.Piece(p.GetInt("index"), p.GetStringBytes("id"), p.GetStringBytes("name"))
		calls.Value(p.GetInt("index"), p.Get("arguments"))
	}
	return &calls
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
			[]providers.ToolCall{{ID: "call_1", Name: "f", Arguments: `{}`}, {ID: "call_2", Name: "g", Arguments: `{}`}}},
		{"an id that comes late", `[{"name":"f","arguments":"{"},{"id":"a","arguments":"}"}]`, []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{}`}}},
	} {
		calls := pieces(t, test.pieces)
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

func TestBrokenToolCalls(t *testing.T) {
	for _, test := range []struct{ pieces, want string }{
		{`[{"id":"a","name":"f","arguments":"{\"x\":"}]`, "tool call 1 has arguments that are not JSON"},
		{`[{"id":"a","name":"f","arguments":"{}{}"}]`, "not JSON"},
		{`[{"id":"a","name":"f","arguments":"{x:1}"}]`, "not JSON"},
		{`[{"id":"a","name":"f"},{"index":1,"id":"b","arguments":"{}"}]`, "tool call 2 has no name"},
	} {
		if calls, err := pieces(t, test.pieces).Finish(); calls != nil || err == nil || !strings.Contains(err.Error(), test.want) {
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
	if n := len(large.calls[0].arguments); n > MaxBody {
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
	f.Add(`[{"name":"f","arguments":[[[[]]]]},{"index":-1,"id":1,"name":[],"arguments":"\ud83d"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := fastjson.Parse(text); err != nil {
			return
		}
		calls := pieces(t, text)
		got, err := calls.Finish()
		if err != nil {
			return
		}
		if calls.Any() != (len(got) > 0) {
			t.Errorf("%d calls", len(got))
		}
		for _, c := range got {
			if c.ID == "" || c.Name == "" || !json.Valid([]byte(c.Arguments)) {
				t.Errorf("%+v", c)
			}
		}
	})
}
