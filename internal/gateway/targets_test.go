package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// noKey is a provider that is not available.
type noKey struct{ failing }

func (noKey) Unavailable() error { return errors.New("its key {env.NONE} is empty") }

// TestTargets has a target that limits the rate: it cools down and is used again. The log, the
// metrics and the list of targets say so, each for its workspace.
func TestTargets(t *testing.T) {
	t.Parallel()
	limited := newUpstream(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		if n > 1 {
			completion(w, "fine")
			return
		}
		w.Header().Set("Retry-After", "8") // as long as a busy machine takes until all is looked at
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"code":"rate_limit_exceeded","message":"Slow down, %s"}}`, testKey)
	})
	sound := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	const second = "another-key-of-another-workspace"
	g := startGateway(t,
		endpointWith("retry: { count: 0 }\nfallback: [ { provider: absent, model: m }, { provider: keyless, model: m }, { provider: canned, extra: { answer: fallback } } ]\n"),
		fakeProvider(limited.URL), withWorkspace("other", map[string]string{"second": second}),
		func(_ *gateway, c *gw.Config) {
			c.Workspaces[1].Providers["fake"] = openaiProvider(sound.URL, openai.Quirks{})
		},
		withProvider("keyless", noKey{}))
	targets := func(workspace string) map[string]gw.Target {
		all := make(map[string]gw.Target)
		for _, t := range g.current.Load().Workspace(workspace).Targets() {
			all[t.Target] = t
		}
		return all
	}
	ask := func(key, want string) {
		t.Helper()
		if a := g.postAs(key, "/v1/endpoints", `{"key":"chat",`+question+`}`); a.status != http.StatusOK || a.json(t)["content"] != want {
			t.Fatalf("%d %s, want %s", a.status, a.body, want)
		}
	}
	metric := func(name string, want int) {
		t.Helper()
		if line := fmt.Sprintf("\n%s %d\n", name, want); !strings.Contains(g.scrape(), line) {
			for have := range strings.Lines(g.scrape()) {
				if strings.HasPrefix(have, name[:strings.IndexByte(name, '{')]) {
					t.Log(have)
				}
			}
			t.Errorf("no metric %s", line)
		}
	}

	chat := []string{"chat"}
	want := map[string]gw.Target{
		"absent/m":   {Target: "absent/m", Provider: "absent", Model: "m", Endpoints: chat, State: gw.TargetNotConfigured, Reason: "the provider is not configured: add it to the cadenza block, or mend its name in the definitions"},
		"canned":     {Target: "canned", Provider: "canned", Endpoints: chat, State: gw.TargetUntried},
		"fake/small": {Target: "fake/small", Provider: "fake", Model: "small", Endpoints: chat, State: gw.TargetUntried},
		"keyless/m":  {Target: "keyless/m", Provider: "keyless", Model: "m", Endpoints: chat, State: gw.TargetUnavailable, Reason: "its key {env.NONE} is empty"},
	}
	if diff := cmp.Diff(want, targets("default")); diff != "" {
		t.Errorf("without a call: -want +got:\n%s", diff)
	}
	const (
		gauge     = `cadenza_target_down{model="small",provider="fake",workspace="default"}`
		times     = `cadenza_targets_left_alone_total{provider="fake",state="cooling",workspace="default"}`
		fallbacks = `cadenza_upstream_fallbacks_total{provider="canned",workspace="default"}`
		skips     = `cadenza_upstream_skips_total{provider="fake",reason="left_alone",workspace="default"}`
	)
	for _, name := range []string{gauge, times, fallbacks, skips, strings.Replace(times, "cooling", "ejected", 1)} {
		metric(name, 0)
	}

	ask(testKey, "fallback")
	ask(testKey, "fallback")
	ask(second, "fine")
	fake := targets("default")["fake/small"]
	const said = "status 429 rate_limit_exceeded: Slow down, [redacted]"
	if fake.State != "cooling" || !fake.Down || fake.Failures != 1 || fake.Reason != "rate_limit: "+said || fake.Since.IsZero() ||
		fake.Until.Before(fake.Since) || fake.LastFailure == nil || fake.LastFailure.Class != "rate_limit" || fake.LastFailure.Error != said {
		t.Errorf("left alone: %+v", fake)
	}
	delete(want, "absent/m")
	want = map[string]gw.Target{"fake/small": want["fake/small"]}
	sane := want["fake/small"]
	sane.State = "ok"
	if diff := cmp.Diff(sane, targets("other")["fake/small"]); diff != "" {
		t.Errorf("the other workspace's: -want +got:\n%s", diff)
	}
	if encoded, err := json.Marshal(sane); err != nil || string(encoded) != `{"target":"fake/small","provider":"fake","model":"small","endpoints":["chat"],"state":"ok","down":false,"failures":0}` {
		t.Errorf("%s, %v", encoded, err)
	}
	metric(gauge, 1)
	metric(times, 1)
	metric(fallbacks, 2)
	metric(skips, 1)
	metric(strings.Replace(gauge, "default", "other", 1), 0)
	metric(`cadenza_upstream_skips_total{provider="absent",reason="not_configured",workspace="default"}`, 2)
	metric(`cadenza_upstream_skips_total{provider="keyless",reason="unavailable",workspace="default"}`, 2)
	metric(strings.Replace(fallbacks, "default", "other", 1), 0)

	eventually(t, "the target answers", func() bool {
		a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
		return a.json(t)["content"] == "fine"
	})
	sane.LastFailure = fake.LastFailure
	if diff := cmp.Diff(sane, targets("default")["fake/small"]); diff != "" {
		t.Errorf("at the end: -want +got:\n%s", diff)
	}
	metric(gauge, 0)
	metric(times, 1)

	var lines []map[string]any
	for line := range bytes.Lines(g.logs.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(fields["msg"].(string), "target ") {
			lines = append(lines, fields)
		}
	}
	since := fake.Since.Format("2006-01-02T15:04:05Z")
	wantLines := []map[string]any{
		{
			"level": "error", "msg": "target left alone", "target": "fake/small", "failures": 1.0, "state": "cooling", "since": since,
			"until": fake.Until.Format("2006-01-02T15:04:05Z"), "class": "rate_limit", "error": said,
		},
		{"level": "info", "msg": "target answers again", "target": "fake/small", "failures": 1.0, "since": since, "class": "rate_limit", "error": said},
	}
	if diff := cmp.Diff(wantLines, lines, cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return name == "ts" })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
