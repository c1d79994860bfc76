package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// variedEndpoint has different calls for production, staging and others.
const variedEndpoint = `
timeout: { total: 20s }
variants:
  usual:
    fallback: [ { provider: canned, extra: { answer: late } } ]
  hedged:
    extends: usual
    hedge: { after: 100ms }
  short:
    timeout: { total: 300ms }
  cached:
    cache: { ttl: 1h }
  minute:
    extends: cached
    cache: { ttl: 1m }
default: usual
rules:
  - id: enterprise
    when: { seats: 100.. }
    value: hedged
  - { when: { plan: free }, value: short }
  - { when: { plan: pro, environment: staging }, value: minute }
  - { when: { plan: pro }, value: cached }
`

// askIn returns a request with a context.
func askIn(context, text string) string {
	return fmt.Sprintf(`{"key":"chat","context":%s,"variables":{"question":%q}}`, context, text)
}

// variantOf returns the trace of an endpoint's answer.
func variantOf(t *testing.T, g *gateway, a answer) *trace.Record {
	t.Helper()
	return g.ended(t, a.header.Get("Cadenza-Trace-Id"))
}

func TestEndpointVariantsDecideHowToCall(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // otherwise the server does not notice that the client leaves
		if strings.Contains(string(body), "slow?") {
			select {
			case <-slow:
			case <-r.Context().Done():
				return
			}
		}
		completion(w, fmt.Sprint("answer ", call))
	})
	g := startGateway(t, endpointWith(variedEndpoint), fakeProvider(u.URL))
	for _, test := range []struct {
		context, variant, row string
	}{
		{`{"seats":100,"locale":"nl"}`, "hedged", "enterprise"},
		{`{"plan":"free"}`, "short", "row 2"},
	} {
		began := time.Now()
		a := g.post("/v1/endpoints", askIn(test.context, "slow?"))
		record := variantOf(t, g, a)
		if record.EndpointVariant != test.variant || record.EndpointRow != test.row {
			t.Errorf("%s: the trace has variant %q, row %q", test.context, record.EndpointVariant, record.EndpointRow)
		}
		switch test.variant {
		case "hedged":
			if a.status != http.StatusOK || a.json(t)["content"] != "late" || len(record.Attempts) != 2 || !record.Attempts[1].Hedge {
				t.Errorf("%d %s after %+v", a.status, a.body, record.Attempts)
			}
			// The prompt's table still selects the question.
			if record.Variant != "nl" || record.Row != "row 1" {
				t.Errorf("the prompt's variant %q, row %q", record.Variant, record.Row)
			}
		case "short":
			if took := time.Since(began); a.status != http.StatusGatewayTimeout || took < 300*time.Millisecond || took > 15*time.Second {
				t.Errorf("%d %s after %s", a.status, a.body, took)
			}
		}
	}
	close(slow)

	// The default calls without a hedge.
	a := g.post("/v1/endpoints", askIn(`{}`, "plain?"))
	record := variantOf(t, g, a)
	if a.status != http.StatusOK || len(record.Attempts) != 1 || record.EndpointVariant != "usual" || record.EndpointRow != "" {
		t.Errorf("%d %s: variant %q, row %q, %+v", a.status, a.body, record.EndpointVariant, record.EndpointRow, record.Attempts)
	}

	// Each variant caches its own answers, for its own time.
	first := make(map[string]any)
	for round, status := range []string{"Cadenza; fwd=miss", "Cadenza; hit; ttl="} {
		for context, ttl := range map[string]string{`{"plan":"pro"}`: "35", `{"plan":"pro","environment":"staging"}`: "5"} {
			a := g.post("/v1/endpoints", askIn(context, "cached?"))
			got := a.header.Get("Cache-Status")
			if round == 0 {
				first[context] = a.json(t)["content"]
			} else {
				status = "Cadenza; hit; ttl=" + ttl
			}
			if a.status != http.StatusOK || !strings.HasPrefix(got, status) || a.json(t)["content"] != first[context] {
				t.Errorf("round %d, %s: %d %s, Cache-Status %q", round, context, a.status, a.body, got)
			}
		}
	}
	if first[`{"plan":"pro"}`] == first[`{"plan":"pro","environment":"staging"}`] {
		t.Errorf("two variants share the answer %v", first)
	}
	for range 2 {
		if a := g.post("/v1/endpoints", askIn(`{}`, "plain?")); a.header.Get("Cache-Status") != "" {
			t.Errorf("a variant without a cache: %q", a.header.Get("Cache-Status"))
		}
	}
}

// TestEndpointWithoutVariantsHasNoVariant checks that it has no row of its own, either.
func TestEndpointWithoutVariantsHasNoVariant(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	g := startGateway(t, endpointWith(""), fakeProvider(u.URL))
	record := variantOf(t, g, g.post("/v1/endpoints", askIn(`{"locale":"nl"}`, "?")))
	if record.EndpointVariant != "" || record.EndpointRow != "" || record.Row != "row 1" {
		t.Errorf("variant %q, row %q", record.EndpointVariant, record.EndpointRow)
	}
}

// TestEndpointDecisionsAreRemembered checks that the decision cache has the decisions of
// an endpoint's table and of a prompt's table, and does not mix them up.
func TestEndpointDecisionsAreRemembered(t *testing.T) {
	t.Parallel()
	table := "default: a\ncolumns: [ user, value ]\nmatrix:\n"
	for i := range 20 {
		table += fmt.Sprintf("  - [ { matches: '^u%d-[0-9]+$' }, b ]\n", i)
	}
	files := endpointWith("variants: { a: {}, b: { max_attempts: 2 } }\n" + table + "  - [ nobody, a ]\n  - [ last, b ]\n")
	files["definitions/context.yaml"] += "  user: { type: string }\n"
	files["definitions/prompts/chat.yaml"] = "variants:\n  a: { provider: canned, extra: { answer: A }, messages: [ { role: user, content: x } ] }\n  b: { extends: a, extra: { answer: B } }\n" +
		table + "  - [ last, a ]\n"
	files["definitions/endpoints/chat.yaml"] = strings.Replace(files["definitions/endpoints/chat.yaml"], "prompt: reply", "prompt: chat", 1)
	g := startGateway(t, files)
	// The cache takes an entry a moment later.
	eventually(t, "both decisions are remembered", func() bool {
		before := lookups(g, "decisions", "hit")
		a := g.post("/v1/endpoints", askIn(`{"user":"last"}`, "?"))
		record := variantOf(t, g, a)
		if a.json(t)["content"] != "A" || record.EndpointVariant != "b" || record.EndpointRow != "row 22" || record.Variant != "a" {
			t.Errorf("%s by %q, row %q, of the prompt %q", a.body, record.EndpointVariant, record.EndpointRow, record.Variant)
		}
		return lookups(g, "decisions", "hit") == before+2
	})
}

// TestEndpointVariantsAreRecorded checks that the trace of an endpoint has the evidence of
// both tables, first the prompt's.
func TestEndpointVariantsAreRecorded(t *testing.T) {
	t.Parallel()
	files := endpointWith(`variants: { usual: {}, fast: { timeout: { total: 5s } } }
default: usual
rules:
  - { id: staff, when: { config: { checkout: true } }, value: fast }
  - { id: calls, split: { by: plan, of: [ { value: fast, share: 100% } ] } }
`)
	files["definitions/prompts/chat.yaml"] = `
variants:
  a: { provider: canned, extra: { answer: A }, messages: [ { role: user, content: x } ] }
rules:
  - { id: wording, when: { environment: production }, split: { by: locale, of: [ { value: a, share: 100% } ] } }
`
	files["definitions/endpoints/chat.yaml"] = strings.Replace(files["definitions/endpoints/chat.yaml"], "prompt: reply", "prompt: chat", 1)
	g := startGateway(t, files)
	const context = `{"environment":"production","locale":"nl","plan":"pro","tags":["x"]}`
	record := variantOf(t, g, g.post("/v1/endpoints", askIn(context, "?")))
	if record.EndpointVariant != "fast" || record.EndpointRow != "calls" || record.Arm != "a" || record.Row != "wording" || record.Reason != "split" {
		t.Errorf("%q by %q, %q by %q (%s)", record.EndpointVariant, record.EndpointRow, record.Arm, record.Row, record.Reason)
	}
	var splits []struct {
		Experiment struct{ Definition, Rule string }
		Arm        string
	}
	if err := json.Unmarshal(record.Splits, &splits); err != nil || len(splits) != 2 ||
		splits[0].Experiment.Definition != "prompts/chat" || splits[0].Arm != "a" ||
		splits[1].Experiment.Definition != "endpoints/chat" || splits[1].Experiment.Rule != "calls" || splits[1].Arm != "fast" {
		t.Errorf("%s (%v)", record.Splits, err)
	}
	if !strings.Contains(string(record.Read), `"remoteconfigs/checkout":`) {
		t.Errorf("read %s", record.Read)
	}
	var inputs map[string]any
	if err := json.Unmarshal(record.Inputs, &inputs); err != nil || inputs["plan"] != "pro" || inputs["environment"] != "production" || inputs["locale"] == nil || inputs["tags"] == nil {
		t.Errorf("inputs %s (%v)", record.Inputs, err)
	}
	// One caller turns recording off; the next one has its own evidence.
	header := bearer(testKey)
	header.Set("Cadenza-Log", "none")
	a := g.do("POST", "/v1/endpoints", askIn(context, "?"), header)
	again := variantOf(t, g, g.post("/v1/endpoints", askIn(context, "?")))
	if !bytes.Equal(again.Splits, record.Splits) || !bytes.Equal(again.Inputs, record.Inputs) {
		t.Errorf("the second record has %s, %s", again.Splits, again.Inputs)
	}
	if _, stored := g.trace("data/cadenza.db", a.header.Get("Cadenza-Trace-Id")); stored || a.status != http.StatusOK {
		t.Errorf("%d, stored: %t", a.status, stored)
	}
}
