package jsontext

import (
	"encoding/json"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "in")
		text, want := Escape(in), string([]rune(in))
		if got := text.Plain(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := string(text.Append([]byte("a"))), "a"+string(AppendString(nil, in)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		var read string
		written, err := json.Marshal(text)
		if err == nil {
			err = json.Unmarshal(written, &read)
		}
		if err != nil || read != want {
			t.Errorf("%s: %v", written, err)
		}
	})
	for text, normal := range map[Text]Text{`a\/\u0041\ud83d\ude42\u005C\u0022`: "a/A🙂\\\\\\\"", `\u000A\b\"`: `\u000A\b\"`, "a": "a"} {
		if got := text.Normal(); got != normal {
			t.Errorf("%s became %s, want %s", text, got, normal)
		}
	}
	for text, blank := range map[string]bool{"": true, " \n\t": true, "\u00a0": true, "\\": false, "\n a": false, "é": false, "a": false} {
		if got := Escape(text).Blank(); got != blank {
			t.Errorf("%q is blank: %t", text, got)
		}
	}
	plain := "a text without escapes"
	if text := Escape(plain); unsafe.StringData(string(text)) != unsafe.StringData(plain) || unsafe.StringData(text.Plain()) != unsafe.StringData(plain) {
		t.Error("a copy")
	}
}
