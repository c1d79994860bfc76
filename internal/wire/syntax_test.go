package wire

import (
	"encoding/json"
	"strings"
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
		if _, err := checkSyntax([]byte(text), nil); (err == nil) != json.Valid([]byte(text)) {
			t.Fatalf("%q: %+v", text, err)
		}
	})
}

// TestSurrogateAtTheEnd has bodies end within the second half of a surrogate pair.
func TestSurrogateAtTheEnd(t *testing.T) {
	const body = `{"keys":["a"],"x":"\ud83d\ude4`
	for end := strings.Index(body, `\u`); end <= len(body); end++ {
		if _, err := parsed(t, body[:end]).Prompts(); err == nil {
			t.Errorf("%s is accepted", body[:end])
		}
	}
}
