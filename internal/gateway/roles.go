package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Role is what an API key may do in the console.
type Role string

// The roles. Each covers those before it.
const (
	RoleNone   Role = ""       // the key can't sign in
	RoleViewer Role = "viewer" // sees everything but content and secrets
	RoleEditor Role = "editor" // also sees content, edits, plays and labels
	RoleAdmin  Role = "admin"  // also makes keys, erases, exports and serves a revision again
)

// roles are the names of the roles, the least first.
var roles = []string{string(RoleViewer), string(RoleEditor), string(RoleAdmin)}

// Covers reports whether the role may do what least may do. RoleNone may do nothing.
func (r Role) Covers(least Role) bool {
	own, needed := slices.Index(roles, string(r)), slices.Index(roles, string(least))
	return needed >= 0 && own >= needed
}

// KindClient is the kind of API keys that browsers and phones hold. Such a key is public by
// nature.
const KindClient = "client"

// Access is what an API key opens: the routes of apps, the console or both.
type Access struct {
	// The kind of the key. "client": browsers and phones hold it, so it is public, and reads
	// the remote configurations with `client: true` alone. Default: a key of a server.
	Kind string `json:"kind,omitempty"`
	// The origins of the pages that may call with the key, such as
	// "https://app.example.com". Requests with another Origin are refused; those without
	// the header, which browsers always send to another origin, are not. Default: any.
	Origins []string `json:"origins,omitempty"`
	// What the key may do in the console: "viewer", "editor" or "admin". Default: the key
	// can't sign in.
	Role Role `json:"role,omitempty"`
	// The role counts for visitors of this machine alone. Default: false.
	Loopback bool `json:"loopback,omitempty"`
	// A key with a role also opens the routes of apps, as a key without a role does.
	// Default: false.
	App bool `json:"app,omitempty"`
}

// CheckAccess returns what is wrong with the access of a key, or nil.
func (a Access) CheckAccess() error {
	switch {
	case a.Role != RoleNone && !slices.Contains(roles, string(a.Role)):
		return errors.New(document.Unrecognized("role", string(a.Role), roles))
	case a.Role == RoleNone && a.Loopback:
		return errors.New("loopback is about a role, and the key has none")
	case a.Role == RoleNone && a.App:
		return errors.New("app belongs to a key with a role: a key without one is for apps anyway")
	case a.Kind != "" && a.Kind != KindClient:
		return errors.New(document.Unrecognized("kind", a.Kind, []string{KindClient}))
	case a.Kind == KindClient && a.Role != RoleNone:
		return errors.New("a key of kind client is public: it can't have a role")
	case len(a.Origins) > 0 && a.Role != RoleNone && !a.App:
		return errors.New("origins are those of pages that call, and the key opens the console alone: leave them out, or add app")
	}
	for _, origin := range a.Origins {
		if err := CheckOrigin(origin); err != nil {
			return err
		}
	}
	return nil
}

// CheckOrigin refuses a text that is no origin in the form in which browsers send it.
func CheckOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || text != strings.ToLower(u.Scheme+"://"+u.Host) || strings.ContainsFunc(text, func(r rune) bool { return r == '*' || r > unicode.MaxASCII }) ||
		u.Port() == "443" && u.Scheme == "https" || u.Port() == "80" && u.Scheme == "http" || strings.HasSuffix(text, ":") {
		return fmt.Errorf("%q is no origin as browsers send it: scheme and host in lower case, the port unless it is the scheme's own, and no path, such as https://app.example.com", text)
	}
	return nil
}

// opens returns the error of a request that the key must not make, or nil. origins are the
// values of the header Origin.
func (p *principal) opens(to *route, origins []string) *wire.Error {
	switch {
	case p.Role != RoleNone && !p.App:
		return wire.Errorf(wire.KeyNotAllowed, "", `This API key opens the console alone. Add app to its block, or "app": true to its entry in the keys file, to let it call.`)
	case p.Kind == KindClient && !to.client:
		return wire.Errorf(wire.KeyNotAllowed, "", "This API key is of the kind client, which reads remote configurations alone. Call this route from your server, with a key of its own.")
	case len(p.Origins) > 0 && len(origins) > 0 && (len(origins) > 1 || !slices.Contains(p.Origins, origins[0])):
		return wire.Errorf(wire.KeyNotAllowed, "", "This API key does not serve pages of this Origin. Add it to the key's origins, or leave them out.")
	}
	return nil
}

// SSOPrefix begins the names of visitors that another server signed in. No API key has such
// a name.
const SSOPrefix = "sso:"

// checkKeyName refuses a name of an API key that could be taken for a user's, or for that
// of a visitor's calls.
func checkKeyName(name string) error {
	if strings.HasPrefix(name, trace.ConsoleKey) {
		return fmt.Errorf("api_key %q: names that begin with %s are those of calls of the console's playground", name, trace.ConsoleKey)
	}
	if strings.HasPrefix(name, SSOPrefix) {
		return fmt.Errorf("api_key %q: names that begin with %s are those of users that another server signed in", name, SSOPrefix)
	}
	return nil
}

// Visitor is an API key with a role, as the console sees it.
type Visitor struct {
	Workspace, Key string
	Role           Role
	Loopback       bool   // the role counts for visitors of this machine alone
	From           string // the address that a request of the visitor's came from
}

// SignIn returns the visitor of a valid key with a role.
func (g *Gateway) SignIn(key string, now time.Time) (Visitor, bool) {
	if !wire.LegalToken(key) {
		return Visitor{}, false
	}
	return g.keys.authenticate(key, now).visitor()
}

// visitor returns the visitor that a key makes, which may be nil.
func (p *principal) visitor() (Visitor, bool) {
	if p == nil || p.Role == RoleNone {
		return Visitor{}, false
	}
	return Visitor{Workspace: p.workspace.Name, Key: p.name, Role: p.Role, Loopback: p.Loopback}, true
}
