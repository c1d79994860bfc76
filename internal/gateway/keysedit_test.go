package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// sha returns the member sha256 of an entry.
func sha(n int) string { return `"sha256": "` + strings.Repeat(fmt.Sprintf("%02x", n), 32) + `"` }

func TestEditKeysFile(t *testing.T) {
	const made = `{"name":"new","sha256":"` + "0909090909090909090909090909090909090909090909090909090909090909" + `","role":"viewer","loopback":true}`
	entry := &KeyEntry{Name: "new", SHA256: strings.Repeat("09", 32), Access: Access{Role: RoleViewer, Loopback: true}}
	a, b := `{"name": "a", `+sha(1)+`}`, `{"name": "b", `+sha(2)+`, "context": {"revoked": "false"}, "revoked" :  false, "role": "admin" }`
	for name, test := range map[string]struct {
		file, want string
		edit       func([]byte) ([]byte, error)
	}{
		"add":               {"[\n\t" + a + "\n]\n", "[\n\t" + a + ",\n\t" + made + "\n]\n", nil},
		"add behind a BOM":  {"\ufeff [" + a + ", " + b + "  ] ", "\ufeff [" + a + ", " + b + ",\n\t" + made + "  ] ", nil},
		"add a name twice":  {`[{"name": "new", ` + sha(1) + `}]`, "", nil},
		"add once revoked":  {`[{"name": "new", ` + sha(1) + `, "revoked": true}]`, `[{"name": "new", ` + sha(1) + `, "revoked": true},` + "\n\t" + made + `]`, nil},
		"add to no list":    {`{}`, "", nil},
		"add to a mistake":  {"[" + a + `, {"name": "b"}]`, "", nil},
		"revoke":            {"[" + a + ",\n" + b + "]", "[" + strings.TrimSuffix(a, "}") + `, "revoked": true},` + "\n" + b + "]", revoke("a")},
		"revoke at its end": {"[\r\n{\r\n\t\"name\": \"a\",\r\n\t" + sha(1) + "\r\n}]", "[\r\n{\r\n\t\"name\": \"a\",\r\n\t" + sha(1) + ", \"revoked\": true\r\n}]", revoke("a")},
		"revoke false":      {"[" + a + ",\n" + b + "]", "[" + a + ",\n" + strings.Replace(b, ":  false", ":  true", 1) + "]", revoke("b")},
		"revoke twice":      {`[{"name": "a", ` + sha(1) + `, "revoked": true}]`, "", revoke("a")},
		"revoke nobody":     {"[" + a + "]", "", revoke("x")},
		"revoke all of a name": {`[{"name": "a", ` + sha(1) + `},{"name": "a", ` + sha(3) + `}]`,
			`[{"name": "a", ` + sha(1) + `, "revoked": true},{"name": "a", ` + sha(3) + `, "revoked": true}]`, revoke("a")},
	} {
		edit := test.edit
		if edit == nil {
			edit = func(file []byte) ([]byte, error) { return AddKey(file, entry) }
		}
		before := []byte(test.file)
		after, err := edit(before)
		if string(after) != test.want && err == nil || (err != nil) != (test.want == "") || string(before) != test.file {
			t.Errorf("%s: %v\n%q, want\n%q", name, err, after, test.want)
		}
		if noKey := name == "revoke twice" || name == "revoke nobody"; errors.Is(err, ErrNoKey) != noKey {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func revoke(name string) func([]byte) ([]byte, error) {
	return func(file []byte) ([]byte, error) { return RevokeKey(file, name) }
}

// FuzzEditKeysFile edits files as others may write them. An edit that is not refused leaves a
// file with the keys that it should have.
func FuzzEditKeysFile(f *testing.F) {
	f.Add([]byte(`[{"name": "a", ` + sha(1) + `, "not_after": null, "context": {"a": "b"}}, {"name": "b", ` + sha(2) + `, "revoked": false}]`))
	f.Add([]byte("\ufeff[{\"n\\u0061me\": \"a\", " + sha(1) + "}]"))
	f.Fuzz(func(t *testing.T, file []byte) {
		before, err := parseKeys("f", file)
		if err != nil {
			return
		}
		added, err := AddKey(file, &KeyEntry{Name: "new", SHA256: strings.Repeat("09", 32)})
		if err == nil {
			if keys, err := parseKeys("f", added); err != nil || len(keys) != len(before)+1 || !strings.HasPrefix(string(added), string(file[:1])) {
				t.Errorf("%q became %q: %v", file, added, err)
			}
		}
		revoked, err := RevokeKey(file, before[0].name)
		if err == nil {
			if keys, err := parseKeys("f", revoked); err != nil || len(keys) != len(before) || !keys[0].revoked {
				t.Errorf("%q became %q: %v", file, revoked, err)
			}
		}
	})
}

func TestMakeKey(t *testing.T) {
	key, entry, err := MakeKey("a", Access{Role: RoleAdmin})
	if err != nil || entry.SHA256 != fmt.Sprintf("%x", digestOf(key)) || !strings.HasPrefix(key, KeyPrefix) {
		t.Errorf("%s, %+v, %v", key, entry, err)
	}
	for _, name := range []string{"", strings.Repeat("a", 257), "sso:ada"} {
		if _, _, err := MakeKey(name, Access{}); err == nil {
			t.Errorf("a key with the name %q", name)
		}
	}
	if _, _, err := MakeKey("a", Access{Loopback: true}); err == nil {
		t.Error("a key with loopback and no role")
	}
}

// TestUses notes uses by the minute, of valid keys alone.
func TestUses(t *testing.T) {
	g := consoleKeys(t, consoleFile)
	g.workspaces["a"].gateway = g
	used := func(name string) time.Time {
		for _, key := range g.workspaces["a"].Keys() {
			if key.Name == name {
				return key.LastUsed
			}
		}
		t.Fatalf("no key %s", name)
		return time.Time{}
	}
	if at := used("ops"); !at.IsZero() {
		t.Errorf("used at %s", at)
	}
	began := time.Now().Truncate(time.Minute)
	g.SignIn(adminKey, began.Add(59*time.Second))
	g.SignIn(key3, began)
	if at := used("ops"); !at.Equal(began) || !used("old").IsZero() {
		t.Errorf("used at %s, the revoked one at %s", at, used("old"))
	}
	g.SignIn(adminKey, began.Add(61*time.Second))
	if at := used("ops"); !at.Equal(began.Add(time.Minute)) {
		t.Errorf("used at %s", at)
	}
	session, _ := g.NewSession(Visitor{Workspace: "a", Key: "ops"}, began.Add(time.Hour))
	g.Session(session, began.Add(5*time.Minute))
	if at := used("ops"); !at.Equal(began.Add(5 * time.Minute)) {
		t.Errorf("the session was used at %s", at)
	}
}
