package console

import (
	"encoding/json"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// TestSetField fills in forms of data models.
func TestSetField(t *testing.T) {
	type filled struct{ name, kind, path, value string }
	for _, test := range []struct {
		want   string
		fields []filled
	}{
		{`{"plan":"pro"}`, []filled{{"plan", "string", "", "pro"}}},
		{`{"seats":12}`, []filled{{"seats", "number", "", "12"}}},
		{`{"seats":"many"}`, []filled{{"seats", "number", "", "many"}}}, // which the answer has a note on
		{`{"staff":true}`, []filled{{"staff", "boolean", "", "true"}}},
		{`{"plan":"12"}`, []filled{{"plan", "string", "", "12"}}},
		{`{"tags":["a","b c"]}`, []filled{{"tags", "list", "", "a, b c"}}},
		{`{"address":{"city":"Gent","country":"BE"}}`, []filled{{"country", "string", "address.country", "BE"}, {"city", "string", "address.city", "Gent"}}},
		{`{"a":{"b":"1"}}`, []filled{{"a", "string", "", "0"}, {"b", "string", "a.b", "1"}}},
	} {
		context := make(map[string]any)
		for _, f := range test.fields {
			setField(context, &adminapi.DataField{Name: f.name, Type: f.kind, Path: f.path}, f.value)
		}
		if text, err := json.Marshal(context); err != nil || string(text) != test.want {
			t.Errorf("%s, want %s", text, test.want)
		}
	}
}

// TestShellWord has words that a shell would take apart.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"support_chat": "support_chat", "7d": "7d", "user=u-1": "user=u-1", "..50": "..50",
		"a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "": "",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
