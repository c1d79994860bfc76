package document

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/lexer"
)

// TestScalars reads what the lexer alone would get wrong.
func TestScalars(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"date range in a list in a mapping", "{ all: [2026-01-03T12:00:00Z.., x] }", "{all:[2026-01-03T12:00:00Z.. x]}"},
		{"two colons", "[{all: [2026-01-03T12:00:00Z..2026-01-04T00:00:00+01:00]}]", "[{all:[2026-01-03T12:00:00Z..2026-01-04T00:00:00+01:00]}]"},
		{"text with a colon", "[{all: [a:b]}]", "[{all:[a:b]}]"},
		{"number with a colon", "{ all: [12:30, 1:2:3] }", "{all:[12:30 1:2:3]}"},
		{"leading colons", "{ any: [::1, fe80::/10, :x] }", "{any:[::1 fe80::/10 :x]}"},
		{"value with a colon", "{ a: 12:30, b: http://x/y }", "{a:12:30 b:http://x/y}"},
		{"pair in a list", "[a: b, {c: [d: e]}]", "[{a:b} {c:[{d:e}]}]"},
		{"quoted key without a space", `{"a":1, "b":[x]}`, `{"a":1 "b":[x]}`},
		{"tab in text", "a: b\tc\nd: [e\tf]", "{a:b\tc d:[e\tf]}"},
		{"tab in quotes over lines", "a: \"b\tc\t\n  d\"", `{a:"b\tc d"}`},
		{"empty block at the end", "a: |+\n", `{a:""}`},
		{"only breaks", "a: |+\n\n\n", `{a:"\n\n"}`},
		{"folded", "a: >\n  b\n  c\n\n  d\n    e\n  f\n", `{a:"b c\nd\n  e\nf\n"}`},
		{"indented by a number", "a:\n  - |2\n     b\n    c\n", `{a:[" b\nc\n"]}`},
		{"no final break", "a: |\n  b", `{a:"b"}`},
		{"escapes", `a: "\x41\u00e9\U0001F600\ud83d\ude00\/\e"`, `{a:"Aé😀😀/\x1b"}`},
		{"escaped break", "a: \"b\\\n   c  \\\n   d\"", `{a:"bc  d"}`},
		{"question mark", "[?a, b?]", "[?a b?]"},
		{"dash in a list", "[-, -1, a]", "[- -1 a]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			n := Parse("a.yaml", []byte(tt.in), &errs)
			if err := errs.Err(); err != nil {
				t.Fatal(err)
			}
			if got := outline(n); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestUnclear refuses what readers of YAML read differently, or the lexer
// would read without a word.
func TestUnclear(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"key without a space", "{a:b}", `a.yaml:1:2: a space is missing after the colon in "a:b"; if it is part of the text, quote the text`},
		{"second key", "{x: 1, a:b, c: 2}", `a.yaml:1:8: a space is missing after the colon in "a:b"`},
		{"colon before a bracket", "x: {a:[1]}", "a.yaml:1:6: a space is missing after the colon; if it is part of the text, quote the text"},
		{"colon before the end", "[{a:}]", "a.yaml:1:4: a space is missing after the colon"},
		{"no key", "{ : a}", "a.yaml:1:3: invalid YAML: a key is missing before the colon"},
		{"stray bracket", "{a]}", `a.yaml:1:2: invalid YAML: unexpected "a]}": quote it if it is text`},
		{"two commas", "[a,,b]", `a.yaml:1:4: invalid YAML: unexpected ",b]"`},
		{"only a comma", "{,}", `a.yaml:1:2: invalid YAML: unexpected ",}"`},
		{"lone question mark", "- ?\n", `a.yaml:1:3: `},
		{"question mark in flow style", "{? a : b}", `a.yaml:1:2: `},
		{"pair as a key", "? k: v\n", "a.yaml:1:4: a key must be a single plain value: leave out the question mark before it"},
		{"text after quotes", `[""a]`, `a.yaml:1:4: invalid YAML: unexpected "a]": quote it if it is text`},
		{"bad hexadecimal", `a: "\u00zz"`, "a.yaml:1:5: invalid YAML: malformed escape in double-quoted text"},
		{"half a surrogate pair", `a: "x\ude00"`, "a.yaml:1:6: invalid YAML: malformed escape in double-quoted text"},
		{"document end and more", "a: 1\n... x\n", `a.yaml:2:`},
		{"value without indentation", "a:\nb\n", "a.yaml:2:1: invalid YAML: indent this by more than the line it belongs to"},
		{"comment within text", "a: b # c\n  d\n", `a.yaml:2:3: invalid YAML: unexpected "d"`},
		{"colon on another line", "a # b\n: c\n", "a.yaml:2:1: invalid YAML: a colon must stand on the line of its key"},
		{"odd anchor", "a: &b: c\n", "a.yaml:1:4: &b: can't be an anchor"},
		{"colons over two lines", "{ all: [a:b\n   c:d, e] }", `a.yaml:1:9: invalid YAML: unexpected "a:b": quote it if it is text`},
		{"bad header", "a: |x\n  b\n", "a.yaml:1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			n := Parse("a.yaml", []byte(tt.in), &errs)
			err := errs.Err()
			if err == nil {
				t.Fatalf("read as %s", outline(n))
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

// TestLargeTexts reads files whose size is in one scalar or on one line: the
// work grows with the size, not with its square.
func TestLargeTexts(t *testing.T) {
	const n = 100_000
	for name, in := range map[string]string{
		"quoted lines": `a: "` + strings.Repeat("x \n  ", n) + `"`,
		"plain lines":  "a:\n" + strings.Repeat("  x\n", n),
		"block lines":  "a: >\n" + strings.Repeat("  x\n", n),
		"one line":     "[" + strings.Repeat("a, ", n) + "b]",
	} {
		t.Run(name, func(t *testing.T) {
			var errs Errors
			r := &yamlReader{builder: builder{"a.yaml", &errs}}
			tokens := lexer.Tokenize(in)
			start := time.Now()
			if _, err := r.audit(in, tokens); err != nil {
				t.Fatal(errs.Err())
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("took %v for %d bytes", d, len(in))
			}
		})
	}
}
