package command

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// columns writes the rows of a table that come bit by bit: its columns only
// grow. tabwriter would need all rows, and counts the bytes of colours.
type columns struct {
	widths []int
	right  []bool // the columns of numbers
}

// cell is a cell of a table, in one colour.
type cell struct{ text, color string }

func plainCell(text string) cell { return cell{text: text} }

// write writes rows of cells whose texts are visible.
func (c *columns) write(b *bytes.Buffer, st styles, rows ...[]cell) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	for _, row := range rows {
		for len(row) > 0 && row[len(row)-1].text == "" {
			row = row[:len(row)-1]
		}
		for i, cell := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			space := strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell.text))
			if i < len(c.right) && c.right[i] {
				b.WriteString(space)
			}
			if cell.color != "" {
				b.WriteString(cell.color + cell.text + st.reset)
			} else {
				b.WriteString(cell.text)
			}
			if i < len(row)-1 && (i >= len(c.right) || !c.right[i]) {
				b.WriteString(space)
			}
		}
		b.WriteByte('\n')
	}
}
