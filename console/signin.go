package console

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// sessionTime is how long a session lasts.
const sessionTime = 12 * time.Hour

// The names of the cookie. Browsers take one whose name begins with __Host- over HTTPS
// alone, and never from another host of the same domain.
const (
	secureCookie = "__Host-cadenza_console"
	plainCookie  = "cadenza_console"
)

// forwarding are the headers of a request that a proxy passed on.
var forwarding = []string{
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server",
	"X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
}

// overHTTPS reports whether a request came over HTTPS, to this server or to a proxy that
// the server trusts.
func overHTTPS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted && r.Header.Get("X-Forwarded-Proto") == "https"
}

// onLoopback reports whether the browser runs on this machine and addressed it so. A page
// of another site could reach a loopback address by a name of its own, but not by one of
// these hosts.
func onLoopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	for _, name := range forwarding {
		if len(r.Header[name]) > 0 { // a client may send the first, empty; a proxy adds the second
			return false
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// mayCarryKeys reports whether a key or a session may travel the way that a request came.
func (h *Handler) mayCarryKeys(r *http.Request) bool {
	return overHTTPS(r) || onLoopback(r) || h.InsecureHTTP
}

// visitorOf returns the visitor that an auth server signed in or, without one, that of the
// request's session, or nil.
func (h *Handler) visitorOf(r *http.Request) *gateway.Visitor {
	if visitor, named := h.userOf(r); named {
		return visitor
	}
	if !h.mayCarryKeys(r) {
		return nil
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	visitor, ok := h.app.Session(cookie.Value, time.Now())
	if !ok || visitor.Loopback && !onLoopback(r) {
		return nil
	}
	visitor.From = clientIP(r)
	return &visitor
}

// clientIP returns the address of the client, as the server's trusted_proxies tell it.
func clientIP(r *http.Request) string {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return text
}

func cookieName(r *http.Request) string {
	if overHTTPS(r) {
		return secureCookie
	}
	return plainCookie
}

// setCookie gives the browser a session, or takes it away if it is empty.
func setCookie(w http.ResponseWriter, r *http.Request, session string) {
	cookie := &http.Cookie{Name: cookieName(r), Value: session, Path: "/", HttpOnly: true, Secure: overHTTPS(r), SameSite: http.SameSiteStrictMode, MaxAge: int(sessionTime / time.Second)}
	if session == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// signInForm is the page with the form.
type signInForm struct {
	To      string // the page to open then
	Problem string
	Closed  bool // keys may not travel the way that the request came
	NoRole  bool // an auth server named a user, who has no role
}

func (h *Handler) showSignIn(w http.ResponseWriter, r *http.Request) {
	if visitor, named := h.userOf(r); visitor != nil {
		http.Redirect(w, r, localPath(r.URL.Query().Get("to")), http.StatusSeeOther)
		return
	} else if named {
		h.write(w, http.StatusForbidden, "signin.html", signInForm{NoRole: true})
		return
	}
	h.write(w, http.StatusOK, "signin.html", signInForm{To: localPath(r.URL.Query().Get("to")), Closed: !h.mayCarryKeys(r)})
}

// maxForm bounds a form, in bytes.
const maxForm = 16 << 10

// signIn answers the form. A wrong key costs its address one of the attempts.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	form := signInForm{To: localPath(r.FormValue("to")), Closed: !h.mayCarryKeys(r)}
	if form.Closed {
		h.write(w, http.StatusForbidden, "signin.html", form)
		return
	}
	address := clientAddress(r)
	if tries.of(address).Tokens() < 1 {
		w.Header().Set("Retry-After", "30")
		form.Problem = "Too many wrong keys came from this address. Try again in half a minute."
		h.write(w, http.StatusTooManyRequests, "signin.html", form)
		return
	}
	visitor, ok := h.app.SignIn(strings.TrimSpace(r.PostFormValue("key")), time.Now())
	visitor.From = clientIP(r)
	if ok && visitor.Loopback && !onLoopback(r) {
		adminapi.Audited(r.Context(), &visitor, adminapi.AuditRefused, "the role counts on this machine alone")
		h.logger.Warn("sign-in refused: the role counts on this machine alone", zap.String("api_key", visitor.Key), zap.Stringer("from", address))
		form.Problem = "This key opens the console on the gateway's own machine alone (role … loopback)."
		h.write(w, http.StatusForbidden, "signin.html", form)
		return
	}
	session := ""
	if ok {
		session, ok = h.app.NewSession(visitor, time.Now().Add(sessionTime))
	}
	if !ok {
		tries.of(address).Allow()
		if noted.Allow() {
			adminapi.Audited(r.Context(), &gateway.Visitor{From: visitor.From}, adminapi.AuditRefused, "no valid API key with a role")
		}
		h.logger.Warn("sign-in refused", zap.Stringer("from", address))
		form.Problem = "This is no valid API key with a role. Ops give a key a role by role viewer, editor or admin in its block."
		h.write(w, http.StatusForbidden, "signin.html", form)
		return
	}
	h.logger.Info("signed in", zap.String("workspace", visitor.Workspace), zap.String("api_key", visitor.Key), zap.String("role", string(visitor.Role)), zap.Stringer("from", address))
	adminapi.Audited(r.Context(), &visitor, adminapi.AuditSignIn, "")
	setCookie(w, r, session)
	http.Redirect(w, r, form.To, http.StatusSeeOther)
}

func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	if visitor := h.visitorOf(r); visitor != nil {
		adminapi.Audited(r.Context(), visitor, adminapi.AuditSignOut, "")
	}
	setCookie(w, r, "")
	http.Redirect(w, r, prefix+"sign-in", http.StatusSeeOther)
}

// localPath returns a path of the console with its query, or the first page for anything
// else: a link to the form must not send a visitor to another site.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path.Clean(u.Path)+"/", prefix) || strings.HasPrefix(u.Path, prefix+"sign-") {
		return prefix
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// clientAddress returns the address that attempts are counted by: for IPv6 its network,
// of which a customer has all addresses.
func clientAddress(r *http.Request) netip.Prefix {
	addr, err := netip.ParseAddr(clientIP(r))
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // never fails: bits fit the address
	return network
}

// The attempts that an address has with wrong keys, and how fast it gets new ones.
const (
	triesAtOnce = 10
	triesEach   = 6 * time.Second
	// maxNames bounds the addresses or users that are counted. Beyond it all begin anew.
	maxNames = 10_000
)

// noted bounds how many wrong keys are noted in the audit: each is a write to the disk, and
// who has many addresses could cause many. All are in the log.
var noted = rate.NewLimiter(5, 50)

// limiters has a rate limiter for each name. It outlives a reload of the configuration.
type limiters[K comparable] struct {
	burst  int
	each   time.Duration // until a name has one more
	mu     sync.Mutex
	byName map[K]*rate.Limiter
}

// of returns the limiter of a name.
func (l *limiters[K]) of(name K) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.byName[name]
	if limiter == nil {
		if len(l.byName) >= maxNames {
			clear(l.byName)
		}
		limiter = rate.NewLimiter(rate.Every(l.each), l.burst)
		l.byName[name] = limiter
	}
	return limiter
}

// tries limits wrong keys by address.
var tries = limiters[netip.Prefix]{burst: triesAtOnce, each: triesEach, byName: make(map[netip.Prefix]*rate.Limiter)}

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
	if seen.of([4]string{v.Workspace, v.Key, string(v.Role), v.From}).Allow() {
		h.logger.Info("signed in", zap.String("workspace", v.Workspace), zap.String("user", v.Key), zap.String("role", string(role)), zap.String("from", v.From))
		adminapi.Audited(r.Context(), v, adminapi.AuditSignIn, "")
	}
	return v, true
}

// seen allows a user's sign-in to be noted, once in a session's time: by workspace, user, role
// and address.
var seen = limiters[[4]string]{burst: 1, each: sessionTime, byName: make(map[[4]string]*rate.Limiter)}
