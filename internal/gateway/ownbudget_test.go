package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// TestABudgetCountsTheCallItself checks that a rule at 80 percent of a budget matches if
// the call itself would raise the budget above that, and not only after a call has been
// refused because the budget is full.
func TestABudgetCountsTheCallItself(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ endpoint, prompt string }{
		"the endpoint's table": {"prompt: p\ndefault: usual\nvariants:\n  usual: {}\n  saving: { weight: 0, fallback: [ { provider: canned, weight: 1, max_tokens: 1, extra: { answer: short } } ] }\nrules:\n  - { id: nearly, when: { budget.cust: 80.. }, value: saving }\n",
			"provider: canned\nmax_tokens: 100\nextra: { answer: long }\nmessages: [ { role: user, content: hi } ]\n"},
		"the prompt's table, by a segment": {"prompt: p\n",
			"default: usual\nvariants:\n  usual:\n    provider: canned\n    max_tokens: 100\n    extra: { answer: long }\n    messages: [ { role: user, content: hi } ]\n" +
				"  saving: { extends: usual, max_tokens: 1, extra: { answer: short } }\nrules:\n  - { id: nearly, when: { segment: tight }, value: saving }\n"},
		"by a configuration": {"prompt: p\ndefault: usual\nvariants:\n  usual: {}\n  saving: { weight: 0, fallback: [ { provider: canned, weight: 1, max_tokens: 1, extra: { answer: short } } ] }\nrules:\n  - { id: nearly, when: { config: { c: tight } }, value: saving }\n",
			"provider: canned\nmax_tokens: 100\nextra: { answer: long }\nmessages: [ { role: user, content: hi } ]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &limit.Limit{Name: "cust", By: limit.ByMetadata, Member: "c", Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 1000}, yearly(limit.Tokens, 500)}}
			g := startGateway(t, map[string]string{
				"definitions/context.yaml":         "fields: { plan: string }\nsegments:\n  tight: [ { budget.cust: 80.. } ]\n",
				"definitions/prompts/p.yaml":       tt.prompt,
				"definitions/endpoints/e.yaml":     tt.endpoint,
				"definitions/remoteconfigs/c.yaml": "type: string\ndefault: unknown\nrules:\n  - { when: { budget.cust: 80.. }, value: tight }\n  - { when: { budget.cust: present }, value: free }\n",
			}, withLimits(l))
			for _, step := range []struct {
				used int64 // before the call
				want string
			}{{0, "long"}, {260, "long"}, {280, "short"}, {380, "short"}, {420, "short"}} {
				g.useTokens(l, "acme", step.used-g.uses("default", l, "acme")[1][0])
				a := g.post("/v1/endpoints", `{"key":"e","remoteconfigs":["c"],"metadata":{"c":"acme"}}`)
				if a.status != http.StatusOK {
					t.Fatalf("%d %s, %d tokens were used", a.status, a.body, step.used)
				}
				record := variantOf(t, g, a)
				var percent int64
				if _, err := fmt.Sscanf(string(record.Inputs), `{"budget.cust":%d}`, &percent); err != nil {
					t.Fatal(err, string(record.Inputs))
				}
				// 100 tokens are for the answer; the others bound the prompt.
				if own := percent*5 - step.used; a.json(t)["content"] != step.want || (percent >= 80) != (step.want == "short") || own < 110 || own > 140 {
					t.Errorf("%v after %d tokens: the budget is %d %%, of which the call is %d tokens", a.json(t)["content"], step.used, percent, own)
				}
				if got := fmt.Sprint(a.json(t)["remoteconfigs"]); strings.Contains(got, "tight") != (percent >= 80) {
					t.Errorf("%d %%, but a configuration has %s", percent, got)
				}
				traced := new(inspect.Traced)
				if err := json.Unmarshal(record.AppendJSON(nil), traced); err != nil {
					t.Fatal(err)
				}
				if proof := inspect.Prove(g.source.Snapshot(), traced); proof.Result != inspect.Same {
					t.Errorf("%s", ofProof(proof))
				}
			}
			// A request without a call sets nothing aside.
			a := g.post("/v1/remoteconfigs", `{"keys":["c"],"metadata":{"c":"acme"}}`)
			record := variantOf(t, g, a)
			if used := g.uses("default", l, "acme")[1][0]; string(record.Inputs) != fmt.Sprintf(`{"budget.cust":%d}`, used/5) {
				t.Errorf("%s, %d tokens are used", record.Inputs, used)
			}
		})
	}
}

// useTokens counts tokens for a subject.
func (g *gateway) useTokens(l *limit.Limit, subject string, tokens int64) {
	g.t.Helper()
	reservation, refusal := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: l, Subject: subject}}, limit.Amounts{limit.Tokens: tokens})
	if refusal != nil {
		g.t.Fatalf("%+v", refusal)
	}
	reservation.Settle(time.Now(), limit.Amounts{limit.Tokens: tokens})
}

// TestWhatCheckBudgetsSays checks that a call is refused if the check warns about it, and
// answered if it does not.
func TestWhatCheckBudgetsSays(t *testing.T) {
	t.Parallel()
	for longest, leaps := range map[int]bool{100: false, 150: true} {
		l := &limit.Limit{Name: "cust", By: limit.ByMetadata, Member: "c", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 500)}}
		g := startGateway(t, map[string]string{
			"definitions/context.yaml": "fields: { plan: string }\n",
			"definitions/prompts/p.yaml": fmt.Sprintf("default: saving\nvariants:\n  usual: { provider: canned, max_tokens: %d, extra: { answer: long }, messages: [ { role: user, content: hi } ] }\n", longest) +
				"  saving: { extends: usual, max_tokens: 1, extra: { answer: short } }\nrules:\n  - { id: rich, when: { plan: pro, budget.cust: ..<80 }, value: usual }\n",
			"definitions/endpoints/e.yaml": "prompt: p\n",
		}, withLimits(l))
		refused := 0
		for used := int64(300); used < 420; used += 10 {
			subject := fmt.Sprint("customer-", used)
			g.useTokens(l, subject, used)
			switch a := g.post("/v1/endpoints", `{"key":"e","context":{"plan":"pro"},"metadata":{"c":"`+subject+`"}}`); a.status {
			case http.StatusTooManyRequests:
				refused++
			case http.StatusOK:
			default:
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		ceiling := gw.BudgetCeiling{Limit: "cust", Measure: limit.Tokens, Most: 500, Text: "tokens 500/1h"}
		found := gw.CheckBudgets(g.source.Snapshot(), []gw.BudgetCeiling{ceiling}, price.NewTable(nil), definition.Providers{}, time.Now())
		if leaps != (refused > 0) || leaps != (len(found) == 1) {
			t.Errorf("%d tokens: %d of 12 calls are refused, the check says %v", longest, refused, found)
		}
	}
}
