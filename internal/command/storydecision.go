package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

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

// consulted is one of a trace's splits.
type consulted struct {
	Experiment struct {
		Definition string `json:"definition"`
		Rule       string `json:"rule"`
		Salt       string `json:"salt"`
	} `json:"experiment"`
	Bucket int     `json:"bucket"`
	Arm    string  `json:"arm"`
	Share  float64 `json:"share"`
	Unit   string  `json:"unit"`
}

// name returns text such as "remoteconfigs/new_checkout, ramp, unit mWkE8s…".
func (c *consulted) name() string {
	e := c.Experiment
	name := e.Definition + ", " + e.Rule
	if e.Salt != "" && e.Salt != e.Rule {
		name += ", salt " + e.Salt
	}
	if c.Unit != "" {
		name += ", unit " + c.Unit
	}
	return name
}

// outcome says what became of the unit. Whether a bucket is below the share is true
// of the first arm alone: the shares of the others begin where that of the one
// before ends.
func (c *consulted) outcome() string {
	percent := strconv.FormatFloat(100*c.Share, 'g', 5, 64) // a share is of thousandths of a percent
	if c.Arm == "" {
		return fmt.Sprintf("bucket %d of 100000, outside of the %s %% of all arms: passed on", c.Bucket, percent)
	}
	return fmt.Sprintf("bucket %d of 100000, within the %s %% of arm %s", c.Bucket, percent, c.Arm)
}

// writeBasis writes what traces of one decision rest on: splits, inputs and
// versions. What several have in common is written once.
func writeBasis(b *bytes.Buffer, st styles, traces []*shownTrace) {
	var splits, inputs, read [][]cell
	add := func(to *[][]cell, name, text, color string) {
		row := []cell{plainCell(visible.Line(name)), {visible.Line(text), color}}
		if !slices.ContainsFunc(*to, func(other []cell) bool { return slices.Equal(row, other) }) {
			*to = append(*to, row)
		}
	}
	for _, t := range traces {
		var all []consulted
		if err := json.Unmarshal(t.Splits, &all); err != nil && len(t.Splits) > 0 {
			add(&splits, "of a later gateway", string(t.Splits), "")
		}
		for i := range all {
			add(&splits, all[i].name(), all[i].outcome(), "")
		}
		for _, input := range membersOf(t.Inputs) {
			var hashed struct {
				Hash string `json:"hash"`
			}
			if json.Unmarshal(input.value, &hashed) == nil && hashed.Hash != "" {
				add(&inputs, input.name, "hash "+hashed.Hash, st.dim)
			} else {
				add(&inputs, input.name, string(input.value), "")
			}
		}
		for _, version := range membersOf(t.Read) {
			add(&read, version.name, plainJSON([]json.RawMessage{version.value}, 0), "")
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

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of an object in their order, nil for other text.
func membersOf(text []byte) (all []member) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		var m member
		name, err := decoder.Token()
		if err != nil || decoder.Decode(&m.value) != nil {
			return nil
		}
		m.name, _ = name.(string) // as every name is
		all = append(all, m)
	}
	return all
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
			{id, st.dim}, plainCell(visible.Line(t.kind)), plainCell(visible.Line(t.Key)),
			plainCell(visible.Line(cmp.Or(t.Row, "default"))), plainCell(visible.Line(t.listedArm(st))), plainCell(t.outcome()),
		}
	}
	const kind, key, row, arm, status = 1, 2, 3, 4, 5
	writeIndentedRows(b, st, &columns{
		fair: []int{key: 20, row: 12, arm: 12, status: 16}, least: []int{key: 10, row: 6, arm: 6, status: 12}, drop: []int{kind, row, arm},
	}, rows)
}

// writeDecision writes a decision: what its traces have in common, a line for each,
// and what they rest on.
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
