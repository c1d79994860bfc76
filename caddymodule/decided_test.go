package caddymodule_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
)

// TestAdminShowsWhatDecisionsRestOn asks for a prompt, an endpoint and a configuration, each
// decided or passed on by a split, and reads their traces through the admin API.
func TestAdminShowsWhatDecisionsRestOn(t *testing.T) {
	files := maps.Clone(workspace)
	files["definitions/context.yaml"] += "  user: { type: string }\n"
	files["definitions/remoteconfigs/checkout.yaml"] = `
type: boolean
default: false
rules:
  - { id: none, when: { plan: pro }, split: { by: user, salt: old, of: [ { value: true, share: 0% }, { value: false, share: 50% } ], coverage: 0% } }
  - { id: ramp, when: { plan: pro }, ramp: { by: user, from: 100%, start: 2020-01-01, end: 2020-01-02 }, value: true }
`
	files["definitions/prompts/reply.yaml"] = `
default: en
variables: { question: {} }
variants:
  en: { provider: fake, model: small, messages: [ { role: user, content: "{{question}}" } ] }
  nl: { extends: en }
rules:
  - { id: checkout, when: { config: { checkout: true } }, split: { by: user, of: [ { value: nl, share: 100% } ] } }
`
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback: [ { provider: canned, extra: { answer: one } } ]\n"
	g := startGateway(t, files, options)
	address := adminOf(t, g, options)
	const who = `"context":{"plan":"pro","user":"ada"},"variables":{"question":"Hi?"}`
	passed := map[string]any{"experiment": map[string]any{"definition": "remoteconfigs/checkout", "rule": "none", "salt": "old"}, "share": 0.0, "arms": map[string]any{"1": 0.0, "2": 0.0}}
	ramp := map[string]any{"experiment": map[string]any{"definition": "remoteconfigs/checkout", "rule": "ramp", "salt": "ramp"}, "share": 1.0, "arm": "1"}
	split := map[string]any{"experiment": map[string]any{"definition": "prompts/reply", "rule": "checkout", "salt": "checkout"}, "share": 1.0, "arm": "nl"}
	for _, test := range []struct {
		path, body, row, arm string
		splits               []any
		read                 bool
	}{
		{"/v1/remoteconfigs", `{"keys":["checkout"],` + who + `}`, "ramp", "1", []any{passed, ramp}, false},
		{"/v1/prompts", `{"keys":["reply"],` + who + `}`, "checkout", "nl", []any{passed, ramp, split}, true},
		{"/v1/endpoints", `{"key":"chat",` + who + `}`, "checkout", "nl", []any{passed, ramp, split}, true},
	} {
		a := g.post(test.path, test.body).ok(t, test.path)
		if report := g.post("/v1/metrics", `{"decision_id":"`+a.header.Get("Cadenza-Decision-Id")+`","values":{"ok":1}}`); report.status != http.StatusOK {
			t.Fatal(report.body)
		}
		id := a.header.Get("Cadenza-Trace-Id")
		var shown map[string]any
		eventually(t, "the admin API has the trace", func() bool {
			status, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+id, "")
			shown, _ = answer["trace"].(map[string]any)
			return status == http.StatusOK && shown["state"] == "ended"
		})
		if shown["decision_id"] != a.header.Get("Cadenza-Decision-Id") || shown["reason"] != "split" || shown["row"] != test.row || shown["arm"] != test.arm {
			t.Errorf("%s: %v", test.path, shown)
		}
		inputs, _ := shown["inputs"].(map[string]any)
		user, _ := inputs["user"].(map[string]any)
		if inputs["plan"] != "pro" || len(inputs) != 2 || user["hash"] == nil {
			t.Errorf("%s: inputs %v", test.path, inputs)
		}
		if read, ok := shown["read"].(map[string]any); ok != test.read || ok && read["remoteconfigs/checkout"] == nil {
			t.Errorf("%s: read %v", test.path, read)
		}
		splits, _ := shown["splits"].([]any)
		for _, s := range splits {
			s := s.(map[string]any)
			if _, ok := s["bucket"].(float64); !ok || s["unit"] != user["hash"] {
				t.Errorf("%s: %v", test.path, s)
			}
			delete(s, "bucket")
			delete(s, "unit")
		}
		got, _ := json.Marshal(splits)
		want, _ := json.Marshal(test.splits)
		if string(got) != string(want) {
			t.Errorf("%s: splits %s, want %s", test.path, got, want)
		}
	}
	// Ada is one unit of each key, and of each the split of its own table.
	eventually(t, "the units are counted", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/stats?units=true&by=arm", "")
		rows, _ := answer["rows"].([]any)
		counted := 0
		for _, row := range rows {
			row := row.(map[string]any)
			values, _ := row["values"].(map[string]any)
			if ok, _ := values["ok"].(map[string]any); row["units"] == 1.0 && ok["count"] == 1.0 && ok["mean"] == 1.0 {
				counted++
			}
		}
		return len(rows) == 3 && counted == 3
	})
}
