package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// write writes the comparison as JSON, or for people.
func (r *report) write(out io.Writer, all, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	var b strings.Builder
	for _, e := range r.Files {
		shape := e.Shape
		if shape == "" {
			shape = "no usage or costs"
		}
		fmt.Fprintf(&b, "%s: %s of %s, %s to %s, %d lines\n", visible.Line(e.Name), shape, e.Vendor, e.First, e.Last, e.Lines)
		if len(e.Unknown) > 0 {
			fmt.Fprintf(&b, "  not known, and not counted: %s\n", visible.Line(strings.Join(e.Unknown, ", ")))
		}
		if e.More {
			b.WriteString("  it is not whole: pages come after its last one (has_more)\n")
		}
	}
	differ, tokens, costs := 0, false, false
	for _, row := range r.Rows {
		tokens, costs = tokens || row.HasTokens, costs || row.HasCost
		state := "matches"
		if !row.Matches {
			state = "differs"
			differ++
		} else if !all {
			continue
		}
		model := row.Model
		if model == "" {
			model = "all models"
		}
		fmt.Fprintf(&b, "\n%s %s %s", row.Day, visible.Line(model), state)
		if len(row.Names) > 1 {
			fmt.Fprintf(&b, " (%s)", visible.Line(strings.Join(row.Names, ", ")))
		}
		b.WriteByte('\n')
		writeSides(&b, &row.Ours, &row.Theirs, row.HasTokens, row.HasCost)
		for _, reason := range row.Reasons {
			fmt.Fprintf(&b, "  - %s\n", visible.Line(reason))
		}
	}
	fmt.Fprintf(&b, "\ntotal of %d models and days, of which %d differ\n", len(r.Rows), differ)
	writeSides(&b, &r.Ours, &r.Theirs, tokens, costs)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "%s\n", visible.Line(note))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeSides writes both sides, one below the other.
func writeSides(b *strings.Builder, ours, theirs *counts, tokens, costs bool) {
	lines := [4]string{"\t", "  ours\t", "  theirs\t", "  difference\t"}
	add := func(cells ...string) {
		for i, cell := range cells {
			lines[i] += "  " + cell + "\t"
		}
	}
	count := func(name string, ours, theirs int64) {
		if ours != 0 || theirs != 0 {
			add(name, strconv.FormatInt(ours, 10), strconv.FormatInt(theirs, 10), fmt.Sprintf("%+d", theirs-ours)+percent(float64(ours), float64(theirs)))
		}
	}
	if tokens {
		count("requests", ours.Requests, theirs.Requests)
		count("input", ours.Tokens[input], theirs.Tokens[input])
		count("cached", ours.Tokens[cached], theirs.Tokens[cached])
		count("written", ours.Tokens[written]+ours.Tokens[writtenHour], theirs.Tokens[written]+theirs.Tokens[writtenHour])
		count("output", ours.Tokens[output], theirs.Tokens[output])
	}
	if costs {
		o, t := ours.cost(), theirs.cost()
		add("cost", fmt.Sprintf("$%.4f", o), fmt.Sprintf("$%.4f", t), fmt.Sprintf("%+.4f", t-o)+percent(o, t))
	}
	table := tabwriter.NewWriter(b, 0, 0, 0, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, strings.Join(lines[:], "\n"))
	_ = table.Flush() // never fails: it writes to memory
}

// percent returns the difference from ours in percent, such as " (+1.5 %)".
func percent(ours, theirs float64) string {
	percent := 100 * (theirs - ours) / ours
	switch {
	case ours == 0 || ours == theirs:
		return ""
	case math.Abs(percent) >= 100:
		return fmt.Sprintf(" (%+.0f %%)", percent)
	}
	return fmt.Sprintf(" (%+.3g %%)", percent)
}
