package chat

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
)

// TestDocumented holds that the table of docs/openai.md is that of the code.
func TestDocumented(t *testing.T) {
	var table strings.Builder
	for _, m := range Members {
		note := m.Note
		if m.Fate == dialect.Refused { // the rest of a message
			note = strings.ToUpper(note[:1]) + note[1:]
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.Name, m.Fate, note)
	}
	page, err := os.ReadFile("../../../docs/openai.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "|---|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/openai.md does not have this table:\n%s", table.String())
	}
}
