package gateway

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

func TestRolesCover(t *testing.T) {
	all := []Role{RoleNone, RoleViewer, RoleEditor, RoleAdmin, "owner"}
	covers := map[Role]string{RoleViewer: "viewer", RoleEditor: "viewer editor", RoleAdmin: "viewer editor admin"}
	for _, r := range all {
		for _, least := range all {
			want := least != RoleNone && strings.Contains(covers[r], string(least))
			if got := r.Covers(least); got != want {
				t.Errorf("%q covers %q: %t", r, least, got)
			}
		}
	}
}

// consoleKeys makes a gateway whose workspaces a and b have the given keys, under trace
// keys of their own.
func consoleKeys(t *testing.T, listed map[string][]fileKey) *Gateway {
	t.Helper()
	r := ring(listed, nil)
	if _, err := r.begin(r.workspaces); err != nil {
		t.Fatal(err)
	}
	g := &Gateway{workspaces: r.workspaces}
	g.keys.held = r.held
	g.keys.swap()
	for name, w := range r.workspaces {
		w.setIDs([]byte("trace key of workspace "+name), nil)
	}
	return g
}

// opens returns an entry of a key with the given access.
func opens(k fileKey, a Access) fileKey {
	k.Access = a
	return k
}

const (
	adminKey  = "console-key-admin-01"
	viewerKey = "console-key-viewer-1"
)

var consoleFile = map[string][]fileKey{
	"a": {entry("app", key1), opens(entry("ops", adminKey), Access{Role: RoleAdmin, Loopback: true, App: true}), opens(entry("-old", key3), Access{Role: RoleAdmin})},
	"b": {opens(entry("ops", viewerKey), Access{Role: RoleViewer})},
}

func TestSignIn(t *testing.T) {
	now := time.Now()
	late := opens(entry("late", key2), Access{Role: RoleEditor})
	late.notAfter = now
	listed := map[string][]fileKey{"a": append([]fileKey{late}, consoleFile["a"]...), "b": consoleFile["b"]}
	g := consoleKeys(t, listed)
	for _, test := range []struct {
		key  string
		now  time.Time
		want Visitor
	}{
		{adminKey, now, Visitor{"a", "ops", RoleAdmin, true, ""}},
		{viewerKey, now, Visitor{"b", "ops", RoleViewer, false, ""}},
		{key2, now, Visitor{"a", "late", RoleEditor, false, ""}},
		{key2, now.Add(time.Second), Visitor{}},
		{key1, now, Visitor{}}, // has no role
		{key3, now, Visitor{}}, // is revoked
		{"console-key-nobody-1", now, Visitor{}},
		{"", now, Visitor{}},
		{adminKey + "\n", now, Visitor{}},
		{strings.Repeat("k", wire.MaxTokenLength+1), now, Visitor{}},
	} {
		if got, ok := g.SignIn(test.key, test.now); got != test.want || ok != (test.want != Visitor{}) {
			t.Errorf("%q: %+v, %t, want %+v", test.key, got, ok, test.want)
		}
	}
	if _, ok := new(Gateway).SignIn(adminKey, now); ok {
		t.Error("a gateway without keys lets a visitor in")
	}
}

// session makes a session of a key for an hour.
func (g *Gateway) session(t *testing.T, key string, now time.Time) string {
	t.Helper()
	v, ok := g.SignIn(key, now)
	if !ok {
		t.Fatalf("%s can't sign in", key)
	}
	sealed, ok := g.NewSession(v, now.Add(time.Hour))
	if !ok {
		t.Fatalf("%+v gets no session", v)
	}
	return sealed
}

// TestSessions checks what ends a session and what does not.
func TestSessions(t *testing.T) {
	now := time.Now()
	as := func(r Role) fileKey { return opens(entry("ops", adminKey), Access{Role: r}) }
	expires := as(RoleAdmin)
	expires.notAfter = now.Add(time.Minute)
	another := opens(entry("ops", key2), Access{Role: RoleAdmin})
	formerly := []byte("another trace key of a")
	admin := Visitor{"a", "ops", RoleAdmin, false, ""}
	for _, test := range []struct {
		name   string
		listed fileKey // afterwards
		after  time.Duration
		change func(a *Workspace)
		want   Visitor
	}{
		{"nothing", as(RoleAdmin), 0, nil, admin},
		{"its last second", as(RoleAdmin), time.Hour - 2*time.Second, nil, admin},
		{"its end", as(RoleAdmin), time.Hour, nil, Visitor{}},
		{"a lower role", as(RoleViewer), 0, nil, Visitor{"a", "ops", RoleViewer, false, ""}},
		{"loopback alone", opens(as(RoleAdmin), Access{Role: RoleAdmin, Loopback: true}), 0, nil, Visitor{"a", "ops", RoleAdmin, true, ""}},
		{"no role", entry("ops", adminKey), 0, nil, Visitor{}},
		{"a revocation", opens(entry("-ops", adminKey), Access{Role: RoleAdmin}), 0, nil, Visitor{}},
		{"before the key expires", expires, time.Minute, nil, admin},
		{"after it expired", expires, time.Minute + time.Second, nil, Visitor{}},
		{"another key of the name", another, 0, nil, Visitor{}},
		{"another name of the key", opens(entry("other", adminKey), Access{Role: RoleAdmin}), 0, nil, Visitor{}},
		{"a new trace key", as(RoleAdmin), 0, func(a *Workspace) { a.setIDs(formerly, nil) }, Visitor{}},
		{"a new trace key beside the former", as(RoleAdmin), 0, func(a *Workspace) { a.setIDs(formerly, []byte("trace key of workspace a")) }, admin},
		{"no start yet", as(RoleAdmin), 0, func(a *Workspace) { a.ids.Store(nil) }, Visitor{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := consoleKeys(t, map[string][]fileKey{"a": {as(RoleAdmin), entry("app", key1)}})
			sealed := g.session(t, adminKey, now)
			a := g.workspaces["a"]
			if _, _, err := g.keys.update(a, []fileKey{test.listed, entry("app", key1)}, now); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(a)
			}
			if got, ok := g.Session(sealed, now.Add(test.after)); got != test.want || ok != (test.want != Visitor{}) {
				t.Errorf("%+v, %t, want %+v", got, ok, test.want)
			}
		})
	}
}

// TestKeptKeysKeepTheirRole checks an edit without a usable key, after which the keys of
// the last list stay.
func TestKeptKeysKeepTheirRole(t *testing.T) {
	g := consoleKeys(t, map[string][]fileKey{"a": {opens(entry("ops", adminKey), Access{Role: RoleAdmin, Loopback: true, App: true}), entry("old", key1)}})
	if _, inUse, err := g.keys.update(g.workspaces["a"], []fileKey{entry("-old", key1)}, time.Now()); err == nil || len(inUse) != 2 {
		t.Fatalf("%v, %v", inUse, err)
	}
	if v, _ := g.SignIn(adminKey, time.Now()); v != (Visitor{"a", "ops", RoleAdmin, true, ""}) || !g.keys.find(adminKey).App {
		t.Errorf("%+v", v)
	}
	states := g.keys.states(g.workspaces["a"], time.Now())
	if len(states) != 2 || states[0] != (KeyState{Name: "old", State: "revoked"}) || states[1] != (KeyState{Name: "ops", State: "valid", Role: RoleAdmin}) {
		t.Errorf("%+v", states)
	}
}

// TestSessionsOfOthers checks that each byte of a session counts, and that a workspace's
// sessions open no other workspace.
func TestSessionsOfOthers(t *testing.T) {
	now := time.Now()
	g := consoleKeys(t, consoleFile)
	sealed := g.session(t, adminKey, now)
	if len(sealed) > 4000 || strings.Trim(sealed, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%q does not go into a cookie", sealed)
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for _, flip := range []byte{1, 3, 0x80} {
			raw[i] ^= flip
			if v, ok := g.Session(base64.RawURLEncoding.EncodeToString(raw), now); ok {
				t.Errorf("byte %d is not sealed: %+v", i, v)
			}
			raw[i] ^= flip
		}
	}
	// The last character has bits that no byte uses.
	for _, text := range []string{"", sealed + "A", sealed[:len(sealed)-1], sealed + "\n", "\r" + sealed, sealed + "=", sealed[:len(sealed)-1] + string(sealed[len(sealed)-1]+1), strings.Repeat("A", 5000)} {
		if v, ok := g.Session(text, now); ok {
			t.Errorf("%.100q opens %+v", text, v)
		}
	}
	// The same trace key and the same API key, but another workspace.
	s := session{now.Add(time.Hour).Unix(), "b", "ops"}
	sum, key := digestOf(viewerKey), newSealKeys([]byte("trace key of workspace b"), "a").sessions
	if _, ok := g.Session(base64.RawURLEncoding.EncodeToString(s.seal(key, sum)), now); ok {
		t.Error("a key of one workspace seals for another")
	}
	key = newSealKeys([]byte("trace key of workspace b"), "b").sessions
	if v, ok := g.Session(base64.RawURLEncoding.EncodeToString(s.seal(key, sum)), now); !ok || v.Workspace != "b" {
		t.Errorf("its own key: %+v, %t", v, ok)
	}
}

// TestNewSessionOfNobody checks visitors that have no key, or no role.
func TestNewSessionOfNobody(t *testing.T) {
	now := time.Now()
	g := consoleKeys(t, consoleFile)
	for _, v := range []Visitor{{}, {"a", "app", RoleAdmin, false, ""}, {"a", "old", RoleAdmin, false, ""}, {"b", "app", RoleViewer, false, ""}, {"c", "ops", RoleAdmin, false, ""}} {
		if sealed, ok := g.NewSession(v, now.Add(time.Hour)); ok {
			t.Errorf("%+v: %s", v, sealed)
		}
	}
	g.workspaces["a"].ids.Store(nil)
	if _, ok := g.NewSession(Visitor{"a", "ops", RoleAdmin, false, ""}, now.Add(time.Hour)); ok {
		t.Error("a session before the start")
	}
}

// TestLongestSession checks names of the largest size.
func TestLongestSession(t *testing.T) {
	name, key := strings.Repeat("w", math.MaxUint8), strings.Repeat("n", wire.MaxKeyName)
	s := session{1 << 40, name, key}
	sealed := base64.RawURLEncoding.EncodeToString(s.seal(make([]byte, 32), digest{}))
	if got, ok := parseSession(sealed); !ok || got != s {
		t.Errorf("%.100q: %t", sealed, ok)
	}
	if _, ok := parseSession(sealed + "AAAA"); ok {
		t.Error("a longer text is read")
	}
}

// FuzzSession checks that no text but a sealed one opens anything, and that a text says
// one thing.
func FuzzSession(f *testing.F) {
	s := session{1 << 40, "a", "ops"}
	f.Add(base64.RawURLEncoding.EncodeToString(s.seal([]byte("key"), digest{})))
	f.Add("")
	f.Add(strings.Repeat("_", 60))
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := parseSession(text)
		if !ok {
			return
		}
		if len(s.workspace) > math.MaxUint8 || len(s.key) > wire.MaxKeyName+math.MaxUint8 {
			t.Errorf("%d and %d bytes", len(s.workspace), len(s.key))
		}
		key := []byte("the key of this test")
		if s.sealedBy(key, digest{}, text) {
			t.Error("it seems sealed")
		}
		sealed := base64.RawURLEncoding.EncodeToString(s.seal(key, digest{}))
		if again, ok := parseSession(sealed); !ok && len(s.key) <= wire.MaxKeyName || ok && again != s {
			t.Errorf("%+v is read as %+v", s, again)
		}
	})
}
