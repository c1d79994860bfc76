package postgres

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"Zoë\u2028":        "Zoë\u2028",
		"a\x00b\x00":       "a\uFFFDb\uFFFD",
		"a\xff\xfeb":       "a\uFFFDb",
		"\xed\xa0\x80\x00": "\uFFFD\uFFFD",
	} {
		if got := cleanText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestCleanJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                   `{"a":1}`,
		`"\u00e9\n\\\"\/"`:          `"\u00e9\n\\\"\/"`,
		`"a\u0000b"`:                "\"a\uFFFDb\"",
		`"\\u0000"`:                 `"\\u0000"`,
		`"\\\u0000"`:                "\"\\\\\uFFFD\"",
		`"\ud83d\ude00"`:            `"\ud83d\ude00"`,
		`"\uD83D\uDE00"`:            `"\uD83D\uDE00"`,
		`"\ud83d"`:                  "\"\uFFFD\"",
		`"\ude00\ud83d"`:            "\"\uFFFD\uFFFD\"",
		`"\ud83d\ud83d\ude00"`:      "\"\uFFFD\\ud83d\\ude00\"",
		`"\ud83d\u0041"`:            "\"\uFFFD\\u0041\"",
		`"\ud83dx"`:                 "\"\uFFFDx\"",
		`{"\u0000":{"k":"\u0000"}}`: "{\"\uFFFD\":{\"k\":\"\uFFFD\"}}",
		"\"\xff\"":                  "\"\uFFFD\"",
		`no JSON \u00`:              `no JSON \u00`,
		`ends with \`:               `ends with \`,
		`\u0000\`:                   "\uFFFD\\",
		`\uzzzz`:                    `\uzzzz`,
	} {
		if got := string(cleanJSON([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// FuzzCleanJSON checks that cleaned JSON has the same values, except for
// characters that PostgreSQL can't hold, which Go's decoder replaces likewise,
// but for NUL.
func FuzzCleanJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"\u0000\ud83d\ude00\ud83d"}`, `["\\u0000","\\\u0000"]`, `"\ud83d\\ude00"`, "\"\xc3\"", `1`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out := cleanJSON(in)
		if !bytes.Equal(before, in) {
			t.Fatal("it changed its input")
		}
		if !utf8.Valid(out) {
			t.Fatalf("%q is no UTF-8", out)
		}
		if again := cleanJSON(out); !bytes.Equal(again, out) {
			t.Fatalf("cleaned twice %q becomes %q", out, again)
		}
		if !json.Valid(in) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q, which is no JSON", in, out)
		}
		want, got := tokens(t, in), tokens(t, out)
		for i := range want {
			if s, ok := want[i].(string); ok {
				want[i] = strings.ReplaceAll(s, "\x00", "\uFFFD")
			}
		}
		if !utf8.Valid(in) {
			return // Go replaces each byte, and we each run of them
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q becomes %q", want, got)
		}
	})
}

func tokens(t *testing.T, text []byte) (all []json.Token) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, token)
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("é", 1000)
	if got := shorten(long); got != strings.Repeat("é", maxStrippedText) {
		t.Errorf("%d runes", utf8.RuneCountInString(got))
	}
	for _, s := range []string{"", "short", strings.Repeat("é", maxStrippedText), "\xff\xff"} {
		if got := shorten(s); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}
