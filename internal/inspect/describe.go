package inspect

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// Summary is a definition in the list of loaded definitions.
type Summary struct {
	Kind    string   `json:"kind"`
	Key     string   `json:"key"`
	Aliases []string `json:"aliases,omitempty"`
	Version string   `json:"version"`
	File    string   `json:"file"`
	// Matrix is the CSV file that has the rows.
	Matrix string `json:"matrix,omitempty"`
	Rows   int    `json:"rows"`
	// Uses are the definitions that this one asks.
	Uses []Use `json:"uses,omitempty"`
}

// Use is a definition that another one asks, or is asked by.
type Use struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	As   string `json:"as"` // prompt, variable or condition
}

// Summaries lists the definitions of a workspace by kind and key.
func Summaries(s *definition.Snapshot) []Summary {
	list := make([]Summary, 0, len(s.Definitions))
	for _, d := range s.Definitions {
		list = append(list, summarize(s, d))
	}
	return list
}

func summarize(s *definition.Snapshot, d *definition.Definition) Summary {
	m := Summary{Kind: d.Kind.String(), Key: d.Key, Aliases: d.Aliases, Version: d.Version, File: d.Pos.File, Uses: uses(s, d)}
	if t := d.Table(); t != nil && len(t.Rows()) > 0 {
		m.Rows = len(t.Rows())
		if file := t.Rows()[0].Pos.File; file != m.File {
			m.Matrix = file
		}
	}
	return m
}

// uses returns the definitions that a definition asks: the prompt of an endpoint, the
// configurations that variables read, and those that rows ask for.
func uses(s *definition.Snapshot, d *definition.Definition) (list []Use) {
	add := func(k *kind.Kind, key, as string) {
		if u := (Use{k.String(), key, as}); !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	switch p := d.Rendered(); {
	case p == nil:
	case d.Kind != kind.Prompt:
		add(kind.Prompt, p.Key, "prompt")
	default:
		p.Variables().All(func(name string, _ *document.Node) {
			if c := p.Variables().Configured(name); c != nil {
				add(kind.RemoteConfig, c.Key, "variable")
			}
		})
	}
	if t := d.Table(); t == nil || t.Depth() == 0 {
		return list
	}
	for _, row := range readRows(d.Node()) {
		for _, cell := range row.cells {
			if cell.Key.Text != "config" || cell.Value == nil {
				continue
			}
			for _, m := range cell.Value.Members {
				if c := s.Named(kind.RemoteConfig, m.Key.Text); c != nil {
					add(kind.RemoteConfig, c.Key, "condition")
				}
			}
		}
	}
	return list
}

// Place is a place in a file of the workspace.
type Place struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func placeOf(n *document.Node) Place { return Place(n.Pos) }

// Description is a definition laid out for people: what it says, each part with its place.
type Description struct {
	Summary
	Description string `json:"description,omitempty"`
	Log         string `json:"log,omitempty"`
	Type        string `json:"type,omitempty"` // of a remote configuration's value
	// Members are the members of its content that are not in Table.
	Members  map[string]json.RawMessage `json:"members"`
	Variants []VariantSource            `json:"variants,omitempty"`
	Table    *TableView                 `json:"table,omitempty"` // nil: it has none
	UsedBy   []Use                      `json:"used_by"`
	Tests    []TestView                 `json:"tests"`
	Findings []PlacedFinding            `json:"findings"`
}

// VariantSource is where a variant is written. What it has with all that it inherits is
// in the content.
type VariantSource struct {
	Key     string `json:"key"`
	Extends string `json:"extends,omitempty"`
	Place
}

// TestView is a test as its file has it, on one line each.
type TestView struct {
	Name    string `json:"name,omitempty"`
	Context string `json:"context,omitempty"`
	Expects string `json:"expects"`
	At      string `json:"at,omitempty"`
	Place
}

// PlacedFinding is a finding on a definition, with the row and the cell that it is about.
// Without a row, the cell is the head of a column.
type PlacedFinding struct {
	Finding
	Level string `json:"level"` // error, warning or remark
	Row   string `json:"row,omitempty"`
	Cell  string `json:"cell,omitempty"`
}

// Describe describes a definition at an instant, with the rows from first on.
func Describe(s *definition.Snapshot, d *definition.Definition, first int, now time.Time) *Description {
	v := &Description{Summary: summarize(s, d), Log: d.Log.String(), Type: d.Type(), UsedBy: []Use{}, Tests: []TestView{}, Findings: []PlacedFinding{}}
	if n := d.Node().Get("description"); n != nil {
		v.Description = n.Text
	}
	_ = json.Unmarshal(d.Content(), &v.Members) // the loader wrote it
	for _, name := range append([]string{"kind"}, rules.TableMembers...) {
		delete(v.Members, name)
	}
	if n := d.Node().Get("variants"); n != nil {
		for _, m := range n.Members {
			source := VariantSource{Key: m.Key.Text, Place: placeOf(m.Key)}
			if e := m.Value.Get("extends"); e != nil {
				source.Extends = e.Text
			}
			v.Variants = append(v.Variants, source)
		}
	}
	for _, o := range s.Definitions {
		for _, u := range uses(s, o) {
			if u.Kind == v.Kind && u.Key == d.Key {
				v.UsedBy = append(v.UsedBy, Use{o.Kind.String(), o.Key, u.As})
			}
		}
	}
	if n := d.Node().Get("tests"); n != nil {
		for _, test := range n.Items {
			v.Tests = append(v.Tests, testView(test))
		}
	}
	if d.Table() != nil && v.Rows > 0 {
		v.Table = tableView(d, first, now)
	}
	v.find(s, d, now)
	return v
}

func testView(test *document.Node) TestView {
	v := TestView{Place: placeOf(test)}
	for _, m := range test.Members {
		text := rules.CellText(m.Value)
		switch m.Key.Text {
		case "name":
			v.Name = m.Value.Text
		case "at":
			v.At = m.Value.Text
		case "context", "unchecked_context", "variables":
			if m.Key.Text == "context" {
				v.Context = text
			}
		default:
			if v.Expects != "" {
				v.Expects += ", "
			}
			v.Expects += m.Key.Text + " " + text
		}
	}
	return v
}

// find adds what loading and the analysis found about the definition, each at its row.
func (v *Description) find(s *definition.Snapshot, d *definition.Definition, now time.Time) {
	own, remarks := s.TableFindings(d, now)
	for _, w := range s.Warnings {
		again := slices.ContainsFunc(own, func(o definition.Warning) bool { return o.Pos == w.Pos && o.Kind == w.Kind })
		if v.has(w.Pos.File) && w.More == 0 && !again {
			own = append(own, w)
		}
	}
	for level, list := range map[string][]definition.Warning{"warning": own, "remark": remarks} {
		for _, f := range Findings(list) {
			placed := PlacedFinding{Finding: f, Level: level}
			placed.Row, placed.Cell = locate(d, document.Position{File: f.File, Line: f.Line, Column: f.Column})
			v.Findings = append(v.Findings, placed)
		}
	}
	slices.SortStableFunc(v.Findings, func(a, b PlacedFinding) int { return comparePlaces(a.Finding, b.Finding) })
}

// AddMistakes adds those of the directory's present mistakes that are in the files of the
// definition. They are about text that is not served, so they belong to no row.
func (v *Description) AddMistakes(mistakes []Finding) {
	for _, m := range mistakes {
		if v.has(m.File) {
			v.Findings = append(v.Findings, PlacedFinding{Finding: m, Level: "error"})
		}
	}
}

func (v *Description) has(file string) bool {
	return file == v.File || v.Matrix != "" && file == v.Matrix
}
