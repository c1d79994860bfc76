package document

import (
	"strings"
	"testing"
	"time"
)

// A file has at most so many values and keys, in YAML and in JSON, and is not
// given to the library where it would have more.
func TestCeilingOfNodes(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine reads millions of values")
	}
	items := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
	pairs := func(n int) string {
		mapping := `{"a":1}`
		return "[" + strings.Repeat(mapping+",", n-1) + mapping + "]"
	}
	// The anchor counts as two.
	library := func(s string) string { return "&a " + s }
	for name, tt := range map[string]struct {
		file, at, above string
		most            int
		want            string
	}{
		"items in YAML":            {"f.yaml", items(MaxNodes-1) + "\n", "\n" + items(MaxNodes) + "\n", MaxNodes, "f.yaml:2:1: the file has more than 1800000 values and keys: split it"},
		"pairs in YAML":            {"f.yaml", pairs((MaxNodes-1)/3) + "\n", pairs((MaxNodes-1)/3+1) + "\n", MaxNodes, "f.yaml:1:1: the file has more than 1800000 values and keys: split it"},
		"items in JSON":            {"f.json", items(MaxNodes - 1), items(MaxNodes), MaxNodes, "1800000 values and keys"},
		"pairs in JSON":            {"f.json", pairs((MaxNodes - 1) / 3), pairs((MaxNodes-1)/3 + 1), MaxNodes, "1800000 values and keys"},
		"items for the library":    {"f.yaml", library(items(MaxLibraryNodes - 3)), library(items(MaxLibraryNodes)), MaxLibraryNodes, "600000 are read"},
		"pairs for the library":    {"f.yaml", library(pairs((MaxLibraryNodes - 3) / 3)), library(pairs((MaxLibraryNodes-1)/3 + 1)), MaxLibraryNodes, "600000 are read"},
		"a mistake in a long list": {"f.yaml", "- a\n", strings.Repeat("- [a, b, c]\n", 200_000) + "- 'a\n", MaxLibraryNodes, "f.yaml:200001:1: the file has about"},
	} {
		var errs Errors
		n := Parse(tt.file, []byte(tt.at), &errs)
		if errs.Len() > 0 {
			t.Fatalf("%s: %v", name, errs.Err())
		}
		if nodes, _ := n.Size(); nodes > tt.most || nodes < tt.most-2 && nodes > 2 {
			t.Errorf("%s: %d nodes", name, nodes)
		}
		Parse(tt.file, []byte(tt.above), &errs)
		if errs.Len() != 1 || !strings.Contains(errs.Err().Error(), tt.want) {
			t.Errorf("%s: %v", name, errs.Err())
		}
	}
}

// What is thought of the number of nodes before a file is read is not less than
// there are, however it is laid out, and not many times as much.
func TestLikelyNodes(t *testing.T) {
	for _, text := range []string{
		"a: 1\nb:\n  c: [1, 2, {d: 3, e: 4}]\n", "- 1\n- - 2\n  - 3\n-\n  - 4\n", "{a, b, c: [d]}\n", "- [a, b]\n- {a: 1}\n- a: 1\n  b: 2\n",
		"a: {b: {c: {d: 1}}}\n", "[[[], []], [], {}]\n", `{"a":1,"b":[2,{"c":null}]}`, "a:\n- b:\n  - c\n- d\n", "[a: b, c: d]\n", "x\n", "a: |\n  b\n  c\n",
		"matrix:\n  - [ nl, 1..2, any, { rpm: 1 } ]\n  - [ be, 3.., any, { rpm: 2 } ]\n", "'a':1\n", "{'a':1}\n", "- ''\n- \"\"\n", "- - - 1\n",
	} {
		var errs Errors
		n := Parse("f.yaml", []byte(text), &errs)
		if errs.Len() > 0 {
			continue // 'a':1 is no mapping
		}
		nodes, _ := n.Size()
		if likely := likelyNodes(text); likely < nodes || likely > 2*nodes+1 {
			t.Errorf("%q: %d nodes, %d were thought likely", text, nodes, likely)
		}
	}
	// Long texts are read, whatever is in them.
	var errs Errors
	text := "a: >\n" + strings.Repeat("  Well, it's so: one, two (or \"three\") - and [four]; what {{name}} wants.\n", 4<<20/80)
	if Parse("f.yaml", []byte(text), &errs); errs.Len() > 0 {
		t.Error(errs.Err())
	}
}

// A file may use all characters for private use, if it needs none that stands
// in for another; looking for one takes no time.
func TestCharactersForPrivateUse(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine reads megabytes")
	}
	var all strings.Builder
	for c := rune(0xe000); c <= 0xf8ff; c++ {
		all.WriteRune(c)
	}
	filler := strings.Repeat("x", 3<<20)
	begun := time.Now()
	for _, tt := range []struct{ text, want string }{
		{"a: " + filler + all.String() + "\n", ""},
		{"a: " + filler + all.String() + "\u2028\n", "f.yaml:1:1: the file uses nearly all characters for private use"},
		{"a: " + filler + all.String()[:len(all.String())-5*len("\uf8ff")] + "\u2028\n", ""},
	} {
		var errs Errors
		n := Parse("f.yaml", []byte(tt.text), &errs)
		if tt.want != "" {
			if errs.Len() != 1 || !strings.HasPrefix(errs.Err().Error(), tt.want) {
				t.Errorf("got %v, want %s", errs.Err(), tt.want)
			}
			continue
		}
		if errs.Len() > 0 || n.Get("a").Text != strings.TrimSuffix(strings.TrimPrefix(tt.text, "a: "), "\n") {
			t.Errorf("read otherwise, or %v", errs.Err())
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
