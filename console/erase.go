package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// erasePage erases what was recorded of somebody, and exports what was recorded.
type erasePage struct {
	Admin      bool
	By, Member string // what chooses: conversation_id, decision, metadata and its member, or unit and its field
	Value      string
	Found      *trace.Erased // what would be erased; nil: it was not counted yet
	Erased     *trace.Erased // what was erased just now
	Problem    string
	filter
	Export          string // the link
	ExportProblem   string
	NothingToExport bool
}

// exportFilters are the filters that the form of exports offers.
var exportFilters = []string{"since", "until", "kind", "key", "api_key", "score", "conversation_id", "metadata"}

func buildErase(v *visit) (any, error) {
	p := &erasePage{Admin: v.Visitor.Role.Covers(gateway.RoleAdmin), By: "metadata"}
	v.Command = "caddy cadenza erase"
	if !p.Admin {
		if v.form != nil {
			return nil, &adminapi.AskError{Status: http.StatusForbidden, Message: "this needs the role admin"}
		}
		return p, nil
	}
	p.filter = v.filter(slices.DeleteFunc(slices.Clone(filterFields), func(f filterField) bool { return !slices.Contains(exportFilters, f.Name) }))
	p.Export = prefix + "api/export?" + p.query.Encode()
	p.query.Set("limit", "1")
	var some listAnswer
	problem, err := refused(v.ask("traces", p.query, &some))
	if err != nil {
		return nil, err
	}
	p.ExportProblem, p.NothingToExport = problem, len(some.Traces) == 0 && some.Next == ""
	if v.form == nil {
		return p, nil
	}
	p.Problem, err = refused(p.change(v))
	return p, err
}

// change counts what the form chooses or, once its value was typed again, erases it.
func (p *erasePage) change(v *visit) error {
	p.By, p.Member, p.Value = v.form.Get("by"), strings.TrimSpace(v.form.Get("member")), strings.TrimSpace(v.form.Get("value"))
	name := p.By
	switch {
	case p.Value == "":
		return &adminapi.AskError{Status: http.StatusBadRequest, Message: "a value is missing: an id, or the value of the member"}
	case (name == "metadata" || name == "unit") && p.Member == "":
		return &adminapi.AskError{Status: http.StatusBadRequest, Message: "a name is missing: of the member of the metadata, such as user_id, or of the field of the unit, such as customer_id"}
	case name == "metadata":
		name = adminapi.MetadataParameter + p.Member
	case name == "unit":
		name = adminapi.UnitParameter + p.Member
	}
	var answer struct {
		Found  *trace.Erased `json:"found"`
		Erased *trace.Erased `json:"erased"`
	}
	query := url.Values{name: {p.Value}}
	erase := v.form.Has("confirm") && strings.TrimSpace(v.form.Get("confirm")) == p.Value
	if !erase {
		query.Set("dry_run", "true")
	}
	err := v.send(http.MethodDelete, "traces", query, nil, &answer)
	p.Found, p.Erased = answer.Found, answer.Erased
	if err == nil && v.form.Has("confirm") && !erase {
		return &adminapi.AskError{Status: http.StatusBadRequest, Message: "nothing was erased: what you typed is not the value"}
	}
	return err
}
