package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// legacyDefinitions have a value of each type that the oldest clients read.
var legacyDefinitions = map[string]string{
	"definitions/context.yaml": `
fields:
  environments: { type: list }
  city:         { type: string }
  customer:     { type: string, path: account.customer }
`,
	"definitions/remoteconfigs/kill_switch.yaml": `
type: boolean
default: false
rules:
  - { id: live, when: { environments: { any: [production] } }, value: true }
`,
	"definitions/remoteconfigs/s.yaml": `
type: string
default: ""
aliases: [old_s]
columns: [ city, value ]
matrix:
  - [ "Zürich € ??", "Grüezi €" ]
`,
	"definitions/remoteconfigs/seven.yaml":          "type: number\ndefault: 7.0\n",
	"definitions/remoteconfigs/hundreds.yaml":       "type: number\ndefault: -3e2\n",
	"definitions/remoteconfigs/huge.yaml":           "type: number\ndefault: 1e20\n",
	"definitions/remoteconfigs/float.yaml":          "type: number\ndefault: 7.25\n",
	"definitions/remoteconfigs/large.yaml":          "type: number\ndefault: 12345678901234567890\n",
	"definitions/remoteconfigs/zero.yaml":           "type: number\ndefault: 0\n",
	"definitions/remoteconfigs/list.yaml":           "type: list\ndefault: [a, ü]\n",
	"definitions/remoteconfigs/none.yaml":           "type: list\ndefault: []\n",
	"definitions/remoteconfigs/cfg.yaml":            "type: object\ndefault: { db: x, ports: [1.0] }\n",
	"definitions/remoteconfigs/status_code.yaml":    "type: number\ndefault: 1\n",
	"definitions/remoteconfigs/shop/tax.yaml":       "type: number\ndefault: 21\n",
	"definitions/remoteconfigs/shop/nl/banner.yaml": "type: string\ndefault: Hallo\n",
	"definitions/remoteconfigs/shopping/cart.yaml":  "type: boolean\ndefault: true\n",
	"definitions/prompts/shop/greeting.yaml": `
columns: [ city, value ]
matrix: [ [ Utrecht, nl ] ]
default: en
variants:
  en: { provider: canned, messages: [ { role: user, content: "Hello." } ] }
  nl: { provider: canned, messages: [ { role: user, content: "Hallo." } ] }
`,
}

const legacyKey = "RQST.cadenza.test-key-0003"

const legacyOptions = `
	definitions {dir}/definitions
	store sqlite {dir}/data/cadenza.db
	api_key app {env.CADENZA_LEGACY_KEY}
	provider canned
	log content
	legacy
`

// Requests as the clients send them, byte by byte but for Content-Length.
func fromGo(body string) string {
	return "POST /evaluate HTTP/1.1\r\nHost: api.orquesta.dev\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n" +
		"Authorization: Bearer " + legacyKey + "\r\nContent-Type: application/json\r\nX-Sdk-Version: @orquestadev/go@1.0.0\r\nAccept-Encoding: gzip\r\n\r\n" + body
}

func fromJava(body string) string {
	return "POST /evaluate HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer " + legacyKey + "\r\nAccept-Encoding: gzip, x-gzip, deflate\r\n" +
		"Content-Length: %d\r\nHost: api.orquesta.dev\r\nConnection: keep-alive\r\nUser-Agent: Apache-HttpClient/5.2.1 (Java/17.0.15)\r\n\r\n" + body
}

// fromAction is a request of the GitHub action.
func fromAction(body string) string {
	return "POST /evaluate HTTP/1.1\r\nAccept: application/json\r\nContent-Type: application/json\r\nAuthorization: Bearer " + legacyKey +
		"\r\nX-SDK-Version: @orquestadev/orquesta-action@v1\r\nUser-Agent: axios/1.2.2\r\nContent-Length: %d\r\nAccept-Encoding: gzip, compress, deflate, br\r\nHost: api.orquesta.dev\r\nConnection: close\r\n\r\n" + body
}

// fromPython8 is a request of Python's client before 1.9.
func fromPython8(body string) string {
	return "POST /evaluate/ HTTP/1.1\r\nHost: api.orquesta.dev\r\nUser-Agent: orquestadev/1.8.0;python\r\nAccept-Encoding: gzip, deflate\r\nAccept: application/json\r\n" +
		"Connection: keep-alive\r\nAuthorization: " + legacyKey + "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" + body
}

func fromPython(version, path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: api.orquesta.dev\r\nUser-Agent: orquesta/" + version + ";python\r\nAccept-Encoding: gzip, deflate\r\nAccept: application/json\r\n" +
		"Connection: keep-alive\r\nX-SDK-Version: @orquesta/python@" + version + "\r\nAuthorization: Bearer " + legacyKey + "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" + body
}

// exchange sends a request byte by byte over a connection of its own.
func (g *gateway) exchange(request string) answer {
	g.t.Helper()
	connection, err := net.Dial("unix", g.socket)
	if err != nil {
		g.t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		g.t.Fatal(err)
	}
	_, body, _ := strings.Cut(request, "\r\n\r\n")
	if _, err := io.WriteString(connection, strings.Replace(request, "%d", strconv.Itoa(len(body)), 1)); err != nil {
		g.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, read}
}

// failed is the end of an error on /evaluate, as clients read it.
func failed(detail string, status int) string {
	return fmt.Sprintf(`,"detail":%q,"status_code":%d}`, detail, status)
}

// TestOldestClients sends what the clients of 2022 send, and checks the answers byte by
// byte. An answer that begins with a comma is the end of an error.
func TestOldestClients(t *testing.T) {
	t.Setenv("CADENZA_LEGACY_KEY", legacyKey)
	g := startGateway(t, legacyDefinitions, legacyOptions)
	wrong := func(request string) string { return strings.Replace(request, legacyKey, legacyKey+"x", 1) }
	for i, test := range []struct {
		request string
		status  int
		body    string
	}{
		{fromGo(`{"context":{"environments":"production","n":3},"rule_key":"kill_switch"}`), 200, `{"kill_switch":true}`},
		{fromGo(`{"context":{"environments":["production"]},"rule_key":"kill_switch"}`), 200, `{"kill_switch":true}`},
		{fromGo(`{"context":null,"rule_key":"kill_switch"}`), 200, `{"kill_switch":false}`},
		{fromGo(`{"context":{},"rule_key":"seven"}`), 200, `{"seven":7}`},
		{fromGo(`{"context":{},"rule_key":"hundreds"}`), 200, `{"hundreds":-300}`},
		{fromGo(`{"context":{},"rule_key":"float"}`), 200, `{"float":7.25}`},
		{fromGo(`{"context":{"city":"Zürich € ??","environments":"production","n":3},"rule_key":"s"}`), 200, `{"s":"Grüezi €"}`},
		{fromGo(`{"context":null,"rule_key":"list"}`), 200, `{"list":["a","ü"]}`},
		{fromGo(`{"context":null,"rule_key":"cfg"}`), 200, `{"cfg":{"db":"x","ports":[1.0]}}`},
		{fromGo(`{"context":null,"rule_key":"shop/tax"}`), 200, `{"shop/tax":21}`},
		{fromGo(`{"context":null,"rule_key":"nope"}`), 404, failed("empty_evaluation", 404)},
		{wrong(fromGo(`{"context":null,"rule_key":"seven"}`)), 401, failed("invalid_api_key", 401)},
		{strings.Replace(fromGo(`{"context":null,"rule_key":"seven"}`), "Bearer "+legacyKey, "Bearer ", 1), 401, failed("invalid_api_key", 401)},

		{fromJava("{\"context\":{\"environments\":\"develop\",\"city\":\"Z\xfcrich \\u20ac ??\"},\"rule_key\":\"s\"}"), 200, `{"s":"Grüezi €"}`},
		{fromJava(`{"rule_key":"s"}`), 200, `{"s":""}`},
		{fromJava(`{"context":{},"rule_key":"seven"}`), 200, `{"seven":7}`},
		{fromJava(`{"context":{},"rule_key":"float"}`), 200, `{"float":7.25}`},
		{fromJava(`{"context":{},"rule_key":"large"}`), 200, `{"large":12345678901234567890}`},
		{fromJava(`{"context":{},"rule_key":"zero"}`), 200, `{"zero":0}`},
		{fromJava(`{"context":{"environments":"production"},"rule_key":"kill_switch"}`), 200, `{"kill_switch":true}`},
		{fromJava(`{"context":{"environments":[]},"rule_key":"kill_switch"}`), 200, `{"kill_switch":false}`},
		{fromJava(`{"rule_key":"list"}`), 200, `{"list":["a","ü"]}`},
		{fromJava(`{"rule_key":"none"}`), 200, `{"none":[]}`},
		{fromJava(`{"rule_key":"cfg"}`), 200, `{"cfg":{"db":"x","ports":[1.0]}}`},
		{fromJava(`{"rule_key":"old_s"}`), 200, `{"old_s":""}`},
		{fromJava(`{"domain":"default","context":{"environments":"production"}}`), 200, `{"cfg":{"db":"x","ports":[1.0]},"float":7.25,"huge":1e20,"hundreds":-300,"kill_switch":true,"large":12345678901234567890,"list":["a","ü"],"none":[],"s":"","seven":7,"zero":0}`},
		{fromJava(`{"domain":"default"}`), 200, `{"cfg":{"db":"x","ports":[1.0]},"float":7.25,"huge":1e20,"hundreds":-300,"kill_switch":false,"large":12345678901234567890,"list":["a","ü"],"none":[],"s":"","seven":7,"zero":0}`},
		{fromJava(`{"domain":"shop"}`), 200, `{"shop/nl/banner":"Hallo","shop/tax":21}`},
		{fromJava(`{"domain":"shop/nl"}`), 200, `{"shop/nl/banner":"Hallo"}`},
		{fromJava(`{"domain":"kill_switch"}`), 404, failed("empty_evaluation", 404)},
		{fromJava(`{"rule_key":"nope","context":{}}`), 404, failed("empty_evaluation", 404)},
		{wrong(fromJava(`{"rule_key":"s"}`)), 401, failed("invalid_api_key", 401)},

		{fromAction(`{"rule_key":"kill_switch","context":{"environments":"production"}}`), 200, `{"kill_switch":true}`},
		{fromAction(`{"rule_key":"nope","context":{}}`), 404, failed("empty_evaluation", 404)},
		{wrong(fromAction(`{"rule_key":"s","context":{}}`)), 401, failed("invalid_api_key", 401)},
		{strings.Replace(fromAction(`{"rule_key":"s","context":{}}`), "Authorization: Bearer "+legacyKey+"\r\n", "", 1), 401, failed("invalid_api_key", 401)},

		{fromPython8(`{"rule_key": "kill_switch", "context": {"environments": ["production"]}}`), 200, `{"kill_switch":true}`},
		{fromPython8(`{"rule_key": "zero", "context": {}}`), 200, `{"zero":0}`},
		{fromPython8(`{"rule_key": "nope", "context": {}}`), 404, failed("empty_evaluation", 404)},
		{wrong(fromPython8(`{"rule_key": "zero", "context": {}}`)), 401, failed("invalid_api_key", 401)},
		{fromPython8(`{"rule_key": "status_code", "context": {}}`), 404, failed("empty_evaluation", 404)},

		{fromGo(`{"rule_key":"a b"}`), 400, failed("invalid_request", 400)},
		{fromGo(`{"rule_key":"s"`), 400, failed("invalid_request", 400)},
		{fromGo(`{"rule_key":"s","domain":"default"}`), 400, failed("invalid_request", 400)},
		{fromGo(`{"rule_key":"s","context":7}`), 400, failed("invalid_request", 400)},
		{strings.Replace(fromGo(`{}`), "POST", "PUT", 1), 405, failed("method_not_allowed", 405)},
		{strings.Replace(fromGo(`{"context":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`), "Accept-Encoding: gzip", "X-A: b", 1), 413, failed("invalid_request", 413)},
		{strings.Replace(fromGo(`{}`), "Accept-Encoding", "Content-Encoding", 1), 415, failed("invalid_request", 415)},
	} {
		a := g.exchange(test.request)
		exact := string(a.body) == test.body
		if strings.HasPrefix(test.body, ",") {
			exact = strings.HasSuffix(string(a.body), test.body)
		}
		if a.status != test.status || !exact {
			t.Errorf("%d: %.200q: %d %s, want %d %s", i, test.request, a.status, a.body, test.status, test.body)
		}
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%d: Content-Type %q", i, got)
		}
		several := strings.HasPrefix(test.body, `{"cfg":{"db":"x","ports":[1.0]},`) || strings.HasPrefix(test.body, `{"shop/nl/banner":"Hallo",`)
		if a.status == 200 && (a.header.Get("Cadenza-Revision") == "" || (a.header.Get("Cadenza-Trace-Id") == "") != several) {
			t.Errorf("%d: %v", i, a.header)
		}
	}
}

// TestTracesOfTheOldestClients: each value has a trace, which takes reports.
func TestTracesOfTheOldestClients(t *testing.T) {
	t.Setenv("CADENZA_LEGACY_KEY", legacyKey)
	g := startGateway(t, legacyDefinitions, legacyOptions)
	one := g.exchange(fromJava("{\"context\":{\"city\":\"Z\xfcrich \\u20ac ??\"},\"rule_key\":\"old_s\"}")).ok(t)
	id := one.header.Get("Cadenza-Trace-Id")
	for path, body := range map[string]string{"/v1/metrics": `{"trace_id":"` + id + `","values":{"a":1}}`, "/v2/rules/" + id + "/metrics": `{}`, "/v2/remoteconfigs/" + id + "/metrics": `{}`} {
		g.exchange(fromPython("1.9.0", path, body)).ok(t, path)
	}
	several := g.exchange(fromJava(`{"domain":"shop"}`)).ok(t)
	if header := several.header.Get("Cadenza-Trace-Id"); header != "" {
		t.Errorf("a domain's trace: %s", header)
	}
	if single := g.exchange(fromJava(`{"domain":"shop/nl"}`)); single.header.Get("Cadenza-Trace-Id") == "" {
		t.Error("a domain of one configuration has no trace")
	}
	decision := several.header.Get("Cadenza-Decision-Id")
	g.exchange(fromPython("1.11.6", "/v1/metrics", `{"decision_id":"`+decision+`","values":{"a":1}}`)).ok(t)
	var record *trace.Record
	eventually(t, "the trace is stored", func() (stored bool) { record, stored = g.trace("data/cadenza.db", id); return stored })
	if record.Kind != trace.KindRemoteConfig || record.Key != "s" || string(record.Response) != `"Grüezi €"` || string(record.Context) != `{"city":"Zürich € ??"}` || !slices.Contains(record.Notes, "asked as old_s") {
		t.Errorf("%+v", record)
	}
	var traces int
	eventually(t, "the traces of the domain are stored", func() bool {
		err := g.database().QueryRow("SELECT count(*) FROM traces WHERE key IN ('shop/tax', 'shop/nl/banner')").Scan(&traces)
		return err == nil && traces == 3
	})
}

// TestLegacyIsAnOption: without it the route is closed, and says how to open it.
func TestLegacyIsAnOption(t *testing.T) {
	t.Setenv("CADENZA_LEGACY_KEY", legacyKey)
	g := startGateway(t, legacyDefinitions, strings.Replace(legacyOptions, "\tlegacy\n", "", 1))
	for _, request := range []string{fromGo(`{"rule_key":"s"}`), fromPython8(`{"rule_key":"s"}`)} {
		if a := g.exchange(request); a.status != 404 || !strings.HasSuffix(string(a.body), failed("not_found", 404)) || !strings.Contains(string(a.body), "option legacy") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	// A key without Bearer is one on this route only.
	if a := g.exchange(strings.Replace(fromPython8(`{"keys":["s"]}`), "/evaluate/", "/v1/remoteconfigs", 1)); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.site(legacyOptions, "route /flags/* {\ncadenza_evaluate\n}\ncadenza")
	for _, path := range []string{"/flags/evaluate", "/flags/", "/evaluate"} {
		if a := g.exchange(strings.Replace(fromGo(`{"rule_key":"zero"}`), "/evaluate", path, 1)); string(a.body) != `{"zero":0}` {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := g.exchange(strings.Replace(fromGo(`{}`), "POST /evaluate", "GET /", 1)); strings.Contains(string(a.body), " /evaluate") {
		t.Errorf("%s", a.body)
	}
}

// TestLargeDomains have more configurations than a request gets.
func TestLargeDomains(t *testing.T) {
	t.Setenv("CADENZA_LEGACY_KEY", legacyKey)
	files := map[string]string{"definitions/context.yaml": "fields: {}\n"}
	for i := range trace.MaxDecisionTraces {
		files[fmt.Sprintf("definitions/remoteconfigs/many/c%d.yaml", i)] = fmt.Sprintf("type: number\ndefault: %d\n", i)
	}
	g := startGateway(t, files, legacyOptions)
	a := g.exchange(fromJava(`{"domain":"many"}`)).ok(t)
	if values := a.json(t); len(values) != trace.MaxDecisionTraces || values["many/c999"] != 999.0 {
		t.Errorf("%d values: %.200s", len(values), a.body)
	}
	traces := 0
	eventually(t, "all traces are stored", func() bool {
		err := g.database().QueryRow("SELECT count(DISTINCT id) FROM traces").Scan(&traces)
		return err == nil && traces == trace.MaxDecisionTraces
	})
	gap := filepath.Join(g.dir, "definitions/remoteconfigs/many/one-more.yaml")
	if err := os.WriteFile(gap, []byte("type: number\ndefault: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused answer
	eventually(t, "the domain is too large", func() bool {
		refused = g.exchange(fromJava(`{"domain":"many"}`))
		return refused.status != 200
	})
	if refused.status != 400 || !strings.Contains(string(refused.body), "at most 1000") || !strings.HasSuffix(string(refused.body), failed("invalid_request", 400)) {
		t.Errorf("%d %s", refused.status, refused.body)
	}
	g.exchange(fromJava(`{"rule_key":"many/c0"}`)).ok(t)
}

// TestPythonClients sends the requests of Python's clients from 1.9 to 1.11.
func TestPythonClients(t *testing.T) {
	t.Setenv("CADENZA_LEGACY_KEY", legacyKey)
	g := startGateway(t, legacyDefinitions, strings.Replace(legacyOptions, "\tlegacy\n", "", 1))
	id := regexp.MustCompile(`"trace_id":"[0-9a-f-]{36}"`)
	const english, dutch = `{"name":"en","messages":[{"role":"user","content":"Hello."}],"provider":"canned"}`, `{"name":"nl","messages":[{"role":"user","content":"Hallo."}],"provider":"canned"}`
	for i, test := range []struct {
		request string
		want    string // without trace ids
	}{
		{fromPython("1.9.0", "/v2/rules", `{"rules": ["kill_switch"], "environments": ["production"], "chain_id": "c1"}`), `{"kill_switch":{"value":true,"type":"boolean",ID}}`},
		{fromPython("1.9.0", "/v2/rules", `{"rules": ["kill_switch"]}`), `{"kill_switch":{"value":false,"type":"boolean",ID}}`},
		{fromPython("1.9.0", "/v2/prompts", `{"prompts": ["shop/greeting"], "city": "Utrecht", "chain_id": "c1"}`), `{"shop/greeting":{"value":` + dutch + `,ID}}`},
		{fromPython("1.9.0", "/v2/prompts", `{"prompts": ["shop/greeting"], "user": {"city": "Utrecht"}}`), `{"shop/greeting":{"value":` + english + `,ID}}`},
		{fromPython("1.10.5", "/v2/prompts", `{"keys": ["shop/greeting"], "context": {"city": "Utrecht"}, "metadata": {"chain_id": "c1"}, "variables": {"a": "b"}}`), `{"shop/greeting":{"value":` + dutch + `,ID}}`},
		{fromPython("1.10.5", "/v2/remoteconfigs", `{"keys": ["zero"]}`), `{"zero":{"value":0,"type":"number",ID}}`},
		{fromPython("1.11.6", "/v1/prompts", `{"keys": ["shop/greeting"], "context": {"city": "Utrecht"}}`), `{"shop/greeting":{"value":` + dutch + `,ID}}`},
		{fromPython("1.11.6", "/v1/remoteconfigs", `{"keys": ["list"], "context": {"environments": "x"}}`), `{"list":{"value":["a","ü"],"type":"list",ID}}`},
	} {
		a := g.exchange(test.request).ok(t, i)
		if got := id.ReplaceAllString(string(a.body), "ID"); got != test.want {
			t.Errorf("%d: %s, want %s", i, got, test.want)
		}
		_, path, _ := strings.Cut(test.request, " ")
		path, _, _ = strings.Cut(path, " ")
		report, body := path+"/"+a.header.Get("Cadenza-Trace-Id")+"/metrics", `{"roundtrip_time": 31}`
		if strings.HasPrefix(path, "/v1/") {
			report, body = "/v1/metrics", `{"metadata":{"a":1},"trace_id":"`+a.header.Get("Cadenza-Trace-Id")+`"}`
		}
		g.exchange(fromPython("1.9.0", report, body)).ok(t, report)
	}
	// What is no field of the data model is metadata.
	a := g.exchange(fromPython("1.9.0", "/v2/rules", `{"rules":["kill_switch"],"environments":"production","account":{"customer":"a"},"customer":"b","chain_id":"c1"}`)).ok(t)
	var record *trace.Record
	eventually(t, "the trace is stored", func() (stored bool) {
		record, stored = g.trace("data/cadenza.db", a.header.Get("Cadenza-Trace-Id"))
		return stored
	})
	if string(record.Context) != `{"environments":"production","account":{"customer":"a"}}` || string(record.Metadata) != `{"customer":"b","chain_id":"c1"}` || record.Row != "live" {
		t.Errorf("context %s, metadata %s, row %q", record.Context, record.Metadata, record.Row)
	}
	for _, request := range []string{
		fromPython("1.9.0", "/v2/rules", `{"prompts":["a"]}`), fromPython("1.9.0", "/v2/prompts", `{"rules":["a"]}`),
		fromPython("1.11.6", "/v1/prompts", `{"prompts":["shop/greeting"]}`), fromPython("1.11.6", "/v1/remoteconfigs", `{"rules":["zero"]}`),
	} {
		if a := g.exchange(request); a.status != 400 || strings.Contains(string(a.body), "status_code") {
			t.Errorf("%.60s: %d %s", request, a.status, a.body)
		}
	}
}
