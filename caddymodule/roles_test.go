package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

const (
	opsKey = "cadenza-test-key-of-ops-1"
	minKey = "cadenza-test-key-of-min-1"
)

// console are options with a key of the console, a key that also calls, and a keys file.
const console = options + `
	api_key ops {env.CADENZA_TEST_OPS} {
		role admin loopback
	}
	api_key both {env.CADENZA_TEST_BOTH} {
		app
		role viewer
	}
	keys {dir}/keys.json
`

// startConsole starts a gateway with the options console.
func startConsole(t *testing.T) *gateway {
	t.Helper()
	t.Setenv("CADENZA_TEST_OPS", opsKey)
	t.Setenv("CADENZA_TEST_BOTH", otherKey)
	files := single()
	files["keys.json"] = keyList(keyOf("mo", minKey, `,"role":"editor"`))
	return startGateway(t, files, console)
}

// consoleApp returns the running app.
func consoleApp(t *testing.T) *caddymodule.App {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddymodule.App)
}

// TestConsoleKeysCallNothing checks through Caddy that a key with a role is refused by each
// API in its own words unless it says app.
func TestConsoleKeysCallNothing(t *testing.T) {
	g := startConsole(t)
	const openai = `"type":"permission_error","param":null,"code":"key_not_allowed"`
	const anthropic = `"error":{"type":"permission_error","message":"This API key opens the console alone. Add app to its block`
	for _, call := range []struct{ method, path, header, body, want string }{
		{"POST", "/v1/prompts", "", `{"keys":["hello"]}`, openai},
		{"POST", "/v1/endpoints", "", `{"key":"chat",` + question + `}`, openai},
		{"POST", "/v1/chat/completions", "", `{"model":"chat"}`, openai},
		{"POST", "/v1/responses", "", `{"model":"chat"}`, openai},
		{"POST", "/v1/messages", "X-Api-Key", `{"model":"chat"}`, anthropic},
		{"POST", "/v1/metrics", "", `{"trace_id":"x","score":1}`, openai},
		{"GET", "/v1/models", "", "", openai},
		{"GET", "/v1/models", "X-Api-Key", "", anthropic},
	} {
		ask := func(key string) answer {
			header := bearer(key)
			if call.header != "" {
				header = http.Header{call.header: {key}, "Anthropic-Version": {"2023-06-01"}}
			}
			return g.do(call.method, call.path, call.body, header)
		}
		for _, key := range []string{opsKey, minKey} {
			if a := ask(key); a.status != http.StatusForbidden || !strings.Contains(string(a.body), call.want) {
				t.Errorf("%s %s: %d %s", call.path, call.header, a.status, a.body)
			}
		}
		for _, key := range []string{otherKey, testKey} {
			if a := ask(key); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
				t.Errorf("%s %s by a key of an app: %d %s", call.path, call.header, a.status, a.body)
			}
		}
	}
	g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(otherKey)).ok(t, "a key with a role and app")
}

// TestSessionsThroughCaddy checks that sessions survive a reload and a stop of Caddy, and
// follow the keys file.
func TestSessionsThroughCaddy(t *testing.T) {
	g := startConsole(t)
	now := time.Now()
	sessions := make(map[string]string) // by the API key
	for key, want := range map[string]gw.Visitor{
		opsKey:   {Workspace: "default", Key: "ops", Role: gw.RoleAdmin, Loopback: true},
		otherKey: {Workspace: "default", Key: "both", Role: gw.RoleViewer},
		minKey:   {Workspace: "default", Key: "mo", Role: gw.RoleEditor},
		testKey:  {},
	} {
		v, ok := consoleApp(t).SignIn(key, now)
		if v != want || ok != (want.Key != "") {
			t.Errorf("%+v, %t, want %+v", v, ok, want)
		}
		if sessions[key], ok = consoleApp(t).NewSession(v, now.Add(time.Hour)); ok != (want.Key != "") {
			t.Errorf("%+v: a session: %t", v, ok)
		}
	}
	role := func(key string) gw.Role {
		v, _ := consoleApp(t).Session(sessions[key], time.Now())
		return v.Role
	}
	check := func(step string) {
		t.Helper()
		if got := role(opsKey) + " " + role(otherKey) + " " + role(minKey); got != "admin viewer editor" {
			t.Errorf("%s: the roles %s", step, got)
		}
	}
	check("at first")
	if err := g.load(console + "max_body_size 2MiB\n"); err != nil {
		t.Fatal(err)
	}
	check("after a reload")
	if err := g.reload(caddy.Stop); err != nil {
		t.Fatal(err)
	}
	if err := g.load(console); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store gives the key of sessions", func() bool { return role(opsKey) != "" })
	check("after a restart")

	g.write("keys.json", keyList(keyOf("mo", minKey, `,"role":"viewer"`)))
	eventually(t, "the role is lower", func() bool { return role(minKey) == gw.RoleViewer })
	g.write("keys.json", keyList(keyOf("mo", minKey, `,"role":"vewer"`)))
	eventually(t, "the mistake is reported", g.said(`did you mean \"viewer\"?`))
	if role(minKey) != gw.RoleViewer {
		t.Error("a mistake takes a role away")
	}
	g.write("keys.json", keyList(keyOf("mo", minKey, "")))
	eventually(t, "the role is gone", func() bool { return role(minKey) == "" })
	g.write("keys.json", keyList(keyOf("mo", minKey, `,"role":"admin"`), keyOf("leaked", opsKey, `,"revoked":true`)))
	eventually(t, "a key of the configuration is revoked", func() bool { return role(opsKey) == "" })
	if role(minKey) != gw.RoleAdmin {
		t.Errorf("the other key is %q", role(minKey))
	}
}

// TestRolesInTheConfiguration checks what is wrong with blocks of API keys.
func TestRolesInTheConfiguration(t *testing.T) {
	g := startGateway(t, workspace, options)
	const block = "api_key ops {env.CADENZA_TEST_OPS} {\nBLOCK\n}\n"
	t.Setenv("CADENZA_TEST_OPS", opsKey)
	for _, c := range []struct{ block, want string }{
		{"role amdin", `api_key ops: unrecognized role "amdin", did you mean "admin"?`},
		{"role owner", `unrecognized role "owner", known: viewer, editor, admin`},
		{`role ""`, "role takes viewer, editor or admin"},
		{"role", "role takes viewer, editor or admin"},
		{"role admin loopback app", "role takes viewer, editor or admin"},
		{"role admin lopback", `unrecognized word after the role "lopback", did you mean "loopback"?`},
		{"role admin\nrole viewer", "role is configured twice for api_key ops"},
		{"app", "api_key ops: app belongs to a key with a role"},
		{"role admin\napp yes", "app takes no argument"},
		{"loopback", `unrecognized option of an API key "loopback"`},
	} {
		if err := g.load(options + strings.Replace(block, "BLOCK", c.block, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.block, err, c.want)
		}
	}
	for member, want := range map[string]string{
		`"role":"Admin"`:                  `api_key test: unrecognized role "Admin"`,
		`"loopback":true`:                 "api_key test: loopback is about a role",
		`"app":true`:                      "api_key test: app belongs to a key with a role",
		`"role":"viewer","roles":"admin"`: `unknown field "roles"`,
	} {
		if err := g.loadJSON(options, `"name":"test"`, `"name":"test",`+member); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", member, err, want)
		}
	}
	if err := g.loadJSON(options, `"name":"test"`, `"name":"test","role":"viewer","loopback":true,"app":true`); err != nil {
		t.Error(err)
	}
}
