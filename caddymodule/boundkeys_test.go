package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

const (
	boundKey = "cadenza-key-bound-to-prod"
	where    = "type: string\nrules: [{ when: { environment: production }, value: prod }, { when: { environment: test }, value: test }]\ndefault: none\n"
)

// boundFiles returns definitions whose answers differ by environment.
func boundFiles() map[string]string {
	return map[string]string{
		"definitions/context.yaml":             "fields: { environment: { type: string, values: [production, test] }, seats: { type: number } }\n",
		"definitions/remoteconfigs/where.yaml": where,
		"definitions/prompts/say.yaml": "log: content\nvariants:\n  prod: { provider: canned, model: m, extra: { answer: said prod }, messages: [{ role: user, content: in prod }, { history: true }] }\n  test: { provider: canned, model: m, extra: { answer: said test }, messages: [{ role: user, content: in test }, { history: true }] }\n" +
			"rules: [{ when: { environment: production }, value: prod }]\ndefault: test\n",
		"definitions/endpoints/say.yaml": "prompt: say\nlog: content\naccept: { history: true }\n",
	}
}

// TestBoundKeys asks every route that takes a context, with a key bound to production, in
// the Caddyfile and in the keys file.
func TestBoundKeys(t *testing.T) {
	files := boundFiles()
	files["keys.json"] = keyList(keyOf("listed", boundKey, `,"context":{"environment":"production"}`))
	options := "definitions {dir}/definitions\nstore sqlite {dir}/cadenza.db\nkeys {dir}/keys.json\n" +
		"api_key web {env.CADENZA_TEST_KEY} {\ncontext environment=production\ncontext seats=5\n}\nprovider canned\n"
	g := startGateway(t, files, options)
	for _, key := range []string{testKey, boundKey} {
		for _, c := range []struct{ path, body, want, param string }{
			{"/v1/remoteconfigs", `{"keys":["where"]CONTEXT}`, `"value":"prod"`, "context.environment"},
			{"/v1/prompts", `{"keys":["say"]CONTEXT}`, "in prod", "context.environment"},
			{"/v1/decisions", `{"prompts":["say"],"remoteconfigs":["where"]CONTEXT}`, `"value":"prod"`, "context.environment"},
			{"/v1/endpoints", `{"key":"say"CONTEXT}`, `said prod`, "context.environment"},
		} {
			for context, status := range map[string]int{
				"": 200, `,"context":{}`: 200, `,"context":{"environment":"production"}`: 200,
				`,"context":{"environment":"test"}`: 400,
			} {
				body := strings.Replace(c.body, "CONTEXT", context, 1)
				a := g.do("POST", c.path, body, bearer(key))
				if a.status != status {
					t.Errorf("%s %s: %d %s, want %d", c.path, body, a.status, a.body, status)
				} else if status == http.StatusBadRequest {
					checkError(t, a, "invalid_request", c.param)
				} else if !strings.Contains(string(a.body), c.want) {
					t.Errorf("%s %s: %s lacks %s", c.path, body, a.body, c.want)
				} else if c.path == "/v1/endpoints" {
					// The trace has the filled-in value, as if the caller had sent it.
					id := a.json(t)["trace_id"].(string)
					eventually(t, "the trace is stored with the field", func() bool {
						record, found := g.trace("cadenza.db", id)
						return found && strings.Contains(string(record.Context), `"environment":"production"`)
					})
				}
			}
		}
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"say","messages":[{"role":"user","content":"x"}]METADATA}`,
			"/v1/responses":        `{"model":"say","input":"x"METADATA}`,
		} {
			a := g.do("POST", path, strings.Replace(body, "METADATA", `,"metadata":{"environment":"test"}`, 1), bearer(key))
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "metadata.environment") {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}

	// An edit of the keys file takes effect at once; a mistake keeps the last list.
	g.write("keys.json", keyList(keyOf("listed", boundKey, `,"context":{"environment":"prod"}`)))
	eventually(t, "the mistake is reported", g.said(`context.environment must be one of production, test`))
	g.write("keys.json", keyList(keyOf("listed", boundKey, `,"context":{"environment":"test"}`)))
	eventually(t, "the key is bound anew", func() bool {
		a := g.do("POST", "/v1/remoteconfigs", `{"keys":["where"]}`, bearer(boundKey))
		return strings.Contains(string(a.body), `"value":"test"`)
	})

	for _, c := range []struct{ block, want string }{
		{"context enviroment=production", "api_key web: context.enviroment is not a field of the data model: did you mean \"environment\"?"},
		{"context environment=prod", "api_key web: context.environment must be one of production, test"},
		{"context environment", "context takes <field>=<value>, such as environment=production"},
		{"contxt environment=test", `did you mean "context"?`},
		{"context seats=1\ncontext seats=2", "context seats is configured twice for api_key web"},
	} {
		err := g.load(strings.Replace(options, "context environment=production\ncontext seats=5", c.block, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.block, err, c.want)
		}
	}
}

// TestBoundKeysAtAStart starts with a keys file whose entry is bound to a value that is
// invalid in the data model.
func TestBoundKeysAtAStart(t *testing.T) {
	g := startGateway(t, boundFiles(), "definitions {dir}/definitions\nstore sqlite {dir}/cadenza.db\napi_key web {env.CADENZA_TEST_KEY}\nprovider canned\n")
	for context, want := range map[string]string{
		`{"environment":"prod"}`: `the key "listed": context.environment must be one of production, test`,
		`{"seats":{}}`:           `the field "seats" must have one value`,
		`["environment"]`:        "context must be an object of fields and their values",
	} {
		g.write("other.json", keyList(keyOf("listed", boundKey, `,"context":`+context)))
		err := g.load("definitions {dir}/definitions\nstore sqlite {dir}/cadenza.db\nkeys {dir}/other.json\nprovider canned\n")
		if err == nil || !strings.Contains(err.Error(), "other.json:1:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", context, err, want)
		}
	}
}
