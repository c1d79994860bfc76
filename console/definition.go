package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// definitionPage is one definition.
type definitionPage struct {
	adminapi.Definition
	Now        time.Time
	File       place
	NeedsRole  bool // the pages have an editor, and the visitor may not
	Columns    []gridCell
	Rows       []gridRow
	Above      []finding // what is about no row
	Earlier    string    // the link to the rows before these; empty: there are none
	Later      string
	Variants   *sideBySide
	Other      []member // of the content, beside table and variants
	UsesText   []reference
	UsedByText []reference
	Targets    []gateway.Target // of an endpoint
	Tests      []test
	Traffic    []trafficRow
	TooMany    string // why the traffic is not known
	Versions   []versionRow
	From, To   string // versions that are compared
	Diff       []inspect.TextLine
	Compared   bool
}

// place is a place in a file, with the address of the editor at that place.
type place struct{ Text, Edit string }

// gridCell is a cell of a table, or the head of a column.
type gridCell struct {
	Text    string
	Trouble string
	Place   place
}

// gridRow is a row of a table, with what it answers and what is found about it.
type gridRow struct {
	Number  int // 0: the default
	Head    gridCell
	Cells   []gridCell
	Answers []gridAnswer
	By      string // the field whose units it divides
	Rest    string // how many of these are left to the rows below
	Below   []finding
	Share   string // of today's answers
	Width   int    // the same in thousandths
	With    string // the rows that answer the same, and so share the figures
	Score   string
}

// gridAnswer is a value or a variant that a row answers.
type gridAnswer struct {
	Text, Share string
	Place       place
}

// finding is something found about the definition, with the address of a page that shows
// its witness.
type finding struct {
	inspect.PlacedFinding
	Place place
	Try   string
}

// Trouble returns the name of the finding's state.
func (f finding) Trouble() string {
	return map[string]string{"error": "bad", "warning": "warn"}[f.Level]
}

// reference is a link to another definition.
type reference struct{ Link, Name, As string }

// test is a test with the address that tries its context.
type test struct {
	inspect.TestView
	Place  place
	Result string
}

// versionRow is a version with its traffic.
type versionRow struct {
	adminapi.ListedVersion
	tally
	Previous string // the version before; empty: none is stored
}

// definitionLink returns the address of a definition's page. Servers clean paths, so a key
// that cleaning would change goes as one segment, with its kind.
func definitionLink(kind, key string) string {
	name := kind + "/" + key
	if path.Clean(name) != name {
		name = url.PathEscape(name)
	}
	return prefix + "definitions/" + name
}

// place returns a place of a file below the directory. With its link to the editor it is the
// only one that knows the editor's address.
func (v *visit) place(directory string, at inspect.Place) place {
	file := strings.TrimPrefix(strings.TrimPrefix(at.File, directory), "/")
	p := place{Text: path.Base(file)}
	query := url.Values{"file": {file}}
	if at.Line > 0 {
		p.Text += ":" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.Column)
		query.Set("line", strconv.Itoa(at.Line))
		query.Set("column", strconv.Itoa(at.Column))
	}
	if v.visitor.Role.Covers(gateway.RoleEditor) {
		p.Edit = prefix + "edit?" + query.Encode()
	}
	return p
}

// tryLink returns the address that tries a context, or "" where the form has no field for
// any of it.
func tryLink(fields []adminapi.DataField, context json.RawMessage, at time.Time) string {
	query := tryFields(fields, context)
	if len(query) == 0 {
		return ""
	}
	if at.IsZero() {
		return tryAddress(query, nil)
	}
	return tryAddress(query, &at)
}

// tryAddress returns the address that tries what the form's fields have, at an instant if
// it is given.
func tryAddress(query url.Values, at *time.Time) string {
	if at != nil {
		query.Set("at", at.UTC().Format(time.RFC3339))
	}
	return prefix + "try?" + query.Encode()
}

// tryFields returns the values of the form's fields in a context. Fields of the gateway
// are no part of the form, and left out.
func tryFields(fields []adminapi.DataField, context json.RawMessage) url.Values {
	query := url.Values{}
	for _, f := range fields {
		value := context
		for _, name := range strings.Split(cmp.Or(f.Path, f.Name), ".") {
			var members map[string]json.RawMessage
			if json.Unmarshal(value, &members) != nil {
				value = nil
				break
			}
			value = members[name]
		}
		var list []string
		switch {
		case len(value) == 0 || string(value) == "null":
		case json.Unmarshal(value, &list) == nil:
			query.Set(tryPrefix+f.Name, strings.Join(list, ", "))
		default:
			query.Set(tryPrefix+f.Name, plain(value))
		}
	}
	return query
}

func buildDefinition(v *visit) (any, error) {
	kind, key, _ := strings.Cut(v.id, "/")
	p := &definitionPage{Now: v.now, From: v.query.Get("from"), To: v.query.Get("to")}
	query := url.Values{"versions": {p.From + "," + p.To}}
	if v.query.Has("row") {
		query.Set("row", v.query.Get("row"))
	}
	if err := v.ask("definitions/"+v.id, query, &p.Definition); err != nil {
		return nil, err
	}
	if p.Key != key {
		v.to = definitionLink(kind, p.Key) // the visitor asked by an alias
		return p, nil
	}
	v.title = p.Key
	v.command = "caddy cadenza check " + shellWord(p.Definition.File)
	p.NeedsRole = !v.visitor.Role.Covers(gateway.RoleEditor)
	p.File = v.place(p.Directory, inspect.Place{File: p.Definition.File})
	counted, err := v.countDefinition(p)
	if err != nil {
		return nil, err
	}
	p.layOut(v, counted)
	p.Variants, p.Other = variantsOf(&p.Definition, counted)
	for _, t := range v.workspace().Targets {
		if p.Kind == "endpoint" && slices.Contains(t.Endpoints, p.Key) {
			p.Targets = append(p.Targets, t)
		}
	}
	p.UsesText, p.UsedByText = references(p.Uses), references(p.UsedBy)
	for _, t := range p.Definition.Tests {
		result := "passes"
		if !p.Restored.IsZero() {
			result = "not run: the set was restored from the store"
		}
		p.Tests = append(p.Tests, test{t, v.place(p.Directory, t.Place), result})
	}
	p.Traffic, p.TooMany = counted.rows(), counted.problem
	p.compare(counted)
	return p, nil
}

// mostReferences bounds the definitions that a page names as users of one.
const mostReferences = 50

func references(uses []inspect.Use) (list []reference) {
	for i, u := range uses {
		if i == mostReferences {
			return append(list, reference{prefix + "definitions", "others", count(int64(len(uses) - i))})
		}
		as := u.Kind
		if u.As != as {
			as += ", as " + u.As
		}
		list = append(list, reference{definitionLink(u.Kind, u.Key), u.Key, as})
	}
	return list
}

// compare fills in the versions, and how the two that were chosen differ.
func (p *definitionPage) compare(counted *definitionTraffic) {
	var contents [2]json.RawMessage
	for i, version := range p.Definition.Versions {
		row := versionRow{ListedVersion: version}
		row.tally = counted.versions[version.Version]
		if i+1 < len(p.Definition.Versions) {
			row.Previous = p.Definition.Versions[i+1].Version
		}
		p.Versions = append(p.Versions, row)
		for i, chosen := range []string{p.From, p.To} {
			if version.Version == chosen {
				contents[i] = version.Content
			}
		}
	}
	if contents[0] != nil && contents[1] != nil {
		p.Compared = true
		p.Diff = inspect.CompareTexts(inspect.ContentText(contents[0]), inspect.ContentText(contents[1]))
	}
}

// layOut makes the grid of the table, with the findings below their rows.
func (p *definitionPage) layOut(v *visit, counted *definitionTraffic) {
	byRow := make(map[string][]finding)
	for _, f := range p.Findings {
		one := finding{f, v.place(p.Directory, inspect.Place{File: f.Finding.File, Line: f.Line, Column: f.Column}), tryLink(p.Fields, f.Witness, f.At)}
		if f.Row != "" {
			byRow[f.Row] = append(byRow[f.Row], one)
		} else {
			p.Above = append(p.Above, one)
		}
	}
	t := p.Table
	if t == nil {
		return
	}
	for _, c := range t.Columns {
		head := gridCell{Text: c.Name, Place: v.place(p.Directory, c.Place)}
		for _, f := range p.Above {
			if f.Cell == c.Name {
				head.Trouble = cmp.Or(head.Trouble, f.Trouble())
			}
		}
		p.Columns = append(p.Columns, head)
	}
	from := func(row int) string {
		return definitionLink(p.Kind, p.Key) + "?row=" + strconv.Itoa(row)
	}
	if t.First > 0 {
		p.Earlier = from(max(t.First-len(t.Rows), 0))
	}
	if t.First+len(t.Rows) < p.Definition.Rows {
		p.Later = from(t.First + len(t.Rows))
	}
	for i := range t.Rows {
		row := p.gridRow(v, &t.Rows[i], byRow[t.Rows[i].Row])
		row.Number = t.First + i + 1
		p.Rows = append(p.Rows, row)
	}
	p.Rows = append(p.Rows, p.gridRow(v, &t.Default, nil))
	counted.addTo(p)
}

func (p *definitionPage) gridRow(v *visit, r *inspect.RowView, found []finding) gridRow {
	row := gridRow{Head: gridCell{Text: r.Row, Place: v.place(p.Directory, r.Place)}, By: r.By, Below: found}
	for i, c := range r.Cells {
		cell := gridCell{Text: c.Text, Place: v.place(p.Directory, c.Place)}
		for _, f := range found {
			if f.Cell == p.Table.Columns[i].Name {
				cell.Trouble = cmp.Or(cell.Trouble, f.Trouble())
			}
		}
		row.Cells = append(row.Cells, cell)
	}
	for _, f := range found {
		row.Head.Trouble = cmp.Or(row.Head.Trouble, f.Trouble())
	}
	rest := 1.0
	for _, a := range r.Answers {
		answer := gridAnswer{Text: clipped(plain(a.Value)), Place: v.place(p.Directory, a.Place)}
		if r.By != "" {
			answer.Share = share(a.Share)
		}
		rest -= a.Share
		row.Answers = append(row.Answers, answer)
	}
	if rest > 1e-6 {
		row.Rest = share(rest)
	}
	return row
}

// share returns a part of 1 as a percentage.
func share(part float64) string {
	return strconv.FormatFloat(float64(int(part*100_000+.5))/1000, 'f', -1, 64) + " %"
}

// clipped returns the beginning of a long text.
func clipped(text string) string {
	const most = 300
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// sideBySide has the variants next to each other: a line for each member that any has.
type sideBySide struct {
	Heads []variantHead
	Lines []variantLine
}

// variantHead is the head of a variant's column.
type variantHead struct{ Key, Extends string }

// variantLine is a member of each variant.
type variantLine struct {
	Name  string
	Cells []variantCell
}

// variantCell is a member of one variant. As is the variant that it extends, where that has
// the same. Differs says that it extends one that has something else.
type variantCell struct {
	Said    []said
	Text    string
	As      string
	Differs bool
	Number  bool
}

// endpointOwn are the members of an endpoint that are not about how it calls.
var endpointOwn = []string{"prompt", "default", "idempotency", "accept", "versions", "variants"}

// variantsOf lays out the variants of a definition, and the members beside them.
func variantsOf(d *adminapi.Definition, counted *definitionTraffic) (*sideBySide, []member) {
	contents := make(map[string]map[string]json.RawMessage)
	_ = json.Unmarshal(d.Members["variants"], &contents) // absent for some
	rest := maps.Clone(d.Members)
	delete(rest, "variants")
	side := new(sideBySide)
	for _, v := range d.Variants {
		side.Heads = append(side.Heads, variantHead{v.Key, v.Extends})
	}
	if len(side.Heads) == 0 {
		for _, key := range slices.Sorted(maps.Keys(contents)) {
			side.Heads = append(side.Heads, variantHead{Key: key})
		}
	}
	if len(side.Heads) == 0 && d.Kind == "endpoint" {
		side.Heads, contents = []variantHead{{Key: "calls"}}, map[string]map[string]json.RawMessage{"calls": {}}
		for name, value := range d.Members {
			if !slices.Contains(endpointOwn, name) {
				contents["calls"][name] = value
				delete(rest, name)
			}
		}
	}
	var other []member
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		other = append(other, member{name, contentText(rest[name])})
	}
	if len(side.Heads) == 0 {
		return nil, other
	}
	names := make(map[string]bool)
	for _, c := range contents {
		for name := range c {
			names[name] = true
		}
	}
	first := []string{"name", "provider", "model", "messages"}
	rank := func(name string) int { return (slices.Index(first, name) + len(first) + 1) % (len(first) + 1) }
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	}) {
		line := variantLine{Name: name}
		if name == "name" && !slices.ContainsFunc(side.Heads, func(h variantHead) bool { return plain(contents[h.Key][name]) != h.Key }) {
			continue // each is called as its key
		}
		for _, h := range side.Heads {
			cell := variantCell{}
			value, base := contents[h.Key][name], contents[h.Extends][name]
			switch {
			case h.Extends != "" && string(value) == string(base) && value != nil:
				cell.As = h.Extends
			case name == "messages":
				cell.Said, cell.Differs = saidOf(value), h.Extends != ""
			default:
				cell.Text, cell.Differs = contentText(value), h.Extends != ""
			}
			line.Cells = append(line.Cells, cell)
		}
		side.Lines = append(side.Lines, line)
	}
	if d.Kind == "prompt" && counted.all[1].Calls > 0 {
		calls, scores := variantLine{Name: "answers, 7 d"}, variantLine{Name: "score, 7 d"}
		for _, h := range side.Heads {
			t := counted.week[h.Key]
			calls.Cells = append(calls.Cells, variantCell{Text: count(t.Calls), Number: true})
			scores.Cells = append(scores.Cells, variantCell{Text: t.Score(), Number: true})
		}
		side.Lines = append(side.Lines, calls, scores)
	}
	return side, other
}

// contentText returns a member of a content for people.
func contentText(value json.RawMessage) string {
	var composed any
	if json.Unmarshal(value, &composed) != nil {
		return ""
	}
	switch composed.(type) {
	case map[string]any, []any:
		return strings.TrimSuffix(inspect.ContentText(value), "\n")
	}
	return plain(value)
}

// saidOf returns the messages of a variant. What is no message, such as the place of the
// caller's, is shown as it is.
func saidOf(value json.RawMessage) (list []said) {
	var messages []json.RawMessage
	_ = json.Unmarshal(value, &messages) // the loader wrote it
	for _, m := range messages {
		var read struct {
			Role string `json:"role"`
		}
		if json.Unmarshal(m, &read) == nil && read.Role != "" {
			list = append(list, messagesOf(slices.Concat([]byte("["), m, []byte("]")))...)
		} else {
			list = append(list, said{"", contentText(m)})
		}
	}
	return list
}
