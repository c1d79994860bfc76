package wire

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table of errors in the reference must list every code and its status
// once.
func TestErrorTableInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "<!-- error codes: begin -->\n")
	table, _, ended := strings.Cut(table, "<!-- error codes: end -->")
	if !found || !ended {
		t.Fatal("the page has no table between its markers")
	}
	var documented []Code
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Fatalf("not four cells: %s", line)
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		code := Code{Name: cells[1], Type: cells[2]}
		if cells[0] != "in a stream" {
			if code.Status, err = strconv.Atoi(cells[0]); err != nil {
				t.Fatal(err)
			}
		}
		if cells[3] == "" {
			t.Errorf("%s is not explained", code.Name)
		}
		documented = append(documented, code)
	}
	if diff := cmp.Diff(Codes(), documented); diff != "" {
		t.Errorf("codes (-) and docs (+) differ:\n%s", diff)
	}
}
