package gateway_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/secret"
)

// withAccess gives the keys that tests have access, by their names.
func withAccess(access map[string]gw.Access) setting {
	return with(func(c *gw.WorkspaceConfig) {
		for i := range c.APIKeys {
			c.APIKeys[i].Access = access[c.APIKeys[i].Name]
		}
	})
}

// TestConsoleKeysOpenNoRoute checks each route, in the words of its API, and that a key of
// the console that says app too opens all of them.
func TestConsoleKeysOpenNoRoute(t *testing.T) {
	t.Parallel()
	const both = "cadenza-app-key-0003"
	g := startGateway(t, workspace, withWorkspace("more", map[string]string{"console": otherKey, "both": both}),
		withAccess(map[string]gw.Access{"console": {Role: gw.RoleAdmin}, "both": {Role: gw.RoleViewer, App: true}}))
	fill := strings.NewReplacer("{trace_id}", "0193c1a0-7b00-8223-a456-0123456789ab", "{model}", "chat")
	for _, route := range gw.Routes() {
		method, path, _ := strings.Cut(fill.Replace(route), " ")
		if path == gw.FlagEventsPath {
			continue // it takes a token in place of a key
		}
		headers := []http.Header{bearer(otherKey)}
		anthropic := strings.HasPrefix(path, "/v1/messages")
		if anthropic || strings.HasPrefix(path, "/v1/models") {
			headers = append(headers, anthropicHeader(otherKey))
		}
		for i, header := range headers {
			a := g.do(method, path, `{`, header)
			if anthropic || i == 1 {
				checkMessagesError(t, a, http.StatusForbidden, "permission_error", "key_not_allowed", "")
			} else if a.status != http.StatusForbidden {
				t.Errorf("%s: %d %s", route, a.status, a.body)
			} else {
				checkError(t, a, "key_not_allowed", "")
			}
			if !strings.Contains(string(a.body), "Add app to its block") {
				t.Errorf("%s: %s", route, a.body)
			}
		}
		if a := g.do(method, path, `{`, bearer(both)); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
			t.Errorf("%s with app: %d %s", route, a.status, a.body)
		}
	}
}

// TestSessionsOutliveTheGateway checks that a session survives a reload and a restart,
// which reads the key of sessions from the store.
func TestSessionsOutliveTheGateway(t *testing.T) {
	t.Parallel()
	settings := []setting{withWorkspace("more", map[string]string{"console": otherKey}), withAccess(map[string]gw.Access{"console": {Role: gw.RoleEditor}})}
	g := startGateway(t, workspace, settings...)
	now := time.Now()
	visitor, ok := g.current.Load().SignIn(otherKey, now)
	sealed, sealedOK := g.current.Load().NewSession(visitor, now.Add(time.Hour))
	if !ok || !sealedOK || visitor != (gw.Visitor{Workspace: "more", Key: "console", Role: gw.RoleEditor}) {
		t.Fatalf("%+v, %t, %t", visitor, ok, sealedOK)
	}
	check := func(after string, want bool) {
		t.Helper()
		if v, ok := g.current.Load().Session(sealed, now); ok != want || want && v != visitor {
			t.Errorf("after %s: %+v, %t", after, v, ok)
		}
	}
	check("nothing", true)
	g.load(settings...)
	check("a reload", true)
	g.restart(settings...)
	check("a restart", true)
	key := func(c *gw.WorkspaceConfig) {
		c.TraceKey = secret.Reference("{file." + filepath.Join(g.dir, "trace.key") + "}")
	}
	g.write("trace.key", "8f41c07be2d95a36f1")
	g.load(append(settings, with(key))...)
	eventually(t, "the store's key is the former one", func() bool { _, ok := g.current.Load().Session(sealed, now); return ok })
	g.load(settings[0])
	check("a configuration without the role", false)
}
