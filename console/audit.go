package console

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
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
	p := &auditPage{filter: v.filter(auditFields)}
	v.Command = "caddy cadenza audit" + p.flags
	p.Export = prefix + "api/audit?" + with(p.query, "format", "jsonl").Encode()
	var err error
	p.Problem, err = refused(v.ask("audit", with(p.query, "before", v.query.Get("before")), &p.Audit))
	if p.Next > 0 {
		p.More = prefix + "audit?" + with(p.query, "before", strconv.FormatInt(p.Next, 10)).Encode()
	}
	return p, err
}
