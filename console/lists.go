package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/trace"
)

// definitionsPage has what is served, with its traffic.
type definitionsPage struct {
	Now    time.Time
	Days   int // of the traffic
	Loaded adminapi.LoadedWorkspace
	places
	Rows    []definitionRow
	Problem string // why the traffic is not known
}

// definitionRow is a definition of the list.
type definitionRow struct {
	inspect.Summary
	Span   tally
	Shares string   // of today's answers, by row or variant
	Stale  []string // why it may not be needed as it is
}

// usualDays is of how many days the traffic is, without the visitor's word.
const usualDays = 7

// alone is how many answers of one row alone make the other rows worth a look.
const alone = 20

// staleRules are the warnings that a row can go.
var staleRules = []string{"unreachable", "expired", "contradiction"}

// loaded returns the definitions of the visitor's workspace.
func (v *visit) loaded() (adminapi.LoadedWorkspace, error) {
	var answer adminapi.Definitions
	err := v.ask("definitions", nil, &answer)
	return answer.Workspaces[v.Visitor.Workspace], err
}

func buildDefinitions(v *visit) (any, error) {
	v.Command = "caddy cadenza check " + shellWord(v.Workspace().Definitions.Directory)
	loaded, err := v.loaded()
	if err != nil {
		return nil, err
	}
	p := &definitionsPage{Now: v.Now, Days: usualDays, Loaded: loaded, places: places{v, loaded.Directory}}
	if days, err := strconv.Atoi(v.query.Get("days")); err == nil && days > 0 && days <= 366 {
		p.Days = days
	}
	var span, today adminapi.Stats
	err = v.stats(&span, p.Days-1, url.Values{"by": {"variant"}})
	if err == nil {
		err = v.stats(&today, 0, url.Values{"by": {"variant"}})
	}
	if p.Problem, err = refused(err); err == nil {
		p.list(&span, &today)
	}
	return p, err
}

// list lists the definitions. The calls of an endpoint count for its prompt, too.
func (p *definitionsPage) list(span, today *adminapi.Stats) {
	asked := make(map[string]bool) // by another definition
	prompts := make(map[string]string)
	for i := range p.Loaded.Definitions {
		d := &p.Loaded.Definitions[i]
		for _, u := range d.Uses {
			asked[u.Kind+"/"+u.Key] = true
			if u.As == "prompt" {
				prompts[d.Kind+"/"+d.Key] = u.Kind + "/" + u.Key
			}
		}
	}
	parts := func(s *adminapi.Stats) map[string]map[string]tally {
		all := make(map[string]map[string]tally)
		for i := range s.Rows {
			r := &s.Rows[i]
			name := r.Kind + "/" + r.Key
			for _, name := range []string{name, prompts[name]} {
				if all[name] == nil {
					all[name] = make(map[string]tally)
				}
				all[name][r.Variant] = all[name][r.Variant].plus(tallyOf(r))
			}
		}
		return all
	}
	spans, todays := parts(span), parts(today)
	covered := !span.Oldest.IsZero() && !span.Oldest.After(span.Since)
	for i := range p.Loaded.Definitions {
		d := &p.Loaded.Definitions[i]
		name := d.Kind + "/" + d.Key
		row := definitionRow{Summary: *d, Shares: sharesOf(todays[name])}
		for _, t := range spans[name] {
			row.Span = row.Span.plus(t)
		}
		switch {
		case p.Problem != "":
		case row.Span.Calls == 0 && covered && (d.Kind != "remoteconfig" || !asked[name]):
			row.Stale = append(row.Stale, "no traffic in "+countOf(p.Days, "day"))
		case row.Span.Calls >= alone && d.Rows > 0 && d.Kind != "endpoint" && len(spans[name]) == 1:
			for only := range spans[name] {
				row.Stale = append(row.Stale, only+" alone answered all")
			}
		}
		for _, w := range p.Loaded.Warnings {
			if slices.Contains(staleRules, w.Rule) && w.More == 0 && (w.File == d.File || w.File == d.Matrix) {
				message, _, _ := strings.Cut(w.Message, ", for example")
				row.Stale = append(row.Stale, message)
			}
		}
		p.Rows = append(p.Rows, row)
	}
}

// mostShares bounds the shares that a line of the list names.
const mostShares = 4

// sharesOf says how answers are divided, the greatest shares first.
func sharesOf(parts map[string]tally) string {
	var all tally
	for _, t := range parts {
		all = all.plus(t)
	}
	if all.Calls == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(parts[b].Calls, parts[a].Calls), strings.Compare(a, b))
	})
	var list []string
	for _, name := range names[:min(len(names), mostShares)] {
		list = append(list, cmp.Or(name, "(none)")+" "+tenth(parts[name].Calls, all.Calls))
	}
	if more := len(names) - mostShares; more > 0 {
		list = append(list, "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(list, ", ")
}

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
