package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// reasons are the reasons of a decision, in words.
var reasons = map[string]string{
	"match":      "the row matches",
	"split":      "the row matches, and its split chose the arm",
	"default":    "no row matches",
	"no_context": "the request has no context",
}

// reason returns why the row answered: "default: no row matches".
func (t *shownTrace) reason() string {
	if words, known := reasons[t.Reason]; known {
		return t.Reason + ": " + words
	}
	return t.Reason
}

// splitName returns text such as "remoteconfigs/new_checkout, ramp, unit mWkE8s…".
func splitName(s *inspect.TracedSplit) string {
	e := s.Experiment
	name := e.Definition + ", " + e.Rule
	if e.Salt != "" && e.Salt != e.Rule {
		name += ", salt " + e.Salt
	}
	if s.Unit != "" {
		name += ", unit " + s.Unit
	}
	return name
}

// splitOutcome describes the outcome for the unit. It does not say that the bucket is
// below the share, which is so for the first arm only: the share of each other arm begins
// where the share before it ends.
func splitOutcome(s *inspect.TracedSplit) string {
	percent := strconv.FormatFloat(100*s.Share, 'g', 5, 64) // shares are multiples of 0.001 %
	var bucket uint32
	if s.Bucket != nil {
		bucket = *s.Bucket
	}
	if s.Arm == "" {
		return fmt.Sprintf("bucket %d of 100000, outside of the %s %% of all arms: passed on", bucket, percent)
	}
	text := fmt.Sprintf("bucket %d of 100000, within the %s %% of arm %s", bucket, percent, s.Arm)
	if s.Rollout > 0 {
		text += fmt.Sprintf(", by row %d of its rollout", s.Rollout)
	}
	if !s.WasCompared() {
		text += ", compared with nothing"
	}
	return text
}

// writeBasis writes the basis of the traces of one decision: splits, inputs and
// versions. It writes lines that several traces have once.
func writeBasis(b *bytes.Buffer, st styles, traces []*shownTrace) {
	var splits, inputs, read [][]cell
	add := func(to *[][]cell, name, text, color string) {
		row := []cell{plainCell(visible.Line(name)), {visible.Line(text), color}}
		if !slices.ContainsFunc(*to, func(other []cell) bool { return slices.Equal(row, other) }) {
			*to = append(*to, row)
		}
	}
	for _, t := range traces {
		var all []inspect.TracedSplit
		_ = json.Unmarshal(t.Splits, &all) // a trace may have no splits
		for i := range all {
			if all[i].WasConsulted() {
				add(&splits, splitName(&all[i]), splitOutcome(&all[i]), "")
			}
		}
		for _, input := range adminapi.MembersOf(t.Inputs) {
			var hashed struct {
				Hash string `json:"hash"`
			}
			if json.Unmarshal(input.Value, &hashed) == nil && hashed.Hash != "" {
				add(&inputs, input.Name, "hash "+hashed.Hash, st.dim)
			} else {
				add(&inputs, input.Name, string(input.Value), "")
			}
		}
		for _, version := range adminapi.MembersOf(t.Read) {
			add(&read, version.Name, adminapi.PlainText(version.Value), "")
		}
	}
	if len(splits) > 0 {
		fmt.Fprintf(b, "\n%ssplits%s\n", st.bold, st.reset)
		for _, split := range splits {
			fmt.Fprintf(b, "  %s\n    %s\n", split[0].text, split[1].text)
		}
	}
	for _, section := range []struct {
		title string
		rows  [][]cell
	}{{"inputs", inputs}, {"versions read", read}} {
		if len(section.rows) > 0 {
			fmt.Fprintf(b, "\n%s%s%s\n", st.bold, section.title, st.reset)
			writeIndentedRows(b, st, new(columns), section.rows)
		}
	}
}

// writeIndentedRows writes rows of a table two columns further right.
func writeIndentedRows(b *bytes.Buffer, st styles, table *columns, rows [][]cell) {
	const indent = "  "
	if st.width > 0 {
		st.width -= len(indent)
	}
	var lines bytes.Buffer
	table.write(&lines, st, rows...)
	for line := range bytes.Lines(lines.Bytes()) {
		b.WriteString(indent)
		b.Write(line)
	}
}

// writeAnswers writes a line for each trace of a decision.
func writeAnswers(b *bytes.Buffer, st styles, traces []*shownTrace) {
	var ids []trace.ID
	for _, t := range traces {
		ids = append(ids, t.ID)
	}
	digits := max(uniquePrefix(ids), requestPrefix) // one of them may be shown elsewhere
	rows := make([][]cell, len(traces))
	for i, t := range traces {
		id := t.ID.String()
		if st.width > 0 {
			id = idDigits(t.ID)[:digits]
		}
		rows[i] = []cell{
			{id, st.dim}, plainCell(t.Kind.String()), plainCell(visible.Line(t.Key)),
			plainCell(visible.Line(cmp.Or(t.Row, "default"))), plainCell(visible.Line(t.listedArm(st))), plainCell(t.outcome()),
		}
	}
	const kind, key, row, arm, status = 1, 2, 3, 4, 5
	writeIndentedRows(b, st, &columns{
		fair: []int{key: 20, row: 12, arm: 12, status: 16}, least: []int{key: 10, row: 6, arm: 6, status: 12}, drop: []int{kind, row, arm},
	}, rows)
}

// writeDecision writes a decision: the common members of its traces, a line for each
// trace, and their basis.
func (s *shownStory) writeDecision(b *bytes.Buffer, st styles) {
	rows := [][]cell{{{"decision", st.dim}, plainCell(s.Decision.String())}}
	if len(s.Traces) > 0 {
		t := s.Traces[0]
		for _, line := range [...][2]string{
			{"time", timeText(t.Time)},
			{"asked by", fmt.Sprintf("%s (workspace %s)", cmp.Or(t.APIKey, "no key"), t.Workspace)},
			{"revision", t.Revision},
		} {
			if line[1] != "" {
				rows = append(rows, []cell{{line[0], st.dim}, plainCell(visible.Line(line[1]))})
			}
		}
	}
	new(columns).write(b, st, rows...)
	if len(s.Traces) == 0 {
		b.WriteString("it has metrics and no trace: they were not recorded, are past the retention, or are another gateway's\n")
		return
	}
	fmt.Fprintf(b, "\n%sanswers%s\n", st.bold, st.reset)
	writeAnswers(b, st, s.Traces)
	writeBasis(b, st, s.Traces)
}
