package command

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	var table struct {
		Columns []string            `json:"columns"`
		Matrix  [][]json.RawMessage `json:"matrix"`
		Rules   []json.RawMessage   `json:"rules"`
	}
	if json.Unmarshal(d.Content, &table) != nil {
		return ""
	}
	at := slices.Index(table.Columns, "id")
	for i, cells := range table.Matrix {
		if own := plainJSON(cells, at); own == id || own == "" && rowName(i) == id {
			return matrixRow(table.Columns, cells)
		}
	}
	for i, rule := range table.Rules {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(rule, &named) == nil && (named.ID == id || named.ID == "" && rowName(i) == id) {
			return string(rule)
		}
	}
	return ""
}

// rowName returns the id of a row without an id of its own.
func rowName(index int) string { return fmt.Sprintf("row %d", index+1) }

func matrixRow(columns []string, cells []json.RawMessage) string {
	var parts []string
	for i, name := range columns {
		if cell := plainJSON(cells, i); cell != "" && cell != "any" && name != "id" {
			parts = append(parts, name+": "+cell)
		}
	}
	return strings.Join(parts, ", ")
}

// plainJSON returns an element: a text without quotes, another value as JSON, or "" for
// an absent element.
func plainJSON(list []json.RawMessage, i int) string {
	if i < 0 || i >= len(list) {
		return ""
	}
	var text string
	if json.Unmarshal(list[i], &text) == nil {
		return text
	}
	return string(list[i])
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
