package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompareCSV finds what an edit of a matrix in a CSV file changes, as where the
// matrix is in its definition.
func TestCompareCSV(t *testing.T) {
	const model = "fields: { plan: { type: string }, seats: { type: number }, id: { type: string } }\n"
	const def = "type: number\ndefault: 0\n"
	rows := func(low string) string { return "plan,seats,value\npro," + low + "..,1\n,..5,2\n" }
	csv := func(low string) string {
		return workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", def+"matrix: a.csv\n", "remoteconfigs/a.csv", rows(low))
	}
	yaml := func(low string) string {
		text := strings.ReplaceAll(strings.ReplaceAll(rows(low), ",", ", "), "\n, ", "\nany, ")
		return workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", def+"columns: ["+strings.Replace(strings.ReplaceAll(strings.TrimSpace(text), "\n", "]\n- ["), "]\n", "]\nmatrix:\n", 1)+"]\n")
	}
	got, err := compareFolders(csv("10"), csv("20"))
	must(t, err)
	want, err := compareFolders(yaml("10"), yaml("20"))
	must(t, err)
	if d := cmp.Diff(want, got); d != "" || len(got.Definitions) != 1 || len(got.Definitions[0].Answers) == 0 {
		t.Errorf("%+v %s", got, d)
	}
	// To move a table into a CSV file changes nothing.
	if c, err := compareFolders(yaml("10"), csv("10")); err != nil || len(c.Definitions) > 0 || c.Old != c.New {
		t.Errorf("%+v, %v", c, err)
	}
}
