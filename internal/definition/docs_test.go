package definition

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

const manual = "../../docs/definitions.md"

// TestManualLoads loads the definitions the manual shows. Their first line is
// the file's name.
func TestManualLoads(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	if len(files) < 7 || len(files) != strings.Count(string(text), "```yaml") {
		t.Fatalf("found %d files", len(files))
	}
	if s := mustLoad(t, workspace(t, files)); len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
}

// TestManualIsComplete checks that every member is in the manual.
func TestManualIsComplete(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range slices.Concat(commonMembers, promptMembers, variantMembers, policyMembers, endpointMembers, configMembers) {
		if !regexp.MustCompile("`" + member + "[`.:]").Match(text) {
			t.Errorf("the member %s is not described", member)
		}
	}
}

// TestManualsCellsCanBeWritten puts every cell that the manual shows into a
// row, as it stands there.
func TestManualsCellsCanBeWritten(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| cell | matches |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	cells := 0
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			cells++
			var errs document.Errors
			document.Parse("cell", []byte("- [ a, "+m[1]+", 1 ]\n- when: { a: "+m[1]+", b: 1 }\n"), &errs)
			if err := errs.Err(); err != nil {
				t.Error(err)
			}
		}
	}
	if cells < 20 {
		t.Errorf("%d cells were found", cells)
	}
}
