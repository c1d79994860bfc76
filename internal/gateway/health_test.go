package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// probe asks for the gateway's health.
func (g *gateway) probe(method, path string, stopping bool) *httptest.ResponseRecorder {
	g.t.Helper()
	w := httptest.NewRecorder()
	if !g.current.Load().ServeHealth(w, httptest.NewRequest(method, path, nil), stopping) {
		g.t.Fatalf("%s is not answered", path)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		g.t.Errorf("%s may be cached: %q", path, got)
	}
	checkContract(g.t, method, path, "", answer{w.Code, w.Result().Header, w.Body.Bytes()})
	return w
}

func TestHealth(t *testing.T) {
	t.Parallel()
	began := time.Now()
	g := startGateway(t, sound(), options)
	ready := func(status int, want string) (since time.Time) {
		t.Helper()
		w := g.probe("GET", "/readyz", false)
		var body struct {
			Status string
			Since  time.Time
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != status || body.Status != want {
			t.Errorf("%d %s (%v), want %d %s", w.Code, w.Body, err, status, want)
		}
		return body.Since
	}
	if since := ready(200, "ok"); since.Before(began) || since.After(time.Now()) {
		t.Errorf("ok since %s", since)
	}
	if w := g.probe("GET", "/healthz", false); w.Code != 200 || w.Body.String() != `{"status":"ok"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}

	// A skipped provider.
	g.write("definitions/endpoints/other.yaml", "prompt: reply\nfallback: [ { provider: absent, model: m } ]\n")
	eventually(t, "the gateway is degraded", func() bool { return len(g.conditions()) > 0 })
	condition := g.conditions()["provider_unavailable absent"]
	if since := ready(200, "degraded"); !since.Equal(condition.Since) {
		t.Errorf("degraded since %s, want %s", since, condition.Since)
	}
	want := fmt.Sprintf(`{"status":"degraded","since":%[1]q,"degraded":[{"code":"provider_unavailable","since":%[1]q,"count":1,"subjects":["absent"]}]}`,
		condition.Since.UTC().Format(time.RFC3339Nano))
	if w := g.probe("GET", "/readyz", false); w.Body.String() != want {
		t.Errorf("%s\nwant\n%s", w.Body, want)
	}
	if w := g.probe("HEAD", "/readyz", false); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
		t.Errorf("HEAD: %d %v %s", w.Code, w.Header(), w.Body)
	}
	mended := time.Now()
	ready(200, "degraded") // is found once more, which is what the next state began after
	g.write("definitions/endpoints/other.yaml", "prompt: reply\n")
	g.ends("provider_unavailable absent")
	if since := ready(200, "ok"); since.Before(mended) {
		t.Errorf("it was degraded, and is ok since %s", since)
	}

	if w := g.probe("GET", "/readyz", true); w.Code != 503 || w.Body.String() != `{"status":"stopping"}` || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := g.probe("GET", "/healthz", true); w.Code != 200 {
		t.Errorf("a gateway that stops is alive: %d", w.Code)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		w := g.probe("POST", path, false)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || !strings.Contains(w.Body.String(), "method_not_allowed") {
			t.Errorf("POST: %d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	for _, path := range []string{"/", "/readyz/", "/v1/prompts", "/healthz/x"} {
		w := httptest.NewRecorder()
		if g.current.Load().ServeHealth(w, httptest.NewRequest("GET", path, nil), false) || len(w.Header()) > 0 {
			t.Errorf("%s is answered", path)
		}
	}
}

func TestHealthBeforeStart(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	next, err := gw.New(gw.Config{Process: g.process, Logger: g.logger(), Workspaces: []gw.WorkspaceConfig{g.configure("default", map[string]string{"test": testKey})}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if !next.ServeHealth(w, httptest.NewRequest("GET", "/readyz", nil), false) || w.Code != 503 || w.Body.String() != `{"status":"starting"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if !next.ServeHealth(w, httptest.NewRequest("GET", "/healthz", nil), false) || w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHealthOfSeveralWorkspaces checks that the answer sums workspaces up, is bounded,
// and has no names of workspaces, paths or messages, which are not public.
func TestHealthOfSeveralWorkspaces(t *testing.T) {
	t.Parallel()
	files := sound()
	for i := range 30 {
		files[fmt.Sprintf("definitions/endpoints/e%02d.yaml", i)] = fmt.Sprintf("prompt: reply\nfallback: [ { provider: absent%02d, model: m } ]\n", i)
	}
	g := startGateway(t, files, withWorkspace("customer", map[string]string{"other": otherKey}))
	text := g.probe("GET", "/readyz", false).Body.String()
	var body struct {
		Degraded []struct {
			Count    int
			Subjects []string
		}
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Degraded) != 1 || body.Degraded[0].Count != 60 || len(body.Degraded[0].Subjects) != 20 {
		t.Errorf("%v: %s", err, text)
	}
	for _, private := range []string{"customer", "default", "configured", g.dir} {
		if strings.Contains(text, private) {
			t.Errorf("everyone can read %q: %s", private, text)
		}
	}
}
