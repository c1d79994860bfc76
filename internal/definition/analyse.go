package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// The bounds of the analysis, in steps of rules.Analysis.Budget. One table may take
// tableBudget, and rowBudget for each of its rows, which is enough where each row
// can be checked by itself. All tables share loadBudget, so that a large workspace
// still loads within its time.
const (
	tableBudget    = 500_000
	rowBudget      = 64
	minTableBudget = 1_000
	loadBudget     = 10_000_000
)

// tabled returns the definitions whose tables have a row.
func (s *Snapshot) tabled() []*Definition {
	var list []*Definition
	for _, d := range s.Definitions {
		if d.table != nil && len(d.table.Rows()) > 0 {
			list = append(list, d)
		}
	}
	return list
}

// analyse looks for mistakes in the tables. It takes over the findings of an earlier
// analysis for tables of which nothing has changed. An overlap of rows with
// different values is an error in a table with hit: unique; all else is a warning.
func (l *loader) analyse(now time.Time) {
	tables := l.snapshot.tabled()
	if len(tables) == 0 {
		return
	}
	budget := min(max(loadBudget/len(tables), minTableBudget), tableBudget)
	results := make([]*analysis, len(tables))
	place := func(i int) document.Position { return tables[i].Pos }
	l.parallel("analysing this table", len(tables), place, func(i int, errs *document.Errors) {
		t := tables[i]
		var b *built
		if d := l.byKey[t.Kind][t.Key]; d != nil {
			b = d.file.built
		}
		if b == nil || b.analysis == nil || t.table.ChangesWithin(b.analysis.at, now) {
			results[i] = t.analyse(now, budget+rowBudget*len(t.table.Rows()))
		} else {
			results[i] = b.analysis
		}
		if b != nil {
			b.analysis = results[i]
		}
		errs.Merge(&results[i].errs)
	})
	if l.stopped() {
		return
	}
	for _, r := range results {
		l.found = append(l.found, r.warnings...)
	}
}

// analysis holds the findings of one table.
type analysis struct {
	at       time.Time
	errs     document.Errors
	warnings []Warning
}

func (d *Definition) analyse(now time.Time, budget int) *analysis {
	r := &analysis{at: now}
	for _, f := range d.table.Analyse(rules.Analysis{Budget: budget, Now: now, Equal: d.same}) {
		w := warningOf(f, now)
		if f.Kind == rules.Overlap {
			r.errs.AddAt(f.Pos, "%s (the table has hit: unique)", w.Message)
			continue
		}
		r.warnings = append(r.warnings, w)
	}
	return r
}

// warningOf returns a finding as a warning.
func warningOf(f rules.Finding, now time.Time) Warning {
	w := Warning{Pos: f.Pos, Message: f.Message + exampleOf(f, now), Kind: ruleOf(f.Kind), Witness: f.Witness}
	if !f.At.Equal(now) {
		w.At = f.At
	}
	return w
}

// TableFindings returns the usual remarks on the table of one definition, and the warnings
// that Warnings may lack: where it leaves some out, and where time has changed the table
// since it was loaded. That takes up to about half a second.
func (s *Snapshot) TableFindings(d *Definition, now time.Time) (warnings, remarks []Warning) {
	if d.table == nil || len(d.table.Rows()) == 0 {
		return nil, nil
	}
	leftOut := slices.ContainsFunc(s.Warnings, func(w Warning) bool { return w.More > 0 })
	if leftOut || d.table.ChangesWithin(s.Loaded, now) {
		warnings = d.analyse(now, tableBudget+rowBudget*len(d.table.Rows())).warnings
	}
	return warnings, s.remarks(d, now, RemarksUsual)
}

// ruleOf returns the rule of the findings of a kind.
func ruleOf(k rules.FindingKind) string { return strings.ReplaceAll(k.String(), "_", "-") }

// noFieldHint explains the witness rules.NoField.
const noFieldHint = ` ("other" stands for any member that is no field)`

// exampleOf returns the text for the witness of a finding.
func exampleOf(f rules.Finding, now time.Time) string {
	hint := ""
	if f.Witness == rules.NoField {
		hint = noFieldHint
	}
	if f.Witness == "" || f.Kind == rules.Gap {
		return hint
	}
	text := ", for example for " + f.Witness + hint
	if !f.At.IsZero() && !f.At.Equal(now) {
		text += " at " + f.At.Format(time.RFC3339)
	}
	return text
}

// Remark selects a kind of remarks.
type Remark uint8

// The kinds of remarks.
const (
	// RemarkNoContext: a row needs no field, but a request without a context gets
	// the default.
	RemarkNoContext Remark = 1 << iota
	// RemarkOverlaps: rows with different values match the same context, so
	// their order decides.
	RemarkOverlaps
	// RemarkGaps: a context that only the default answers.
	RemarkGaps
	// RemarkLists: a cell excludes values of a list, and does not match where
	// there is no list.
	RemarkLists
	// RemarkKeys: a remote configuration has a key that old clients read as part
	// of an error.
	RemarkKeys
)

// RemarksUsual are the kinds that are reported by default.
const RemarksUsual = RemarkNoContext | RemarkLists | RemarkKeys

// errorMembers are the keys under which old clients look for an error in every
// answer.
var errorMembers = []string{"error", "message", "name", "status_code"}

// Remarks returns facts worth knowing of the tables, although they are mostly
// intended. It takes up to about half a second for each table. Schedules are
// considered from now on.
func (s *Snapshot) Remarks(now time.Time, kinds Remark) []Warning {
	var remarks []Warning
	for _, key := range errorMembers {
		if c := s.RemoteConfigs[key]; c != nil && kinds&RemarkKeys != 0 {
			remarks = append(remarks, Warning{Pos: c.Pos, Kind: "error-member", Message: fmt.Sprintf(
				"a remote configuration called %s breaks the error handling of old SDKs, which look for that member in every answer: choose another key", key)})
		}
	}
	for _, t := range s.tabled() {
		remarks = append(remarks, s.remarks(t, now, kinds)...)
	}
	return sortWarnings(remarks)
}

// remarks returns the remarks on a definition with a table.
func (s *Snapshot) remarks(t *Definition, now time.Time, kinds Remark) (remarks []Warning) {
	if kinds&RemarkLists != 0 {
		for _, f := range t.table.MissingLists() {
			remarks = append(remarks, Warning{Pos: f.Pos, Message: f.Message, Kind: ruleOf(f.Kind)})
		}
	}
	if kinds&RemarkNoContext != 0 {
		// A table that reads a field of the gateway is tried without a context.
		if row, ok := s.needsNoField(t.table, now); ok && !t.table.ReadsGateway() {
			remarks = append(remarks, Warning{Pos: row.Pos, Kind: "no-context", Message: fmt.Sprintf(
				"%s needs no field, but a request without a context gets the default of the %s %s", row.ID, t.Kind.Noun, t.Key)})
		}
	}
	if kinds&(RemarkOverlaps|RemarkGaps) == 0 {
		return remarks
	}
	findings := t.table.Analyse(rules.Analysis{
		Now: now, Equal: t.same, Overlaps: kinds&RemarkOverlaps != 0, Gaps: kinds&RemarkGaps != 0,
	})
	for _, f := range findings {
		if f.Kind == rules.Overlap || f.Kind == rules.Gap {
			remarks = append(remarks, warningOf(f, now))
		}
	}
	return remarks
}

// needsNoField finds the row that answers a context in which every field is
// missing, now or later.
func (s *Snapshot) needsNoField(t *rules.Table, now time.Time) (rules.Row, bool) {
	names := s.Model.FieldNames()
	if len(names) == 0 {
		return rules.Row{}, false
	}
	// An empty context is checked against the data model, too.
	nothing := fastjson.MustParse(s.Model.ContextJSON([]string{"null"}))
	const later = 100 * 365 * 24 * time.Hour
	for _, at := range []time.Time{now, now.Add(later)} {
		var b rules.Binding
		if err := s.Model.Bind(&b, nothing, at); err != nil {
			return rules.Row{}, false // the data model refuses such a context
		}
		if d := t.Evaluate(&b); d.Row >= 0 {
			return t.Rows()[d.Row], true
		}
	}
	return rules.Row{}, false
}

// MaxWarnings is how many warnings of each kind a workspace reports. One cause may
// lead to a hundred thousand, with a line each in the log of every loading.
const MaxWarnings = 20

// sortWarnings sorts by file, line and column, and leaves out the warnings of a kind
// beyond MaxWarnings.
func sortWarnings(list []Warning) []Warning {
	slices.SortStableFunc(list, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	kept := list[:0]
	count, rest, examples := make(map[string]int), make(map[string]int), make(map[string]string)
	for _, w := range list {
		switch count[w.Kind]++; {
		case count[w.Kind] <= MaxWarnings:
			kept = append(kept, w)
			if count[w.Kind] == 1 {
				examples[w.Kind] = w.Message
			}
		case count[w.Kind] == MaxWarnings+1:
			rest[w.Kind] = len(kept)
			kept = append(kept, Warning{Pos: w.Pos, Kind: w.Kind})
		}
	}
	for kind, i := range rest {
		kept[i].More = count[kind] - MaxWarnings
		kept[i].Message = fmt.Sprintf("… and %d more of this kind: %s", kept[i].More, examples[kind])
	}
	return kept
}

// CountWarnings returns the number of warnings in a list, with those left out.
func CountWarnings(list []Warning) int {
	n := 0
	for _, w := range list {
		n += max(w.More, 1)
	}
	return n
}
