package script

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzExtra(f *testing.F) {
	f.Add("answer", `"a b"`)
	f.Add("answer", `["a","b"]`)
	f.Add("pace", `"20ms"`)
	f.Add("fail", `{"status":500,"times":2}`)
	f.Add("fail", `{"after":3,"kind":"error","rate":0.5,"retry_after":"1s"}`)
	f.Fuzz(func(t *testing.T, name, raw string) {
		o, err := Parse(map[string]json.RawMessage{name: json.RawMessage(raw)})
		if err != nil {
			return
		}
		if o.Pace != nil && (*o.Pace < 0 || *o.Pace > MaxWait) {
			t.Errorf("pace %s", *o.Pace)
		}
		if o.Fail != nil && (o.Fail.After < 0 || o.Fail.Times < 0 || o.Fail.Kind == "") {
			t.Errorf("failure %+v", o.Fail)
		}
	})
}

func TestSplitLosesNothing(t *testing.T) {
	for _, text := range []string{"", " ", "a", " a", "a ", "a b", "  a\n\nb\tc  ", "\u00a0x\u2003y"} {
		if got := strings.Join(Split(text), ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestTheFirstMistakeByName holds that messages do not depend on the order of a map.
func TestTheFirstMistakeByName(t *testing.T) {
	extra := map[string]json.RawMessage{"usage": []byte("1"), "answr": []byte("1"), "pace": []byte("1"), "echo": []byte("1"), "fail": []byte("null")}
	for range 20 {
		if _, err := Parse(extra); err == nil || !strings.HasPrefix(err.Error(), "extra.answr is not known") {
			t.Fatal(err)
		}
	}
}
