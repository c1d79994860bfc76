package document

import (
	"strings"
	"testing"
)

// A file has at most so many values and keys, in YAML and in JSON. The error
// says what to do.
func TestCeilingOfNodes(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine reads millions of values")
	}
	items := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
	pairs := func(n int) string {
		mapping := `{"a":1}`
		return "[" + strings.Repeat(mapping+",", n-1) + mapping + "]"
	}
	for name, tt := range map[string]struct {
		file, at, above string
		most            int
		want            string
	}{
		"items in YAML":            {"f.yaml", items(MaxYAMLNodes-1) + "\n", "\n" + items(MaxYAMLNodes) + "\n", MaxYAMLNodes, "f.yaml:2:1200000: the file has more than 600000 values and keys: write it as JSON, its matrix as a CSV file, or split it"},
		"pairs in YAML":            {"f.yaml", pairs((MaxYAMLNodes-1)/3) + "\n", pairs((MaxYAMLNodes-1)/3+1) + "\n", MaxYAMLNodes, "f.yaml:1:1599999: the file has more than 600000 values and keys"},
		"items in JSON":            {"f.json", items(MaxNodes - 1), items(MaxNodes), MaxNodes, "1800000 values and keys: split it"},
		"pairs in JSON":            {"f.json", pairs((MaxNodes - 1) / 3), pairs((MaxNodes-1)/3 + 1), MaxNodes, "1800000 values and keys"},
		"a mistake in a long list": {"f.yaml", "- a\n", strings.Repeat("- [a, b, c]\n", 200_000) + "- 'a\n", MaxYAMLNodes, "values and keys: write it as JSON"},
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

// Long texts are read, whatever is in them.
func TestLongText(t *testing.T) {
	var errs Errors
	text := "a: >\n" + strings.Repeat("  Well, it's so: one, two (or \"three\") - and [four]; what {{name}} wants.\n", 4<<20/80)
	if Parse("f.yaml", []byte(text), &errs); errs.Len() > 0 {
		t.Error(errs.Err())
	}
}
