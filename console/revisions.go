package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/trace"
)

// revisionsPage has the revisions that were served, and how two of them differ.
type revisionsPage struct {
	adminapi.Revisions
	From, To   string
	Problem    string
	Comparison *inspect.Comparison // nil: none was asked for
	Changes    []changeRow
	Files      []fileChange
	Back       string // the command that writes the earlier revision
	Admin      bool   // the visitor may serve it again
}

// changeRow is how a definition differs.
type changeRow struct {
	inspect.Change
	Link    string // of its page; empty: it is gone
	Answers []witness
	Units   []string
}

// witness is a context that gets another answer.
type witness struct{ Context, Old, New, Try string }

// fileChange is a file that differs.
type fileChange struct {
	Path, How string
	Lines     []inspect.TextLine
}

func buildRevisions(v *visit) (any, error) {
	p := &revisionsPage{From: v.query.Get("from"), To: v.query.Get("to")}
	v.command = "caddy cadenza revisions"
	if err := v.ask("revisions", nil, &p.Revisions); err != nil || p.From == "" || p.To == "" {
		return p, err
	}
	v.command = "caddy cadenza diff revision:" + shellWord(p.From) + " revision:" + shellWord(p.To)
	p.Admin = v.visitor.Role.Covers(gateway.RoleAdmin)
	p.Back = "caddy cadenza checkout " + shellWord(p.From) + " DIR"
	var (
		comparison  inspect.Comparison
		definitions adminapi.Definitions
		sides       [2]adminapi.Revision
	)
	err := v.ask("compare", url.Values{"from": {p.From}, "to": {p.To}}, &comparison)
	if p.Problem, err = refused(err); p.Problem != "" {
		return p, nil
	}
	if err == nil {
		err = v.ask("definitions", nil, &definitions)
	}
	for i, revision := range []string{comparison.Old, comparison.New} {
		if err == nil {
			err = v.ask("revisions/"+revision, nil, &sides[i])
		}
	}
	if err != nil {
		return nil, err
	}
	p.Comparison = &comparison
	loaded := definitions.Workspaces[v.visitor.Workspace]
	for i := range comparison.Definitions {
		c := &comparison.Definitions[i]
		row := changeRow{Change: *c}
		if slices.ContainsFunc(loaded.Definitions, func(d inspect.Summary) bool { return d.Kind == c.Kind && d.Key == c.Key }) {
			row.Link = definitionLink(c.Kind, c.Key)
		}
		for _, a := range c.Answers {
			row.Answers = append(row.Answers, witnessOf(&a, loaded.Fields))
		}
		for _, u := range c.Units {
			row.Units = append(row.Units, u.String())
		}
		p.Changes = append(p.Changes, row)
	}
	p.Files = compareFiles(sides[0].Files, sides[1].Files)
	return p, nil
}

func witnessOf(a *inspect.AnswerChange, fields []adminapi.DataField) witness {
	w := witness{Context: string(a.Context), Old: sideText(&a.Old), New: sideText(&a.New)}
	if w.Context == "null" {
		w.Context = "no context"
	}
	var at time.Time
	if a.At != nil {
		at = a.At.UTC()
		w.Context += " at " + at.Format(time.RFC3339)
	}
	w.Try = tryLink(fields, a.Context, at)
	return w
}

// sideText returns the answer of one version, with the row that gave it.
func sideText(s *inspect.Side) string {
	if s.Refused != "" {
		return "refused: " + s.Refused
	}
	return cmp.Or(clipped(plain(s.Value)), "no variant") + " (" + s.Row + ")"
}

// compareFiles returns the files that differ, by their paths.
func compareFiles(before, after []trace.File) (list []fileChange) {
	contents := make(map[string][2]*trace.File)
	for side, files := range [][]trace.File{before, after} {
		for i := range files {
			both := contents[files[i].Path]
			both[side] = &files[i]
			contents[files[i].Path] = both
		}
	}
	for path, both := range contents {
		switch {
		case both[0] == nil:
			list = append(list, fileChange{path, "added", inspect.CompareTexts("", both[1].Content)})
		case both[1] == nil:
			list = append(list, fileChange{path, "removed", inspect.CompareTexts(both[0].Content, "")})
		case both[0].Content != both[1].Content:
			list = append(list, fileChange{path, "changed", inspect.CompareTexts(both[0].Content, both[1].Content)})
		}
	}
	slices.SortFunc(list, func(a, b fileChange) int { return strings.Compare(a.Path, b.Path) })
	return list
}
