package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// trusted are the beginnings of placeholders that no client sets: the headers of the answer
// of an auth server, and what a handler of Caddy found out about the user.
var trusted = []string{"http.reverse_proxy.header.", "http.auth.user."}

// maxUser bounds the name of a user, in bytes.
const maxUser = 200

// provisionSSO checks the options of single sign-on.
func (h *Handler) provisionSSO() error {
	if h.TrustedUser == "" {
		if h.TrustedRole != "" || len(h.RoleOf) > 0 || h.Workspace != "" {
			return fmt.Errorf("trusted_role, role_of and workspace go with trusted_user")
		}
		return nil
	}
	for option, placeholder := range map[string]*string{"trusted_user": &h.TrustedUser, "trusted_role": &h.TrustedRole} {
		name, opened := strings.CutPrefix(*placeholder, "{")
		name, closed := strings.CutSuffix(name, "}")
		if !opened || !closed || !slices.ContainsFunc(trusted, func(prefix string) bool { return strings.HasPrefix(name, prefix) && len(name) > len(prefix) }) {
			return fmt.Errorf("%s must be a placeholder of the auth server's answer, such as {http.reverse_proxy.header.Remote-User}, or {http.auth.user.…}; this is %q. A client sets its own headers", option, *placeholder)
		}
		if header, found := strings.CutPrefix(name, trusted[0]); found { // named as the proxy names them
			*placeholder = "{" + trusted[0] + http.CanonicalHeaderKey(header) + "}"
		}
	}
	for group, role := range h.RoleOf {
		if role == gateway.RoleNone || (gateway.Access{Role: role}).CheckAccess() != nil {
			return fmt.Errorf("role_of %s: the role must be viewer, editor or admin, this is %q", group, role)
		}
	}
	var err error
	h.Workspace, err = h.app.WorkspaceNamed(h.Workspace)
	return err
}

// trustedValue returns the value of a placeholder, or nothing.
func trustedValue(r *http.Request, placeholder string) string {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	value, _ := replacer.GetString(strings.Trim(placeholder, "{}"))
	return strings.TrimSpace(value)
}

// userOf returns the visitor that the auth server signed in. named reports whether it named
// a user; without a role the visitor is nil.
func (h *Handler) userOf(r *http.Request) (visitor *gateway.Visitor, named bool) {
	if h.TrustedUser == "" {
		return nil, false
	}
	user := trustedValue(r, h.TrustedUser)
	if user == "" {
		return nil, false
	}
	role := gateway.RoleNone
	for _, word := range strings.FieldsFunc(trustedValue(r, h.TrustedRole), func(c rune) bool { return c == ',' || c == ';' || c == '|' || unicode.IsSpace(c) }) {
		given := gateway.Role(word)
		if len(h.RoleOf) > 0 {
			given = h.RoleOf[word]
		}
		if given.Covers(gateway.RoleViewer) && !role.Covers(given) {
			role = given
		}
	}
	if role == gateway.RoleNone || len(user) > maxUser || strings.ContainsFunc(user, unicode.IsControl) {
		return nil, true
	}
	v := &gateway.Visitor{Workspace: h.Workspace, Key: gateway.SSOPrefix + user, Role: role, From: clientIP(r)}
	if seen.of(v.Workspace + "\x00" + v.Key).Allow() {
		h.logger.Info("signed in", zap.String("workspace", v.Workspace), zap.String("user", v.Key), zap.String("role", string(role)), zap.String("from", v.From))
		adminapi.Audited(r.Context(), v, adminapi.AuditSignIn, "")
	}
	return v, true
}

// seen allows a user's sign-in to be noted, once in a session's time.
var seen = limiters[string]{burst: 1, each: sessionTime, byName: make(map[string]*rate.Limiter)}
