package caddymodule_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// keyOf returns an entry of a keys file.
func keyOf(name, key, more string) string {
	return fmt.Sprintf(`{"name":%q,"sha256":"%x"%s}`, name, sha256.Sum256([]byte(key)), more)
}

func keyList(entries ...string) string { return "[" + strings.Join(entries, ",") + "]" }

// said returns a function that reports whether the log contains a text.
func (g *gateway) said(part string) func() bool {
	return func() bool {
		logs, err := os.ReadFile(g.logs)
		return err == nil && strings.Contains(string(logs), part)
	}
}

// keysValid reports whether the metric of a workspace's keys has a value.
func (g *gateway) keysValid(workspace string, value int) bool {
	return strings.Contains(g.scrape(), fmt.Sprintf("cadenza_keys_valid{workspace=%q} %d\n", workspace, value))
}

// TestKeyOfAnotherWorkspace lists the digest of one workspace's key in another
// workspace's file, which can't get the key, freeze it, or keep it alive.
func TestKeyOfAnotherWorkspace(t *testing.T) {
	const (
		ours, ours2  = "cadenza-key-of-alpha-01", "cadenza-key-of-alpha-02"
		theirs, leak = "cadenza-key-of-beta-001", "cadenza-key-of-beta-002"
	)
	files := map[string]string{
		"alpha/remoteconfigs/who.yaml": "type: string\ndefault: alpha\n",
		"beta/remoteconfigs/who.yaml":  "type: string\ndefault: beta\n",
		"alpha.json":                   keyList(keyOf("app", ours, "")),
		"beta.json":                    keyList(keyOf("app", theirs, ""), keyOf("leaked", leak, "")),
	}
	config := ""
	for _, name := range []string{"alpha", "beta"} {
		config += "workspace " + name + " {\ndefinitions {dir}/" + name + "\nstore sqlite {dir}/" + name + ".db\nkeys {dir}/" + name + ".json\n}\n"
	}
	g := startGateway(t, files, config)
	g.site(config, observed)
	who := func(key string) string {
		a := g.do("POST", "/v1/remoteconfigs", `{"keys":["who"]}`, bearer(key))
		if a.status != http.StatusOK {
			return fmt.Sprint(a.status)
		}
		return a.json(t)["who"].(map[string]any)["value"].(string)
	}
	check := func(key, want string) {
		t.Helper()
		if got := who(key); got != want {
			t.Errorf("%s is of %s, want %s", key, got, want)
		}
	}
	check(ours, "alpha")
	check(leak, "beta")
	if !g.keysValid("alpha", 1) || !g.keysValid("beta", 1) {
		t.Error("good keys files are not valid")
	}

	g.write("alpha.json", keyList(keyOf("stolen", leak, ""), keyOf("app", ours2, "")))
	eventually(t, "the other entry of the file is used", func() bool { return who(ours2) == "alpha" })
	check(ours, "401")
	check(leak, "beta")
	eventually(t, "the clash is reported", g.said(`is the key \"leaked\" of workspace beta`))
	if !g.keysValid("alpha", 0) || !g.keysValid("beta", 1) {
		t.Error("not alpha's keys alone are invalid")
	}
	// A reload of Caddy, which reads both files again, does not change the owner.
	g.site(config, observed)
	check(leak, "beta")
	check(ours2, "alpha")
	if !g.keysValid("alpha", 0) {
		t.Error("the reload forgot that alpha's keys are invalid")
	}

	g.write("beta.json", keyList(keyOf("app", theirs, "")))
	eventually(t, "the leaked key is revoked", func() bool { return who(leak) == "401" })
	// Edits of beta's file do not activate it again, only an edit of alpha's.
	const further = "cadenza-key-of-beta-003"
	g.write("beta.json", keyList(keyOf("app", theirs, ""), keyOf("further", further, "")))
	eventually(t, "another edit is used", func() bool { return who(further) == "beta" })
	check(leak, "401")
	check(ours2, "alpha")

	if logs, err := os.ReadFile(g.logs); err != nil || regexp.MustCompile(`[0-9a-f]{64}`).Match(logs) {
		t.Errorf("the log shows a digest, %v", err)
	}
}

// TestKeysFileThatIsRefused checks that the last list stays, and that this is logged.
func TestKeysFileThatIsRefused(t *testing.T) {
	files := single()
	files["keys.json"] = keyList(keyOf("listed", otherKey, ""))
	config := sharing(t, map[string]string{"refusing": "store sqlite {dir}/data/cadenza.db\nkeys {dir}/keys.json\n"}, "refusing")
	const inline = "cadenza-test-key-of-refusing"
	g := startGateway(t, files, config)
	g.site(config, observed)
	status := func(key string) int { return g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(key)).status }
	path := filepath.Join(g.dir, "keys.json")
	good := keyList(keyOf("next", "cadenza-test-key-0009", ""))
	for _, test := range []struct{ name, content, want string }{
		{"an empty list", `[]`, "lists no key"},
		{"null", `null`, "must be a list"},
		{"nothing", ``, "the file is empty"},
		{"something behind it", good + "]", "after the end of the value"},
		{"another case", strings.Replace(good, "name", "Name", 1), `did you mean \"name\"?`},
		{"an unknown member", keyList(keyOf("next", "cadenza-test-key-0009", `,"not_aftr":"2030-01-01T00:00:00Z"`)), `did you mean \"not_after\"?`},
		{"a key of this workspace under a second name alone", keyList(keyOf("again", inline, "")), "no usable key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g.write("keys.json", test.content)
			eventually(t, "it is reported", g.said(test.want))
			if got := status(otherKey); got != http.StatusOK {
				t.Errorf("the last key: %d", got)
			}
			if !g.keysValid("refusing", 0) {
				t.Error("the metric says that the keys are valid")
			}
		})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file is reported", g.said("no such file"))
	if got := status(otherKey); got != http.StatusOK {
		t.Errorf("the last key without the file: %d", got)
	}
	// A reload of Caddy is no restart, so the last list stays.
	g.site(config, observed)
	if got := status(otherKey); got != http.StatusOK || !g.keysValid("refusing", 0) {
		t.Errorf("the last key after a reload: %d", got)
	}
	g.write("keys.json", good)
	eventually(t, "the mended file is used", func() bool { return status("cadenza-test-key-0009") == http.StatusOK })
	if status(otherKey) != http.StatusUnauthorized {
		t.Error("a key that is listed no longer is valid")
	}
	eventually(t, "the metric says so", func() bool { return g.keysValid("refusing", 1) })

	// The last key, and one of the configuration.
	g.write("keys.json", keyList(keyOf("next", "cadenza-test-key-0009", `,"revoked":true`), keyOf("test", inline, `,"revoked":true`)))
	eventually(t, "the last key is revoked", func() bool { return status("cadenza-test-key-0009") == http.StatusUnauthorized })
	if status(inline) != http.StatusUnauthorized {
		t.Error("a key of the configuration outlives its revocation")
	}
	eventually(t, "the metric says so", func() bool { return g.keysValid("refusing", 0) })
	eventually(t, "it is reported", g.said(`"the keys file has no usable key, those of its last list that it does not revoke stay valid"`))
	// A gateway starts with it, and refuses all callers.
	g.site(config, observed)
	if status(inline) != http.StatusUnauthorized {
		t.Error("a reload of Caddy takes the revocation back")
	}
}

// TestKeysFileAtStart checks that an unusable file fails a start, which has no last list.
func TestKeysFileAtStart(t *testing.T) {
	files := map[string]string{
		"empty.json": `[]`, "broken.json": `[`, "clash.json": keyList(keyOf("again", testKey, "")),
		"revoked.json": keyList(keyOf("old", otherKey, `,"revoked":true`)),
	}
	maps.Copy(files, workspace)
	g := startGateway(t, files, options)
	for name, want := range map[string]string{"empty": "lists no key", "broken": "invalid JSON", "missing": "there is no file"} {
		if err := g.load(options + "keys {dir}/" + name + ".json\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	// A file whose keys are all refused does not stop other workspaces.
	if err := g.load(options + "keys {dir}/clash.json\n"); err != nil {
		t.Error(err)
	}
	eventually(t, "the refused key is logged", g.said(`\"again\" of workspace default is the key \"test\" once more`))
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "beside a refused key")
	if err := g.load(strings.Replace(options, "api_key test {env.CADENZA_TEST_KEY}", "keys {dir}/revoked.json", 1)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{testKey, otherKey} {
		if a := g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(key)); a.status != http.StatusUnauthorized {
			t.Errorf("with revoked keys alone: %d", a.status)
		}
	}
}
