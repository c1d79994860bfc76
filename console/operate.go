package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// auditPage is the list of what visitors did.
type auditPage struct {
	filter
	adminapi.Audit
	Export, More string // links
	Problem      string // why the filter is refused
}

// auditFields are the fields of the form.
var auditFields = []filterField{
	{"since", "since", "", "90m, 7d or 2026-01-31"},
	{"until", "until", "", "now"},
	{"by", "by", "", "ops"},
	{"action", "action", "", "look"},
}

// Actions returns the actions that the form suggests: those that the API itself notes.
func (*auditPage) Actions() []string {
	return []string{
		adminapi.AuditSignIn, adminapi.AuditRefused, adminapi.AuditSignOut, adminapi.AuditLook, adminapi.AuditEdit, adminapi.AuditPlay, adminapi.AuditLabel, adminapi.AuditRollout, adminapi.AuditExport, adminapi.AuditErase,
		adminapi.AuditMakeKey, adminapi.AuditRevokeKey,
	}
}

func buildAudit(v *visit) (any, error) {
	p := &auditPage{filter: v.filter(auditFields, "before")}
	v.Command = "caddy cadenza audit" + p.flags
	p.Export = prefix + "api/audit?" + with(p.query, "format", "jsonl").Encode()
	var err error
	p.Problem, err = refused(v.ask("audit", with(p.query, "before", v.query.Get("before")), &p.Audit))
	if p.Next > 0 {
		p.More = prefix + "audit?" + with(p.query, "before", strconv.FormatInt(p.Next, 10)).Encode()
	}
	return p, err
}

// keysPage has the API keys, and for an admin the form that makes one.
type keysPage struct {
	adminapi.Keys
	Admin   bool
	Now     time.Time
	Made    *adminapi.MadeKey // the key that was made just now
	Form    url.Values        // as it was sent, if it is refused
	Problem string
}

func buildKeys(v *visit) (any, error) {
	p := &keysPage{Admin: v.Visitor.Role.Covers(gateway.RoleAdmin), Now: v.Now}
	v.Command = "caddy cadenza key"
	if v.form != nil {
		var err error
		if p.Problem, err = refused(p.change(v)); err != nil {
			return nil, err
		}
		if p.Problem != "" {
			p.Form = v.form
		}
	}
	return p, v.ask("keys", nil, &p.Keys)
}

// change makes or revokes a key, as the form says.
func (p *keysPage) change(v *visit) error {
	if name := v.form.Get("revoke"); name != "" {
		err := v.send(http.MethodDelete, "keys/"+name, nil, nil, new(map[string]string))
		if err == nil {
			v.to = prefix + "keys"
		}
		return err
	}
	request := adminapi.KeyRequest{
		Name:   strings.TrimSpace(v.form.Get("name")),
		Access: gateway.Access{Role: gateway.Role(v.form.Get("role")), App: v.form.Has("app"), Loopback: v.form.Has("loopback")},
	}
	if text := strings.TrimSpace(v.form.Get("not_after")); text != "" {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return &adminapi.AskError{Status: http.StatusBadRequest, Message: fmt.Sprintf("the last day must be a date such as 2027-01-31, this is %q", text)}
		}
		request.NotAfter = day.Add(24*time.Hour - time.Second)
	}
	made := new(adminapi.MadeKey)
	if err := v.send(http.MethodPost, "keys", nil, request, made); err != nil {
		return err
	}
	p.Made = made
	return nil
}

// State returns what there is to know about a key beside what it opens.
func (p *keysPage) State(k gateway.KeyInfo) string {
	switch {
	case k.Revoked:
		return "revoked"
	case !k.NotAfter.IsZero() && p.Now.After(k.NotAfter):
		return "expired"
	}
	return ""
}

// erasePage erases what was recorded of somebody, and exports what was recorded.
type erasePage struct {
	Admin      bool
	By, Member string // what chooses: conversation_id, decision, metadata and its member, or unit and its field
	Value      string
	Found      *trace.Erased // what would be erased; nil: it was not counted yet
	Erased     *trace.Erased // what was erased just now
	Problem    string
	filter
	Export        string // the link
	ExportProblem string
	Passing       string // how many traces would be exported; empty: none
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
	p.query.Set("limit", strconv.Itoa(adminapi.MaxTraces))
	var some listAnswer
	problem, err := refused(v.ask("traces", p.query, &some))
	if err != nil {
		return nil, err
	}
	p.ExportProblem = problem
	switch passing := countOf(len(some.Traces), "trace"); {
	case some.Next != "":
		p.Passing = passing + " or more"
	case len(some.Traces) > 0:
		p.Passing = passing
	}
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
