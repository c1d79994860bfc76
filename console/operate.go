package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
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
