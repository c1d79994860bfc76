package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// maxShownChanges is how many changes of a definition are shown.
const maxShownChanges = 20

// Text writes the plan for a terminal.
func (plan *Plan) Text(w io.Writer) error { return plan.write(w, &planWriter{}) }

// Markdown writes the plan for a comment. Of what callers sent it shows only values that
// the data model lists.
func (plan *Plan) Markdown(w io.Writer) error { return plan.write(w, &planWriter{markdown: true}) }

func (plan *Plan) write(to io.Writer, w *planWriter) error {
	w.title("plan %s -> %s", cmp.Or(plan.Old, "recorded"), plan.New)
	if plan.Decisions == 0 {
		w.line("no decisions were recorded: nothing can be said")
	} else {
		counts := "which stand for"
		if plan.Estimated {
			counts = "by their counts an estimate of"
		}
		w.line("%s recorded decisions, %s to %s, %s %s", number(plan.Decisions), plan.From.UTC().Format(time.RFC3339), plan.Until.UTC().Format(time.RFC3339), counts, number(plan.Total)+" answers")
		var rows [][]string
		for i, n := range []int64{plan.Same, plan.Version, plan.Changed, plan.NotDecided} {
			rows = append(rows, []string{[]string{"same", "another version", "changed", "not decided"}[i], number(n), percentText(float64(n)/float64(plan.Total), 2)})
		}
		w.table([]string{"answer", "decisions", "share"}, rows)
	}
	if plan.Drift != "" {
		w.line("%s: the next day may differ as much", plan.Drift)
	}
	for _, d := range plan.Definitions {
		d.write(w)
	}
	var rows [][]string
	for _, u := range plan.Units {
		rows = append(rows, []string{u.Definition, u.Row, number(int64(u.Units)), number(int64(u.Moved)), number(int64(u.Left)), number(int64(u.Joined)), number(int64(u.NotDecided))})
	}
	switch {
	case plan.UnitsAtLeast:
		w.title("units of splits, at least")
	case len(rows) > 0:
		w.title("units of splits")
	case plan.Decisions > 0:
		w.line("no units of splits were recorded")
	}
	w.table([]string{"definition", "row", "units", "to another arm", "out of their arm", "into an arm", "not decided"}, rows)
	rows = nil
	for _, m := range plan.Models {
		cost := "not known"
		if m.Priced > 0 {
			cost = fmt.Sprintf("%s calls: $%.4g, then $%.4g to $%.4g", number(m.Priced), m.CostOld, m.CostLow, m.CostHigh)
		}
		rows = append(rows, []string{m.Old, m.New, number(m.Calls), cost, m.TookOld.String(), m.TookNew.String()})
	}
	if len(rows) > 0 {
		w.title("calls of models")
	}
	w.table([]string{"old model", "new model", "calls", "cost", "old took", "new took"}, rows)
	rows = nil
	for _, k := range plan.APIKeys {
		if k.Total > k.Same {
			rows = append(rows, []string{k.APIKey, number(k.Total), number(k.Changed), number(k.Version), number(k.NotDecided), percentText(k.ChangedShare, 2)})
		}
	}
	w.table([]string{"API key", "decisions", "changed", "another version", "not decided", "share"}, rows)
	rows = nil
	for _, d := range plan.Undecided {
		rows = append(rows, []string{cmp.Or(d.Field, "-"), d.Reason, number(d.Count), percentText(d.Share, 2), cmp.Or(d.Remedy, "-")})
	}
	w.table([]string{"not decided by", "why", "decisions", "share", "later traces tell with"}, rows)
	_, err := io.WriteString(to, w.b.String())
	return err
}

// write writes the part of a definition, if not all is the same.
func (d *PlanDefinition) write(w *planWriter) {
	if d.Same == d.Total {
		return
	}
	w.title("%s %s: of %s decisions %s changed, %s of another version, %s not decided", d.Kind, d.Key, number(d.Total), number(d.Changed), number(d.Version), number(d.NotDecided))
	var rows [][]string
	for _, c := range d.Changes[:min(len(d.Changes), maxShownChanges)] {
		old, next := c.Old.String(), c.New.String()
		if c.Others {
			old, next = "others", "others"
		}
		if c.Version {
			next += ", another version"
		}
		var examples []string
		for _, witness := range c.Witnesses {
			examples = append(examples, w.witness(witness))
		}
		rows = append(rows, []string{number(c.Count), percentText(c.Share, 2), old, next, strings.Join(examples, ", ")})
	}
	w.table([]string{"decisions", "share", "old answer", "new answer", "for example"}, rows)
	if more := len(d.Changes) - maxShownChanges; more > 0 {
		w.line("and more changes: %d", more)
	}
}

// number returns a count with commas between thousands.
func number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// planWriter writes the parts of a plan.
type planWriter struct {
	b        strings.Builder
	markdown bool
}

func (w *planWriter) title(format string, args ...any) {
	w.b.WriteString("\n")
	if w.markdown {
		w.b.WriteString("### ")
	}
	w.line(format, args...)
}

func (w *planWriter) line(format string, args ...any) {
	w.b.WriteString(w.text(fmt.Sprintf(format, args...)) + "\n")
	if w.markdown {
		w.b.WriteString("\n")
	}
}

func (w *planWriter) table(head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	rows = slices.Insert(rows, 0, head)
	before, between, after := "  ", "\t", "\n"
	if w.markdown {
		before, between, after = "| ", " | ", " |\n"
		rows = slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(head)))
	}
	aligned := tabwriter.NewWriter(&w.b, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		for j := range row {
			if !w.markdown || i != 1 {
				row[j] = w.text(row[j])
			}
		}
		_, _ = io.WriteString(aligned, before+strings.Join(row, between)+after) // a Builder takes all
	}
	_ = aligned.Flush()
	w.b.WriteString("\n")
}

func (w *planWriter) witness(of PlanWitness) string {
	if !w.markdown {
		return strings.TrimSpace(of.TraceID + " " + visible.Clip(string(of.Inputs), 80))
	}
	text := of.TraceID
	for _, name := range slices.Sorted(maps.Keys(of.Listed)) {
		text += " " + name + "=" + string(of.Listed[name])
	}
	return text
}

// text returns a text for a line. In Markdown it has no links, mentions, HTML and cells of
// its own.
func (w *planWriter) text(text string) string {
	if text = visible.Line(text); !w.markdown {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		before, after := text[:i], text[i+size:]
		switch {
		case strings.ContainsRune("\\`*_{}[]<>()#+!|~&", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '@' || r == ':' && !plainColon(before, after) || r == '.' && strings.HasSuffix(strings.ToLower(before), "www"):
			fmt.Fprintf(&b, "&#%d;", r) // no mention, and no address
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainColon reports whether a colon ends a word or is between digits, as in a time: neither
// is a part of an address.
func plainColon(before, after string) bool {
	digit := func(text string, at int) bool { return len(text) > 0 && text[at] >= '0' && text[at] <= '9' }
	return after == "" || after[0] == ' ' || digit(before, len(before)-1) && digit(after, 0)
}
