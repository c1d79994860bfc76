package command

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// shownRow bounds the text of a row, in columns of a terminal.
const shownRow = 300

// rowOf returns the text of the row that decided, on one line, or "" if the definition's
// content lacks the row. For a row of a matrix it has the cells that are not any, such as
// "plan: pro, seats: 10.., value: 600", and for a rule its members.
func rowOf(d *adminapi.TracedVersion, id string) string {
	if d == nil || id == "" {
		return ""
	}
	t := d.Table(id)
	if t == nil {
		return ""
	}
	at := slices.IndexFunc(t.Rows, func(r adminapi.TracedRow) bool { return r.Chose })
	if at < 0 {
		return ""
	}
	cells := t.Rows[at].Cells
	if len(t.Columns) == 0 {
		return strings.Join(cells, "") // of a rule: its text
	}
	var parts []string
	for i, name := range t.Columns[:min(len(t.Columns), len(cells))] {
		if cells[i] != "" && cells[i] != "any" && name != "id" {
			parts = append(parts, name+": "+cells[i])
		}
	}
	return strings.Join(parts, ", ")
}

// writeDefinitions writes the contents of a trace's definition and prompt.
func (s *shownStory) writeDefinitions(b *bytes.Buffer, st styles) {
	for _, d := range [...]struct {
		title string
		value *adminapi.TracedVersion
	}{{"definition", s.Definition}, {"prompt definition", s.Prompt}} {
		if d.value != nil {
			writeBlock(b, st, d.title+" (version "+visible.Line(d.value.Version)+")", layoutContent(d.value.Content))
		}
	}
}
