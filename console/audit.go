package console

import (
	"errors"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// auditPage is the list of what visitors did.
type auditPage struct {
	Filters []filterField
	adminapi.Audit
	Export, More string // links
	Problem      string // why the filter is refused
}

// auditFields are the fields of the form, and the actions that the API itself notes.
var (
	auditFields = []filterField{
		{"since", "since", "", "90m, 7d or 2026-01-31"},
		{"until", "until", "", "now"},
		{"by", "by", "", "ops"},
		{"action", "action", "", "look"},
	}
	auditActions = []string{
		adminapi.AuditSignIn, adminapi.AuditRefused, adminapi.AuditSignOut, adminapi.AuditLook, adminapi.AuditEdit, adminapi.AuditPlay, adminapi.AuditLabel, adminapi.AuditExport, adminapi.AuditErase,
		adminapi.AuditMakeKey, adminapi.AuditRevokeKey,
	}
)

// Actions returns the actions that the form suggests.
func (*auditPage) Actions() []string { return auditActions }

func buildAudit(v *visit) (any, error) {
	p := new(auditPage)
	query := make(url.Values)
	command := "caddy cadenza audit"
	for _, field := range auditFields {
		if field.Value = strings.TrimSpace(v.query.Get(field.Name)); field.Value != "" {
			query.Set(field.Name, field.Value)
			command += " --" + field.Name + " " + shellWord(field.Value)
		}
		p.Filters = append(p.Filters, field)
	}
	v.command = command
	with := func(path, name, value string) string {
		more := maps.Clone(query)
		more.Set(name, value)
		return prefix + path + "?" + more.Encode()
	}
	p.Export = with("api/audit", "format", "jsonl")
	asked := maps.Clone(query)
	if before := v.query.Get("before"); before != "" {
		asked.Set("before", before)
	}
	err := v.ask("audit", asked, &p.Audit)
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok && refusal.Status == 400 {
		p.Problem, err = refusal.Message, nil
	}
	if p.Next > 0 {
		p.More = with("audit", "before", strconv.FormatInt(p.Next, 10))
	}
	return p, err
}
