package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// TestWhatEventsSay checks that events use the same names as the log and the answers. The
// first served set is no change.
func TestWhatEventsSay(t *testing.T) {
	t.Parallel()
	var limited atomic.Bool
	limited.Store(true)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		if !limited.Load() {
			completion(w, "fine")
			return
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"message":"too many of %s"}}`, testKey)
	})
	var mu sync.Mutex
	all := make(map[string]map[string]any) // the first of each name
	var names []string
	get := func(name string) (data map[string]any) {
		t.Helper()
		eventually(t, name, func() bool {
			mu.Lock()
			defer mu.Unlock()
			data = all[name]
			return data != nil
		})
		return data
	}
	g := startGateway(t, single(), fakeProvider(u.URL), func(_ *gateway, c *gw.Config) {
		c.Emit = func(name string, data map[string]any) {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, name)
			if all[name] == nil {
				all[name] = maps.Clone(data)
			}
		}
	})

	g.write("definitions/remoteconfigs/wrong.yaml", "type: nothing\nmore: 1\n")
	data := get(gw.EventDefinitionsInvalid)
	mu.Lock()
	if names[0] != gw.EventDefinitionsInvalid {
		t.Errorf("events %q before the first edit", names)
	}
	mu.Unlock()
	if text := fmt.Sprint(data["error"]); !strings.Contains(text, "wrong.yaml:1:7: ") || strings.Contains(text, "wrong.yaml:2:1") || strings.Contains(text, "\n") {
		t.Errorf("the error is %q, want the first mistake alone", text)
	}
	if data["revision"] != g.source.Snapshot().Revision || data["workspace"] != "default" {
		t.Errorf("%v, served is %s", data, g.source.Snapshot().Revision)
	}
	g.write("definitions/remoteconfigs/wrong.yaml", "type: boolean\ndefault: true\n")
	if data := get(gw.EventDefinitionsChanged); data["revision"] != g.source.Snapshot().Revision || fmt.Sprint(data["added"]) != "[remoteconfig wrong]" {
		t.Errorf("%v, served is %s", data, g.source.Snapshot().Revision)
	}

	g.post("/v1/endpoints", askChat)
	data = get(gw.EventTargetEjected)
	if data["target"] != "fake/small" || data["provider"] != "fake" || data["model"] != "small" || data["class"] != "rate_limit" || data["state"] == nil ||
		strings.Contains(fmt.Sprint(data["error"]), testKey) || !strings.Contains(fmt.Sprint(data["error"]), "too many of [redacted") {
		t.Errorf("%v", data)
	}
	if since, until := fmt.Sprint(data["since"]), fmt.Sprint(data["until"]); until <= since || since == "" {
		t.Errorf("left alone from %s until %s", since, until)
	}
	limited.Store(false)
	eventually(t, "the target answers again", func() bool { return g.post("/v1/endpoints", askChat).status == http.StatusOK })
	data = get(gw.EventTargetRestored)
	if data["target"] != "fake/small" || data["until"] != nil || data["state"] != nil {
		t.Errorf("%v has %v", data, slices.Sorted(maps.Keys(data)))
	}
}
