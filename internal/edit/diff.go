package edit

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// line is a line of a diff.
type line struct {
	sign string // "-" and "+", " " for a line of both, "@" before the first line of a part
	old  int    // the number of the line before the change
	new  int    // and after it
	text string
}

const (
	// contextLines is how many equal lines a diff has around those that differ.
	contextLines = 3
	// comparedLines bounds the comparisons of lines of two files.
	comparedLines = 4_000_000
)

// diff returns the lines that differ, with those around them.
func (c *Change) diff() []line {
	all := lineDiff(split(c.Before), split(c.After))
	keep := make([]bool, len(all))
	for i, l := range all {
		if l.sign != " " {
			for j := max(i-contextLines, 0); j <= min(i+contextLines, len(all)-1); j++ {
				keep[j] = true
			}
		}
	}
	var shown []line
	for i, l := range all {
		if !keep[i] {
			continue
		}
		if i == 0 || !keep[i-1] {
			shown = append(shown, line{sign: "@"})
		}
		shown = append(shown, l)
	}
	return shown
}

// split returns the lines of a file with their ends.
func split(data []byte) []string {
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}

// lineDiff returns all lines of two files, the removed ones before the added ones. Of
// files with too many lines between the first and the last difference, all these differ.
func lineDiff(a, b []string) (all []line) {
	i, j := 0, 0
	equal := func(n int) {
		for range n {
			all = append(all, line{" ", i + 1, j + 1, a[i]})
			i, j = i+1, j+1
		}
	}
	for _, e := range inspect.DiffLists(a, b, comparedLines) {
		if e.Old {
			equal(e.Index - i)
			all = append(all, line{sign: "-", old: i + 1, text: a[i]})
			i++
		} else {
			equal(e.Index - j)
			all = append(all, line{sign: "+", new: j + 1, text: b[j]})
			j++
		}
	}
	equal(len(a) - i)
	return all
}

// Patch returns the change as a patch for `git apply`. prefix, which is empty or ends with
// a slash, begins the paths in it.
func (c *Change) Patch(prefix string) string {
	var b strings.Builder
	name := func(side, file, other string) string {
		if file == "" {
			file = other
		}
		return side + "/" + prefix + file
	}
	from, to := name("a", c.Old, c.New), name("b", c.New, c.Old)
	fmt.Fprintf(&b, "diff --git %s %s\n", from, to)
	switch {
	case c.Old == "":
		b.WriteString("new file mode 100644\n")
		from = "/dev/null"
	case c.New == "":
		b.WriteString("deleted file mode 100644\n")
		to = "/dev/null"
	case c.Old != c.New:
		fmt.Fprintf(&b, "similarity index 100%%\nrename from %s\nrename to %s\n", prefix+c.Old, prefix+c.New)
		return b.String()
	}
	diff := c.diff()
	if len(diff) > 0 {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	}
	for i, l := range diff {
		if l.sign != "@" {
			b.WriteString(l.sign + l.text)
			if !strings.HasSuffix(l.text, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
			continue
		}
		var old, new, lines [2]int // of each side: the first line, and their number
		for _, l := range diff[i+1:] {
			if l.sign == "@" {
				break
			}
			for side, number := range []int{l.old, l.new} {
				if number > 0 {
					lines[side]++
					if first := []*[2]int{&old, &new}[side]; first[0] == 0 {
						first[0] = number
					}
				}
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", old[0], lines[0], new[0], lines[1])
	}
	return b.String()
}
