package command

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// columns writes the rows of a table. Rows may come bit by bit: columns only
// grow. package text/tabwriter needs all rows, and counts the bytes of colours.
type columns struct {
	widths []int
	right  []bool // the columns of numbers
	widest []int  // the widest that cells make a column; 0: as wide as they are
}

// cell is a cell of a table, in one colour.
type cell struct{ text, color string }

// plainCell returns a cell without a colour.
func plainCell(text string) cell { return cell{text: text} }

// plainRow returns a row without colours.
func plainRow(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].text = text
	}
	return row
}

// write writes rows. The texts of their cells are visible, in the sense of
// package visible.
func (c *columns) write(b *bytes.Buffer, st styles, rows ...[]cell) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			width := utf8.RuneCountInString(cell.text)
			if i < len(c.widest) && c.widest[i] > 0 {
				width = min(width, c.widest[i])
			}
			c.widths[i] = max(c.widths[i], width)
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
			space := strings.Repeat(" ", max(c.widths[i]-utf8.RuneCountInString(cell.text), 0))
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
