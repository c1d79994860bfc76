package edit

import (
	"fmt"
	"strings"
)

// Line is a line of a diff.
type Line struct {
	Sign string `json:"sign"`          // "-" and "+", " " for a line of both, "@" before the first line of a part
	Old  int    `json:"old,omitempty"` // the number of the line before the change
	New  int    `json:"new,omitempty"` // and after it
	Text string `json:"text"`
}

const (
	// contextLines is how many equal lines a diff has around those that differ.
	contextLines = 3
	// comparedLines bounds the comparisons of lines of two files.
	comparedLines = 4_000_000
)

// Diff returns the lines that differ, with those around them.
func (c *Change) Diff() []Line {
	all := lineDiff(split(c.Before), split(c.After))
	keep := make([]bool, len(all))
	for i, l := range all {
		if l.Sign != " " {
			for j := max(i-contextLines, 0); j <= min(i+contextLines, len(all)-1); j++ {
				keep[j] = true
			}
		}
	}
	var shown []Line
	for i, l := range all {
		if !keep[i] {
			continue
		}
		if i == 0 || !keep[i-1] {
			shown = append(shown, Line{Sign: "@"})
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
func lineDiff(a, b []string) (all []Line) {
	first := 0
	for first < min(len(a), len(b)) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < min(len(a), len(b))-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	i, j := 0, 0
	equal := func(n int) {
		for range n {
			all = append(all, Line{" ", i + 1, j + 1, a[i]})
			i, j = i+1, j+1
		}
	}
	equal(first)
	n, m := len(a)-last, len(b)-last
	longest := longestCommon(a[i:n], b[j:m])
	for i < n || j < m {
		switch x, y := i-first, j-first; {
		case longest != nil && i < n && j < m && a[i] == b[j]:
			equal(1)
		case i < n && (longest == nil || j == m || longest[x+1][y] >= longest[x][y+1]):
			all = append(all, Line{Sign: "-", Old: i + 1, Text: a[i]})
			i++
		default:
			all = append(all, Line{Sign: "+", New: j + 1, Text: b[j]})
			j++
		}
	}
	equal(last)
	return all
}

// longestCommon returns how many lines the ends of two files have in common at most, from
// each pair of lines on, or nil for too many lines.
func longestCommon(a, b []string) [][]int32 {
	if len(a)*len(b) > comparedLines {
		return nil
	}
	longest := make([][]int32, len(a)+1)
	for i := range longest {
		longest[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	return longest
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
	diff := c.Diff()
	if len(diff) > 0 {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	}
	for i, l := range diff {
		if l.Sign != "@" {
			b.WriteString(l.Sign + l.Text)
			if !strings.HasSuffix(l.Text, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
			continue
		}
		var old, new, lines [2]int // of each side: the first line, and their number
		for _, l := range diff[i+1:] {
			if l.Sign == "@" {
				break
			}
			for side, number := range []int{l.Old, l.New} {
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
