package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// findPage says what an id may mean, unless that is one thing.
type findPage struct {
	ID    string
	Links []foundLink
	adminapi.Found
}

// foundLink leads to what an id may mean.
type foundLink struct {
	adminapi.Match
	Path string
}

func buildFind(v *visit) (any, error) {
	p := &findPage{ID: strings.TrimSpace(v.query.Get("id"))}
	if name, _, ok := strings.Cut(p.ID, "="); ok { // what a customer saw
		by, err := v.memberOrField(name)
		v.to = tracesAt(by, p.ID)
		return p, err
	}
	if p.ID == "" {
		return p, nil
	}
	if err := v.ask("find", url.Values{"id": {p.ID}}, &p.Found); err != nil {
		return nil, err
	}
	for _, m := range p.Found.Found {
		p.Links = append(p.Links, foundLink{m, pathOf(m)})
	}
	if len(p.Links) == 1 && !p.More {
		v.to = p.Links[0].Path
	}
	return p, nil
}

// memberOrField returns the filter for a name: field if the data model has it, metadata
// otherwise.
func (v *visit) memberOrField(name string) (string, error) {
	var definitions adminapi.Definitions
	if err := v.ask("definitions", nil, &definitions); err != nil {
		return "", err
	}
	fields := definitions.Workspaces[v.visitor.Workspace].Fields
	if slices.ContainsFunc(fields, func(f adminapi.DataField) bool { return f.Name == strings.TrimSpace(name) }) {
		return "field", nil
	}
	return "metadata", nil
}

// tracesAt returns the address of the list of all traces that pass one filter.
func tracesAt(filter, value string) string {
	return prefix + "traces?" + url.Values{"since": {""}, filter: {value}}.Encode()
}

func pathOf(m adminapi.Match) string {
	switch m.What {
	case "conversation":
		return prefix + "conversations/" + url.PathEscape(m.ID)
	case "chain":
		return tracesAt("chain_id", m.ID)
	case "request":
		return tracesAt("metadata", "request_id="+m.ID)
	}
	return prefix + "traces/" + url.PathEscape(m.ID)
}
