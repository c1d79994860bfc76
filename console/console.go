// Package console has the gateway's pages in the browser: what it does now, what it
// answered and why, what was refused, what is served and what it cost. The pages read the
// same API as the command line, under the role of the API key that signed in.
//
// The build tag cadenza_noconsole leaves the console out.
package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("cadenza_console", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		console := new(Handler)
		return console, console.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("cadenza_console", httpcaddyfile.Before, "respond")
}

// Handler answers requests below `/console/`, and passes all others on. An API key of the
// app `cadenza` that has a role signs in. Its workspace is what the pages show.
//
// In a Caddyfile it is the directive `cadenza_console`, which is ordered before `respond`:
//
//	gateway.example.com {
//		cadenza_console
//		cadenza
//	}
//
// Keys and sessions travel over HTTPS alone. Without it, only browsers on the gateway's own
// machine can sign in, by a loopback address and without a proxy in between. HTTPS that
// ends at one of the server's `trusted_proxies` counts.
type Handler struct {
	// Lets browsers sign in over plain HTTP from anywhere. It is meant for containers
	// whose port is published on a loopback address. Default: false.
	InsecureHTTP bool `json:"insecure_http,omitempty"`

	// How editors save their edits of definitions: `off` (they get a patch to apply),
	// `files` (the file is written, and served at once) or `branch` (a branch is pushed to
	// the git host, and served after its merge). Default: off.
	Edit string `json:"edit,omitempty"`

	// With `files`: commits each edit, that file alone, in the name of the key that signed
	// in. Default: false.
	Commit bool `json:"commit,omitempty"`

	// The placeholder of the user's name, for single sign-on: one of an auth server's answer,
	// such as {http.reverse_proxy.header.Remote-User} after `forward_auth`, or
	// {http.auth.user.id}. Such a user needs no API key.
	TrustedUser string `json:"trusted_user,omitempty"`
	// The placeholder of the user's roles or groups, with commas or spaces between. The
	// greatest role counts.
	TrustedRole string `json:"trusted_role,omitempty"`
	// The roles of groups: "viewer", "editor" or "admin". Default: the groups are the roles.
	RoleOf map[string]gateway.Role `json:"role_of,omitempty"`
	// The workspace of such users. Default: the only one.
	Workspace string `json:"workspace,omitempty"`

	app    app
	kept   keptAnswers
	mux    *http.ServeMux
	logger *zap.Logger
}

// app is the part of the Caddy app "cadenza" that the console uses.
type app interface {
	// SignIn returns the visitor of a valid API key with a role.
	SignIn(key string, now time.Time) (gateway.Visitor, bool)
	// NewSession returns a sealed text that names a visitor's key and an end.
	NewSession(v gateway.Visitor, until time.Time) (string, bool)
	// Session returns the visitor of a sealed text, with the role that its key has now.
	Session(sealed string, now time.Time) (gateway.Visitor, bool)
	// WorkspaceNamed returns the name of a workspace: the only one, if the name is empty.
	WorkspaceNamed(name string) (string, error)
	// ServeConsole has the log's line about the start name a console of a server.
	ServeConsole(server *caddyhttp.Server)
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_console", New: func() caddy.Module { return new(Handler) }}
}

// UnmarshalCaddyfile reads the directive:
//
//	cadenza_console {
//		edit          off|files|branch
//		commit
//		insecure_http
//		trusted_user {http.reverse_proxy.header.Remote-User}
//		trusted_role {http.reverse_proxy.header.Remote-Groups}
//		role_of      <group> viewer | editor | admin
//		workspace    <name>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	var group, role string
	options := map[string][]*string{
		"edit": {&h.Edit}, "commit": {}, "insecure_http": {},
		"trusted_user": {&h.TrustedUser}, "trusted_role": {&h.TrustedRole}, "role_of": {&group, &role}, "workspace": {&h.Workspace},
	}
	for d.NextBlock(0) {
		option := d.Val()
		arguments, known := options[option]
		if !known {
			return d.Errf("there is no option %q of cadenza_console: the options are edit, commit, insecure_http, trusted_user, trusted_role, role_of and workspace", option)
		}
		if !d.Args(arguments...) || d.NextArg() {
			return d.Errf("%s takes %d arguments", option, len(arguments))
		}
		switch option {
		case "insecure_http":
			h.InsecureHTTP = true
		case "commit":
			h.Commit = true
		case "role_of":
			if h.RoleOf == nil {
				h.RoleOf = make(map[string]gateway.Role)
			}
			h.RoleOf[group] = gateway.Role(role)
		}
	}
	return nil
}

// Provision checks the options, and finds the app.
func (h *Handler) Provision(ctx caddy.Context) error {
	switch h.Edit = cmp.Or(h.Edit, "off"); {
	case !slices.Contains([]string{"off", "files", "branch"}, h.Edit):
		return fmt.Errorf("cadenza_console: edit must be off, files or branch, is %q", h.Edit)
	case h.Commit && h.Edit != "files":
		return fmt.Errorf("cadenza_console: commit belongs to edit files, and edit is %s", h.Edit)
	}
	found, err := ctx.App("cadenza")
	if err != nil {
		return err
	}
	var ok bool
	if h.app, ok = found.(app); !ok {
		return fmt.Errorf("the app cadenza is a %T, which has no console", found)
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		h.app.ServeConsole(server)
	}
	h.logger = ctx.Logger()
	h.mux = h.routes()
	return h.provisionSSO()
}

// policy is the Content-Security-Policy of everything that the console serves. The pages
// load scripts and styles from the console alone, and no text is run or put into a page as
// markup but by the policy "console" of console.js.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types console"

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path == "/console" {
		http.Redirect(w, r, "/console/", http.StatusPermanentRedirect)
		return nil
	}
	if !strings.HasPrefix(r.URL.Path, prefix) {
		if r.URL.Path == "/" {
			r = gateway.WithConsole(r)
		}
		return next.ServeHTTP(w, r)
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if err := sameOrigin.Check(r); err != nil {
		http.Error(w, "This request came from another site.", http.StatusForbidden)
		return nil
	}
	h.mux.ServeHTTP(w, r.WithContext(adminapi.WithEditing(r.Context(), adminapi.Editing{Way: h.Edit, Commit: h.Commit})))
	return nil
}

// prefix begins the paths of the console.
const prefix = "/console/"

// sameOrigin refuses requests that change something and come from another site.
var sameOrigin = http.NewCrossOriginProtection()

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
