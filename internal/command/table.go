package command

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// columns writes the rows of a table. Rows may come bit by bit: columns only
// grow. package text/tabwriter needs all rows, and counts the bytes of colours.
type columns struct {
	widths []int
	right  []bool // the columns of numbers
	widest []int  // bounds the widths of columns; 0: as wide as their cells

	// If a table is wider than the terminal, its columns are cut down to fair, the
	// widest first. If that is not enough, the columns of drop are left out in their
	// order. If that is not enough either, the remaining columns are cut down to least.
	// A column with a least of 0 is never cut. A fair of 0 means least.
	fair  []int
	least []int
	drop  []int

	shown []int // the widths on this terminal; 0: the column is left out
}

// columnGap is the space between two columns.
const columnGap = 2

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

// measure makes the columns wide enough for rows.
func (c *columns) measure(rows [][]cell) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			width := visible.Width(cell.text)
			if i < len(c.widest) && c.widest[i] > 0 {
				width = min(width, c.widest[i])
			}
			c.widths[i] = max(c.widths[i], width)
		}
	}
}

// fit cuts and drops columns until the table fits a width; 0: any width. It
// reports whether other columns are shown than before. For example, columns of 12, 30
// and 20 make a table of 66. With a least of 10 for the last two and a terminal of 50
// columns, fit cuts both to 17.
func (c *columns) fit(width int) (changed bool) {
	before := c.shown
	c.shown = slices.Clone(c.widths)
	if width > 0 {
		c.leaveOut(width)
		for c.total(c.shown) > width {
			widest := -1
			for i, w := range c.shown {
				if w > max(c.leastOf(i), 1) && (widest < 0 || w > c.shown[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break // no terminal is as narrow as that
			}
			c.shown[widest]--
		}
	}
	if len(before) != len(c.shown) {
		return true
	}
	for i := range before {
		changed = changed || (before[i] == 0) != (c.shown[i] == 0)
	}
	return changed
}

// leaveOut drops columns until the rest fits when it is cut fairly.
func (c *columns) leaveOut(width int) {
	narrow := make([]int, len(c.shown))
	for i := range narrow {
		narrow[i] = c.leastOf(i)
		if i < len(c.fair) {
			narrow[i] = max(narrow[i], min(c.fair[i], c.widths[i]))
		}
	}
	for _, i := range c.drop {
		if c.total(narrow) <= width {
			return
		}
		if i < len(narrow) {
			narrow[i], c.shown[i] = 0, 0
		}
	}
}

// leastOf returns the width to which a column may be cut.
func (c *columns) leastOf(i int) int {
	if i < len(c.least) && c.least[i] > 0 {
		return min(c.least[i], c.widths[i])
	}
	return c.widths[i]
}

// total returns the width of a table.
func (*columns) total(widths []int) int {
	all := -columnGap
	for _, width := range widths {
		if width > 0 {
			all += width + columnGap
		}
	}
	return all
}

// write writes rows. The texts of their cells must be visible, in the sense of package
// visible.
func (c *columns) write(b *bytes.Buffer, st styles, rows ...[]cell) {
	c.measure(rows)
	c.fit(st.width)
	for _, row := range rows {
		var line []cell
		var widths []int
		var right []bool
		for i, cell := range row {
			if c.shown[i] == 0 {
				continue
			}
			if c.shown[i] < c.widths[i] {
				cell.text = visible.Clip(cell.text, c.shown[i])
			}
			line, widths = append(line, cell), append(widths, c.shown[i])
			right = append(right, i < len(c.right) && c.right[i])
		}
		for len(line) > 0 && line[len(line)-1].text == "" {
			line = line[:len(line)-1]
		}
		for i, cell := range line {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", columnGap))
			}
			space := strings.Repeat(" ", max(widths[i]-visible.Width(cell.text), 0))
			if right[i] {
				b.WriteString(space)
			}
			if cell.color != "" {
				b.WriteString(cell.color + cell.text + st.reset)
			} else {
				b.WriteString(cell.text)
			}
			if i < len(line)-1 && !right[i] {
				b.WriteString(space)
			}
		}
		b.WriteByte('\n')
	}
}
