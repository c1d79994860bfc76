package gateway_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

// decisionOf returns the decision in an answer's header. It waits for the records of
// these traces, and checks that they have this decision.
func (g *gateway) decisionOf(t *testing.T, header http.Header, ids ...string) trace.ID {
	t.Helper()
	decision, ok := trace.ParseID(header.Get("Cadenza-Decision-Id"))
	if !ok || decision.Kind() != trace.KindDecision {
		t.Fatalf("Cadenza-Decision-Id %q", header["Cadenza-Decision-Id"])
	}
	for _, id := range ids {
		r := g.ended(t, id)
		if r.Decision != decision {
			t.Errorf("%s is of the decision %s, the answer names %s", id, r.Decision, decision)
		}
		if first, last := trace.TracesOf(decision, r.Kind); r.ID.String() < first.String() || r.ID.String() > last.String() {
			t.Errorf("%s is not between %s and %s", r.ID, first, last)
		}
	}
	return decision
}

// TestAnswersNameTheirDecision uses every route that answers from definitions. Each
// answer names its own decision, which its traces have.
func TestAnswersNameTheirDecision(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(text), "refuse"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(text), "break"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("half of", ""))
		default:
			completion(w, "all of it")
		}
	})
	files := endpointWith("cache: { ttl: 1h }\nidempotency: true\n")
	g := startGateway(t, files, fakeProvider(u.URL))
	seen := make(map[trace.ID]bool)
	check := func(header http.Header, ids ...string) {
		t.Helper()
		decision := g.decisionOf(t, header, ids...)
		if seen[decision] {
			t.Errorf("%s is of two requests", decision)
		}
		seen[decision] = true
	}
	for _, request := range []struct {
		path, body string
		traces     int
	}{
		{"/v1/prompts", `{"keys":["hello","reply","hello"],"variables":{"question":"a"}}`, 2},
		{"/v2/prompts", `{"keys":["hello","nothing"]}`, 1},
		{"/v1/remoteconfigs", `{"keys":["checkout","limits"]}`, 2},
	} {
		a := g.post(request.path, request.body)
		ids := idsOf(t, a)
		if len(ids) != request.traces {
			t.Errorf("%s: %d traces", request.body, len(ids))
		}
		for _, id := range ids {
			g.decisionOf(t, a.header, id)
		}
		check(a.header)
	}
	for name, request := range map[string]struct {
		body   string
		status int
	}{
		"whole":  {ask("whole", false), 200},
		"failed": {ask("refuse", false), 502},
		"stream": {ask("refuse", true), 502},
	} {
		a := g.post("/v1/endpoints", request.body)
		if a.status != request.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		check(a.header, a.header.Get("Cadenza-Trace-Id"))
	}
	for name, body := range map[string]string{"cached": ask("whole", true), "broken": ask("break", true)} {
		response, err := g.send(context.Background(), "POST", "/v1/endpoints", body, bearer(testKey))
		if err != nil {
			t.Fatal(err)
		}
		events(t, response.Body)
		_ = response.Body.Close()
		if hit := strings.Contains(response.Header.Get("Cache-Status"), "hit"); hit != (name == "cached") {
			t.Errorf("%s: Cache-Status %q", name, response.Header.Get("Cache-Status"))
		}
		check(response.Header, response.Header.Get("Cadenza-Trace-Id"))
	}
	first := g.keyed("k", "/v1/endpoints", ask("kept", false))
	check(first.header, first.header.Get("Cadenza-Trace-Id"))
	checkReplayed(t, g.keyed("k", "/v1/endpoints", ask("kept", false)), first)

	// An unrecorded answer has a decision; an answer without a definition has none.
	unrecorded := bearer(testKey)
	unrecorded.Set("Cadenza-Log", "none")
	for path, body := range map[string]string{"/v1/prompts": `{"keys":["hello"]}`, "/v1/remoteconfigs": `{"keys":["checkout"]}`, "/v1/endpoints": ask("x", false)} {
		check(g.do("POST", path, body, unrecorded).header)
	}
	for path, body := range map[string]string{
		"/v1/prompts": `{"keys":["nothing"]}`, "/v1/remoteconfigs": `{"keys":[]}`,
		"/v1/endpoints": `{"key":"nothing"}`, "/v1/metrics": `{"score":1}`,
	} {
		if a := g.post(path, body); len(a.header["Cadenza-Decision-Id"]) > 0 {
			t.Errorf("%s %s: %d with %v", path, body, a.status, a.header["Cadenza-Decision-Id"])
		}
	}
}

// TestDecisionsAreVerified checks that decisions from before a key was configured stay
// valid, and that decisions of other workspaces never are.
func TestDecisionsAreVerified(t *testing.T) {
	t.Parallel()
	other := withWorkspace("other", map[string]string{"app": otherKey})
	g := startGateway(t, workspace, other)
	g.write("key", "8f41c07be2d95a36a1")
	ask := func(key string) trace.ID {
		return g.decisionOf(t, g.postAs(key, "/v1/prompts", `{"keys":["hello"]}`).header)
	}
	check := func(workspace string, id trace.ID) bool {
		return g.current.Load().Workspace(workspace).VerifyDecision(id)
	}
	former, theirs := ask(testKey), ask(otherKey)
	answer := func() trace.ID {
		id, _ := trace.ParseID(g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id"))
		return id
	}
	before := answer()
	g.load(other, with(func(c *gw.WorkspaceConfig) {
		c.TraceKey = secret.Reference("{file." + filepath.Join(g.dir, "key") + "}")
	}))
	now := ask(testKey)
	eventually(t, "former decisions are known", func() bool { return check("default", former) })
	if !check("default", now) || check("default", theirs) || check("other", now) || check("other", former) {
		t.Error("a decision is taken for one of another workspace")
	}
	forged := now
	forged[15] ^= 1
	if check("default", forged) {
		t.Error("a forgery passes")
	}
	id := answer()
	if check("default", id) {
		t.Error("a trace passes for a decision")
	}
	if w := g.current.Load().Workspace("default"); w.HasKeyOf(before) || !w.HasKeyOf(id) {
		t.Error("the present key is not told from the former one")
	}
}
