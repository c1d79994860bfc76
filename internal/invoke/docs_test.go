package invoke

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentationListsEveryClassWithItsCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) == 7 && strings.HasPrefix(cells[1], " `") {
			for i := range cells {
				cells[i] = strings.Trim(cells[i], " `")
			}
			documented[cells[1]] = cells
		}
	}
	for _, r := range Classes() {
		if r.Class == ClientGone || r.Class == Superseded {
			continue // the caller is gone and gets no error
		}
		row := documented[string(r.Class)]
		if row == nil {
			t.Errorf("class %s is not documented", r.Class)
			continue
		}
		if row[5] != r.Code.Name || (row[3] != "no") != r.Retry || (row[4] != "no") != r.Next {
			t.Errorf("class %s is documented as %q, but is %+v", r.Class, row, r)
		}
	}
}
