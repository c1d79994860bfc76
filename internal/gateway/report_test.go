package gateway_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

const testTraceKey = "8f41c07be2d95a36d0417c2b9e8a5f13"

// traceKeyed configures a trace key, with which tests make their own ids.
func traceKeyed(g *gateway, c *gw.Config) {
	g.write("trace.key", testTraceKey)
	for i := range c.Workspaces {
		c.Workspaces[i].TraceKey = secret.Reference("{file." + filepath.Join(g.dir, "trace.key") + "}")
	}
}

// decide makes a decision like a node with the trace key.
func decide(t *testing.T, workspace string) trace.Decision {
	t.Helper()
	authority, err := trace.NewAuthority([]byte(testTraceKey), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return authority.Decide(time.Now(), 2)
}

// reports reads all stored reports: their ids, their contents, and the number of rows.
func (g *gateway) reports() (stored []string) {
	g.t.Helper()
	rows, err := g.database().Query(`SELECT ifnull(lower(hex(decision_id)), '') || ' ' || lower(hex(trace_id)) || ' ' ||
		ifnull(score, '') || ' ' || ifnull(llm_response, '') || ' ' || ifnull(named_values, '') FROM metrics ORDER BY rowid`)
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			g.t.Fatal(err)
		}
		stored = append(stored, row)
	}
	if err := rows.Err(); err != nil {
		g.t.Fatal(err)
	}
	return stored
}

func stripped(id trace.ID) string { return strings.ReplaceAll(id.String(), "-", "") }

// TestMetricsOfDecisions checks that a report on a decision is stored once, under its
// decision, completely. Ids that are no decision of the workspace are unknown.
func TestMetricsOfDecisions(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, traceKeyed)
	decision := decide(t, "default")
	id, member := decision.ID().String(), `"decision_id":"`+decision.ID().String()+`"`
	traceID := decision.Trace(trace.KindRemoteConfig, 0).String()
	const all = `"score":90,"latency":1,"llm_response":"x","chain_id":"c","values":{"resolved":1}`
	const unknown = `There is no such decision`
	for _, test := range []struct {
		name, path, body string
		status           int
		param, want      string
	}{
		{"all", "/v1/metrics", `{` + member + `,` + all + `}`, 200, "", `{"ok":true}`},
		{"upper case", "/v1/metrics", `{"decision_id":"` + strings.ToUpper(id) + `","score":0}`, 200, "", `{"ok":true}`},
		{"null for a trace", "/v1/metrics", `{` + member + `,"trace_id":null,"values":{"n":2}}`, 200, "", `{"ok":true}`},
		{"null for a decision", "/v1/metrics", `{"decision_id":null,"trace_id":"` + traceID + `","values":{"n":3}}`, 200, "", `{"ok":true}`},
		{"nothing", "/v1/metrics", `{` + member + `,"metadata":{},"values":{"a":null}}`, 400, "", `no_metrics`},
		{"both", "/v1/metrics", `{` + member + `,"trace_id":"` + traceID + `","score":1}`, 400, "decision_id", `invalid_request`},
		{"both, by the path", "/v2/remoteconfigs/" + traceID + "/metrics", `{` + member + `,"score":1}`, 400, "decision_id", `invalid_request`},
		{"both, by the query", "/v2/remoteconfigs/" + traceID + `/metrics?{` + member + `}`, ``, 400, "decision_id", `invalid_request`},
		{"forged", "/v1/metrics", `{"decision_id":"` + forge(id) + `","score":1}`, 404, "decision_id", unknown},
		{"of another workspace", "/v1/metrics", `{"decision_id":"` + decide(t, "other").ID().String() + `","score":1}`, 404, "decision_id", unknown},
		{"a trace", "/v1/metrics", `{"decision_id":"` + traceID + `","score":1}`, 404, "decision_id", unknown},
		{"no id", "/v1/metrics", `{"decision_id":"","score":1}`, 404, "decision_id", unknown},
		{"another type", "/v1/metrics", `{"decision_id":5,"score":1}`, 400, "decision_id", `invalid_request`},
		{"as a trace", "/v1/metrics", `{"trace_id":"` + id + `","score":1}`, 404, "trace_id", `as \"decision_id\"`},
		{"as a trace, by the path", "/v2/prompts/" + id + "/metrics", `{"score":1}`, 404, "trace_id", `as \"decision_id\"`},
	} {
		a := g.post(test.path, test.body)
		if a.status != test.status || !strings.Contains(string(a.body), test.want) {
			t.Errorf("%s: %d %s, want %d %s", test.name, a.status, a.body, test.status, test.want)
		}
		if test.status == http.StatusNotFound {
			checkError(t, a, "unknown_trace", test.param)
		}
		if test.status == http.StatusBadRequest && test.param != "" {
			checkError(t, a, "invalid_request", test.param)
		}
		if named := a.header.Get("Cadenza-Trace-Id"); test.status == http.StatusOK && (named == traceID) != (test.name == "null for a decision") {
			t.Errorf("%s: the answer names the trace %s", test.name, named)
		}
		if named := a.header.Get("Cadenza-Decision-Id"); test.status == http.StatusOK && (named == id) == (test.name == "null for a decision") {
			t.Errorf("%s: the answer names the decision %s", test.name, named)
		}
	}
	both := stripped(decision.ID()) // in the column of traces, too
	want := []string{
		both + " " + both + ` 90.0 x {"resolved":1}`,
		both + " " + both + ` 0.0  `,
		both + " " + both + `   {"n":2}`,
		" " + stripped(decision.Trace(trace.KindRemoteConfig, 0)) + `   {"n":3}`,
	}
	if diff := cmp.Diff(want, g.reports()); diff != "" {
		t.Error(diff)
	}
}

// TestMetricsOfDecisionsOnce checks that a repeated report with an idempotency key is
// stored once.
func TestMetricsOfDecisionsOnce(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, traceKeyed)
	body := `{"decision_id":"` + decide(t, "default").ID().String() + `","values":{"resolved":1}}`
	first := g.keyed("once", "/v1/metrics", body)
	again := g.keyed("once", "/v1/metrics", body)
	if first.status != http.StatusOK || again.status != http.StatusOK || again.header.Get("Idempotent-Replayed") != "true" || string(first.body) != string(again.body) ||
		first.header.Get("Cadenza-Decision-Id") == "" || first.header.Get("Cadenza-Decision-Id") != again.header.Get("Cadenza-Decision-Id") {
		t.Errorf("%d %s, then %d %s %v", first.status, first.body, again.status, again.body, again.header)
	}
	if a := g.keyed("once", "/v1/metrics", strings.Replace(body, "1}}", "2}}", 1)); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another report: %d %s", a.status, a.body)
	}
	if stored := g.reports(); len(stored) != 1 {
		t.Errorf("stored %q", stored)
	}
}

// TestLogOfDecisionReports checks the caller's log policy for a report on a decision.
func TestLogOfDecisionReports(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, traceKeyed)
	header := bearer(testKey)
	header.Set("Cadenza-Log", "metadata")
	a := g.do(http.MethodPost, "/v1/metrics", `{"decision_id":"`+decide(t, "default").ID().String()+`","score":1,"llm_response":"x"}`, header)
	if a.status != http.StatusOK || string(a.body) != `{"ok":true,"ignored":["llm_response"]}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	if stored := g.reports(); len(stored) != 1 || !strings.HasSuffix(stored[0], " 1.0  ") {
		t.Errorf("stored %q", stored)
	}
}

// TestValuesWithSecrets checks that values whose name or number is a secret are omitted,
// and that the result is an object of numbers.
func TestValuesWithSecrets(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, traceKeyed, with(func(c *gw.WorkspaceConfig) { c.Redact = redact.Card }))
	secretName := "sk-" + "proj-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFiY2RlZg"
	for _, values := range []string{`{"` + secretName + `":1,"resolved":1,"paid":378282246310005}`, `{"` + testKey + `":1}`} {
		g.post("/v1/metrics", `{"decision_id":"`+decide(t, "default").ID().String()+`","score":1,"values":`+values+`}`).ok(t)
	}
	stored := g.reports()
	if len(stored) != 2 || !strings.HasSuffix(stored[0], ` 1.0  {"resolved":1}`) || !strings.HasSuffix(stored[1], ` 1.0  `) {
		t.Errorf("stored %q", stored)
	}
}
