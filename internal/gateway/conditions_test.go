package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// conditions returns the gateway's conditions, by code and subject.
func (g *gateway) conditions() map[string]gw.Condition {
	found := make(map[string]gw.Condition)
	for _, c := range g.current.Load().Workspace("default").Conditions() {
		found[c.Code+" "+c.Subject] = c
	}
	return found
}

// becomes waits until a condition exists, and checks it.
func (g *gateway) becomes(name string, began time.Time, message string) gw.Condition {
	g.t.Helper()
	eventually(g.t, name, func() bool { _, ok := g.conditions()[name]; return ok })
	c := g.conditions()[name]
	if c.Since.Before(began) || time.Since(c.Since) < 0 || !strings.Contains(c.Message, message) {
		g.t.Errorf("%+v, want it since %s, with %q", c, began, message)
	}
	code, _, _ := strings.Cut(name, " ")
	if want := fmt.Sprintf("cadenza_degraded{condition=%q,workspace=\"default\"} 1\n", code); !strings.Contains(g.scrape(), want) {
		g.t.Errorf("the metrics lack %s", want)
	}
	return c
}

// ends waits until a condition is over.
func (g *gateway) ends(name string) {
	g.t.Helper()
	eventually(g.t, name+" is over", func() bool { _, ok := g.conditions()[name]; return !ok })
}

// keyless is a provider whose key is empty until it is set.
type keyless struct {
	providers.Provider
	set atomic.Bool
}

// staleKey is a provider whose key file became unusable at a time.
type staleKey struct {
	providers.Provider
	since time.Time
}

func (s *staleKey) Stale() (time.Time, error) { return s.since, errors.New("KEY can't be read") }

func (k *keyless) Unavailable() error {
	if k.set.Load() {
		return nil
	}
	return errors.New("KEY is empty")
}

// closedSink is a sink whose destination is unavailable.
type closedSink struct{}

func (closedSink) Resume(context.Context, sinks.Source, trace.Position) (trace.Position, error) {
	return trace.Position{}, errors.New("connection refused")
}
func (closedSink) Deliver(context.Context, *trace.Delivery) error { return nil }
func (closedSink) Shared() bool                                   { return false }
func (closedSink) Close() error                                   { return nil }

// openSink is a sink that accepts everything.
type openSink struct{ closedSink }

func (openSink) Resume(_ context.Context, _ sinks.Source, kept trace.Position) (trace.Position, error) {
	return kept, nil
}

// sound are definitions whose targets all have providers.
func sound() map[string]string {
	files := maps.Clone(workspace)
	for name, content := range files {
		files[name] = strings.ReplaceAll(content, "provider: fake", "provider: canned\n    extra: { echo: true }")
	}
	return files
}

// keyEntries is a keys file that lists the other key under these names.
func keyEntries(names ...string) string {
	var entries []string
	for _, name := range names {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"sha256":"%x"}`, name, sha256.Sum256([]byte(otherKey))))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

// withKeysFile makes the workspace read keys.json.
func withKeysFile(g *gateway, c *gw.Config) {
	c.Workspaces[0].KeysFile = filepath.Join(g.dir, "keys.json")
}

func TestNothingIsDegraded(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	if found := g.conditions(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	metrics := g.scrape()
	for _, code := range []string{
		gw.DefinitionsInvalid, gw.DefinitionsRestored, gw.KeysInvalid, gw.SecretStale, gw.StoreDown, gw.SinkFailing, gw.ProviderUnavailable, gw.TargetDown,
	} {
		if want := fmt.Sprintf("cadenza_degraded{condition=%q,workspace=\"default\"} 0\n", code); !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for kind, count := range map[string]int{"prompt": 2, "endpoint": 1, "remoteconfig": 2} {
		if want := fmt.Sprintf("cadenza_definitions{kind=%q,workspace=\"default\"} %d\n", kind, count); !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestDefinitionsThatAreInvalid(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	began := time.Now()
	g.write("definitions/remoteconfigs/limits.yaml", "type: object\ndefalt: {}\nmore: 1\n")
	first := g.becomes("definitions_invalid definitions", began, `limits.yaml:2:1: unknown member "defalt" in a remote configuration: did you mean "default"? (and 1 more)`)
	g.load(options)
	if again := g.becomes("definitions_invalid definitions", began, ""); !again.Since.Equal(first.Since) {
		t.Errorf("a reload changed since when: %s, then %s", first.Since, again.Since)
	}
	g.write("definitions/remoteconfigs/limits.yaml", workspace["definitions/remoteconfigs/limits.yaml"])
	g.ends("definitions_invalid definitions")
}

// TestDefinitionsThatAreRestored restarts with invalid definitions.
func TestDefinitionsThatAreRestored(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	eventually(t, "what is served is stored", func() bool {
		var count int
		return g.database().QueryRow("SELECT count(*) FROM revisions").Scan(&count) == nil && count > 0
	})
	began := time.Now()
	g.write("definitions/remoteconfigs/limits.yaml", "type: object\ndefalt: {}\n")
	g.restart(options)
	g.becomes("definitions_invalid definitions", began, "limits.yaml")
	restored := g.becomes("definitions_restored definitions", began, "served since ")
	if _, since, _ := strings.Cut(restored.Message, "served since "); !g.said(`"served_since":"` + since + `"`)() {
		t.Errorf("the log does not say that they were served since %s", since)
	}
	g.write("definitions/remoteconfigs/limits.yaml", workspace["definitions/remoteconfigs/limits.yaml"])
	g.ends("definitions_restored definitions")
	g.ends("definitions_invalid definitions")
}

func TestKeysThatAreInvalid(t *testing.T) {
	t.Parallel()
	files := sound()
	files["keys.json"] = keyEntries("listed")
	g := startGateway(t, files, withKeysFile)
	began := time.Now()
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil {
		t.Fatal(err)
	}
	first := g.becomes("keys_invalid keys", began, "no such file")
	g.load(withKeysFile)
	if again := g.becomes("keys_invalid keys", began, "no such file"); !again.Since.Equal(first.Since) {
		t.Errorf("a reload changed since when: %s, then %s", first.Since, again.Since)
	}
	g.write("keys.json", keyEntries("listed", "again"))
	eventually(t, "an entry is refused", func() bool { return strings.Contains(g.conditions()["keys_invalid keys"].Message, `"again"`) })
	if again := g.becomes("keys_invalid keys", began, ""); !again.Since.Equal(first.Since) {
		t.Errorf("another mistake changed since when: %s, then %s", first.Since, again.Since)
	}
	g.load(withKeysFile)
	g.becomes("keys_invalid keys", began, `"again"`)
	g.write("keys.json", keyEntries("listed"))
	g.ends("keys_invalid keys")
}

// TestProvidersThatAreUnavailable has a provider that is not configured, and one
// without a key. Both are conditions only if an endpoint names them.
func TestProvidersThatAreUnavailable(t *testing.T) {
	t.Parallel()
	poor := &keyless{Provider: openaiProvider("http://127.0.0.1:9", openai.Quirks{})}
	g := startGateway(t, sound(), withProvider("poor", poor))
	began := time.Now()
	if found := g.conditions(); len(found) > 0 {
		t.Errorf("a provider that no endpoint names: %+v", found)
	}
	g.write("definitions/endpoints/other.yaml", `
prompt: reply
fallback:
  - { provider: absent, model: m }
  - { provider: poor, model: m }
  - { provider: poor, model: n }
  - { provider: canned, extra: { answer: x } }
`)
	eventually(t, "both are unavailable", func() bool { return len(g.conditions()) == 2 })
	first, absent := g.conditions()["provider_unavailable poor"], g.conditions()["provider_unavailable absent"]
	if first.Since.Before(began) || first.Message != "KEY is empty" || !strings.Contains(absent.Message, "not configured") {
		t.Errorf("%+v and %+v", first, absent)
	}
	if metrics := g.scrape(); !strings.Contains(metrics, `cadenza_degraded{condition="provider_unavailable",workspace="default"} 2`) {
		t.Error("the metric does not count both providers")
	}
	g.load(withProvider("poor", poor), withProvider("absent", poor.Provider))
	g.ends("provider_unavailable absent")
	if again := g.conditions()["provider_unavailable poor"]; !again.Since.Equal(first.Since) {
		t.Errorf("a reload changed since when: %s, then %s", first.Since, again.Since)
	}
	poor.set.Store(true)
	g.ends("provider_unavailable poor")
	poor.set.Store(false)
	if again := g.conditions()["provider_unavailable poor"]; !again.Since.After(first.Since) {
		t.Errorf("the second time begins with the first, %s", again.Since)
	}
}

func TestSecretThatIsStale(t *testing.T) {
	t.Parallel()
	began := time.Now()
	stale := &staleKey{openaiProvider("http://127.0.0.1:9", openai.Quirks{}), began}
	g := startGateway(t, sound(), withProvider("rotating", stale))
	if c := g.becomes("secret_stale rotating", began, "KEY can't be read"); !c.Since.Equal(began) {
		t.Errorf("since %s", c.Since)
	}
}

func TestSinkThatFails(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	began := time.Now()
	g.load(with(func(c *gw.WorkspaceConfig) {
		c.Sinks = []gw.Sink{{Name: "fleet", Sink: closedSink{}, Logger: g.storeLogger()}}
	}))
	g.becomes("sink_failing fleet", began, "connection refused")
	g.load(options)
	g.ends("sink_failing fleet")
}

// TestProvidersThatAreNotConfigured checks that a provider is logged once, with the
// endpoints that name it, in the order of their keys.
func TestProvidersThatAreNotConfigured(t *testing.T) {
	t.Parallel()
	files := sound()
	const absent = "  - { provider: absent, model: %s }\n"
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback:\n" + fmt.Sprintf(absent, "b")
	files["definitions/endpoints/second.yaml"] = "prompt: reply\nfallback:\n" + fmt.Sprintf(absent, "a") + fmt.Sprintf(absent, "b")
	g := startGateway(t, files, options)
	const line = `"provider":"absent","endpoints":["chat","second"]`
	for _, key := range []string{"first", "then"} { // the line comes after that of the edit
		g.write("definitions/remoteconfigs/"+key+".yaml", "type: string\ndefault: x\n")
		eventually(t, "an unrelated edit is served", g.said(`"added":["remoteconfig `+key+`"]`))
	}
	if n := strings.Count(string(g.logs.Bytes()), line); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestStoreThatIsDown has a directory at the path of the store's file.
func TestStoreThatIsDown(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	began := time.Now()
	if err := os.MkdirAll(filepath.Join(g.dir, "folder.db"), 0o755); err != nil {
		t.Fatal(err)
	}
	g.storeAt("folder.db", options)
	g.becomes("store_down store", began, "folder.db")
	if err := os.Remove(filepath.Join(g.dir, "folder.db")); err != nil {
		t.Fatal(err)
	}
	g.ends("store_down store")
}

// TestLimitsThatAreNotKept has a directory at the path of the limits' file. The limits
// still apply.
func TestLimitsThatAreNotKept(t *testing.T) {
	t.Parallel()
	l := &limit.Limit{Name: "few", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)}, Routes: []string{"prompts"}}
	g := startGateway(t, sound(), options)
	began := time.Now()
	if err := os.MkdirAll(filepath.Join(g.dir, "other.db-limits/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	g.storeAt("other.db", withLimits(l))
	g.becomes("limits_unsaved limits", began, "other.db-limits")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != want {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if err := os.RemoveAll(filepath.Join(g.dir, "other.db-limits")); err != nil {
		t.Fatal(err)
	}
	g.ends("limits_unsaved limits")
}

// TestMetricsOfAWorkspaceThatIsGone checks that the series of a removed workspace end.
func TestMetricsOfAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), withWorkspace("second", map[string]string{"other": otherKey}))
	series := func() bool {
		return strings.Contains(g.scrape(), `cadenza_degraded{condition="store_down",workspace="second"}`)
	}
	if !series() {
		t.Error("a second workspace has no series")
	}
	g.load(options)
	if series() {
		t.Error("the series of a workspace that is gone is still there")
	}
}

func TestTargetThatIsDown(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		completion(w, "fine")
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	began := time.Now()
	if a := g.post("/v1/endpoints", ask("?", false)); a.status != http.StatusOK || len(g.conditions()) > 0 {
		t.Fatalf("%d %s, %+v", a.status, a.body, g.conditions())
	}
	refuses.Store(true)
	g.post("/v1/endpoints", ask("?", false))
	g.becomes("target_down fake/small", began, "credential: ")
	target := g.current.Load().Workspace("default").Status().Targets[1]
	if target.Target != "fake/small" || target.State != "cooling" || !target.Down || !target.Until.After(began) || strings.Join(target.Endpoints, " ") != "chat" {
		t.Errorf("%+v", target)
	}
	// A target that no endpoint names any longer is no condition.
	g.write("definitions/prompts/reply.yaml", strings.ReplaceAll(workspace["definitions/prompts/reply.yaml"], "model: small", "model: other"))
	g.ends("target_down fake/small")
}

// TestTargetThatOnlyFails has too few calls for its breaker.
func TestTargetThatOnlyFails(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		if works.Load() {
			completion(w, "fine")
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	began := time.Now().Truncate(time.Millisecond) // the precision of conditions' times
	eventually(t, "the target only fails", func() bool {
		g.post("/v1/endpoints", ask("?", false))
		return len(g.conditions()) > 0
	})
	g.becomes("target_down fake/small", began, "transient: ")
	works.Store(true)
	g.post("/v1/endpoints", ask("?", false))
	g.ends("target_down fake/small")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	files := sound()
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	files["keys.json"] = fmt.Sprintf(`[{"name":"soon","sha256":"%064x","not_after":%q},{"name":"later","sha256":"%064x","not_after":%q},{"name":"gone","sha256":"%064x","not_after":%q},{"name":"stolen","sha256":"%064x","revoked":true}]`,
		1, in(time.Hour), 2, in(31*24*time.Hour), 3, in(-time.Hour), 4)
	g := startGateway(t, files, all(withKeysFile, with(func(c *gw.WorkspaceConfig) {
		c.Sinks = []gw.Sink{{Name: "fleet", Sink: closedSink{}}, {Name: "file", Sink: openSink{}}}
	})))
	g.becomes("sink_failing fleet", time.Time{}, "refused")
	eventually(t, "a sink is up", func() bool { return g.current.Load().Workspace("default").Status().Sinks[1].State == "up" })
	s := g.current.Load().Workspace("default").Status()
	var keys []string
	for _, k := range s.Keys {
		keys = append(keys, k.Name+" "+k.State)
	}
	if got := strings.Join(keys, ", "); got != "gone expired, later valid, soon expiring, stolen revoked, test valid" {
		t.Errorf("keys: %s", got)
	}
	if s.Store.Path != filepath.Join(g.dir, "data/cadenza.db") || s.Store.State != "available" || s.Store.Bytes < 4096 || s.Store.Since.IsZero() {
		t.Errorf("%+v", s.Store)
	}
	if len(s.Sinks) != 2 || s.Sinks[1].State != "up" || !s.Sinks[1].Since.IsZero() || s.Sinks[0].Name != "fleet" || s.Sinks[0].State != "failing" || s.Sinks[0].Since.IsZero() || s.Sinks[0].Error == "" || len(s.Degraded) != 1 {
		t.Errorf("%+v, %+v", s.Sinks, s.Degraded)
	}
	text, err := json.Marshal(s)
	if err != nil || strings.Contains(string(text), testKey) || strings.Contains(string(text), fmt.Sprintf("%064x", 1)) {
		t.Errorf("%v: %s", err, text)
	}
}
