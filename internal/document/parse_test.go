package document

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outline writes a tree on one line: quoted scalars in double quotes.
func outline(n *Node) string {
	var b strings.Builder
	var walk func(n *Node)
	walk = func(n *Node) {
		switch {
		case n == nil:
			b.WriteString("nil")
		case n.Shape == Sequence:
			b.WriteByte('[')
			for i, c := range n.Items {
				if i > 0 {
					b.WriteByte(' ')
				}
				walk(c)
			}
			b.WriteByte(']')
		case n.Shape == Mapping:
			b.WriteByte('{')
			for i, m := range n.Members {
				if i > 0 {
					b.WriteByte(' ')
				}
				walk(m.Key)
				b.WriteByte(':')
				walk(m.Value)
			}
			b.WriteByte('}')
		case n.Quoted:
			fmt.Fprintf(&b, "%q", n.Text)
		default:
			b.WriteString(n.Text)
		}
	}
	walk(n)
	return b.String()
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, file, in, want string }{
		{"raw scalars", "a.yaml", "a: 012\nb: 1.10\nc: yes\nd: 2026-12-01\ne: 0x1f\nf: ~\ng:\nh: 1e3", "{a:012 b:1.10 c:yes d:2026-12-01 e:0x1f f:~ g: h:1e3}"},
		{"quoted", "a.yaml", "a: '012'\nb: \"x\\ty\"\nc: |\n  one\n  two\nd: >-\n  one\n  two\n", `{a:"012" b:"x\ty" c:"one\ntwo\n" d:"one two"}`},
		{"cells", "a.yaml", "- [any, not free, 10..20, ..20, 10.., 10..<20, ^2.1, ~2.1.3, pre*, /^a+$/]", "[[any not free 10..20 ..20 10.. 10..<20 ^2.1 ~2.1.3 pre* /^a+$/]]"},
		{"flow", "a.yaml", "{a: 1, b: [x, y], c: {}, d: []}", "{a:1 b:[x y] c:{} d:[]}"},
		{"one member", "a.yaml", "a:\n  b: 1\n", "{a:{b:1}}"},
		{"alias", "a.yaml", "a: &x {b: 1}\nc: *x\nd: [*x, *x]", "{a:{b:1} c:{b:1} d:[{b:1} {b:1}]}"},
		{"dotted keys", "a.yaml", "a.b: 1\na:\n  b: 2\n", "{a.b:1 a:{b:2}}"},
		{"explicit key", "a.yaml", "? a\n: 1\n", "{a:1}"},
		{"carriage returns", "a.yaml", "a: |\r\n  x\r\n  y\r\nb: 1\r\n", `{a:"x\ny\n" b:1}`},
		{"byte order mark", "a.yaml", "\xef\xbb\xbfa: 1\n", "{a:1}"},
		{"comments", "a.yaml", "# top\na: 1 # one\n# between\nb: # below\n  - x # y\n", "{a:1 b:[x]}"},
		{"document markers", "a.yaml", "---\na: 1\n...\n", "{a:1}"},
		{"empty", "a.yaml", "", "nil"},
		{"only comments", "a.yaml", "# nothing\n\n", "nil"},
		{"spaces", "a.yaml", " \n\n", "nil"},
		{"json", "a.json", `{"a": 1.10, "b": [true, null, "x"], "c": {}, "d": "10..20"}`, `{"a":1.10 "b":[true null "x"] "c":{} "d":"10..20"}`},
		{"json extension", "a.JSON", "\t[1]", "[1]"},
		{"unicode", "a.yaml", "naïve: [é, 日本]", "{naïve:[é 日本]}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			got := outline(Parse(tt.file, []byte(tt.in), &errs))
			if err := errs.Err(); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("[", 101) + strings.Repeat("]", 101)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'h'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 10))
	}
	for _, tt := range []struct{ name, file, in, want string }{
		{"duplicates", "a.yaml", "a: 1\nb: 2\na: 3\nb: 4\n", "a.yaml:3:1: duplicate member \"a\", first given in line 1\na.yaml:4:1: duplicate member \"b\", first given in line 2"},
		{"tag", "a.yaml", "a: !!str 1\n", "a.yaml:1:4: explicit tags such as !!str are not supported: quote the value if it is text"},
		{"not equal", "a.yaml", "a: [!= x]\n", "a.yaml:1:5: != is no operator of cells: write not x"},
		{"not equal without a space", "a.yaml", "a: !=x\n", "a.yaml:1:4: != is no operator of cells: write not x"},
		{"bang", "a.yaml", "a: !x\n", "a.yaml:1:4: explicit tags such as !x are not supported: quote the value if it is text"},
		{"merge key", "a.yaml", "a: &a {b: 1}\nc:\n  <<: *a\n", "a.yaml:3:3: merge keys (<<) are not supported: write the members out"},
		{"second document", "a.yaml", "a: 1\n---\nb: 2\n", "a.yaml:3:1: a second document begins here: one file holds one definition"},
		{"directive", "a.yaml", "%YAML 1.2\n---\na: 1\n", "a.yaml:1:1: directives such as %YAML are not supported: leave the line out"},
		{"undefined alias", "a.yaml", "- [a, *-BE]\n", `a.yaml:1:7: *-BE is read as a YAML alias and no anchor &-BE stands before it: if it is text or a pattern, quote it ("*-BE")`},
		{"lone star", "a.yaml", "- [a, *]\n", `a.yaml:1:7: a plain value can't begin with *, quote it ("*")`},
		{"star value", "a.yaml", "a: *\n", `a.yaml:1:4: a plain value can't begin with *, quote it ("*")`},
		{"alias in itself", "a.yaml", "x: &x\n  y: *x\n", "a.yaml:2:6: the alias *x stands inside the value it names"},
		{"anchor twice", "a.yaml", "a: &x 1\nb: &x 2\n", "a.yaml:2:4: the anchor &x is defined twice"},
		{"list as key", "a.yaml", "? [a, b]\n: 1\n", "a.yaml:1:3: a key must be a single plain value"},
		{"indentation", "a.yaml", "a: 1\n b: 2\n", `a.yaml:2:2: this line is indented by more than the one above it, which has a value already: indent it by 0, or quote that value if it goes on here`},
		{"unclosed", "a.yaml", "a: [1, 2\n", "a.yaml:1:4: invalid YAML: what begins here has no end: ] is missing"},
		{"utf-8", "a.yaml", "a: 1\nb: x\xffy\n", "a.yaml:2:5: the file is not valid UTF-8: byte 0xff: save it as UTF-8"},
		{"utf-16", "a.yaml", "\xfe\xff\x00a", "a.yaml:1:1: the file is in UTF-16: save it as UTF-8"},
		{"control character", "a.yaml", "a: x\x00y", "a.yaml:1:5: control character U+0000: write it as an escape in a double-quoted string"},
		{"depth", "a.yaml", deep, "a.yaml:1:101: lists and mappings nest more than 100 deep"},
		{"depth in block and flow style", "a.yaml", strings.Repeat("- ", 60) + strings.Repeat("{a: ", 60) + "1" + strings.Repeat("}", 60), "a.yaml:1:281: lists and mappings nest more than 100 deep"},
		{"depth of lists in block and flow style", "a.yaml", strings.Repeat("- ", 60) + strings.Repeat("[", 60) + strings.Repeat("]", 60), "a.yaml:1:161: lists and mappings nest more than 100 deep"},
		{"dashes", "a.yaml", strings.Repeat("- ", 200_000) + "x", "a.yaml:1:201: lists and mappings nest more than 100 deep"},
		{"aliases", "a.yaml", bomb, "a.yaml:5:29: the aliases of this file repeat more than 100000 values"},
		{"aliased text", "a.yaml", "a: &a '" + strings.Repeat("x", 1<<20) + "'\nb: [*a, *a, *a, *a, *a]\n", "a.yaml:2:21: the aliases of this file repeat more than 4 MiB of text"},
		{"alias depth", "a.yaml", "a: &a " + deep[2:len(deep)-2] + "\nb: [*a]\n", "a.yaml:2:5: lists and mappings nest more than 100 deep"},
		{"members", "a.yaml", func() string {
			var b strings.Builder
			for i := range 20_000 {
				fmt.Fprintf(&b, "k%d: 1\n", i)
			}
			return b.String()
		}(), "a.yaml:10001:1: a mapping has more than 10000 members"},
		{"one member again and again", "a.yaml", "{" + strings.Repeat("a: 1, ", 20_000) + "}", "a.yaml:1:8: duplicate member \"a\", first given in line 1"},
		{"size", "a.yaml", strings.Repeat("#", MaxFileBytes+1), "a.yaml:1:1: the file has 16777217 bytes, at most 16777216 are read"},
		{"json duplicates", "a.json", "{\"a\": 1,\n \"a\": 2}", "a.json:2:2: duplicate member \"a\", first given in line 1"},
		{"json depth", "a.json", deep, "a.json:1:101: lists and mappings nest more than 100 deep"},
		{"json end", "a.json", "{\"a\": [1,\n", "a.json:2:1: invalid JSON: the file ends too early"},
		{"json syntax", "a.json", "{\"a\": 01}", "a.json:1:8: invalid JSON: unexpected '1' where a comma or } has to come"},
		{"json comma", "a.json", "[1 2]", "a.json:1:4: invalid JSON: unexpected '2' where a comma or ] has to come"},
		{"json trailing", "a.json", "{}\n x", "a.json:2:2: invalid JSON: unexpected 'x' after the end of the value"},
		{"json comment", "a.json", "// x\n{}", "a.json:1:1: invalid JSON: unexpected '/' where a value has to begin: JSON has no comments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			start := time.Now()
			n := Parse(tt.file, []byte(tt.in), &errs)
			if n != nil {
				t.Errorf("got a node: %.80s", outline(n))
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			err := errs.Err()
			if err == nil {
				t.Fatal("no error")
			}
			if errs.Len() > MaxMembers {
				t.Errorf("%d mistakes", errs.Len())
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	var errs Errors
	n := Parse("d/a.yaml", []byte("a:\n  b: [x, {y: 1}]\n  c:\n    - d: é\n      e: f\n"), &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	a := n.Get("a")
	e := a.Get("c").Items[0]
	got := []string{
		n.Pos.String(), a.Pos.String(), a.Get("b").Pos.String(), a.Get("b").Items[1].Pos.String(),
		a.Get("b").Items[1].Get("y").Pos.String(), e.Pos.String(), e.Get("e").Pos.String(),
	}
	want := []string{"d/a.yaml:1:1", "d/a.yaml:2:3", "d/a.yaml:2:6", "d/a.yaml:2:10", "d/a.yaml:2:14", "d/a.yaml:4:7", "d/a.yaml:5:10"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	n = Parse("a.yaml", []byte("é: &x # b: [\n\n  - &y é\n  - &z {b: &v  [*y]}\nc: &w\n"), &errs)
	b := n.Get("é").Items[1]
	got = []string{n.Get("é").Pos.String(), n.Get("é").Items[0].Pos.String(), b.Pos.String(), b.Get("b").Pos.String(), b.Get("b").Items[0].Pos.String(), n.Get("c").Pos.String()}
	want = []string{"a.yaml:3:3", "a.yaml:3:8", "a.yaml:4:8", "a.yaml:4:16", "a.yaml:3:8", "a.yaml:5:4"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	n = Parse("a.json", []byte("{\n \"é\" : [1,\n\t{\"y\": 2}]}"), &errs)
	l := n.Get("é")
	got = []string{n.Pos.String(), n.Members[0].Key.Pos.String(), l.Pos.String(), l.Items[0].Pos.String(), l.Items[1].Get("y").Pos.String()}
	want = []string{"a.json:1:1", "a.json:2:2", "a.json:2:8", "a.json:2:9", "a.json:3:8"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
