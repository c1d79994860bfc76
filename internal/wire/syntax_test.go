package wire

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestCheckString compares the check of strings, which reads eight bytes at a time,
// with encoding/json, whatever is where in them.
func TestCheckString(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a text that is long enough", "a", " ", "!", "#", "[", "]", "\"", "\\", "\\\\", `\"`, `\n`, `\u00e9`, `\x`, "\x00", "\x1f", "\n", "\x7f", "é", "🙂", "plain text, "})
	rapid.Check(t, func(t *rapid.T) {
		text := `"`
		for _, s := range rapid.SliceOfN(piece, 0, 20).Draw(t, "pieces") {
			text += s
		}
		text += rapid.SampledFrom([]string{`"`, ``}).Draw(t, "end")
		if _, err := checkSyntax([]byte(text)); (err == nil) != json.Valid([]byte(text)) {
			t.Fatalf("%q: %+v", text, err)
		}
	})
}
