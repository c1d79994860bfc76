package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// site replaces the gateway's site.
func (g *gateway) site(options, site string) {
	g.t.Helper()
	text := strings.Replace(g.caddyfile(options), "\tcadenza\n}\n", site+"\n}\n", 1)
	if err := g.loadText(text); err != nil {
		g.t.Fatal(err)
	}
}

func TestRoutesOfOneHandlerEach(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, `
		route /llm/texts {
			cadenza_prompts
		}
		route /llm/chat {
			cadenza_endpoints
		}
		route /flags {
			cadenza_remoteconfigs
		}
		route /page {
			cadenza_decisions
		}
		route /feedback* {
			cadenza_metrics
		}
	`)
	prompt := g.post("/llm/texts", `{"keys":["hello"]}`)
	if prompt.status != http.StatusOK || prompt.json(t)["hello"] == nil {
		t.Errorf("prompts: %d %s", prompt.status, prompt.body)
	}
	if a := g.post("/llm/chat", `{"key":"chat",`+question+`}`); a.status != http.StatusOK || a.json(t)["content"] != "one two three" {
		t.Errorf("endpoints: %d %s", a.status, a.body)
	}
	if a := g.post("/flags", `{"keys":["checkout"]}`); a.status != http.StatusOK || a.json(t)["checkout"] == nil {
		t.Errorf("remote configurations: %d %s", a.status, a.body)
	}
	both := g.post("/page", `{"prompts":["hello"],"remoteconfigs":["checkout"]}`)
	if d := both.json(t); both.status != http.StatusOK || d["prompts"].(map[string]any)["hello"] == nil || d["remoteconfigs"].(map[string]any)["checkout"] == nil {
		t.Errorf("decisions: %d %s", both.status, both.body)
	}
	g.post("/feedback", `{"decision_id":"`+both.header.Get("Cadenza-Decision-Id")+`","values":{"resolved":1}}`).ok(t, "metrics of a decision")
	if a := g.post("/llm/chat", `{"key":"chat","remoteconfigs":["checkout"],`+question+`}`); a.status != http.StatusOK || a.json(t)["remoteconfigs"].(map[string]any)["checkout"] == nil {
		t.Errorf("an endpoint with configurations: %d %s", a.status, a.body)
	}
	id := prompt.header.Get("Cadenza-Trace-Id")
	g.post("/feedback", `{"trace_id":"`+id+`","score":1}`).ok(t, "metrics by body")
	g.post("/feedback/prompts/"+id+"/metrics", `{"score":2}`).ok(t, "metrics by path")
	if a := g.post("/feedback/remoteconfigs/"+id+"/metrics", `{"score":2}`); a.status != http.StatusNotFound {
		t.Errorf("metrics by another kind's path: %d %s", a.status, a.body)
	}
	if a := g.do("POST", "/flags", `{"keys":["checkout"]}`, nil); a.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
}

func TestMatcherPlaceholdersAndMetrics(t *testing.T) {
	g := startGateway(t, workspace, options)
	access := filepath.Join(g.dir, "access")
	g.site(options+"sink file {dir}/copied.jsonl\n", `
		log {
			output file `+access+`
			format json
		}
		log_append trace {cadenza.trace_id}
		log_append decision {cadenza.decision_id}
		log_append route {cadenza.route}
		log_append workspace {cadenza.workspace}
		cadenza /v1/*
		metrics /metrics
		respond /about "elsewhere"
	`)
	if a := g.do("GET", "/about", "", nil); string(a.body) != "elsewhere" {
		t.Errorf("what the matcher does not pass: %d %s", a.status, a.body)
	}
	a := g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t)
	id := a.header.Get("Cadenza-Trace-Id")
	eventually(t, "the access log has the placeholders", func() bool {
		text, err := os.ReadFile(access)
		return err == nil && strings.Contains(string(text), `"trace":"`+id+`"`) &&
			strings.Contains(string(text), `"decision":"`+a.header.Get("Cadenza-Decision-Id")+`"`) &&
			strings.Contains(string(text), `"route":"prompts"`) &&
			strings.Contains(string(text), `"workspace":"default"`) &&
			strings.Contains(string(text), `"user_id":"test"`) &&
			!strings.Contains(string(text), testKey)
	})
	g.post("/v1/prompts", `{}`)
	up := `cadenza_store_up{store="` + filepath.Join(g.dir, "data/cadenza.db") + `"} 1`
	eventually(t, "the store is open", func() bool { return strings.Contains(g.scrape(), up) })
	exposition := g.scrape()
	for _, want := range []string{
		`cadenza_requests_total{code="ok",definition="hello",route="prompts",workspace="default"}`,
		`cadenza_requests_total{code="invalid_request",definition="",route="prompts",workspace="default"}`,
		`cadenza_request_duration_seconds_count{route="prompts"}`,
		`cadenza_definitions_valid{workspace="default"} 1`,
		up,
		`cadenza_store_dropped_total{reason="queue_full",store=`,
	} {
		if !strings.Contains(exposition, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}
