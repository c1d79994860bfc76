package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// definitionPage is one definition.
type definitionPage struct {
	adminapi.Definition
	places
	NeedsRole bool // the pages have an editor, and the visitor may not
	Grid      []gridRow
	found     map[string][]finding // by row; those about no row by ""
	Earlier   string               // the address of the rows before these; empty: there are none
	Later     string
	contents  map[string]map[string]json.RawMessage // of the variants
	Lines     []string                              // the members that any variant has
	Targets   []gateway.Target                      // of an endpoint
	Traffic   *definitionTraffic
	From, To  string // versions that are compared
	Diff      []inspect.TextLine
	Compared  bool
}

// places are those of the files of a folder.
type places struct {
	visit     *visit
	directory string
}

// At returns a place with its link.
func (p places) At(at inspect.Place) place {
	file := p.Below(at.File)
	shown := place{Text: path.Base(file)}
	if at.Line > 0 {
		shown.Text += ":" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.Column)
	}
	if p.visit.Visitor.Role.Covers(gateway.RoleEditor) && !p.Fixed() {
		shown.Edit = prefix + "edit?" + editQuery(&edit.Edit{File: file, Line: at.Line, Column: at.Column}).Encode()
	}
	return shown
}

// Fixed reports whether nobody can edit here: the definitions come as a bundle.
func (p places) Fixed() bool { return p.visit.Workspace().Definitions.Source != nil }

// Of returns the place of a finding.
func (p places) Of(f inspect.Finding) place {
	return p.At(inspect.Place{File: f.File, Line: f.Line, Column: f.Column})
}

// Below returns a file, or a place in one, without the folder.
func (p places) Below(file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(file, p.directory), "/")
}

// place is a place in a file, with the address of the editor at that place.
type place struct{ Text, Edit string }

// Cell returns a text with the link to where it can be edited.
func (p places) Cell(text string, at inspect.Place) place { return place{text, p.At(at).Edit} }

// gridRow is a row of a table, with what is found about it and how much it answers.
type gridRow struct {
	inspect.RowView
	Number int // 0: the default
	Below  []finding
	figures
	With    string                 // the rows that answer the same, and so share the figures
	Rollout *gateway.RolloutStatus // of a guarded split
}

// Rest returns how many of the units that a row divides are left to the rows below.
func (r *gridRow) Rest() string {
	rest := 1.0
	for _, a := range r.Answers {
		rest -= a.Share
	}
	if r.By == "" || rest <= 1e-6 {
		return ""
	}
	return share(rest)
}

// follow gives the new answer and the control of a guarded split the shares that its rollout
// has.
func (r *gridRow) follow(s *gateway.RolloutStatus) {
	if r.Rollout = s; s != nil && len(r.Answers) == 2 {
		of := float64(s.Share) / rollout.Whole
		r.Answers[0].Share, r.Answers[1].Share = of, 1-of
	}
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

// definitionLink returns the address of a definition's page.
func definitionLink(kind, key string) string { return pageLink("definitions/", kind+"/"+key) }

// pageLink returns the address of one of the pages below a path. Servers clean paths, so a
// name that cleaning would change goes as one segment.
func pageLink(below, name string) string {
	if path.Clean(name) != name {
		name = url.PathEscape(name)
	}
	return prefix + below + name
}

// tryLink returns the address that tries a context, or "" where the form has no field for
// any of it.
func tryLink(fields []adminapi.DataField, context json.RawMessage, at time.Time) string {
	query := tryFields(fields, context)
	if len(query) == 0 {
		return ""
	}
	return tryAddress(query, &at)
}

// tryAddress returns the address that tries what the form's fields have, at an instant if
// it is given.
func tryAddress(query url.Values, at *time.Time) string {
	if at != nil && !at.IsZero() {
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
			_ = json.Unmarshal(value, &members) // what is no object has no members
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
	p := &definitionPage{From: v.query.Get("from"), To: v.query.Get("to"), found: make(map[string][]finding)}
	query := url.Values{"versions": {p.From + "," + p.To}, "row": {v.query.Get("row")}}
	if err := v.ask("definitions/"+v.id, query, &p.Definition); err != nil {
		return nil, err
	}
	if p.Key != key {
		v.to = definitionLink(kind, p.Key) // the visitor asked by an alias
		return p, nil
	}
	v.Title = p.Key
	v.Command = "caddy cadenza check " + shellWord(p.File)
	p.NeedsRole = !v.Visitor.Role.Covers(gateway.RoleEditor)
	p.places = places{v, p.Directory}
	var err error
	if p.Traffic, err = v.countDefinition(p); err != nil {
		return nil, err
	}
	for _, f := range p.Findings {
		p.found[f.Row] = append(p.found[f.Row], finding{f, p.Of(f.Finding), tryLink(p.Fields, f.Witness, f.At)})
	}
	if t := p.Table; t != nil {
		for i, r := range t.Rows {
			row := gridRow{RowView: r, Number: t.First + i + 1, Below: p.found[r.Row]}
			if r.Guarded {
				row.follow(v.rolloutOf(p.Kind+"s/"+p.Key, r.Row))
			}
			p.Grid = append(p.Grid, row)
		}
		p.Grid = append(p.Grid, gridRow{RowView: t.Default})
		p.Traffic.addTo(p)
		from := func(row int) string { return definitionLink(p.Kind, p.Key) + "?row=" + strconv.Itoa(row) }
		if t.First > 0 {
			p.Earlier = from(max(t.First-len(t.Rows), 0))
		}
		if next := t.First + len(t.Rows); next < p.Rows {
			p.Later = from(next)
		}
	}
	p.readVariants()
	p.Targets = slices.DeleteFunc(slices.Clone(v.Workspace().Targets), func(t gateway.Target) bool {
		return p.Kind != "endpoint" || !slices.Contains(t.Endpoints, p.Key)
	})
	contents := make(map[string]json.RawMessage)
	for _, version := range p.Versions {
		contents[version.Version] = version.Content
	}
	if from, to := contents[p.From], contents[p.To]; from != nil && to != nil {
		p.Compared = true
		p.Diff = inspect.CompareTexts(inspect.ContentText(from), inspect.ContentText(to))
	}
	return p, nil
}

// FilePlace returns the place of the file.
func (p *definitionPage) FilePlace() place { return p.At(inspect.Place{File: p.File}) }

// Above returns what is found about no row.
func (p *definitionPage) Above() []finding { return p.found[""] }

// Trouble returns the state of a row or, with a column, of its cell there: of the head, if
// there is no row.
func (p *definitionPage) Trouble(row, column string) (state string) {
	for _, f := range p.found[row] {
		if column == "" || f.Cell == column {
			state = cmp.Or(state, f.Trouble())
		}
	}
	return state
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

// readVariants reads what the variants have, each a line for each member that any has, and
// leaves the other members.
func (p *definitionPage) readVariants() {
	_ = json.Unmarshal(p.Members["variants"], &p.contents) // absent for some
	delete(p.Members, "variants")
	if len(p.Variants) == 0 {
		for _, key := range slices.Sorted(maps.Keys(p.contents)) {
			p.Variants = append(p.Variants, inspect.VariantSource{Key: key})
		}
	}
	names := make(map[string]bool)
	for key, members := range p.contents {
		for name, value := range members {
			names[name] = names[name] || name != "name" || plain(value) != key // most are called as their key
		}
	}
	maps.DeleteFunc(names, func(_ string, shown bool) bool { return !shown })
	first := []string{"name", "provider", "model", "messages"}
	rank := func(name string) int { return (slices.Index(first, name) + len(first) + 1) % (len(first) + 1) }
	p.Lines = slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
}

// variantCell is a member of one variant. As is the variant that it extends, where that has
// the same. Differs says that it extends one that has something else.
type variantCell struct {
	Said    []said
	Text    string
	As      string
	Differs bool
}

// Member returns a member of a variant.
func (p *definitionPage) Member(v inspect.VariantSource, name string) variantCell {
	value, base := p.contents[v.Key][name], p.contents[v.Extends][name]
	switch {
	case v.Extends != "" && string(value) == string(base) && value != nil:
		return variantCell{As: v.Extends}
	case name == "messages":
		return variantCell{Said: messagesOf(value), Differs: v.Extends != ""}
	}
	return variantCell{Text: contentText(value), Differs: v.Extends != ""}
}

// memberName returns the name of a member of a content as files have it: max_tokens.
func memberName(name string) string {
	return strings.ToLower(capitals.ReplaceAllString(name, "_$0"))
}

var capitals = regexp.MustCompile("[A-Z]")

// contentText returns a member of a content for people.
func contentText(value json.RawMessage) string {
	if len(value) > 2 && strings.ContainsRune("{[", rune(value[0])) { // of an empty one there is no text
		return strings.TrimSuffix(inspect.ContentText(value), "\n")
	}
	return plain(value)
}
