package caddymodule_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const otherKey = "cadenza-other-key-0002"

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func TestWorkspacesAreApart(t *testing.T) {
	files := map[string]string{
		"other/remoteconfigs/checkout.yaml": "type: string\ndefault: theirs\n",
		"other/remoteconfigs/secret.yaml":   "type: string\ndefault: theirs alone\n",
	}
	for name, content := range workspace {
		files[name] = content
	}
	t.Setenv("CADENZA_OTHER_KEY", otherKey)
	g := startGateway(t, files, options+`
		workspace other {
			definitions {dir}/other
			store sqlite {dir}/data/cadenza.db
			api_key app {env.CADENZA_OTHER_KEY}
		}
	`)
	ours := g.do("POST", "/v1/remoteconfigs", `{"keys":["checkout","secret"]}`, bearer(testKey))
	theirs := g.do("POST", "/v1/remoteconfigs", `{"keys":["checkout","secret"]}`, bearer(otherKey))
	if len(ours.json(t)) != 1 || ours.json(t)["checkout"].(map[string]any)["value"] != false {
		t.Errorf("ours: %s", ours.body)
	}
	if len(theirs.json(t)) != 2 || theirs.json(t)["checkout"].(map[string]any)["value"] != "theirs" {
		t.Errorf("theirs: %s", theirs.body)
	}
	// A trace id of one is invalid for the other, although they share a store.
	id := ours.header.Get("Cadenza-Trace-Id")
	record := `{"trace_id":"` + id + `","metadata":{"a":1}}`
	if a := g.do("POST", "/v1/metrics", record, bearer(otherKey)); a.status != http.StatusNotFound {
		t.Errorf("their key on our trace: %d %s", a.status, a.body)
	}
	g.do("POST", "/v1/metrics", record, bearer(testKey)).ok(t, "our key on our trace")
	// Endpoints of one do not exist for the other.
	if a := g.do("POST", "/v1/endpoints", `{"key":"chat",`+question+`}`, bearer(otherKey)); a.status != http.StatusNotFound {
		t.Errorf("their key on our endpoint: %d %s", a.status, a.body)
	}
}

func TestKeySelectsOneWorkspace(t *testing.T) {
	g := startGateway(t, workspace, options)
	err := g.load(options + `
		workspace other {
			definitions {dir}/definitions
			api_key same {env.CADENZA_TEST_KEY}
			provider canned
			` + keylessFake + `
		}
	`)
	if err == nil || !strings.Contains(err.Error(), "a key selects one workspace") {
		t.Errorf("a key of two workspaces: %v", err)
	}
}

func TestKeysFileIsFollowed(t *testing.T) {
	entry := func(name, key string, notAfter time.Time) map[string]any {
		sum := sha256.Sum256([]byte(key))
		e := map[string]any{"name": name, "sha256": hex.EncodeToString(sum[:])}
		if !notAfter.IsZero() {
			e["not_after"] = notAfter
		}
		return e
	}
	list := func(entries ...map[string]any) string {
		text, err := json.Marshal(entries)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	files := map[string]string{"keys.json": list(entry("first", otherKey, time.Time{}))}
	for name, content := range workspace {
		files[name] = content
	}
	g := startGateway(t, files, options+"keys {dir}/keys.json\n")
	status := func(key string) int {
		return g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(key)).status
	}
	if status(testKey) != 200 || status(otherKey) != 200 {
		t.Fatal("not both keys are valid")
	}
	// The digest itself is no key.
	sum := sha256.Sum256([]byte(otherKey))
	if got := status(hex.EncodeToString(sum[:])); got != http.StatusUnauthorized {
		t.Errorf("the digest as a key: %d", got)
	}
	const third, expired = "cadenza-third-key-0003", "cadenza-expired-key-04"
	g.write("keys.json", list(entry("third", third, time.Now().Add(time.Hour)), entry("expired", expired, time.Now().Add(-time.Hour))))
	eventually(t, "the new keys are valid", func() bool { return status(third) == 200 })
	if status(otherKey) != http.StatusUnauthorized {
		t.Error("a revoked key is still valid")
	}
	if status(expired) != http.StatusUnauthorized {
		t.Error("an expired key is valid")
	}
	g.write("keys.json", `[{"name":"third"}]`)
	eventually(t, "the invalid file is reported", func() bool {
		logs, err := os.ReadFile(g.logs)
		return err == nil && strings.Contains(string(logs), "the keys file can't be used")
	})
	if status(third) != 200 || status(testKey) != 200 {
		t.Error("an invalid keys file took keys away")
	}
}

func TestStoreThatCannotBeOpened(t *testing.T) {
	g := startGateway(t, workspace, options)
	// A directory at the path of the file.
	blocked := filepath.Join(g.dir, "blocked", "cadenza.db")
	if err := os.MkdirAll(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.load(strings.Replace(options, "data/cadenza.db", "blocked/cadenza.db", 1)); err != nil {
		t.Fatalf("a store that can't be opened stops the gateway: %v", err)
	}
	a := g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "prompts")
	id := a.header.Get("Cadenza-Trace-Id")
	g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).ok(t, "remote configurations")
	g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t, "endpoints")
	record := `{"trace_id":"` + id + `","score":3}`
	a = g.post("/v1/metrics", record)
	if a.status != http.StatusServiceUnavailable {
		t.Errorf("metrics: %d %s", a.status, a.body)
	}
	checkError(t, a, "store_unavailable", "")
	// The outage has one line; lines of callers would hide it.
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	outages := 0
	for line := range strings.Lines(string(logs)) {
		// The store of the previous gateway may write here until it is closed.
		if strings.Contains(line, "traces and metrics are not stored; trying again") && strings.Contains(line, "blocked") {
			outages++
		}
		if strings.Contains(line, "a metrics record could not be stored") && !strings.HasPrefix(line, `{"level":"debug"`) {
			t.Errorf("the log has %s", line)
		}
	}
	if outages != 1 {
		t.Errorf("the log has the outage %d times", outages)
	}

	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	// The trace was made with the temporary key, and is still valid.
	eventually(t, "metrics are taken once the store can be opened", func() bool {
		return g.post("/v1/metrics", record).status == http.StatusOK
	})
	eventually(t, "the trace that waited is stored", func() bool {
		_, ok := g.trace("blocked/cadenza.db", id)
		return ok
	})
}
