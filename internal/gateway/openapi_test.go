package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// openAPI is docs/openapi.yaml. The file allows additional members in answers, because
// later versions may add some. The tests do not: a member of an answer that is not in
// the file fails them.
type openAPI struct {
	root    map[string]any
	schemas map[string]*jsonschema.Schema // by their JSON pointers
	members map[string]bool               // the members of answers; nil: not collected
}

var contract = sync.OnceValues(func() (*openAPI, error) {
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	var page any
	if err := yaml.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(page); err != nil {
		return nil, err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	o := &openAPI{root: root.(map[string]any), schemas: map[string]*jsonschema.Schema{}}
	for name, schema := range o.object("components", "schemas") {
		if !strings.HasSuffix(name, "Request") {
			closeObjects(schema)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("openapi", root); err != nil {
		return nil, err
	}
	return o, o.compile(compiler, root, "#")
})

func closeObjects(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		for _, part := range schema {
			closeObjects(part)
		}
		if schema["properties"] != nil && schema["additionalProperties"] == nil {
			schema["additionalProperties"] = false
		}
	case []any:
		for _, part := range schema {
			closeObjects(part)
		}
	}
}

// compile compiles every schema of the file outside of components/schemas. It also
// compiles the referenced ones.
func (o *openAPI) compile(compiler *jsonschema.Compiler, value any, pointer string) error {
	object, _ := value.(map[string]any)
	for name, part := range object {
		at := pointer + "/" + escape(name)
		var err error
		switch {
		case name == "schema" || at == "#/components/schemas/Event":
			o.schemas[at], err = compiler.Compile("openapi" + at)
		case name != "properties":
			err = o.compile(compiler, part, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// object returns the object at a path. It follows references.
func (o *openAPI) object(path ...string) map[string]any {
	at, _ := o.at(path...)
	return at
}

func (o *openAPI) at(path ...string) (object map[string]any, pointer string) {
	object, pointer = o.root, "#"
	for _, name := range path {
		object, _ = object[name].(map[string]any)
		object, pointer = o.follow(object, pointer+"/"+escape(name))
	}
	return object, pointer
}

// follow returns an object, or the object that it refers to.
func (o *openAPI) follow(object map[string]any, pointer string) (map[string]any, string) {
	if ref, ok := object["$ref"].(string); ok && len(object) == 1 {
		return o.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return object, pointer
}

// escape escapes a name for a JSON pointer: https://www.rfc-editor.org/rfc/rfc6901#section-3
func escape(name string) string { return escaper.Replace(name) }

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// operation returns the place of the only operation of a path in the file, or nil if there
// is none.
func (o *openAPI) operation(path string) []string {
	for name, methods := range o.object("paths") {
		before, after, named := strings.Cut(name, "{trace_id}")
		if before, named := strings.CutSuffix(name, "{model}"); named && strings.HasPrefix(path, before) {
			return []string{"paths", name, "get"}
		}
		if before, named := strings.CutSuffix(name, "{key}"); named && strings.HasPrefix(path, before) {
			return []string{"paths", name, "post"}
		}
		rest, begins := strings.CutPrefix(path, before)
		id, ends := strings.CutSuffix(rest, after)
		if begins && ends && (id != "") == named && !strings.Contains(id, "/") {
			for method := range methods.(map[string]any) {
				return []string{"paths", name, method}
			}
		}
	}
	return nil
}

// check returns an error if an answer of the gateway differs from the file.
func (o *openAPI) check(method, path, body string, a answer) error {
	path, query, _ := strings.Cut(path, "?")
	status := fmt.Sprint(a.status)
	place := []string{"components", "responses", "Error404"}
	if operation := o.operation(path); operation != nil {
		place = append(slices.Clone(operation), "responses", status)
		wanted := o.object(append(operation, "requestBody")...)
		if a.status == http.StatusOK && query == "" && wanted != nil && (body != "" || wanted["required"] == true) {
			_, at := o.at(append(operation, "requestBody", "content", "application/json")...)
			if err := validate(o.schemas[at+"/schema"], []byte(body)); err != nil {
				return fmt.Errorf("the request, which was answered: %w", err)
			}
		}
	}
	response, at := o.at(place...)
	if response == nil {
		return fmt.Errorf("%s %s has no answer with the status %s", method, path, status)
	}
	if err := o.checkHeaders(response, at, a.header); err != nil {
		return err
	}
	if a.status == http.StatusNotModified {
		if len(a.body) > 0 || a.header.Get("Content-Type") != "" {
			return fmt.Errorf("%s: a body of type %q: %s", at, a.header.Get("Content-Type"), a.body)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if content, _ := response["content"].(map[string]any); content[media] == nil {
		return fmt.Errorf("%s: no content of type %s", at, media)
	}
	if method == http.MethodHead {
		return nil
	}
	return o.checkBody(at, media, a.body)
}

// checkBody checks a body against the response at a place of the file.
func (o *openAPI) checkBody(at, media string, body []byte) error {
	if media != "text/event-stream" {
		o.saw(body)
		return validate(o.schemas[at+"/content/application~1json/schema"], body)
	}
	if !strings.Contains(at, "~1v1~1endpoints/") {
		return nil // events of others' APIs
	}
	for line := range strings.Lines(string(body)) {
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !found || data == "[DONE]" {
			continue
		}
		o.saw([]byte(data))
		if err := validate(o.schemas["#/components/schemas/Event"], []byte(data)); err != nil {
			return err
		}
	}
	return nil
}

// ofConnection are the headers of every answer over HTTP.
var ofConnection = []string{"Connection", "Content-Length", "Content-Type", "Date"}

func (o *openAPI) checkHeaders(response map[string]any, at string, header http.Header) error {
	listed, _ := response["headers"].(map[string]any)
	for name, values := range header {
		if slices.Contains(ofConnection, name) {
			continue
		}
		entry, found := listed[name].(map[string]any)
		if common := o.object("components", "headers", name); !found && (common["x-with-limits"] == true || common["x-with-cors"] == true || common["x-of-endpoints"] == true) {
			entry, found = map[string]any{"$ref": "#/components/headers/" + name}, true
		}
		if !found {
			return fmt.Errorf("%s has no header %s", at, name)
		}
		described, pointer := o.follow(entry, at+"/headers/"+name)
		text, err := json.Marshal(values[0])
		if schema, _ := described["schema"].(map[string]any); schema["type"] == "integer" {
			text = []byte(values[0])
		}
		if err == nil {
			err = validate(o.schemas[pointer+"/schema"], text)
		}
		if err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	for name, entry := range listed {
		described, _ := o.follow(entry.(map[string]any), "")
		if described["required"] == true && header.Get(name) == "" {
			return fmt.Errorf("%s: the answer lacks the header %s", at, name)
		}
	}
	return nil
}

var member = regexp.MustCompile(`"(\w+)":`)

// saw collects the members of an answer, for the only test that needs them.
func (o *openAPI) saw(body []byte) {
	if o.members == nil {
		return
	}
	for _, m := range member.FindAllSubmatch(body, -1) {
		o.members[string(m[1])] = true
	}
}

func validate(schema *jsonschema.Schema, text []byte) error {
	if schema == nil {
		return fmt.Errorf("docs/openapi.yaml has no schema for %.200s", text)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%w\nin %.1000s", err, text)
	}
	return nil
}

// checkContract checks an answer of any test against docs/openapi.yaml.
func checkContract(t testing.TB, method, path, body string, a answer) {
	t.Helper()
	const tooLarge = 64 << 10 // larger bodies take too long to check
	if _, ok := t.(*testing.T); !ok || len(a.body) > tooLarge || len(body) > tooLarge {
		return
	}
	o, err := contract()
	if err == nil {
		err = o.check(method, path, body, a)
	}
	if err != nil {
		t.Errorf("docs/openapi.yaml does not describe the answer %d to %s %s: %v", a.status, method, path, err)
	}
}

func openapi(t *testing.T) *openAPI {
	t.Helper()
	o, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestOpenAPIHasAllRoutes compares the file's operations with the table of routes.
func TestOpenAPIHasAllRoutes(t *testing.T) {
	t.Parallel()
	o := openapi(t)
	var listed []string
	names := map[any]bool{}
	for path, operations := range o.object("paths") {
		for method, operation := range operations.(map[string]any) {
			listed = append(listed, strings.ToUpper(method)+" "+path)
			names[operation.(map[string]any)["operationId"]] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(gw.Routes(), "GET /healthz", "GET /readyz"))), slices.Sorted(slices.Values(listed))); diff != "" {
		t.Errorf("routes of the code (-) and of docs/openapi.yaml (+):\n%s", diff)
	}
	if len(names) != len(listed) {
		t.Errorf("%d operations have %d ids", len(listed), len(names))
	}
}

// TestOpenAPIHasAllCodes compares the file's error codes with the contract: the list of
// all, and the codes of each status with their type.
func TestOpenAPIHasAllCodes(t *testing.T) {
	t.Parallel()
	o := openapi(t)
	listed := o.object("components", "schemas", "Code")["enum"].([]any)
	var names []any
	want, got := map[string][]any{}, map[string][]any{}
	for _, code := range wire.Codes() {
		names = append(names, code.Name)
		if code.Status != 0 {
			answer := fmt.Sprintf("Error%d", code.Status)
			want[answer] = append(want[answer], code.Name, code.Type)
		}
	}
	foreign := wire.UpstreamRateLimited.Foreign()
	want["Error429"] = append(want["Error429"], foreign.Name, foreign.Type)
	if diff := cmp.Diff(names, listed); diff != "" {
		t.Errorf("codes (-) and docs/openapi.yaml (+):\n%s", diff)
	}
	for name := range o.object("components", "responses") {
		if !strings.HasPrefix(name, "Error") {
			continue
		}
		members := []string{"components", "responses", name, "content", "application/json", "schema", "properties"}
		kind := o.object(append(members, "error", "properties", "type")...)["const"]
		for _, code := range o.object(append(members, "error_code")...)["enum"].([]any) {
			got[name] = append(got[name], code, kind)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes by status (-) and docs/openapi.yaml (+):\n%s", diff)
	}
}

// TestOpenAPIHasAllConditions compares the conditions of /readyz.
func TestOpenAPIHasAllConditions(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, code := range openapi(t).object("components", "schemas", "Condition")["enum"].([]any) {
		listed = append(listed, code.(string))
	}
	if diff := cmp.Diff(gw.ConditionCodes, listed); diff != "" {
		t.Errorf("conditions (-) and docs/openapi.yaml (+):\n%s", diff)
	}
}

// TestOpenAPIExamples validates every example of the file with its schema.
func TestOpenAPIExamples(t *testing.T) {
	t.Parallel()
	o := openapi(t)
	count := 0
	var walk func(value any, at string)
	walk = func(value any, at string) {
		object, _ := value.(map[string]any)
		for name, example := range object {
			if name != "examples" {
				walk(example, at+"/"+escape(name))
				continue
			}
			for name, example := range example.(map[string]any) {
				count++
				text, err := json.Marshal(example.(map[string]any)["value"])
				if err == nil {
					err = validate(o.schemas[at+"/schema"], text)
				}
				if response, found := strings.CutSuffix(at, "/content/text~1event-stream"); found && err == nil {
					err = o.checkBody(response, "text/event-stream", []byte(example.(map[string]any)["value"].(string)))
				}
				if err != nil {
					t.Errorf("%s, example %s: %v", at, name, err)
				}
			}
		}
	}
	walk(o.root, "#")
	if count < 20 {
		t.Errorf("%d examples", count)
	}
}

// TestOpenAPIDescribesAnswers makes answers of all forms. The harness checks the
// answers of all tests against the file; here every member that the file lists must be
// in one of the answers.
func TestOpenAPIDescribesAnswers(t *testing.T) {
	t.Parallel()
	shared := openapi(t)
	o := &openAPI{root: shared.root, schemas: shared.schemas, members: map[string]bool{}}

	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch stream := bytes.Contains(body, []byte(`"stream":true`)); {
		case bytes.Contains(body, []byte("break")):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("and then", ""))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			callTools(w, "Let me see.", stream)
		}
	})
	files := agent()
	files["definitions/prompts/all.yaml"] = `provider: fake
model: small
temperature: 0.5
max_tokens: 10
top_p: 0.5
top_k: 5
frequency_penalty: -1
presence_penalty: 1
seed: 7
stop: END
reasoning_effort: low
response_format: json
tools: [ { name: find, description: Finds it., strict: true, parameters: { type: object } } ]
tool_choice: auto
messages: [ { role: developer, content: Hi. } ]
`
	files["definitions/prompts/media.yaml"] = `messages:
  - role: user
    content: [ { text: Hi. }, { image: "https://x.test/i", detail: low }, { audio: "data:audio/wav;base64,aGk=" }, { audio: "https://x.test/a" }, { file: "https://x.test/f", name: f.pdf } ]
`
	files["definitions/remoteconfigs/list.yaml"] = "type: list\ndefault: [1, a]\n"
	files["definitions/remoteconfigs/text.yaml"] = "type: string\ndefault: a\n"
	files["definitions/remoteconfigs/number.yaml"] = "type: number\ndefault: 0.5\n"
	g := startGateway(t, files, withProvider("fake", openaiProvider(u.URL, openai.Quirks{})), with(func(c *gw.WorkspaceConfig) { c.Legacy = true }))

	try := func(path, body string) answer {
		t.Helper()
		a := g.post(path, body)
		if err := o.check(http.MethodPost, path, body, a); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return a
	}
	prompts := try("/v1/prompts", `{"keys":["agent","all","media","nothing"],"variables":{"question":"?"}}`)
	if prompts.status != http.StatusOK {
		t.Fatalf("%d %s", prompts.status, prompts.body)
	}
	id := prompts.json(t)["all"].(map[string]any)["trace_id"].(string)
	try("/v2/remoteconfigs", `{"keys":["checkout","limits","list","text","number"]}`)
	try("/v2/rules", `{"keys":["checkout"]}`)
	try("/v2/rules", `{"rules":["checkout"],"tags":["employee"],"page":1}`)
	try("/v2/prompts", `{"prompts":["all"],"plan":"pro","page":1}`)
	try("/evaluate", `{"rule_key":"list","context":null}`)
	try("/evaluate/", `{"domain":"default","context":{"plan":"pro"}}`)
	try("/v1/decisions", `{"prompts":["all","nothing"],"remoteconfigs":["list"]}`)
	try("/v1/decisions", `{"remoteconfigs":["list"],"prompts":[]}`)
	whole := try("/v1/endpoints", `{"key":"agent","variables":{"question":"?"}}`)
	if whole.json(t)["tool_calls"] == nil {
		t.Errorf("no tool calls: %s", whole.body)
	}
	try("/v1/endpoints", `{"key":"agent","stream":true,"variables":{"question":"another?"}}`)
	s := &scripted{result: providers.Result{
		FinishReason: providers.FinishToolCalls, Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "a"}},
		ToolCalls: []providers.ToolCall{{ID: "c", Name: "own", Arguments: "{}", Opaque: "b"}},
	}}
	thinking := startGateway(t, conversation(""), withProvider("scripted", s), withProvider("other", s))
	const asked = `{"key":"team/talk","messages":[{"role":"user","content":"Hi"}]}`
	if err := o.check(http.MethodPost, "/v1/endpoints", asked, thinking.post("/v1/endpoints", asked)); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/v1/models", "/v1/models/agent"} {
		a := g.do(http.MethodGet, path, "", bearer(testKey))
		if err := o.check(http.MethodGet, path, "", a); err != nil || a.status != http.StatusOK {
			t.Errorf("%s: %d %v", path, a.status, err)
		}
	}
	anthropic := bearer(testKey)
	anthropic.Set("Anthropic-Version", "2023-06-01")
	for _, path := range []string{"/v1/models", "/v1/models/agent", "/v1/models/none"} {
		a := g.do(http.MethodGet, path, "", anthropic)
		if err := o.check(http.MethodGet, path, "", a); err != nil {
			t.Errorf("%s: %d %v", path, a.status, err)
		}
	}
	try("/v1/chat/completions", `{"model":"agent","variables":{"question":"?"}}`)
	try("/v1/messages", `{"model":"agent","variables":{"question":"?"}}`)
	try("/v1/messages", `{"model":"agent","temperature":1}`)
	try("/v1/messages/count_tokens", `{"model":"agent","variables":{"question":"?"}}`)
	for _, path := range []string{"", "/list", "/a b"} {
		try(wire.FlagsPath+path, `{"context":{"plan":"pro"}}`)
	}
	try("/v1/metrics", `{"trace_id":"`+whole.header.Get(wire.HeaderTraceID)+`","score":1,"latency":1}`)
	try("/v1/metrics", `{"score":1}`)
	try("/v1/metrics", `[{"score":1},{"score":101}]`)
	try("/v1/metrics", `[{"score":101},5]`)
	for range 2 {
		try("/v1/metrics", `{"unit":{"locale":"nl"},"values":{"n":1},"event_id":"e-1"}`)
	}
	try("/v2/prompts/"+id+"/metrics", `{"score":1,"trace_id":null}`)
	for _, refused := range []string{
		`{"keys":[]}`, `{"keys":"a"}`, `{"keys":["a b"]}`, `{"keys":[5]}`, `{}`, `{"keys":["agent"],"context":[]}`,
		`{"keys":["agent"],"variables":"a"}`, `{"keys":["agent"],"metadata":1}`, `{"keys":[` + strings.Repeat(`"a",`, 100) + `"a"]}`,
	} {
		tryRefused(t, o, g, "/v1/prompts", refused)
	}
	for _, refused := range []string{`{}`, `{"rule_key":5}`, `{"domain":[]}`, `{"context":{}}`, `{"rule_key":"list","context":1}`} {
		tryRefused(t, o, g, "/evaluate", refused)
	}
	for _, refused := range []string{`{}`, `{"rules":[]}`, `{"rules":"a"}`, `{"rules":["a b"]}`} {
		tryRefused(t, o, g, "/v2/rules", refused)
	}
	for _, refused := range []string{`{}`, `{"prompts":[]}`, `{"prompts":null,"remoteconfigs":[]}`, `{"prompts":"a"}`, `{"remoteconfigs":[5]}`, `{"prompts":["agent"],"variables":5}`} {
		tryRefused(t, o, g, "/v1/decisions", refused)
	}
	for _, refused := range []string{`{}`, `{"key":5}`, `{"keys":["a","b"]}`, `{"key":"agent","stream":"yes"}`, `{"key":"agent","context":5}`} {
		tryRefused(t, o, g, "/v1/endpoints", refused)
	}
	for _, refused := range []string{`{"score":101}`, `{"score":"1"}`, `{"latency":-1}`, `{"roundtrip_time":1e13}`, `{"chain_id":5}`, `{"economics":{"prompt_tokens":-1,"total_tokens":1}}`, `{"economics":5}`, `{"decision_id":5}`, `{"values":5}`, `{"values":{"a":"1"}}`, `{"values":{"a b":1}}`, `{"values":{"a":1e16}}`, `[]`, `{"unit":5}`, `{"unit":{"a":1,"b":2}}`, `{"unit":{"locale":"nl"},"values":{"a":1},"event_id":"a b"}`} {
		tryRefused(t, o, g, "/v1/metrics", refused)
	}

	response, err := g.send(t.Context(), http.MethodPost, "/v1/endpoints", `{"key":"agent","stream":true,"variables":{"question":"break"}}`, bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	broken, err := io.ReadAll(response.Body) // the stream is cut
	if err == nil || !bytes.Contains(broken, []byte("upstream_interrupted")) {
		t.Errorf("%v after %s", err, broken)
	}
	if err := o.check(http.MethodPost, "/v1/endpoints", `{"key":"agent"}`, answer{response.StatusCode, response.Header, broken}); err != nil {
		t.Error(err)
	}

	for name, schema := range o.object("components", "schemas") {
		if strings.HasSuffix(name, "Request") || name == "Readiness" { // Readiness has its own test
			continue
		}
		for _, member := range propertiesOf(schema) {
			if !o.members[member] {
				t.Errorf("no answer has the member %s of the schema %s", member, name)
			}
		}
	}
}

// tryRefused checks that the gateway refuses a body that the file's schema refuses.
func tryRefused(t *testing.T, o *openAPI, g *gateway, path, body string) {
	t.Helper()
	schema := o.schemas["#/paths/"+strings.ReplaceAll(path, "/", "~1")+"/post/requestBody/content/application~1json/schema"]
	if validate(schema, []byte(body)) == nil {
		t.Errorf("docs/openapi.yaml lets %s have %s", path, body)
	}
	a := g.post(path, body)
	if err := o.check(http.MethodPost, path, body, a); err != nil || a.status != http.StatusBadRequest {
		t.Errorf("%s %s: %d %s, %v", path, body, a.status, a.body, err)
	}
}

// propertiesOf returns the names of all properties in a schema.
func propertiesOf(schema any) []string {
	var names []string
	switch schema := schema.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		names = slices.Collect(maps.Keys(properties))
		for _, part := range schema {
			names = append(names, propertiesOf(part)...)
		}
	case []any:
		for _, part := range schema {
			names = append(names, propertiesOf(part)...)
		}
	}
	return names
}
