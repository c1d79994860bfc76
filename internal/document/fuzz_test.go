package document

import (
	"encoding/json"
	"testing"
)

// FuzzParse checks that no bytes make the readers panic, and that an accepted file
// is bounded and writes valid JSON. FuzzJSON checks that this JSON has the file's
// values.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "a: 1\n", "- [a, *b, &c d]\n", "{a: {b: [1, 2]}}", "a: |\n  x\n", "a: >-\n  x\n", "? a\n: b\n",
		"a: &x [1]\nb: *x\n", "%YAML 1.2\n---\na\n", "a: !!str 1\n", "<<: {a: 1}\n", "a: 'b''c'\n", "a: \"\\u00e9\"\n",
		`{"a": [1, 2.5e3, "x", null, true]}`, "[[[[", "- - - -", "a:\n\tb: 1", "a: 0x1f\nb: .inf\nc: 1_000\n", "\xef\xbb\xbfa: b",
		"&a &b c", "[a, b]: c", "a: *", "- *x", "? ? ?", "a: {b, c}", "'a': \"b\"\n", "...\n---\n",
	} {
		f.Add(true, []byte(s))
		f.Add(false, []byte(s))
	}
	f.Fuzz(func(t *testing.T, isJSON bool, data []byte) {
		name := "f.yaml"
		if isJSON {
			name = "f.json"
		}
		var errs Errors
		n := Parse(name, data, &errs)
		if n != nil && errs.Len() > 0 {
			t.Fatal("a node in spite of an error")
		}
		for _, e := range errs.List() {
			if e.Pos.Line < 1 || e.Pos.Column < 1 || e.Pos.File != name {
				t.Fatalf("bad position: %v", e)
			}
		}
		if n == nil {
			return
		}
		if s := measure(n); s.nodes > len(data)+1+MaxAliasedNodes || s.bytes > len(data)+MaxAliasedBytes || s.height > MaxDepth {
			t.Fatalf("%+v from %d bytes", s, len(data))
		}
		if out := n.AppendJSON(nil, &errs); !json.Valid(out) {
			t.Fatalf("invalid JSON: %s", out)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	doc := []byte("type: object\ndefault: { rpm: 60, burst: 10 }\nmerge: default\ncolumns: [ environment, plan, locale, seats, value ]\nmatrix:\n  - [ production, enterprise, any, 100.., { rpm: 6000 } ]\n  - [ production, [pro, starter], any, 10..<100, { rpm: 600 } ]\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		var errs Errors
		if Parse("a.yaml", doc, &errs) == nil {
			b.Fatal(errs.Err())
		}
	}
}
