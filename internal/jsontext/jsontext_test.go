package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fastjson"
	"pgregory.net/rapid"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                       `""`,
		"plain ~ text":           `"plain ~ text"`,
		"\"\\/":                  `"\"\\/"`,
		"\n\r\t\b\f\x00\x1f\x7f": `"\n\r\t\u0008\u000c\u0000\u001f\u007f"`,
		"é世🙂":                    `"é世🙂"`,
		"\u2028\u2029":           `"\u2028\u2029"`,
		"a\xffb\xe2\x82":         `"a` + "\uFFFDb\uFFFD\uFFFD" + `"`,
		"\uFFFD":                 `"` + "\uFFFD" + `"`,
	} {
		if got := string(AppendString(nil, in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestAppendValueIsCanonical(t *testing.T) {
	var p fastjson.Parser
	for in, want := range map[string]string{
		` { "b" : [ 1.50 , -0 , 1E5 , true , false , null ] , "a" : { } } `: `{"b":[1.50,-0,1E5,true,false,null],"a":{}}`,
		`{"\u006b\/":"\u0007\u00e9\ud83d\ude42\\"}`:                         `{"k/":"\u0007é🙂\\"}`,
	} {
		v, err := p.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		// Twice: reading changes how fastjson holds a string.
		for range 2 {
			if got := string(AppendValue(nil, v)); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
	}
	if got := string(AppendValue(nil, nil)); got != "null" {
		t.Error(got)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\"\\\u2028\xff\xe2\x82")
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendString(nil, s)
		var got string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := string([]rune(s)); got != want {
			t.Errorf("%q became %q", want, got)
		}
		if !utf8.Valid(text) || strings.ContainsAny(string(text), "\u2028\u2029\n\r") {
			t.Errorf("%q is not safe in a line", text)
		}
	})
}

func TestAppendEscaped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOf(rapid.RuneFrom([]rune{'"', '\\', '\n', 0, 0x1f, 0x7f, '\u2028', '\u2029', '\uFFFD', '<', 'é', '😀', 'a'})),
		).Draw(t, "in")
		out := AppendEscaped(nil, in)
		if string(out) != string(AppendEscaped(nil, []byte(in))) {
			t.Fatal("strings and bytes differ")
		}
		if n, ofBytes := EscapedLen(in), EscapedLen([]byte(in)); n != len(out) || ofBytes != n {
			t.Fatalf("%q: a length of %d, and %d as bytes", out, n, ofBytes)
		}
		var got string
		if err := json.Unmarshal([]byte(`"`+string(out)+`"`), &got); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if want := string([]rune(in)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		for _, c := range out {
			if c < ' ' {
				t.Fatalf("raw control character in %q", out)
			}
		}
	})
}

// TestEscapesInLongTexts has each byte at each place of a text that is looked at by
// eights, and behind another one.
func TestEscapesInLongTexts(t *testing.T) {
	plain := strings.Repeat("iVBORw0KGgo=", 5)
	for c := range 256 {
		one := []byte{byte(c)}
		escaped := string(AppendEscaped(nil, one))
		for at := range len(plain) + 1 {
			for _, gap := range []int{0, 1, 7, 8, 9, 30} {
				second := min(at+gap, len(plain))
				text := plain[:at] + string(one) + plain[at:second] + string(one) + plain[second:]
				want := plain[:at] + escaped + plain[at:second] + escaped + plain[second:]
				if got := string(AppendEscaped(nil, text)); got != want {
					t.Fatalf("%q became %q", text, got)
				}
				if n := EscapedLen(text); n != len(want) {
					t.Fatalf("%q: a length of %d, want %d", text, n, len(want))
				}
			}
		}
	}
}

func BenchmarkAppendEscaped(b *testing.B) {
	for name, text := range map[string]string{
		"ascii":   strings.Repeat("The quick brown fox jumps. ", 100),
		"unicode": strings.Repeat("Zwölf Boxkämpfer jagen. ", 100),
		"image":   strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAA+/8", 1<<15),
		"lines":   strings.Repeat("It says \"so\".\n", 200),
		"chinese": strings.Repeat("十二名拳手追逐。", 100),
		"short":   "ok",
	} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendEscaped(dst[:0], text)
			}
		})
	}
}
