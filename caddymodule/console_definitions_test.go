package caddymodule_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
)

// shopDefinitions have each kind, splits, a ramp, findings, tests, and texts with markup.
var shopDefinitions = map[string]string{
	"definitions/prompts/helpdesk.yaml": `
description: "Answers <script>alert(1)</script>"
default: en
variables: { limit: { config: daily } }
variants:
  en:
    provider: fake
    model: m
    messages:
      - { role: system, content: "You are <b>the</b> helpdesk. {{limit}}" }
      - { history: true, max_messages: 40 }
  nl: { extends: en, temperature: 0.2, messages: [ { role: system, content: "Je bent de helpdesk." }, { history: true } ] }
rules:
  - id: test
    when: { plan: pro }
    split: { by: locale, of: [ { value: nl, share: 30% }, { value: en, share: 50% } ] }
  - { id: never, when: { plan: pro, tags: "<i>" }, value: nl }
  - { id: never2, when: { plan: [pro, free], tags: "<i>" }, value: en, until: 2020-01-01 }
tests:
  - { name: "the <u>default</u>", context: { plan: free }, at: 2026-01-01, variant: en }
`,
	"definitions/endpoints/chat/v1.2.yaml": `
key: chat/v1.2
aliases: [ chat-old ]
prompt: helpdesk
accept: { history: true }
retry: { count: 2 }
timeout: { total: 7s }
fallback: [ { provider: canned, weight: 3, extra: { answer: "Later <em>today</em>." } } ]
`,
	"definitions/remoteconfigs/daily.yaml": `
type: number
default: 1
columns: [ id, plan, ramp, value ]
matrix:
  - [ paid, pro, null, 10 ]
  - [ lost, pro, null, 20 ]
  - [ slow, free, { from: 25%, to: 25.5%, start: 2020-01-01, end: 2020-01-02, by: locale }, 30 ]
`,
	"definitions/remoteconfigs/dots.yaml":  "key: ..\ntype: boolean\ndefault: true\n",
	"definitions/remoteconfigs/twice.yaml": "key: a//b\ntype: boolean\ndefault: true\n",
}

// tags are the tags of a page, with the spaces around them.
var tags = regexp.MustCompile(`(\s|<[^>]*>)+`)

// textOf returns the text of a page, with a space for tags.
func textOf(page []byte) string {
	return html.UnescapeString(tags.ReplaceAllString(string(page), " "))
}

// TestConsoleDefinition looks at the page of each kind of definition.
func TestConsoleDefinition(t *testing.T) {
	g := startConsoleSite(t, shopDefinitions)
	session := g.signIn("our_viewer")
	for _, plan := range []string{"pro", "pro", "pro", "none"} {
		stored(g, g.post("/v1/remoteconfigs", `{"keys":["daily"],"context":{"plan":"`+plan+`"}}`).ok(t).header.Get("Cadenza-Trace-Id"))
	}
	for _, score := range []string{"20", "60"} {
		id := g.post("/v1/prompts", `{"keys":["helpdesk"],"context":{"plan":"free"}}`).ok(t).header.Get("Cadenza-Trace-Id")
		g.post("/v1/metrics", `{"trace_id":"`+id+`","score":`+score+`}`).ok(t)
		stored(g, id)
	}
	g.post("/v1/endpoints", `{"key":"chat/v1.2","messages":[{"role":"user","content":"Hello"}],"context":{"plan":"free"}}`).ok(t)
	first := g.do("GET", "/console/api/definitions/prompt/helpdesk", "", session).ok(t).json(t)
	before, served := first["version"].(string), first["revision"].(string)
	g.write("definitions/prompts/helpdesk.yaml", strings.Replace(shopDefinitions["definitions/prompts/helpdesk.yaml"], "You are <b>the</b>", "You are <b>our</b>", 1))
	g.write("definitions/remoteconfigs/new.yaml", "type: boolean\ndefault: true\n")
	g.write("definitions/remoteconfigs/daily.yaml", strings.Replace(shopDefinitions["definitions/remoteconfigs/daily.yaml"], "null, 10", "null, 11", 1))
	old := served
	var after string
	eventually(t, "the new version is stored", func() bool {
		answer := g.do("GET", "/console/api/definitions/prompt/helpdesk", "", session).ok(t).json(t)
		after = answer["version"].(string)
		served = answer["revision"].(string)
		listed := string(g.do("GET", "/console/api/revisions", "", session).ok(t).body)
		there := g.do("GET", "/console/api/definitions/remoteconfig/new", "", session).status == 200
		return len(answer["versions"].([]any)) == 2 && after != before && there && strings.Contains(listed, served)
	})
	for _, test := range []struct {
		path  string
		shows []string
	}{
		{"definitions/prompt/helpdesk", []string{
			"Answers <script>alert(1)</script>",
			"Used by chat/v1.2 (endpoint, as prompt)", "Uses daily (remoteconfig, as variable)",
			`1 test pro any by locale: nl 30 %, en 50 %, 20 % to the rows below`, `helpdesk.yaml:14:5`,
			`2 never pro "<i>" nl`, "never2 has expired at 2020-01-02T00:00:00Z helpdesk.yaml:18:5", "default en 100.0 % with test, never2 40.0 helpdesk.yaml:3:10", "en 3 100.0 % 3 40.0",
			"en nl extends en provider fake as en", "system Je bent de helpdesk. history: true",
			"You are <b>our</b> helpdesk. {{limit}} history: true max_messages: 40",
			"the store has 2", after + " served", "variants.en.messages", "first version",
			"passes the <u>default</u> {plan: free} variant en",
		}},
		{"definitions/prompt/helpdesk?from=" + before + "&to=" + after, []string{before + " and " + after, "33 - - content: You are <b> the </b> helpdesk.", "33 + - content: You are <b> our </b> helpdesk."}},
		{"definitions/endpoint/chat-old", []string{"chat/v1.2 – Cadenza", "Uses helpdesk (prompt)", "- extra: answer: Later <em>today</em>. provider: canned weight: 3", "count: 2", "total: 7s", "It has no row: each call is made in the same way.", "canned ok", "fake/m unavailable {env.CADENZA_TEST_NO_KEY} is empty", "en 1 100.0 % 1"}},
		{"definitions/remoteconfig/daily", []string{
			`lost is never reached: paid above matches all that it matches, for example for {"plan":"pro"} daily.yaml:7:5 Try this context`,
			"by locale: 30 25.5 %, 74.5 % to the rows below", "Used by helpdesk (prompt, as variable)",
			"1 paid pro 11 75.0 % daily.yaml:6:5", "default 1 25.0 %", "paid 3 75.0 % 3 default 1 25.0 % 1",
		}},
		{"definitions/remoteconfig%2F..", []string{".. – Cadenza"}},
		{"definitions/remoteconfig%2Fa%2F%2Fb", []string{"a//b – Cadenza"}},
		{"definitions/remoteconfig/daily?row=2", []string{"Rows before these", "3 slow free"}},
		{"definitions", []string{
			"daily remoteconfig 3 4 paid 75.0 %, default 25.0 % lost is never reached: paid above matches all that it matches",
			"helpdesk prompt 3 3 40.0 en 100.0 % never2 has expired", "chat/v1.2 also chat-old endpoint 1 en 100.0 %", "daily.yaml:7:5",
		}},
		{"definitions?days=30", []string{"answers, 30 d"}},
		{"definitions?days=x", []string{"answers, 7 d"}},
		{"revisions", []string{old + " ", "Compare with the served"}},
		{"revisions?from=" + old + "&to=" + served, []string{
			"caddy cadenza diff revision:" + old + " revision:" + served,
			"changed prompt helpdesk " + before + " to " + after + " by what its variables read of daily variants.en.messages", "affected endpoint chat/v1.2 by its prompt helpdesk",
			"changed remoteconfig daily", "10 (paid) 11 (paid) Try it",
			"changed prompts/helpdesk.yaml", "10 - - { role: system, content: \"You are <b> the </b>", "added remoteconfigs/new.yaml", "1 + type: boolean",
			"caddy cadenza checkout " + old + " DIR writes its files into another folder", "Review serving " + old,
		}},
		{"revisions?from=" + served + "&to=" + served, []string{"No definition differs.", "The files are the same."}},
		{"revisions?from=none&to=" + served, []string{"the store has no revision none"}},
	} {
		var lacks strings.Builder
		page := ""
		eventually(t, test.path, func() bool {
			a := g.do("GET", "/console/"+test.path, "", session)
			if to := a.header.Get("Location"); to != "" {
				a = g.do("GET", to, "", session)
			}
			page = textOf(a.ok(t, test.path).body)
			lacks.Reset()
			for _, text := range test.shows {
				if !strings.Contains(page, text) {
					lacks.WriteString("lacks " + text + "\n")
				}
			}
			found := lacks.Len() == 0
			lacks.WriteString(page)
			return found
		}, &lacks)
		if strings.Contains(page, "ZgotmplZ") {
			t.Errorf("%s: %s", test.path, page)
		}
	}
	g.write("definitions/prompts/helpdesk.yaml", strings.Replace(shopDefinitions["definitions/prompts/helpdesk.yaml"], "variant: en }", "variant: nl }", 1))
	for path, shows := range map[string]string{
		"definitions/prompt/helpdesk":    `mistake : test failed: expected the variant "nl", got "en" (default) helpdesk.yaml:20:`,
		"definitions":                    `Mistakes the last good definitions are served test failed: expected the variant "nl", got "en" (default) helpdesk.yaml:20:`,
		"definitions/remoteconfig/daily": "1 paid pro 11",
	} {
		eventually(t, path+" shows "+shows, func() bool {
			page := textOf(g.do("GET", "/console/"+path, "", session).ok(t, path).body)
			return strings.Contains(page, shows) && strings.Contains(page, "test failed") == strings.Contains(shows, "test failed")
		})
	}
	for path, status := range map[string]int{
		"prompt/nothing": 404, "unknown/helpdesk": 404, "prompt": 404, "": 404, "remoteconfig/daily?row=-1": 400, "remoteconfig/daily?row=x": 400, "remoteconfig/daily?row=99": 200,
	} {
		if a := g.do("GET", "/console/definitions/"+path, "", session); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
}
