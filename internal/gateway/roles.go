package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Access is what an API key opens: the routes of apps, the console or both.
type Access struct {
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
	}
	return nil
}

// forApps reports whether the key opens the routes of apps.
func (a *Access) forApps() bool { return a.Role == RoleNone || a.App }

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
