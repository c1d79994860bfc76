package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samePlain reports whether parsePlain reads a text, and how otherwise than the
// library does.
func samePlain(text string) (how string, read bool) {
	n, _, _ := parsePlain("a.yaml", text)
	if n == nil {
		return "", false
	}
	var errs Errors
	want := parseByLibrary("a.yaml", text, 1, &errs)
	if errs.Len() > 0 {
		return "the library refuses it: " + errs.Err().Error(), true
	}
	return cmp.Diff(want, n), true
}

// plainYAML is what parsePlain reads, and what it leaves to the library.
var plainYAML = map[string][]string{
	"read": {
		"a: 1\n", "- a\n- b\n", "a:\n  - b\n  - c: d\n    e: f\n", "a:\n- b\n- c\nd: e\n", "- - a\n  - b\n- c\n", "{a: [b, {c: d}], e: 'f'}\n", "[]\n",
		"# c\n\na: b # c\n\n  # c\nc: d\n# c\n", "a: |\n  b\n\n    c\n   \n  d\n\n\ne: f\n", "a: |-\n  b\n# c\nd: e\n", "- |\n a\n- |\n  b\n", "a: [b,\n  c, # d\n  e]\nf: g\n",
		"a: \"b: \\\"c\\\" \\n d\"\n", "'a b': 'it''s'\n", "a: é\nb: [é, c]\nc: {d: é, e: f}\n", "a : b\n", "a: 10..20\nb: ..20\nc: <10\nd: -1\ne: a:b\nf: http://x/y\n", "a: {\"b\":1,\"c\":[]}\n", "a: { b: c, }\n",
		"a:\n    b:\n     c: d\n    e: f\n", "a:\n  b\n", "  a: b\n  c: d\n", "a: - b\n"[:0] + "a: -b\n", "a: b#c\nd: 'e' # f\n", "matrix:\n  - [ nl, 1..2, any, { rpm: 1 } ]\n  - [ be, 3.., any, { rpm: 2 } ]\n",
	},
	"left": {
		"", "a: 1", "\n", "a: &x 1\nb: *x\n", "a: !!str 1\n", "%YAML 1.2\n---\na: 1\n", "---\na: 1\n", "a: 1\n...\n", "? a\n: b\n", "a: >\n  b\n", "a: b\n  c\n", "a:\nb: c\n", "-\n- a\n", "a:\tb\n", "a: \"\\u00e9\"\n",
		"a: 1\na: 2\n", "{a: 1, a: 2}\n", "a: b: c\n", "a: [b\n]\n", "a: [b c\n  d]\n", "a: {b}\n", "a: {b:c}\n", "a: [b: c]\n", "a: |+\n  b\n", "a: |2\n  b\n", "a: |\n\n  b\n", "a: \"b\n  c\"\n", "<<: {a: b}\n", "a: [b,,c]\n", "a: “b”\n",
		"a: 'b' c\n", "a: [b] c\n", "a: 1\n b: 2\n", "- a\nb: c\n", "a: b\n- c\n", "a: \u2028\n", "a: \u0085\n", "é: a\n", "a: - b\n", "a: %b\n", "a: @b\n", "a: `b`\n", "a: 'b\n", "a: {b: c\n", strings.Repeat("k", 1001) + ": a\n", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1) + "\n",
	},
}

func TestParsePlain(t *testing.T) {
	t.Parallel()
	for which, texts := range plainYAML {
		for _, text := range texts {
			how, read := samePlain(text)
			if how != "" || read != (which == "read") {
				t.Errorf("%q: read %v, want it to be %s. %s", text, read, which, how)
			}
		}
	}
	// The files that users begin with are read without the library.
	files, err := filepath.Glob("../../examples/definitions/*/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if how, _ := samePlain(string(text)); how != "" {
			t.Errorf("%s: %s", file, how)
		}
	}
}

// TestParsePlainAtRandom compares random documents.
func TestParsePlainAtRandom(t *testing.T) {
	t.Parallel()
	read := 0
	for seed := range uint64(randomDocuments) {
		text := randomDocument(seed, seed%2 == 0)
		how, ok := samePlain(text)
		if how != "" {
			t.Errorf("seed %d: %q\n%s", seed, text, how)
		}
		if ok {
			read++
		}
	}
	if t.Logf("%d of %d were read", read, randomDocuments); read < randomDocuments/20 {
		t.Errorf("%d of %d documents were read: too few to tell", read, randomDocuments)
	}
}

// FuzzParsePlain compares any text.
func FuzzParsePlain(f *testing.F) {
	for _, texts := range plainYAML {
		for _, text := range texts {
			f.Add(text)
		}
	}
	for seed := range uint64(100) {
		f.Add(randomDocument(seed, false))
	}
	f.Fuzz(func(t *testing.T, text string) {
		text += "\n"
		if invalidUTF8(text) >= 0 || strings.TrimSpace(text) == "" || conflict(text) > 0 {
			t.Skip("Parse refuses it before")
		}
		if how, _ := samePlain(text); how != "" {
			t.Errorf("%q: %s", text, how)
		}
	})
}
