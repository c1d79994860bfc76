package edit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// Patch returns the changes as a patch, as Change.Patch does.
func (l Changes) Patch(prefix string) string {
	var b strings.Builder
	for _, c := range l {
		b.WriteString(c.Patch(prefix))
	}
	return b.String()
}

// Patch returns the change as a patch for `git apply`. prefix, which is empty or ends with
// a slash, begins the paths in it.
func (c *Change) Patch(prefix string) string {
	var b strings.Builder
	from, to := "a/"+prefix+cmp.Or(c.Old, c.New), "b/"+prefix+c.Name()
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
	lines := inspect.CompareLines(slices.Collect(strings.Lines(string(c.Before))), slices.Collect(strings.Lines(string(c.After))))
	if len(lines) > 0 {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	}
	for len(lines) > 0 {
		part := lines
		if i := slices.IndexFunc(lines, func(l inspect.TextLine) bool { return l.Skipped > 0 }); i >= 0 {
			part = lines[:i]
		}
		lines = lines[min(len(part)+1, len(lines)):]
		if len(part) == 0 {
			continue // the first equal lines are left out
		}
		var body strings.Builder
		var first, count [2]int // of each side: the first line, and their number
		for _, l := range part {
			for side, number := range []int{l.Old, l.New} {
				if number > 0 {
					count[side]++
					first[side] = cmp.Or(first[side], number)
				}
			}
			body.WriteString(l.Sign() + l.Parts[0].Text)
			if !strings.HasSuffix(l.Parts[0].Text, "\n") {
				body.WriteString("\n\\ No newline at end of file\n")
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s", first[0], count[0], first[1], count[1], body.String())
	}
	return b.String()
}
