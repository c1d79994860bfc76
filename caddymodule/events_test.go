package caddymodule_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

func init() { caddy.RegisterModule(new(eventRecorder)) }

// eventRecorder is a handler that records events under its configured name. It has the
// name of the module in the manual.
type eventRecorder struct {
	Name string   `json:"command"`
	Args []string `json:"args,omitempty"`
}

func (*eventRecorder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.exec", New: func() caddy.Module { return new(eventRecorder) }}
}

func (r *eventRecorder) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if !d.Args(&r.Name) {
			return d.ArgErr()
		}
		r.Args = d.RemainingArgs()
	}
	return nil
}

// recorded has the events of all handlers.
var recorded struct {
	sync.Mutex
	lines []string // NAME: EVENT from ORIGIN
	data  []map[string]any
	block chan struct{} // handlers wait for it; nil: they do not wait
}

func (r *eventRecorder) Handle(ctx context.Context, e caddy.Event) error {
	line := fmt.Sprintf("%s: %s from %s", r.Name, e.Name(), e.Origin().CaddyModule().ID)
	if len(r.Args) > 0 {
		line = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll(strings.Join(r.Args, " "), "")
	}
	recorded.Lock()
	block := recorded.block
	recorded.lines = append(recorded.lines, line)
	recorded.data = append(recorded.data, maps.Clone(e.Data))
	recorded.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-time.After(2 * slowRequest):
		}
	}
	if r.Name == "panics" {
		panic("a handler's fault")
	}
	return nil
}

// slowRequest is longer than a request that does not wait for a handler.
const slowRequest = 30 * time.Second

// takeEvents waits for n lines, and returns the events recorded since its last call.
func takeEvents(t *testing.T, n int) (lines []string, data []map[string]any) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d events came", n), func() bool {
		recorded.Lock()
		defer recorded.Unlock()
		return len(recorded.lines) >= n
	})
	recorded.Lock()
	defer recorded.Unlock()
	lines, data = recorded.lines, recorded.data
	recorded.lines, recorded.data = nil, nil
	return lines, data
}

// withEvents returns a configuration whose handler gets all of Cadenza's events.
func (g *gateway) withEvents(name, options string) string {
	var on strings.Builder
	for _, event := range []string{"definitions_changed", "definitions_invalid", "target_ejected", "target_restored"} {
		fmt.Fprintf(&on, "on cadenza.%s exec %s\n", event, name)
	}
	return strings.Replace(g.caddyfile(options), "admin off\n", "admin off\nevents {\n"+on.String()+"}\n", 1)
}

func TestEvents(t *testing.T) {
	var fail sync.Mutex
	status := http.StatusUnauthorized
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		fail.Lock()
		defer fail.Unlock()
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		gatewaytest.Completion(w, "Hello.")
	})
	g := startGateway(t, gatewaytest.Single(), fakeProvider(u.URL))
	load := func(text string) {
		t.Helper()
		if err := g.loadText(text); err != nil {
			t.Fatal(err)
		}
	}
	load(g.withEvents("first", fakeProvider(u.URL)))
	// The directory is unchanged, so the next edit is the first event.
	g.write("definitions/remoteconfigs/checkout.yaml", "type: boolean\ndefault: true\n")
	lines, data := takeEvents(t, 1)
	if diff := cmp.Diff([]string{"first: cadenza.definitions_changed from cadenza"}, lines); diff != "" {
		t.Error(diff)
	}
	if d := data[0]; d["workspace"] != "default" || d["revision"] == nil || fmt.Sprint(d["changed"]) != "[remoteconfig checkout]" || d["added"] != nil {
		t.Errorf("%v", d)
	}
	g.write("definitions/remoteconfigs/checkout.yaml", "type: nothing\n")
	lines, data = takeEvents(t, 1)
	if diff := cmp.Diff([]string{"first: cadenza.definitions_invalid from cadenza"}, lines); diff != "" || !strings.Contains(fmt.Sprint(data[0]["error"]), "checkout.yaml:1:1: ") {
		t.Error(diff, data)
	}
	g.write("definitions/remoteconfigs/checkout.yaml", "type: boolean\ndefault: true\n")
	if lines, data = takeEvents(t, 1); lines[0] != "first: cadenza.definitions_changed from cadenza" || data[0]["changed"] != nil {
		t.Error(lines, data)
	}

	// A target cools down once, and answers again.
	for range 2 {
		g.post("/v1/endpoints", ask("q?", false))
	}
	lines, data = takeEvents(t, 1)
	if d := data[0]; lines[0] != "first: cadenza.target_ejected from cadenza" || d["target"] != "fake/small" || d["class"] != "credential" || d["state"] != "cooling" || d["until"] == "" {
		t.Error(lines, d)
	}
	fail.Lock()
	status = http.StatusOK
	fail.Unlock()
	// From now on the other configuration gets the events. A slow handler delays no request.
	load(g.withEvents("second", fakeProvider(u.URL)))
	held := make(chan struct{})
	recorded.Lock()
	recorded.block = held
	recorded.Unlock()
	began := time.Now()
	if a := g.post("/v1/endpoints", ask("q?", false)); a.status != http.StatusOK || time.Since(began) > slowRequest {
		t.Errorf("%d %s after %s", a.status, a.body, time.Since(began))
	}
	if lines, data = takeEvents(t, 1); lines[0] != "second: cadenza.target_restored from cadenza" || data[0]["target"] != "fake/small" {
		t.Error(lines, data)
	}
	close(held)
	recorded.Lock()
	recorded.block = nil
	recorded.Unlock()

	// The manual's handlers.
	_, manual, _ := strings.Cut(block(t, page(t, "observability.md"), "caddyfile", "on cadenza."), "{\n")
	manual, _, _ = strings.Cut(manual, "\tcadenza {")
	load(strings.Replace(g.caddyfile(fakeProvider(u.URL)), "admin off\n", "admin off\n"+manual, 1))
	g.write("definitions/remoteconfigs/checkout.yaml", "type: nothing\n")
	if lines, _ = takeEvents(t, 1); !strings.HasPrefix(lines[0], "definitions of default: ") || !strings.Contains(lines[0], "checkout.yaml:1:1: default is missing") {
		t.Error(lines)
	}
}

// TestEventsAfterAReload checks that events of a request that outlives its configuration
// go to the running configuration.
func TestEventsAfterAReload(t *testing.T) {
	arrived, next := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-next
		w.WriteHeader(http.StatusUnauthorized)
	})
	g := startGateway(t, gatewaytest.Single(), fakeProvider(u.URL))
	if err := g.loadText(g.withEvents("old", fakeProvider(u.URL))); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() { g.post("/v1/endpoints", ask("q?", false)) })
	<-arrived
	if err := g.loadText(g.withEvents("panics", fakeProvider(u.URL))); err != nil {
		t.Fatal(err)
	}
	close(next)
	if lines, _ := takeEvents(t, 1); len(lines) != 1 || lines[0] != "panics: cadenza.target_ejected from cadenza" {
		t.Error(lines)
	}
	wait.Wait()
	// Only the handler panics.
	g.write("definitions/remoteconfigs/checkout.yaml", "type: boolean\ndefault: true\n")
	if lines, _ := takeEvents(t, 1); len(lines) != 1 || lines[0] != "panics: cadenza.definitions_changed from cadenza" {
		t.Error(lines)
	}
}
