package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// erasePage erases what was recorded of somebody, and exports what was recorded.
type erasePage struct {
	Admin           bool
	By, Member      string // what chooses: conversation_id, decision or metadata, and its member
	Value           string
	Found           *erasedRows // what would be erased; nil: it was not counted yet
	Erased          *erasedRows // what was erased just now
	Problem         string
	Filters         []filterField
	Export          string // the link
	ExportProblem   string
	NothingToExport bool
}

// erasedRows are numbers of rows.
type erasedRows struct {
	Traces  int64 `json:"traces"`
	Metrics int64 `json:"metrics"`
	Replies int64 `json:"replies"`
}

// exportFilters are the filters that the form of exports offers.
var exportFilters = []string{"since", "until", "kind", "key", "api_key", "score", "conversation_id", "metadata"}

func buildErase(v *visit) (any, error) {
	p := &erasePage{Admin: v.visitor.Role.Covers(gateway.RoleAdmin), By: "metadata"}
	v.command = "caddy cadenza erase"
	if !p.Admin {
		if v.form != nil {
			return nil, &adminapi.AskError{Status: http.StatusForbidden, Message: "this needs the role admin"}
		}
		return p, nil
	}
	query := make(url.Values)
	for _, field := range filterFields {
		if !slices.Contains(exportFilters, field.Name) {
			continue
		}
		if v.query.Has(field.Name) {
			field.Value = strings.TrimSpace(v.query.Get(field.Name))
		}
		p.Filters = append(p.Filters, field)
		name, value := field.parameter()
		if value != "" {
			query.Set(name, value)
		}
	}
	p.Export = prefix + "api/export?" + query.Encode()
	query.Set("limit", "1")
	var some struct {
		Traces []struct{} `json:"traces"`
		Next   string     `json:"next"`
	}
	problem, err := refused(v.ask("traces", query, &some))
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
	case name == "metadata" && p.Member == "":
		return &adminapi.AskError{Status: http.StatusBadRequest, Message: "the name of the member of the metadata is missing, such as user_id"}
	case name == "metadata":
		name = adminapi.MetadataParameter + p.Member
	}
	var answer struct {
		Found  *erasedRows `json:"found"`
		Erased *erasedRows `json:"erased"`
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
