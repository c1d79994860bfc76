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
	Files      []fileChange
	Back       string // the command that writes the earlier revision
	Admin      bool   // the visitor may serve it again
	served     adminapi.LoadedWorkspace
}

// fileChange is a file that differs.
type fileChange struct {
	Path, How string
	Lines     []inspect.TextLine
}

func buildRevisions(v *visit) (any, error) {
	p := &revisionsPage{From: v.query.Get("from"), To: v.query.Get("to")}
	v.Command = "caddy cadenza revisions"
	if err := v.ask("revisions", nil, &p.Revisions); err != nil || p.From == "" || p.To == "" {
		return p, err
	}
	v.Command = "caddy cadenza diff revision:" + shellWord(p.From) + " revision:" + shellWord(p.To)
	p.Admin = v.Visitor.Role.Covers(gateway.RoleAdmin)
	p.Back = "caddy cadenza checkout " + shellWord(p.From) + " DIR"
	var (
		comparison inspect.Comparison
		sides      [2]adminapi.Revision
	)
	err := v.ask("compare", url.Values{"from": {p.From}, "to": {p.To}}, &comparison)
	if p.Problem, err = refused(err); p.Problem != "" {
		return p, nil
	}
	if err == nil {
		p.served, err = v.loaded()
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
	p.Files = compareFiles(sides[0].Files, sides[1].Files)
	return p, nil
}

// Link returns the address of the page of a definition, or nothing if it is gone.
func (p *revisionsPage) Link(kind, key string) string {
	if !slices.ContainsFunc(p.served.Definitions, func(d inspect.Summary) bool { return d.Kind == kind && d.Key == key }) {
		return ""
	}
	return definitionLink(kind, key)
}

// Try returns the address that tries a context, or nothing where the form has no field for it.
func (p *revisionsPage) Try(a inspect.AnswerChange) string {
	return tryLink(p.served.Fields, a.Context, *cmp.Or(a.At, new(time.Time)))
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
