package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// findPage says what an id may mean, unless that is one thing.
type findPage struct {
	ID string
	adminapi.Found
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
	err := v.ask("find", url.Values{"id": {p.ID}}, &p.Found)
	if len(p.Found.Found) == 1 && !p.More {
		v.to = p.PathOf(p.Found.Found[0])
	}
	return p, err
}

// memberOrField returns the filter for a name: field if the data model has it, metadata
// otherwise.
func (v *visit) memberOrField(name string) (string, error) {
	loaded, err := v.loaded()
	if slices.ContainsFunc(loaded.Fields, func(f adminapi.DataField) bool { return f.Name == strings.TrimSpace(name) }) {
		return "field", err
	}
	return "metadata", err
}

// tracesAt returns the address of the list of all traces that pass one filter.
func tracesAt(filter, value string) string {
	return prefix + "traces?" + url.Values{"since": {""}, filter: {value}}.Encode()
}

// PathOf returns the address of what an id may mean.
func (*findPage) PathOf(m adminapi.Match) string {
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
