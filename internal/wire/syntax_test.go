package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCheckString compares the check of strings, which reads many bytes at a time,
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

// TestCheckLongString has each byte that ends a plain text at each place of one, before
// and after an escaped quote, in a body that goes on behind it.
func TestCheckLongString(t *testing.T) {
	for _, first := range []string{"", `\"`, strings.Repeat("a", 70) + `\"`} {
		for _, what := range []string{"\x00", "\x1f", "\n", "\x7f", "\x80", "é", `"`, `\"`, `\n`, `\x`, `\`} {
			for n := range 150 {
				text := `["` + first + strings.Repeat("~", n) + what + strings.Repeat("é", 40) + `", "next"]`
				_, err := checkSyntax([]byte(text), nil)
				if valid := json.Valid([]byte(text)); (err == nil) != valid {
					t.Fatalf("%q after %q and %d bytes: %+v, valid: %t", what, first, n, err, valid)
				}
				if what < " " && (err == nil || err.offset != len(`["`+first)+n) {
					t.Fatalf("%q after %q and %d bytes: %+v", what, first, n, err)
				}
			}
		}
	}
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
