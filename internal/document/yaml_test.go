package document

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestScalars reads scalars that readers of YAML often get wrong.
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
		{"dash in a list", "['-', -1, a]", `["-" -1 a]`},
		{"half pairs that are no escapes", `['\ud83d\ude00', \ud83d\ude00, "\\ud83d", "\ud83d\ude00\uD83D\uDE01"]`, `["\\ud83d\\ude00" \ud83d\ude00 "\\ud83d" "😀😁"]`},
		{"line breaks of YAML 1.1", "a: x\u2028y\u0085z\nb: |\n  x\u2029y\n  z\nc: [d\ufeff\u2028, e]\n", "{a:x\u2028y\u0085z b:\"x\\u2029y\\nz\\n\" c:[d\ufeff\u2028 e]}"},
		{"and what could stand in for them", "a: \ufdd0\nb: \"\\ufdd1\"\n", "{a:\ufdd0 b:\"\\ufdd1\"}"},
		{"pair after a text that looks like one", `a: "\\ud83d\\ude00 \ud83d\ude00"`, `{a:"\\ud83d\\ude00 😀"}`},
		{"colons over two lines", "{ all: [a:b\n   c:d, e] }", "{all:[a:b c:d e]}"},
		{"nothing behind a colon", "[{a:}]", "[{a:}]"},
		{"question mark before a key", "{? a : b}", "{a:b}"},
		{"apostrophes and quotes in text", "[‘s avonds, it’s, a “b” c, '“x”']", `[‘s avonds it’s a “b” c "“x”"]`},
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

// TestUnclear refuses text that readers of YAML read differently, or the lexer
// would read without a word.
func TestUnclear(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"key without a space", "{a:b}", `a.yaml:1:2: a space is missing after the colon in "a:b"; if it is part of the text, quote the text`},
		{"second key", "{x: 1, a:b, c: 2}", `a.yaml:1:8: a space is missing after the colon in "a:b"`},
		{"colon before a bracket", "x: {a:[1]}", "a.yaml:1:6: a space is missing after the colon; if it is part of the text, quote the text"},
		{"value behind the colon", "a: 1\nb:2\nc: 3\n", `a.yaml:2:1: a space is missing after the colon in "b:2"`},
		{"value behind the colon at the beginning", "- a:1\n  b: 2\n", `a.yaml:2:4: invalid YAML: a colon can't stand here: is a space missing after the colon in "- a:1", in the line above?`},
		{"address in the line above", "- http://x\n  b: 2\n", `a.yaml:2:4: invalid YAML: a colon can't stand here: check the indentation, or quote text that has ": " in it`},
		{"text with a colon", "a: b: c\n", `a.yaml:1:5: invalid YAML: a colon can't stand here: check the indentation, or quote text that has ": " in it`},
		{"no key", "{ : a}", "a.yaml:1:3: a key is missing before the colon"},
		{"stray bracket", "{a]}", `a.yaml:1:3: invalid YAML: unexpected "]}" where a comma or } has to come: quote it if it is text`},
		{"two commas", "[a,,b]", `a.yaml:1:4: invalid YAML: unexpected ",b]"`},
		{"only a comma", "{,}", `a.yaml:1:2: invalid YAML: unexpected ",}"`},
		{"bracket on its own", "a: ]\n", `a.yaml:1:4: invalid YAML: unexpected "]": quote it if it is text`},
		{"lone question mark", "- ?\n", `a.yaml:1:4: a key is missing before the colon`},
		{"pair as a key", "? k: v\n", "a.yaml:1:3: a key must be a single plain value: leave out the question mark before it"},
		{"anchored key", "&k a: v\n", "a.yaml:1:1: a key must be a single plain value"},
		{"alias as a key", "a: &k b\n*k : v\n", "a.yaml:2:1: a key can't be an alias: quote it if it begins with *"},
		{"text after quotes", `[""a]`, `a.yaml:1:4: invalid YAML: unexpected "a]" where a comma or ] has to come: the quote before it ends a text, write \" or '' for a quote in one`},
		{"apostrophe", "- 'a: b'\n- 'Don't'\n", "a.yaml:2:8: invalid YAML: unexpected \"t'\": the quote before it ends a text, write \\\" or '' for a quote in one"},
		{"no closing quote until the next", "# it's\na: \"b\nc: 'd'\ne: \"f\"\n", "a.yaml:4:5: invalid YAML: unexpected \"f\\\"\": the quote before it ends a text, write \\\" or '' for a quote in one"},
		{"end of a block of text", "a: |\n  b\n\n c\n", "a.yaml:4:2: invalid YAML: unexpected \"c\": check its indentation, or quote it if it is text"},
		{"block of text in its own column", "- a: |\n    b\n- c:\n    d: >-\n    e\n", "a.yaml:5:5: invalid YAML: \"e\" has no colon behind it: indent it by more than the line it belongs to"},
		{"wide colon", "a： b\nc: d\n", "a.yaml:2:2: invalid YAML: a colon can't stand here"},
		{"no-break space", "a: 1\nb:\u00a02\nc: 3\n", "a.yaml:2:1: a space is missing after the colon in \"b:\\u00a02\""},
		{"pattern in a row", "- [/^v[0-9]+$/, 1]\n", "a.yaml:1:7: invalid YAML: unexpected \"[0-9]+$/, 1]\" where a comma or ] has to come: quote it if it is text"},
		{"bad hexadecimal", `a: "\u00zz"`, "a.yaml:1:7: invalid YAML: malformed escape in double-quoted text"},

		{"one space too few", "a:\n  b:\n    c: 1\n # x\n   d: 2\n", "a.yaml:5:4: this line is indented by 3, the lines above it by 0 or 2 or 4: indent it like one of them"},
		{"text over two lines with a colon", "a: b\n  c: d\n", "a.yaml:2:3: this line is indented by more than the one above it, which has a value already: indent it by 0, or quote that value if it goes on here"},
		{"member below a quoted one", "- a: 1\n  b: 'x'\n   c: 2\n", "a.yaml:3:4: this line is indented by 3, the lines above it by 0 or 2: indent it like one of them"},
		{"name with a no-break space", "a: 1\n\u00a0b: 2\n", `a.yaml:2:1: the name "\u00a0b" has a no-break space (U+00A0) in it: delete it`},
		{"name with a zero-width space", "a\u200bb: 1\n", `a.yaml:1:1: the name "a\u200bb" has a zero-width space (U+200B) in it: delete it`},
		{"pattern in double quotes", `a: "^\d+$"`, `a.yaml:1:6: invalid YAML: malformed escape in double-quoted text: write \\ for a backslash, or put the text into single quotes`},
		{"no closing quote", "a: 'x\nb: 1\n", "a.yaml:1:4: invalid YAML: the text that begins here has no closing quote"},
		{"no closing bracket", "a: [\n", "a.yaml:1:4: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end"},
		{"no closing brace in the only line", "{", "a.yaml:1:1: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end"},
		{"document end and more", "a: 1\n... x\n", `a.yaml:2:`},
		{"value without indentation", "a:\nb\n", `a.yaml:2:1: invalid YAML: "b" has no colon behind it: indent it by more than the line it belongs to`},
		{"comment within text", "a: b # c\n  d\n", `a.yaml:2:3: invalid YAML: unexpected "d": check its indentation, or quote it if it is text`},
		{"colon on another line", "a # b\n: c\n", `a.yaml:2:1: invalid YAML: unexpected ": c"`},
		{"odd anchor", "a: &b: c\n", "a.yaml:1:6: invalid YAML: a colon can't stand here"},
		{"anchor of other letters", "a: &b.c d\n", `a.yaml:1:4: &b.c can't be an anchor: its name has letters, digits, _ and - (quote it if it is text)`},
		{"pattern for addresses", "- [a, *.example.com]\n", `a.yaml:1:7: *.example.com is read as a YAML alias and no anchor &.example.com stands before it: if it is text or a pattern, quote it ("*.example.com")`},
		{"code of a page", "```yaml\na: b\n```\n", "a.yaml:1:1: a plain value can't begin with `, quote it (\"```yaml\")"},
		{"at sign", "a: @b c\n", `a.yaml:1:4: a plain value can't begin with @, quote it ("@b")`},
		{"lone dash in a list", "[-, -1]\n", `a.yaml:1:2: a plain value can't begin with -, quote it ("-")`},
		{"bad header", "a: |x\n  b\n", `a.yaml:1:5: invalid YAML: a block of text begins on the line behind | or >: unexpected "x"`},
		{"tab before a key", "a:\n\tb: 1\n", "a.yaml:2:1: a tab can't indent a line in YAML: use spaces"},
		{"tab before the first key", "\ta: 1\n", "a.yaml:1:1: a tab can't indent a line in YAML: use spaces"},
		{"tab behind text", "a:\n  b: 1\n\tc: 2\n", "a.yaml:3:1: a tab can't indent a line in YAML: use spaces"},
		{"tab behind spaces", "a:\n  \tb: 1\n", "a.yaml:2:3: a tab can't indent a line in YAML: use spaces"},
		{"tab in a block", "a: |\n\tb\n", "a.yaml:2:1: a tab can't indent a line in YAML: use spaces"},
		{"merge conflict", "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n", "a.yaml:2:1: two versions were merged here and the conflict is still open"},
		{"merge conflict behind an empty line", "\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n", "a.yaml:2:1: two versions were merged here and the conflict is still open"},
		{"merge conflict in quotes", "a: \"b\n<<<<<<< HEAD\n c\"", "a.yaml:2:1: two versions were merged here and the conflict is still open"},
		{"end of a merge conflict", "a: 1\n>>>>>>> x\n", "a.yaml:2:1: two versions were merged here and the conflict is still open"},
		{"curly quotes", "a: “b”\n", `a.yaml:1:4: curly quotes are text in YAML: write " or ' around the text, or around the quotes if they belong to it`},
		{"curly quotes around a comma", "[“b, c”]\n", `a.yaml:1:2: curly quotes are text in YAML`},
		{"single curly quotes", "- { is: ‘b’ }\n", `a.yaml:1:9: curly quotes are text in YAML`},
		{"placeholder", "a: {{x}}\n", "a.yaml:1:4: a key must be a single plain value: quote text that begins with {{"},
		{"placeholder and more", "a: {{x}} b\n", `a.yaml:1:10: invalid YAML: unexpected "b": quote text that begins with {{`},
		{"placeholder and more in a list", "- {{x}} b\n", `a.yaml:1:9: invalid YAML: unexpected "b": quote text that begins with {{`},
		{"local tag without a name", "a: ! b\n", "a.yaml:1:4: explicit tags such as ! are not supported"},
		{"no character", "a: \ufffe", "a.yaml:1:4: control character U+FFFE"},
		{"old line break and what stands in for it", "a: \u2028\ufdd0", "a.yaml:1:1: the file has U+0085, U+2028, U+2029, U+FEFF or pairs of escapes, and one of U+FDD0 to U+FDD4"},
		{"pair and the escape of what stands in", `a: "\ud83d\ude00 \U0000FDD4"`, "a.yaml:1:1: the file has U+0085"},
		{"directive below a comment", "# x\n\n%YAML 1.1\n---\na: 1\n", "a.yaml:3:1: directives such as %YAML are not supported"},
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

// quadratic is the least time for a text of a megabyte if the time grows with the
// square of its size. Otherwise it takes a tenth of a second, and some seconds
// under the race detector on a busy machine.
const quadratic = 15 * time.Second

// TestLargeTexts reads files whose size is in one scalar, on one line or in
// comments: the work grows with the size, not with its square.
func TestLargeTexts(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine reads megabytes")
	}
	const n = 100_000
	numbered := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, in := range map[string]string{
		"quoted lines":     `a: "` + strings.Repeat("x \n  ", n) + `"`,
		"plain lines":      "a:\n" + strings.Repeat("  x\n", n),
		"block lines":      "a: >\n" + strings.Repeat("  x\n", n),
		"one line":         "[" + strings.Repeat("a, ", n) + "b]",
		"anchors":          "[" + numbered("&a%d [], ") + "b]",
		"comments":         "a: 1\n" + strings.Repeat("# b\n", n) + "c: 2\n",
		"rows and remarks": strings.Repeat("# a\n- [ b, c ] # d\n", n),
		"surrogate pairs":  `a: "` + strings.Repeat(`\ud83d\ude00`, n) + `"`,
		"old line breaks":  "a: " + strings.Repeat("x\u2028", n),
	} {
		t.Run(name, func(t *testing.T) {
			var errs Errors
			start := time.Now()
			if Parse("a.yaml", []byte(in), &errs) == nil {
				t.Fatal(errs.Err())
			}
			if d := time.Since(start); d > quadratic {
				t.Errorf("took %v for %d bytes", d, len(in))
			}
		})
	}
}

// TestLargeMistakes finds the cause of a mistake at the end of a large file.
func TestLargeMistakes(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine reads megabytes")
	}
	const n = 150_000
	for name, in := range map[string]string{
		"quotes on one line": "[" + strings.Repeat(`"a", `, n) + `"b"c]`,
		"quotes in lines":    strings.Repeat("- \"a\n  b\"\n", n) + "- \"b\"c",
		"members":            strings.Repeat("a:\n  b: c\n", n/2) + " d: e",
		"markers":            "a: |\n" + strings.Repeat("  =======\n", n) + "b: c: d",
	} {
		t.Run(name, func(t *testing.T) {
			var errs Errors
			start := time.Now()
			if Parse("a.yaml", []byte(in), &errs) != nil || errs.Len() != 1 {
				t.Fatal(errs.Err())
			}
			if d := time.Since(start); d > quadratic {
				t.Errorf("took %v for %d bytes: %v", d, len(in), errs.Err())
			}
		})
	}
}
