package gateway_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// traceID matches a trace id: a UUID of version 8.
var traceID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestPrompts(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	for _, path := range []string{"/v1/prompts", "/v2/prompts"} {
		a := g.post(path, `{"keys":["reply","nothing","reply","hello"],"context":{"locale":"nl-BE"},"variables":{"question":"Waar is \"het\"?","unused":1}}`).ok(t, path)
		got := a.json(t)
		if len(got) != 2 {
			t.Fatalf("%s: keys of %v", path, got)
		}
		reply := got["reply"].(map[string]any)
		if id := reply["trace_id"].(string); !traceID.MatchString(id) {
			t.Errorf("trace_id %q", id)
		}
		if reply["trace_id"] == got["hello"].(map[string]any)["trace_id"] {
			t.Error("two keys share a trace")
		}
		value := reply["value"].(map[string]any)
		if value["name"] != "dutch" || value["provider"] != "fake" || value["model"] != "small" ||
			value["temperature"] != 0.2 || value["maxTokens"] != 400.0 {
			t.Errorf("value %v", value)
		}
		if _, there := value["topP"]; there {
			t.Error("an unset parameter is in the answer")
		}
		messages := value["messages"].([]any)
		if len(messages) != 1 || messages[0].(map[string]any)["content"] != `Waar is "het"? (Acme)` {
			t.Errorf("messages %v", messages)
		}
		if unknown := a.header.Get("Cadenza-Unknown-Keys"); unknown != "nothing" {
			t.Errorf("Cadenza-Unknown-Keys %q", unknown)
		}
		if a.header.Get("Cadenza-Revision") == "" {
			t.Error("no Cadenza-Revision")
		}
		if a.header.Get("Cadenza-Trace-Id") != "" {
			t.Error("Cadenza-Trace-Id on an answer with two traces")
		}
	}
	a := g.post("/v1/prompts", `{"keys":["reply"],"context":null,"metadata":{},"variables":{"question":"Why?"}}`)
	value := a.json(t)["reply"].(map[string]any)["value"].(map[string]any)
	if value["name"] != "en" {
		t.Errorf("without context the variant is %v", value["name"])
	}
	if a.header.Get("Cadenza-Trace-Id") != a.json(t)["reply"].(map[string]any)["trace_id"] {
		t.Error("Cadenza-Trace-Id is not the trace's")
	}
}

func TestRemoteConfigs(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	for _, test := range []struct {
		context, checkout, limits string
	}{
		{`{"environment":"production","plan":"pro","tags":["x","employee"]}`, "true", `map[burst:60 rpm:600]`},
		{`{"environment":"production","tags":"employee"}`, "true", `map[burst:10 rpm:60]`},
		{`{"environment":"staging","plan":"pro","tags":[]}`, "false", `map[burst:10 rpm:60]`},
		{`{}`, "false", `map[burst:10 rpm:60]`},
		{`null`, "false", `map[burst:10 rpm:60]`},
	} {
		for _, path := range []string{"/v1/remoteconfigs", "/v2/remoteconfigs"} {
			a := g.post(path, `{"keys":["checkout","limits"],"context":`+test.context+`}`).ok(t)
			got := a.json(t)
			checkout, limits := got["checkout"].(map[string]any), got["limits"].(map[string]any)
			if fmt.Sprint(checkout["value"]) != test.checkout || checkout["type"] != "boolean" {
				t.Errorf("context %s: checkout %v", test.context, checkout)
			}
			if fmt.Sprint(limits["value"]) != test.limits || limits["type"] != "object" {
				t.Errorf("context %s: limits %v", test.context, limits)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	trace := func(path, body string) string {
		a := g.post(path, body)
		if a.status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", path, body, a.status, a.body)
		}
		if id := a.header.Get("Cadenza-Trace-Id"); id != "" {
			return id
		}
		t.Fatalf("%s: no trace id", path)
		return ""
	}
	prompt := trace("/v1/prompts", `{"keys":["hello"]}`)
	config := trace("/v1/remoteconfigs", `{"keys":["checkout"]}`)
	endpoint := trace("/v1/endpoints", `{"key":"chat","variables":{"question":"Hi?"}}`)
	all := `"metadata":{"a":1},"score":90,"latency":12.5,"llm_response":"x","chain_id":"c","conversation_id":"d",` +
		`"economics":{"prompt_tokens":3,"total_tokens":5},"roundtrip_time":7`
	for _, test := range []struct {
		name, path, body string
		want             string
		status           int
	}{
		{"all of a prompt", "/v1/metrics", `{"trace_id":"` + prompt + `",` + all + `}`, `{"ok":true}`, 200},
		{"again, in upper case", "/v1/metrics", `{"trace_id":"` + strings.ToUpper(prompt) + `",` + all + `}`, `{"ok":true}`, 200},
		{"all of an endpoint", "/v1/metrics", `{"trace_id":"` + endpoint + `",` + all + `}`, `{"ok":true,"ignored":["latency","llm_response","economics"]}`, 200},
		{"values of an endpoint", "/v1/metrics", `{"trace_id":"` + endpoint + `","values":{"resolved":1}}`, `{"ok":true}`, 200},
		{"the conversation of an endpoint", "/v1/metrics", `{"trace_id":"` + endpoint + `","conversation_id":"d"}`, `{"ok":true}`, 200},
		{"values of a configuration", "/v2/remoteconfigs/" + config + `/metrics?values[checkout]=12.5`, ``, `{"ok":true}`, 200},
		{"no number among values", "/v1/metrics", `{"trace_id":"` + prompt + `","values":{"resolved":true}}`, `values.resolved`, 400},
		{"all of a configuration", "/v1/metrics", `{"trace_id":"` + config + `",` + all + `}`, `{"ok":true,"ignored":["score","latency","llm_response","chain_id","conversation_id","economics"]}`, 200},
		{"nothing of a configuration", "/v1/metrics", `{"trace_id":"` + config + `"}`, `{"ok":true}`, 200},
		{"a configuration's path", "/v2/remoteconfigs/" + config + "/metrics", ``, `{"ok":true}`, 200},
		{"a configuration's path and query", "/v2/remoteconfigs/" + config + `/metrics?metadata[a]=b`, ``, `{"ok":true}`, 200},
		{"a prompt's path", "/v2/prompts/" + prompt + "/metrics", `{"roundtrip_time":12}`, `{"ok":true}`, 200},
		{"a prompt's path and nothing", "/v2/prompts/" + prompt + "/metrics", `{}`, `no_metrics`, 400},
		{"nothing of an endpoint", "/v1/metrics", `{"trace_id":"` + endpoint + `","latency":1}`, `no_metrics`, 400},
		{"another kind's path", "/v2/remoteconfigs/" + prompt + "/metrics", `{"metadata":{"a":1}}`, `unknown_trace`, 404},
		{"an endpoint under prompts", "/v2/prompts/" + endpoint + "/metrics", `{"metadata":{"a":1}}`, `unknown_trace`, 404},
		{"another id in the body", "/v2/prompts/" + prompt + "/metrics", `{"trace_id":"` + config + `","metadata":{"a":1}}`, `unknown_trace`, 404},
		{"a forged id", "/v1/metrics", `{"trace_id":"` + forge(prompt) + `","score":1}`, `unknown_trace`, 404},
		{"no id at all", "/v1/metrics", `{"trace_id":"x","score":1}`, `unknown_trace`, 404},
		{"an empty id", "/v1/metrics", `{"trace_id":"","score":1}`, `unknown_trace`, 404},
		{"an empty id beside the path's", "/v2/prompts/" + prompt + "/metrics", `{"trace_id":"","score":1}`, `unknown_trace`, 404},
		{"an empty id in the query", "/v2/prompts/" + prompt + `/metrics?{"trace_id":"","score":1}`, ``, `unknown_trace`, 404},
		{"null for an id", "/v2/prompts/" + prompt + "/metrics", `{"trace_id":null,"score":1}`, `{"ok":true}`, 200},
		{"a score past its range", "/v1/metrics", `{"trace_id":"` + prompt + `","score":100.5}`, `invalid_request`, 400},
	} {
		a := g.post(test.path, test.body)
		if a.status != test.status || !strings.Contains(string(a.body), test.want) {
			t.Errorf("%s: %d %s, want %d %s", test.name, a.status, a.body, test.status, test.want)
		}
	}
	a := g.post("/v1/metrics", `{"score":50}`)
	unattached, _ := a.json(t)["trace_id"].(string)
	if a.status != http.StatusOK || !traceID.MatchString(unattached) {
		t.Errorf("unattached: %d %s", a.status, a.body)
	}
	g.post("/v1/metrics", `{"score":51,"trace_id":"`+unattached+`"}`).ok(t, "a second record of an unattached trace")
}

// TestSecretsPostedAsKeys checks that secrets sent as keys appear neither in a header,
// which access logs may contain, nor in the log.
func TestSecretsPostedAsKeys(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	secrets := []string{testKey, "AKIAIOSFODNN7EXAMPL3", "sk-proj-" + strings.Repeat("a1B2c3D4", 6)}
	for _, path := range []string{"/v1/prompts", "/v1/remoteconfigs"} {
		for _, known := range []string{`"hello","checkout",`, ""} {
			a := g.post(path, `{"keys":[`+known+`"nothing","`+strings.Join(secrets, `","`)+`"]}`)
			if got, want := a.header.Get("Cadenza-Unknown-Keys"), "nothing"; !strings.HasSuffix(got, want+"...+3") {
				t.Errorf("%s names %q, want %s and three more", path, got, want)
			}
			if known == "" && a.status != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	eventually(t, "the keys are logged", g.said("a request named keys that no definition has"))
	logs := g.logs.Bytes()
	for _, secret := range secrets {
		if strings.Contains(string(logs), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// forge changes an id's last digit.
func forge(id string) string {
	last := id[len(id)-1]
	if last == '0' {
		return id[:len(id)-1] + "1"
	}
	return id[:len(id)-1] + "0"
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, with(func(c *gw.WorkspaceConfig) { c.MaxBodySize = 4 << 10 }))
	authorized := func(more ...string) http.Header {
		h := http.Header{"Authorization": {"Bearer " + testKey}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	keys := make([]string, 101)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d"`, i)
	}
	for _, test := range []struct {
		name, method, path, body string
		header                   http.Header
		status                   int
		code, param              string
	}{
		{"unknown path", "POST", "/v1/nothing", `{}`, authorized(), 404, "not_found", ""},
		{"root", "GET", "/", ``, nil, 404, "not_found", ""},
		{"another case", "POST", "/V1/prompts", `{}`, authorized(), 404, "not_found", ""},
		{"a trailing slash", "POST", "/v1/prompts/", `{}`, authorized(), 404, "not_found", ""},
		{"method", "GET", "/v1/prompts", ``, authorized(), 405, "method_not_allowed", ""},
		{"websocket without key", "GET", "/v1/responses", ``, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, 426, "no_websocket", ""},
		{"no websocket", "GET", "/v1/responses", ``, authorized(), 405, "method_not_allowed", ""},
		{"websocket elsewhere", "GET", "/v1/prompts", ``, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, 405, "method_not_allowed", ""},
		{"method without key", "DELETE", "/v1/endpoints", ``, nil, 405, "method_not_allowed", ""},
		{"no key", "POST", "/v1/prompts", `{"keys":["hello"]}`, nil, 401, "invalid_api_key", ""},
		{"another scheme", "POST", "/v1/prompts", `{}`, http.Header{"Authorization": {"Basic eDp5"}}, 401, "invalid_api_key", ""},
		{"wrong key", "POST", "/v1/endpoints", `{}`, http.Header{"Authorization": {"Bearer " + testKey + "x"}}, 401, "invalid_api_key", ""},
		{"two keys", "POST", "/v1/endpoints", `{}`, http.Header{"Authorization": {"Bearer " + testKey, "Bearer " + testKey}}, 401, "invalid_api_key", ""},
		{"content coding", "POST", "/v1/prompts", `{"keys":["hello"]}`, authorized("Content-Encoding", "gzip"), 415, "unsupported_encoding", ""},
		{"large body", "POST", "/v1/prompts", `{"keys":["` + strings.Repeat("k", 5000) + `"]}`, authorized(), 413, "body_too_large", ""},
		{"no body", "POST", "/v1/prompts", ``, authorized(), 400, "invalid_json", ""},
		{"no JSON", "POST", "/v1/remoteconfigs", `keys=hello`, authorized(), 400, "invalid_json", ""},
		{"not UTF-8", "POST", "/v1/remoteconfigs", "{\"keys\":[\"\xff\"]}", authorized(), 400, "invalid_json", ""},
		{"NaN", "POST", "/v1/metrics", `{"score":NaN}`, authorized(), 400, "invalid_json", ""},
		{"a number without end", "POST", "/v1/metrics", `{"score":1e999}`, authorized(), 400, "invalid_json", ""},
		{"duplicate members", "POST", "/v1/prompts", `{"keys":["a"],"keys":["b"]}`, authorized(), 400, "invalid_json", "keys"},
		{"deep nesting", "POST", "/v1/prompts", strings.Repeat("[", 4000), authorized(), 400, "invalid_json", ""},
		{"an array", "POST", "/v1/prompts", `[]`, authorized(), 400, "invalid_request", ""},
		{"no keys", "POST", "/v1/prompts", `{}`, authorized(), 400, "invalid_request", "keys"},
		{"keys of another type", "POST", "/v1/prompts", `{"keys":"hello"}`, authorized(), 400, "invalid_request", "keys"},
		{"empty keys", "POST", "/v1/prompts", `{"keys":[]}`, authorized(), 400, "invalid_request", "keys"},
		{"too many keys", "POST", "/v1/prompts", `{"keys":[` + strings.Join(keys, ",") + `]}`, authorized(), 400, "invalid_request", "keys"},
		{"an illegal key", "POST", "/v1/prompts", `{"keys":["hello","a b"]}`, authorized(), 400, "invalid_request", "keys[1]"},
		{"context of another type", "POST", "/v1/prompts", `{"keys":["hello"],"context":[]}`, authorized(), 400, "invalid_request", "context"},
		{"metadata of another type", "POST", "/v1/remoteconfigs", `{"keys":["checkout"],"metadata":"x"}`, authorized(), 400, "invalid_request", "metadata"},
		{"variables of another type", "POST", "/v1/endpoints", `{"key":"chat","variables":3}`, authorized(), 400, "invalid_request", "variables"},
		{"missing variable", "POST", "/v1/prompts", `{"keys":["hello","reply"]}`, authorized(), 400, "missing_variable", "variables.question"},
		{"missing variable of an endpoint", "POST", "/v1/endpoints", `{"key":"chat","stream":true}`, authorized(), 400, "missing_variable", "variables.question"},
		{"unknown keys only", "POST", "/v1/remoteconfigs", `{"keys":["x","y"]}`, authorized(), 404, "unknown_key", "keys"},
		{"unknown endpoint", "POST", "/v1/endpoints", `{"key":"x"}`, authorized(), 404, "unknown_endpoint", "key"},
		{"no endpoint", "POST", "/v1/endpoints", `{}`, authorized(), 400, "invalid_request", "key"},
		{"several endpoints", "POST", "/v1/endpoints", `{"keys":["chat","chat2"]}`, authorized(), 400, "invalid_request", "keys"},
		{"stream of another type", "POST", "/v1/endpoints", `{"key":"chat","stream":"yes"}`, authorized(), 400, "invalid_request", "stream"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := g.do(test.method, test.path, test.body, test.header)
			if a.status != test.status {
				t.Errorf("status %d, want %d: %s", a.status, test.status, a.body)
			}
			checkError(t, a, test.code, test.param)
		})
	}
	// The gateway still works.
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "afterwards")
}

func TestUnauthorizedAnswersAreAlike(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	var first answer
	for i, authorization := range []string{
		"Bearer " + testKey[:len(testKey)-1], "Bearer short", "Bearer " + strings.Repeat("k", 600),
		"bearer " + strings.ToUpper(testKey),
	} {
		a := g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, http.Header{"Authorization": {authorization}})
		if a.status != http.StatusUnauthorized {
			t.Fatalf("%q: %d", authorization, a.status)
		}
		if i == 0 {
			first = a
		}
		if string(a.body) != string(first.body) || a.header.Get("Www-Authenticate") != first.header.Get("Www-Authenticate") {
			t.Errorf("%q is answered differently: %s", authorization, a.body)
		}
	}
	if first.header.Get("Www-Authenticate") != `Bearer realm="cadenza", error="invalid_token"` {
		t.Errorf("WWW-Authenticate %q", first.header.Get("Www-Authenticate"))
	}
	if a := g.do("POST", "/v1/prompts", ``, nil); a.header.Get("Www-Authenticate") != `Bearer realm="cadenza"` {
		t.Errorf("without a token WWW-Authenticate is %q", a.header.Get("Www-Authenticate"))
	}
}
