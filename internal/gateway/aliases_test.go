package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// renamed is a workspace whose definitions have aliases.
func renamed() map[string]string {
	return map[string]string{
		"definitions/context.yaml": "fields: { plan: { type: string } }\n",
		"definitions/prompts/shop/reply.yaml": `
aliases: [reply, answer]
variables: { question: { required: true } }
variants:
  short:
    provider: canned
    extra: { answer: "Fine." }
    messages: [ { role: user, content: "{{question}}" }, { history: true } ]
`,
		"definitions/endpoints/shop/chat.yaml":       "aliases: [chat]\nprompt: shop/reply\naccept: { history: true, variants: true }\n",
		"definitions/remoteconfigs/shop/limits.yaml": "aliases: [limits]\ntype: number\ndefault: 60\n",
	}
}

const askReply = `"variables":{"question":"Why?"}`

// TestAliasesAreAnswered asks each route by the key, by an alias, and by both.
func TestAliasesAreAnswered(t *testing.T) {
	t.Parallel()
	g := startGateway(t, renamed(), options)
	revision := ""
	type lookup struct{ key, name string }
	traces := make(map[string]lookup)
	defer func() {
		for id, asked := range traces {
			record := g.ended(t, id)
			if noted := slices.Contains(record.Notes, "asked as "+asked.name); record.Key != asked.key || noted != (asked.name != asked.key) {
				t.Errorf("asked as %s: the trace has the key %q and the notes %q", asked.name, record.Key, record.Notes)
			}
		}
	}()
	// entries checks the entries of an answer: they are equal under each name, and each has
	// its own trace, under the definition's key.
	entries := func(what string, got map[string]entry, key string, names ...string) {
		t.Helper()
		if under := slices.Sorted(maps.Keys(got)); !slices.Equal(under, slices.Sorted(slices.Values(names))) {
			t.Errorf("%s: answers under %q", what, under)
		}
		for _, asked := range names {
			id := got[asked].TraceID
			if string(got[asked].Value) != string(got[names[0]].Value) || traces[id] != (lookup{}) {
				t.Errorf("%s: %s: %+v", what, asked, got)
			}
			traces[id] = lookup{key, asked}
		}
	}
	for _, names := range [][]string{{"shop/reply"}, {"reply"}, {"answer", "shop/reply", "reply"}} {
		list := `["` + strings.Join(names, `","`) + `"]`
		a := g.post("/v1/prompts", `{"keys":`+list+`,`+askReply+`}`)
		entries("prompts", readEntries(t, a), "shop/reply", names...)
		if n := a.header.Get("Cadenza-Unknown-Keys"); n != "" || revision != "" && revision != a.header.Get("Cadenza-Revision") {
			t.Errorf("headers %v", a.header)
		}
		revision = a.header.Get("Cadenza-Revision")
		d := readDecided(t, g.post("/v1/decisions", `{"prompts":`+list+`,"remoteconfigs":["limits"],`+askReply+`}`))
		entries("decisions", d.Prompts, "shop/reply", names...)
		entries("decisions", d.RemoteConfigs, "shop/limits", "limits")
	}
	for _, names := range [][]string{{"shop/limits"}, {"limits"}, {"limits", "shop/limits"}} {
		list := `["` + strings.Join(names, `","`) + `"]`
		entries("remoteconfigs", readEntries(t, g.post("/v1/remoteconfigs", `{"keys":`+list+`}`)), "shop/limits", names...)
	}
	// A name of one kind is unknown for another kind.
	checkError(t, g.post("/v1/prompts", `{"keys":["limits"]}`), "unknown_key", "keys")
	if a := g.post("/v1/remoteconfigs", `{"keys":["reply","limits"]}`); a.header.Get("Cadenza-Unknown-Keys") != "reply" {
		t.Errorf("headers %v", a.header)
	}

	for _, asked := range []string{"shop/chat", "chat", "chat@short"} {
		for path, member := range map[string]string{
			"/v1/endpoints":        `"key":"` + asked + `","remoteconfigs":["limits"]`,
			"/v1/chat/completions": `"model":"` + asked + `","messages":[]`,
			"/v1/responses":        `"model":"` + asked + `","input":[]`,
			"/v1/messages":         `"model":"` + asked + `","messages":[]`,
		} {
			for _, stream := range []string{"false", "true"} {
				a := g.post(path, `{`+member+`,"stream":`+stream+`,`+askReply+`}`).ok(t, path)
				traces[a.header.Get("Cadenza-Trace-Id")] = lookup{"shop/chat", strings.TrimSuffix(asked, "@short")}
				want := `"model":"` + asked + `"`
				if path == "/v1/endpoints" {
					want = `"remoteconfigs":{"limits":{"value":60,`
				}
				if !strings.Contains(string(a.body), want) || strings.Contains(string(a.body), "shop/") != (asked == "shop/chat" && path != "/v1/endpoints") {
					t.Errorf("%s: not %s: %s", path, want, a.body)
				}
			}
		}
		g.post("/v1/messages/count_tokens", `{"model":"`+asked+`","messages":[],`+askReply+`}`).ok(t)
	}
	checkError(t, g.post("/v1/endpoints", `{"key":"reply"}`), "unknown_endpoint", "key")

	for header, path := range map[string]http.Header{"bearer": bearer(testKey), "x-api-key": anthropicHeader(testKey)} {
		get := func(name string) string {
			a := g.do(http.MethodGet, "/v1/models"+name, "", path).ok(t, header)
			return string(a.body)
		}
		if list := get(""); strings.Count(list, `"id"`) != 1 || !strings.Contains(list, `"id":"shop/chat"`) {
			t.Errorf("models: %s", list)
		}
		if one := get("/chat"); !strings.Contains(one, `"id":"chat"`) {
			t.Errorf("the model chat: %s", one)
		}
	}
}

// readEntries decodes the answer to a request for keys.
func readEntries(t *testing.T, a answer) map[string]entry {
	t.Helper()
	return readDecided(t, answer{a.status, a.header, fmt.Appendf(nil, `{"prompts":%s,"remoteconfigs":{}}`, a.body)}).Prompts
}

// TestAliasesCountAsTheirKey checks that limits, metrics, refusals and the cache of answers
// use the keys of definitions, not their aliases.
func TestAliasesCountAsTheirKey(t *testing.T) {
	t.Parallel()
	files := renamed()
	files["definitions/endpoints/shop/chat.yaml"] += "cache: { ttl: 1h }\n"
	byEndpoint := &limit.Limit{Name: "each", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Requests, 3)}}
	byCustomer := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Routes: []string{"prompts", "remoteconfigs"}, Ceilings: []limit.Ceiling{yearly(limit.Requests, 9)}}
	g := startGateway(t, files, withLimits(byEndpoint, byCustomer))
	for n, name := range []string{"shop/chat", "chat"} {
		a := g.post("/v1/chat/completions", `{"model":"`+name+`","messages":[],`+askReply+`}`)
		if a.json(t)["model"] != name || strings.HasPrefix(a.header.Get("Cache-Status"), "Cadenza; hit") != (n == 1) {
			t.Errorf("%s: %s, headers %v", name, a.body, a.header)
		}
	}
	checkError(t, g.post("/v1/endpoints", `{"key":"chat"}`), "missing_variable", "variables.question")
	checkError(t, g.post("/v1/endpoints", `{"key":"chat",`+askReply+`}`), "rate_limited", "")
	g.holdUses("by the endpoint's key", byEndpoint, "shop/chat", 3)
	checkError(t, g.post("/v1/prompts", `{"keys":["reply"],"metadata":{"customer":"a"}}`), "missing_variable", "variables.question")
	g.post("/v1/remoteconfigs", `{"keys":["limits"],"metadata":{"customer":"a"}}`)
	g.holdUses("by metadata", byCustomer, "a", 2)

	metrics := g.scrape()
	for _, want := range []string{
		`cadenza_requests_total{code="ok",definition="shop/chat",route="chat",workspace="default"} 2`,
		`cadenza_requests_total{code="missing_variable",definition="shop/chat",route="endpoints",workspace="default"} 1`,
		`cadenza_requests_total{code="missing_variable",definition="shop/reply",route="prompts",workspace="default"} 1`,
		`cadenza_requests_total{code="ok",definition="shop/limits",route="remoteconfigs",workspace="default"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	reader, err := sqlite.OpenReader(t.Context(), g.dir+"/data/cadenza.db")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	want := "endpoints/missing_variable/shop/chat endpoints/rate_limited/shop/chat prompts/missing_variable/shop/reply"
	eventually(t, "refusals: "+want, func() bool {
		rows, err := reader.Refusals(t.Context(), &sqlite.RefusalQuery{Filter: trace.Filter{Workspace: "default"}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			got = append(got, r.Route+"/"+r.Code+"/"+r.Key)
		}
		slices.Sort(got)
		return strings.Join(got, " ") == want
	})
}

// TestPatternsAreAnswered asks for models by names that agents choose.
func TestPatternsAreAnswered(t *testing.T) {
	t.Parallel()
	files := renamed()
	files["definitions/endpoints/shop/chat.yaml"] = "aliases: [claude-opus-4-5, gpt-*]\nprompt: shop/reply\naccept: { history: true, variants: true }\n"
	files["definitions/endpoints/any.yaml"] = "aliases: [\"claude-*\"]\nprompt: shop/reply\naccept: { history: true }\n"
	files["definitions/endpoints/sonnet.yaml"] = "aliases: [claude-sonnet-*]\nprompt: shop/reply\naccept: { history: true }\n"
	byEndpoint := &limit.Limit{Name: "each", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Requests, 100)}}
	g := startGateway(t, files, withLimits(byEndpoint))
	for name, key := range map[string]string{
		"claude-opus-4-5": "shop/chat", "claude-opus-4-6": "any", "claude-sonnet-4-5-20250929": "sonnet", "gpt-5.1-codex": "shop/chat", "any": "any",
	} {
		for path, list := range map[string]string{"/v1/messages": `"messages"`, "/v1/chat/completions": `"messages"`, "/v1/responses": `"input"`} {
			a := g.post(path, `{"model":"`+name+`",`+list+`:[],`+askReply+`}`).ok(t, path)
			if a.json(t)["model"] != name {
				t.Errorf("%s, %s: %s", path, name, a.body)
			}
			record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
			if record.Key != key || slices.Contains(record.Notes, "asked as "+name) != (key != name) {
				t.Errorf("%s is %s, with the notes %q", name, record.Key, record.Notes)
			}
		}
		if one := g.do(http.MethodGet, "/v1/models/"+name, "", bearer(testKey)).ok(t); one.json(t)["id"] != name {
			t.Errorf("the model %s: %s", name, one.body)
		}
	}
	if named := g.post("/v1/chat/completions", `{"model":"gpt-5@short","messages":[],`+askReply+`}`).ok(t); named.json(t)["model"] != "gpt-5@short" {
		t.Errorf("%s", named.body)
	}
	g.holdUses("by the endpoint's key", byEndpoint, "sonnet", 3)
	list := string(g.do(http.MethodGet, "/v1/models", "", bearer(testKey)).ok(t).body)
	if strings.Count(list, `"id"`) != 3 || strings.Contains(list, "claude") {
		t.Errorf("models: %s", list)
	}
	checkError(t, g.post("/v1/chat/completions", `{"model":"o3","messages":[]}`), "model_not_found", "model")
	checkError(t, g.do(http.MethodGet, "/v1/models/claude-*", "", bearer(testKey)), "model_not_found", "model")
	checkError(t, g.post("/v1/prompts", `{"keys":["claude-opus-4-6"]}`), "unknown_key", "keys")
}

// TestAliasesOfTheServedSet checks that an edit of aliases alone is logged, and that a start
// with invalid definitions restores them.
func TestAliasesOfTheServedSet(t *testing.T) {
	t.Parallel()
	g := startGateway(t, renamed(), options)
	answers := func(name string) bool {
		return g.post("/v1/remoteconfigs", `{"keys":["`+name+`"]}`).status == http.StatusOK
	}
	before := g.post("/v1/remoteconfigs", `{"keys":["limits"]}`).header.Get("Cadenza-Revision")
	g.write("definitions/remoteconfigs/shop/limits.yaml", "aliases: [rates]\ntype: number\ndefault: 60\n")
	eventually(t, "the other alias is served", func() bool { return answers("rates") && !answers("limits") })
	eventually(t, "the change is logged", g.said(`"changed":["remoteconfig shop/limits"]`))
	if now := g.post("/v1/remoteconfigs", `{"keys":["rates"]}`).header.Get("Cadenza-Revision"); now == before {
		t.Error("sets with other aliases have the same revision")
	}
	g.write("definitions/remoteconfigs/shop/limits.yaml", "nonsense\n")
	g.restart()
	if !answers("rates") || answers("limits") {
		t.Error("the set that was served last is restored with other aliases")
	}
}
