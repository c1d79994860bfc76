package caddymodule_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// adminOf turns the admin API of a gateway on and returns its address.
func adminOf(t *testing.T, g *gateway, options string) string {
	t.Helper()
	address := freeport.Address(t)
	if err := g.loadText(withAdmin(g, options, address)); err != nil {
		t.Fatal(err)
	}
	return address
}

func withAdmin(g *gateway, options, address string) string {
	return strings.Replace(g.caddyfile(options), "admin off", "admin "+address, 1)
}

// callAdmin makes a request of the admin API.
func callAdmin(t *testing.T, method, address, path, body string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var response *http.Response
	// Every load replaces the admin server, and the old one may still accept a
	// connection and close it.
	gatewaytest.Eventually(t, "the admin server answers", func() bool {
		request.Body = io.NopCloser(strings.NewReader(body))
		response, err = client.Do(request)
		return err == nil
	})
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s %s: Content-Type %q", method, path, got)
	}
	var answer map[string]any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, data)
	}
	return response.StatusCode, answer
}

const adminOptions = `
	workspace one {
		definitions {dir}/one
		store sqlite {dir}/one.db
		api_key app {env.CADENZA_TEST_KEY}
	}
	workspace two {
		definitions {dir}/two
		store sqlite {dir}/two.db
		api_key other {env.CADENZA_TEST_KEY_TWO}
	}`

func startAdmin(t *testing.T) (*gateway, string) {
	t.Setenv("CADENZA_TEST_KEY_TWO", "cadenza-test-key-0002")
	g := startGateway(t, map[string]string{
		"one/context.yaml":               "on_type_mismatch: reject\nfields: { plan: { type: string, values: [free, pro] } }\n",
		"one/remoteconfigs/limits.yaml":  "type: object\ndefault: { rpm: 1 }\nrules:\n- { id: paid, when: { plan: pro }, value: { rpm: 2 } }\n- { id: late, from: 2030-01-01, value: { rpm: 3 } }\n",
		"one/prompts/hello.yaml":         "variables: { name: { required: true } }\nmessages: [ { role: user, content: \"Hello {{name}}\" } ]\n",
		"two/remoteconfigs/other.yaml":   "type: boolean\ndefault: true\n",
		"two/remoteconfigs/unread.thing": "",
	}, adminOptions)
	return g, adminOf(t, g, adminOptions)
}

func TestAdminDefinitions(t *testing.T) {
	g, address := startAdmin(t)
	status, answer := callAdmin(t, "GET", address, "/cadenza/definitions", "")
	workspaces, _ := answer["workspaces"].(map[string]any)
	if status != 200 || len(workspaces) != 2 {
		t.Fatalf("%d %v", status, answer)
	}
	one := workspaces["one"].(map[string]any)
	if list := one["definitions"].([]any); len(list) != 2 {
		t.Errorf("definitions: %v", list)
	} else if first := list[0].(map[string]any); first["key"] != "hello" || first["kind"] != "prompt" || len(first["version"].(string)) != 12 {
		t.Errorf("first definition: %v", first)
	}
	if loaded, err := time.Parse(time.RFC3339Nano, one["loaded"].(string)); err != nil || time.Since(loaded) > time.Minute || one["revision"] == "" {
		t.Errorf("loaded %v, revision %v (%v)", one["loaded"], one["revision"], err)
	}
	if w := workspaces["two"].(map[string]any)["warnings"].([]any); len(w) != 1 {
		t.Errorf("warnings: %v", w)
	}

	// After a broken edit the last good set stays, with the reason.
	g.write("one/remoteconfigs/limits.yaml", "type: object\ndefalt: {}\n")
	gatewaytest.Eventually(t, "the error is shown", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/definitions?workspace=one", "")
		workspaces := answer["workspaces"].(map[string]any)
		now := workspaces["one"].(map[string]any)
		problems := now["errors"].([]any)
		if len(problems) == 0 {
			return false
		}
		first := problems[0].(map[string]any)
		if len(workspaces) != 1 || now["revision"] != one["revision"] || len(now["definitions"].([]any)) != 2 ||
			!strings.HasSuffix(first["file"].(string), "limits.yaml") || first["line"].(float64) < 1 {
			t.Errorf("after a broken edit: %v", answer)
		}
		return true
	})

	for path, want := range map[string]string{"/cadenza/definitions?workspace=onee": `404 there is no workspace "onee": did you mean "one"?`, "/cadenza/definitions?workspce=one": `400 there is no parameter "workspce"`} {
		status, answer := callAdmin(t, "GET", address, path, "")
		if got := fmt.Sprint(status, " ", answer["error"]); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := callAdmin(t, "POST", address, "/cadenza/definitions", "{}"); status != 405 || answer["error"] == "" {
		t.Errorf("POST: %d %v", status, answer)
	}
}

// TestAdminTargets checks all outputs of a failure that callers do not see because of a
// fallback.
func TestAdminTargets(t *testing.T) {
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"code":"model_not_found","message":"The model small does not exist."}}`)
	})
	files := single()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback: [ { provider: canned, extra: { answer: fine } } ]\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	address := adminOf(t, g, fakeProvider(u.URL))
	a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
	if a.status != http.StatusOK || !strings.Contains(string(a.body), "fine") || strings.Contains(string(a.body), "exist") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const text = "status 404 model_not_found: The model small does not exist."

	status, answer := callAdmin(t, "GET", address, "/cadenza/targets", "")
	var shown struct {
		Workspaces map[string]struct {
			Targets []struct {
				Target, State, Reason string
				Endpoints             []string
				Down                  bool
				Until                 time.Time
			}
		}
	}
	decodeInto(t, answer, &shown)
	targets := shown.Workspaces["default"].Targets
	if status != 200 || len(targets) != 2 || targets[0].Target != "canned" || targets[0].State != "ok" || targets[0].Down {
		t.Fatalf("%d %v", status, answer)
	}
	if fake := targets[1]; fake.Target != "fake/small" || fake.State != "cooling" || !fake.Down || fake.Reason != "model: "+text ||
		!fake.Until.After(time.Now()) || !slices.Equal(fake.Endpoints, []string{"chat"}) {
		t.Errorf("%+v", fake)
	}
	if _, one := callAdmin(t, "GET", address, "/cadenza/targets?workspace=default", ""); !reflect.DeepEqual(one, answer) {
		t.Errorf("of one workspace: %v", one)
	}
	for path, want := range map[string]string{"/cadenza/targets?workspace=defalt": `did you mean "default"?`, "/cadenza/targets?wrkspace=x": `did you mean "workspace"?`} {
		if status, answer := callAdmin(t, "GET", address, path, ""); status/100 != 4 || !strings.Contains(fmt.Sprint(answer["error"]), want) {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}

	id := a.header.Get("Cadenza-Trace-Id")
	eventually(t, "the trace has the error", func() bool {
		_, story := callAdmin(t, "GET", address, "/cadenza/traces/"+id, "")
		record, _ := story["trace"].(map[string]any)
		attempts, _ := record["attempts"].([]any)
		return len(attempts) == 2 && attempts[0].(map[string]any)["error"] == text
	})
}

// decodeInto converts a decoded value to another type.
func decodeInto(t *testing.T, value, into any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAdminEvaluate(t *testing.T) {
	_, address := startAdmin(t)
	status, answer := callAdmin(t, "POST", address, "/cadenza/evaluate",
		`{"workspace":"one","key":"limits","context":{"plan":"free"},"at":"2030-06-01T00:00:00Z","explain":true}`)
	if status != 200 || answer["row"] != "late" || answer["reason"] != "match" || answer["value"].(map[string]any)["rpm"] != 3.0 {
		t.Errorf("%d %v", status, answer)
	}
	if rows, _ := answer["rows"].([]any); len(rows) != 2 || rows[0].(map[string]any)["field"] != "plan" || rows[1].(map[string]any)["matched"] != true {
		t.Errorf("explanation: %v", answer["rows"])
	}
	status, answer = callAdmin(t, "POST", address, "/cadenza/evaluate", `{"workspace":"one","key":"hello","kind":"prompt","variables":{"name":"Ada"}}`)
	if status != 200 || answer["variant"] != "hello" || !strings.Contains(answer["value"].(map[string]any)["messages"].([]any)[0].(map[string]any)["content"].(string), "Ada") {
		t.Errorf("%d %v", status, answer)
	}
	status, answer = callAdmin(t, "POST", address, "/cadenza/evaluate", `{"workspace":"one","key":"hello"}`)
	if status != 200 || answer["value"] != nil || !strings.Contains(answer["problem"].(string), "name") {
		t.Errorf("a missing variable: %d %v", status, answer)
	}

	for body, want := range map[string]struct {
		status  int
		message string
	}{
		``:                                   {400, "JSON object"},
		`[]`:                                 {400, "JSON object"},
		`{"key":"limits"`:                    {400, "JSON object"},
		`{"key":"limits"} x`:                 {400, "follows"},
		`{"key":"limits","contxt":{}}`:       {400, "contxt"},
		`{}`:                                 {400, "key is missing"},
		`{"key":"limits"}`:                   {400, "workspace is missing: one of one, two"},
		`{"workspace":"three","key":"x"}`:    {404, "no workspace"},
		`{"workspace":"one","key":"limit"}`:  {404, `did you mean "limits"?`},
		`{"workspace":"two","key":"limits"}`: {404, "no definition"},
		`{"workspace":"one","key":"limits","kind":"flag"}`:             {400, "unknown kind"},
		`{"workspace":"one","key":"limits","at":"now"}`:                {400, "RFC 3339"},
		`{"workspace":"one","key":"limits","context":[1]}`:             {400, "context"},
		`{"workspace":"one","key":"limits","context":{"a":1,"a":2}}`:   {400, "duplicate"},
		`{"workspace":"one","key":"limits","context":{"plan":7}}`:      {400, "plan"},
		`{"workspace":"one","key":"hello","variables":"x"}`:            {400, "variables"},
		`{"key":"` + strings.Repeat("k", 1<<20) + `"}`:                 {413, "larger"},
		`{"workspace":"one","key":"limits","context":{"plan":"team"}}`: {400, "plan"},
	} {
		status, answer := callAdmin(t, "POST", address, "/cadenza/evaluate", body)
		if message, _ := answer["error"].(string); status != want.status || !strings.Contains(message, want.message) {
			t.Errorf("%.80s: %d %v, want %d %q", body, status, answer, want.status, want.message)
		}
	}
	if status, _ := callAdmin(t, "GET", address, "/cadenza/evaluate", ""); status != 405 {
		t.Errorf("GET: %d", status)
	}
}

// TestAdminAfterFailedReload checks that the admin API shows the served
// configuration, not the one that failed to load.
func TestAdminAfterFailedReload(t *testing.T) {
	g, address := startAdmin(t)
	_, before := callAdmin(t, "GET", address, "/cadenza/definitions?workspace=two", "")
	g.write("broken/remoteconfigs/x.yaml", "type: nonsense\n")
	failing := strings.Replace(adminOptions, "{dir}/two\n", "{dir}/broken\n", 1)
	if err := loadCaddyfile(withAdmin(g, failing, address)); err == nil {
		t.Fatal("a configuration with broken definitions was loaded")
	}
	status, after := callAdmin(t, "GET", address, "/cadenza/definitions?workspace=two", "")
	if status != 200 {
		t.Fatalf("%d %v", status, after)
	}
	revision := func(answer map[string]any) any {
		return answer["workspaces"].(map[string]any)["two"].(map[string]any)["revision"]
	}
	if revision(before) != revision(after) || revision(after) == "" {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestAdminWithoutApp checks the answers if Cadenza is not configured.
func TestAdminWithoutApp(t *testing.T) {
	_, address := startAdmin(t)
	if err := loadCaddyfile("{\n\tadmin " + address + "\n\tpersist_config off\n}\n"); err != nil {
		t.Fatal(err)
	}
	status, answer := callAdmin(t, "GET", address, "/cadenza/definitions", "")
	if message, _ := answer["error"].(string); status != 404 || !strings.Contains(message, "not part of the running configuration") {
		t.Errorf("%d %v", status, answer)
	}
}

func TestAdminStatus(t *testing.T) {
	g, address := startAdmin(t)
	status, answer := callAdmin(t, "GET", address, "/cadenza/status", "")
	workspaces, _ := answer["workspaces"].(map[string]any)
	if started, err := time.Parse(time.RFC3339Nano, answer["started"].(string)); status != 200 || len(workspaces) != 2 ||
		answer["status"] != "ok" || answer["version"] == "" || answer["caddy"] == "" || err != nil || started.After(time.Now()) {
		t.Fatalf("%d %v", status, answer)
	}
	one := workspaces["one"].(map[string]any)
	definitions, store, keys := one["definitions"].(map[string]any), one["store"].(map[string]any), one["keys"].([]any)
	if definitions["prompts"] != 1.0 || definitions["remoteconfigs"] != 1.0 || store["state"] == "" ||
		len(keys) != 1 || keys[0].(map[string]any)["name"] != "app" || len(one["degraded"].([]any)) != 0 {
		t.Errorf("%v", one)
	}
	const strays = definition.MaxWarnings + 5 // the last ones are summed up
	for n := range strays {
		g.write(fmt.Sprintf("one/remoteconfigs/note%d.txt", n), "")
	}
	g.write("one/remoteconfigs/another.yaml", "type: string\ndefault: x\n")
	eventually(t, "the warnings are counted", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/status?workspace=one", "")
		return answer["workspaces"].(map[string]any)["one"].(map[string]any)["definitions"].(map[string]any)["warnings"] == float64(strays)
	})
	g.write("one/remoteconfigs/limits.yaml", "type: object\ndefalt: {}\n")
	eventually(t, "the workspace is degraded", func() bool {
		_, answer = callAdmin(t, "GET", address, "/cadenza/status?workspace=one", "")
		return answer["status"] == "degraded"
	})
	workspaces = answer["workspaces"].(map[string]any)
	one = workspaces["one"].(map[string]any)
	condition := one["degraded"].([]any)[0].(map[string]any)
	mistake := one["definitions"].(map[string]any)["errors"].([]any)[0].(map[string]any)
	if len(workspaces) != 1 || condition["code"] != "definitions_invalid" || answer["since"] != condition["since"] ||
		!strings.HasSuffix(mistake["file"].(string), "limits.yaml") || mistake["line"] != 2.0 {
		t.Errorf("%v", answer)
	}
	for path, want := range map[string]int{"/cadenza/status?workspace=onee": 404, "/cadenza/status?worksapce=one": 400} {
		if status, answer := callAdmin(t, "GET", address, path, ""); status != want || !strings.Contains(answer["error"].(string), "did you mean") {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

// TestAdminLimits asks for the limits of one subject.
func TestAdminLimits(t *testing.T) {
	const limits = `
		limit customers {
			by metadata.customer
			routes prompts
			requests 10/366d
		}
		limit fair {
			routes prompts
			requests 20/366d
		}`
	without := fakeProvider("http://localhost:1")
	g := startGateway(t, single(), without+limits)
	address := adminOf(t, g, without+limits)
	for range 3 {
		g.post("/v1/prompts", `{"keys":["hello"],"metadata":{"customer":"a&b"}}`).ok(t)
	}
	for path, want := range map[string]string{
		"?subject=a%26b&limit=customers":  "map[workspaces:map[default:map[limits:[map[by:metadata.customer ceilings:[map[ceiling:10/366d left:7 measure:requests percent:30 reserved:0 subject:a&b used:3]] name:customers percent:30 shared:false]]]]]",
		"?subject=test&workspace=default": "percent:0 reserved:0 subject:test used:0]] name:customers percent:0 shared:false] map[by:api_key ceilings:[map[ceiling:20/366d left:17 measure:requests percent:15 reserved:0 subject:test used:3]] name:fair percent:15 shared:false]]]]]",
		"?subject=nobody&limit=fair":      "left:20 measure:requests percent:0 reserved:0 subject:nobody used:0]",
		"?subject=&limit=customers":       "left:10 measure:requests percent:0 reserved:0 subject: used:0]",
		"?top=0":                          "400 top must be a number from 1 to 1000",
		"?top=5&subject=web":              "400 top must be a number from 1 to 1000",
		"?subject=test&limit=fiar":        `404 there is no limit "fiar": did you mean "fair"? The limits are customers, fair`,
		"?subject=test&limit=x":           `404 there is no limit "x": the limits are customers, fair`,
		"?subject=test&limit=":            `404 there is no limit "": the limits are customers, fair`,
		"?subject=test&workspace=defalt":  `404 there is no workspace "defalt": did you mean "default"?`,
		"?subject=test&customer=x":        `400 there is no parameter "customer"`,
		"?subject=test&subject=fair":      "400 the parameter subject is given 2 times",
	} {
		status, answer := callAdmin(t, "GET", address, "/cadenza/limits"+path, "")
		for _, w := range mapsOf(answer["workspaces"]) {
			for _, limit := range w["limits"].([]any) {
				for _, ceiling := range limit.(map[string]any)["ceilings"].([]any) {
					for _, time := range []string{"since", "resets", "full_at"} {
						delete(ceiling.(map[string]any), time)
					}
				}
			}
		}
		got := fmt.Sprint(answer)
		if status != http.StatusOK {
			got = fmt.Sprint(status, " ", answer["error"])
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nlacks %s", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"?top=1":      "map[by:metadata.customer ceilings:[requests 10/366d] fullest:[map[ceiling:10/366d measure:requests percent:30 ",
		"?limit=fair": "map[workspaces:map[default:map[limits:[map[by:api_key ceilings:[requests 20/366d] fullest:[map[",
	} {
		if status, answer := callAdmin(t, "GET", address, "/cadenza/limits"+path, ""); status != http.StatusOK || !strings.Contains(fmt.Sprint(answer), want) {
			t.Errorf("%s: %d %v\nlacks %s", path, status, answer, want)
		}
	}
	if status, answer := callAdmin(t, "POST", address, "/cadenza/limits?subject=test", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("%d %v", status, answer)
	}
	if err := loadCaddyfile(withAdmin(g, without, address)); err != nil {
		t.Fatal(err)
	}
	if status, answer := callAdmin(t, "GET", address, "/cadenza/limits?subject=test&limit=fair", ""); status != 404 || answer["error"] != `there is no limit "fair": no limit is configured` {
		t.Errorf("%d %v", status, answer)
	}
}

// mapsOf returns the objects in a list; it is empty if the list is missing.
func mapsOf(object any) (list []map[string]any) {
	members, _ := object.(map[string]any)
	for _, member := range members {
		list = append(list, member.(map[string]any))
	}
	return list
}
