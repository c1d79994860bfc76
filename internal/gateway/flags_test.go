package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// ofrepShapes are the shapes of the answers of OFREP 0.3.0, by the route and the status.
// They allow additional members, except in metadata, as the protocol does. DEFAULT and
// STALE are words of OpenFeature's specification, which the protocol's own list lacks.
var ofrepShapes = sync.OnceValue(func() map[string]*jsonschema.Schema {
	const metadata = `{"type":"object","additionalProperties":{"type":["boolean","string","number"]}}`
	const success = `{"type":"object","required":["key","value","reason","variant"],"properties":{
		"key":{"type":"string"},"value":{"type":["boolean","string","number","object","array"]},"variant":{"type":"string"},
		"reason":{"enum":["STATIC","TARGETING_MATCH","SPLIT","DISABLED","UNKNOWN","DEFAULT","STALE"]},"metadata":` + metadata + `}}`
	const codes = `{"enum":["PARSE_ERROR","TARGETING_KEY_MISSING","INVALID_CONTEXT","GENERAL"]}`
	failure := func(key, codes string) string {
		return `{"type":"object","required":[` + key + `"errorCode","errorDetails"],"properties":{"key":{"type":"string"},"errorCode":` + codes + `,"errorDetails":{"type":"string"}}}`
	}
	shapes := map[string]*jsonschema.Schema{}
	for name, text := range map[string]string{
		"flag 200": success, "flag 400": failure(`"key",`, codes), "flag 404": failure(`"key",`, `{"const":"FLAG_NOT_FOUND"}`), "flag": failure(`"key",`, `{"const":"GENERAL"}`),
		"flags 200": `{"type":"object","required":["flags"],"properties":{"flags":{"type":"array","items":` + success + `},"metadata":` + metadata + `}}`,
		"flags 400": failure("", codes), "flags": failure("", `{"const":"GENERAL"}`),
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			panic(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("s", value); err != nil {
			panic(err)
		}
		shapes[name] = compiler.MustCompile("s")
	}
	return shapes
})

// flags asks a route of OFREP, /KEY or the empty string for all, and checks the answer
// against the protocol.
func (g *gateway) flags(path, body string, header http.Header) answer {
	g.t.Helper()
	a := g.do(http.MethodPost, wire.FlagsPath+path, body, header)
	checkFlags(g.t, path, a)
	return a
}

func checkFlags(t testing.TB, path string, a answer) {
	t.Helper()
	name := "flags"
	if path != "" {
		name = "flag"
	}
	if a.status == http.StatusNotModified {
		return
	}
	shape := ofrepShapes()[fmt.Sprint(name, " ", a.status)]
	if shape == nil {
		shape = ofrepShapes()[name]
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err == nil {
		err = shape.Validate(value)
	}
	if err != nil {
		t.Errorf("%s %d: %v\n%s", path, a.status, err, a.body)
	}
}

// flagged is the answer to a flag.
type flagged struct {
	Key, Reason, Variant string
	Value                json.RawMessage
	Metadata             struct {
		Version string
		TraceID string `json:"trace_id"`
	}
}

func (a answer) flag(t *testing.T) (f flagged) {
	t.Helper()
	if err := json.Unmarshal(a.ok(t).body, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// flagList returns the answers to all flags.
func (a answer) flagList(t *testing.T) []flagged {
	t.Helper()
	var all struct{ Flags []flagged }
	if err := json.Unmarshal(a.ok(t).body, &all); err != nil {
		t.Fatal(err)
	}
	return all.Flags
}

// all returns the answers to all flags, each as KEY VALUE REASON VARIANT.
func (a answer) all(t *testing.T) (list []string) {
	t.Helper()
	for _, f := range a.flagList(t) {
		if _, ok := trace.ParseID(f.Metadata.TraceID); !ok || len(f.Metadata.Version) != 12 {
			t.Errorf("the metadata of %s: %+v", f.Key, f.Metadata)
		}
		list = append(list, fmt.Sprintf("%s %s %s %s", f.Key, f.Value, f.Reason, f.Variant))
	}
	return list
}

// flagFiles are configurations that give each reason.
func flagFiles() map[string]string {
	return map[string]string{
		"definitions/context.yaml":                 "targeting_key: customer_id\nfields:\n  plan: { type: string, values: [free, pro], trace: value }\n  customer_id: { type: string, trace: value }\n",
		"definitions/remoteconfigs/static.yaml":    "type: string\ndefault: hi\n",
		"definitions/remoteconfigs/team/list.yaml": "aliases: [old/list]\ntype: list\ndefault: [1, a]\n",
		"definitions/remoteconfigs/limits.yaml": `
type: object
default: { rpm: 60 }
rules:
  - { id: me, when: { customer_id: c-1 }, value: { rpm: 1 } }
  - { when: { plan: pro }, value: { rpm: 600 } }
`,
		"definitions/remoteconfigs/half.yaml": `
type: boolean
default: false
rules:
  - id: ramp
    when: { plan: pro }
    split: { by: customer_id, of: [ { value: true, share: 100%, name: on } ] }
  - id: rest
    when: { plan: free }
    split: { by: customer_id, of: [ { value: false, share: 100% } ] }
`,
	}
}

// TestFlag asks for single flags.
func TestFlag(t *testing.T) {
	t.Parallel()
	g := startGateway(t, flagFiles(), logContent)
	for _, test := range []struct{ path, body, want, row, arm string }{
		{"/static", `{"context":{"targetingKey":"c-1"}}`, `static "hi" STATIC default`, "", ""},
		{"/static", `{}`, `static "hi" STATIC default`, "", ""},
		{"/limits", `{"context":{"targetingKey":"c-1","plan":"pro"}}`, `limits {"rpm":1} TARGETING_MATCH me`, "me", ""},
		{"/limits", `{"context":{"targetingKey":"c-1","customer_id":"c-2","plan":"pro"}}`, `limits {"rpm":600} TARGETING_MATCH row 2`, "row 2", ""},
		{"/limits", `{"context":{"targetingKey":"c-2"}}`, `limits {"rpm":60} DEFAULT default`, "", ""},
		{"/limits", `{"context":null}`, `limits {"rpm":60} DEFAULT default`, "", ""},
		{"/limits", `{"context":{}}`, `limits {"rpm":60} DEFAULT default`, "", ""},
		{"/half", `{"context":{"targetingKey":"c-1","plan":"pro","at":"2026-01-31T12:00:00.000Z"}}`, `half true SPLIT on`, "ramp", "on"},
		{"/half", `{"context":{"targetingKey":"c-1","plan":"free"}}`, `half false SPLIT 1`, "rest", "1"},
		{"/half", `{"context":{"plan":"pro"}}`, `half false DEFAULT default`, "", ""},
		{"/team/list", `{}`, `team/list [1,"a"] STATIC default`, "", ""},
		{"/team%2Flist", `{}`, `team/list [1,"a"] STATIC default`, "", ""},
		{"/old%2flist", `{}`, `old/list [1,"a"] STATIC default`, "", ""},
	} {
		a := g.flags(test.path, test.body, bearer(testKey))
		f := a.flag(t)
		if got := fmt.Sprintf("%s %s %s %s", f.Key, f.Value, f.Reason, f.Variant); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.path, test.body, got, test.want)
		}
		record := g.ended(t, f.Metadata.TraceID)
		key := strings.Replace(f.Key, "old/", "team/", 1)
		if a.header.Get(wire.HeaderTraceID) != f.Metadata.TraceID || record.Kind != trace.KindRemoteConfig || record.Key != key || record.Version != f.Metadata.Version ||
			record.Row != test.row || record.Arm != test.arm || record.Status != http.StatusOK || string(record.Response) != string(f.Value) || (len(record.Context) > 0) != (len(test.body) > len(`{"context":null}`)) {
			t.Errorf("%s: the trace %+v", test.path, record)
		}
		if (key != f.Key) != slices.Contains(record.Notes, "asked as "+f.Key) {
			t.Errorf("the notes %q", record.Notes)
		}
		if a.header.Get("Etag") != "" {
			t.Error("one flag has an ETag")
		}
	}
}

// TestFlagErrors has the errors of both routes.
func TestFlagErrors(t *testing.T) {
	t.Parallel()
	files := flagFiles()
	files["definitions/context.yaml"] = "targeting_key: customer_id\non_type_mismatch: reject\nfields:\n  plan: { type: string, values: [free, pro] }\n  customer_id: { type: string, required: true }\n"
	g := startGateway(t, files, all(
		with(func(c *gw.WorkspaceConfig) { c.MaxBodySize = 100 << 10 }),
		withLimits(&limit.Limit{Name: "flags", By: limit.ByAPIKey, Routes: []string{"remoteconfigs"}, Ceilings: []limit.Ceiling{yearly(limit.Requests, 100)}}),
	))
	release := g.memory["default"].FillRequests()
	key := http.Header{"X-Api-Key": {testKey}}
	try := func(method, path, body string, header http.Header, status int, code, want string) answer {
		t.Helper()
		a := g.do(method, wire.FlagsPath+path, body, header)
		checkFlags(t, path, a)
		var got struct {
			Key, ErrorCode string
			Ours           string `json:"error_code"`
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			t.Fatal(err)
		}
		if a.status != status || got.Ours != code || got.ErrorCode != want || got.Key != strings.TrimPrefix(strings.ReplaceAll(path, "%20", " "), "/") {
			t.Errorf("%s %s %.50s: %d %+v, want %d %s %s", method, path, body, a.status, got, status, code, want)
		}
		return a
	}
	for _, path := range []string{"", "/limits", "/team/none"} {
		try("POST", path, `{`, key, 400, "invalid_json", "PARSE_ERROR")
		try("POST", path, ``, key, 400, "invalid_json", "PARSE_ERROR")
		try("POST", path, `[]`, key, 400, "invalid_request", "PARSE_ERROR")
		try("POST", path, `{"context":"a"}`, key, 400, "invalid_request", "INVALID_CONTEXT")
		try("POST", path, `{"context":{"plan":"gold","targetingKey":"c"}}`, key, 400, "invalid_request", "INVALID_CONTEXT")
		try("POST", path, `{"context":{"targetingKey":{"a":1}}}`, key, 400, "invalid_request", "INVALID_CONTEXT")
		try("POST", path, `{"context":{"plan":"pro"}}`, key, 400, "invalid_request", "TARGETING_KEY_MISSING")
		try("GET", path, ``, key, 405, "method_not_allowed", "GENERAL")
		for _, header := range []http.Header{{}, bearer("wrong-key-0123456789"), {"X-Api-Key": {"wrong-key-0123456789"}}, {"X-Api-Key": {testKey, testKey}}} {
			try("POST", path, `{}`, header, 401, "invalid_api_key", "GENERAL")
		}
		try("POST", path, `{"context":{"a":"`+strings.Repeat("a", 110<<10)+`"}}`, key, 413, "body_too_large", "GENERAL")
		if a := try("POST", path, `{"context":{"a":"`+strings.Repeat("a", 80<<10)+`"}}`, key, 503, "overloaded", "GENERAL"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		coded := http.Header{"X-Api-Key": {testKey}, "Content-Encoding": {"gzip"}}
		try("POST", path, `{}`, coded, 415, "unsupported_encoding", "GENERAL")
	}
	for _, path := range []string{"/team/none", "/a%20b"} {
		try("POST", path, `{"context":{"targetingKey":"c"}}`, bearer(testKey), 404, "unknown_key", "FLAG_NOT_FOUND")
	}
	for _, path := range []string{"", "/limits"} { // a body that panics
		r := httptest.NewRequest(http.MethodPost, wire.FlagsPath+path, panicBody{})
		r.Header, r.ContentLength = key, 2
		w := httptest.NewRecorder()
		g.serve(w, r)
		a := answer{w.Code, w.Header(), w.Body.Bytes()}
		checkFlags(t, path, a)
		if a.status != 500 || !bytes.Contains(a.body, []byte(`"errorCode":"GENERAL"`)) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	release()
	for a := g.flags("", `{"context":{"targetingKey":"c"}}`, key); a.status != 429; {
		a = g.flags("", `{"context":{"targetingKey":"c"}}`, key)
	}
	for _, path := range []string{"", "/limits"} {
		if a := try("POST", path, `{}`, key, 429, "rate_limited", "GENERAL"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}

type panicBody struct{}

func (panicBody) Read([]byte) (int, error) { panic("read") }

// TestAllFlags asks for all flags, with the ETags of earlier answers.
func TestAllFlags(t *testing.T) {
	t.Parallel()
	g := startGateway(t, flagFiles(), withWorkspace("second", map[string]string{"other": otherKey}))
	const body = `{"context":{"targetingKey":"c-1","plan":"pro"}}`
	first := g.flags("", body, bearer(testKey))
	want := []string{`half true SPLIT on`, `limits {"rpm":1} TARGETING_MATCH me`, `static "hi" STATIC default`, `team/list [1,"a"] STATIC default`}
	if diff := cmp.Diff(want, first.all(t)); diff != "" {
		t.Error(diff)
	}
	tag := first.header.Get("Etag")
	again := func(body, key string, match ...string) answer {
		t.Helper()
		header := bearer(key)
		header["If-None-Match"] = match
		return g.flags("", body, header)
	}
	strong, weak := strings.CutPrefix(tag, "W/")
	if !weak {
		t.Errorf("ids may differ under the tag %s, which is strong", tag)
	}
	for _, match := range [][]string{{tag}, {strong}, {`"x", ` + tag}, {`"x"`, tag}, {"*"}} {
		a := again(body, testKey, match...)
		if a.status != http.StatusNotModified || a.header.Get("Etag") != tag || len(a.body) > 0 {
			t.Errorf("%q: %d %v", match, a.status, a.header)
		}
		if got := a.header.Get(wire.HeaderDecisionID); got != first.header.Get(wire.HeaderDecisionID) || a.header[wire.HeaderTraceID] != nil {
			t.Errorf("the decision of a 304: %s of %v", got, first.header)
		}
	}
	for what, a := range map[string]answer{
		"another tag": again(body, testKey, `"x"`), "another context": again(`{"context":{"targetingKey":"c-1","plan":"pro","page":1}}`, testKey, tag),
		"another key": again(body, otherKey, tag), "no context": again(`{}`, testKey, tag),
	} {
		if same := a.header.Get("Etag") == tag; a.status != http.StatusOK || same != (what == "another tag") {
			t.Errorf("%s: %d %v", what, a.status, a.header)
		}
	}
	// An answer that the caller has is recorded as such where it makes a trace.
	if a := again(`{"context":{"plan":"pro"}}`, testKey, "*"); a.status != http.StatusNotModified {
		t.Errorf("any tag: %d", a.status)
	}
	if err := g.store.Recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var unchanged int
	if err := g.database().QueryRowContext(t.Context(), "SELECT count(*) FROM traces WHERE status = 304").Scan(&unchanged); err != nil || unchanged == 0 {
		t.Errorf("%d traces of a 304: %v", unchanged, err)
	}
	// Each flag has its trace, on which the answers with the same tag were counted.
	var inputs []string
	for _, f := range first.flagList(t) {
		record := g.ended(t, f.Metadata.TraceID)
		inputs = append(inputs, string(record.Inputs))
		if record.Key != f.Key || record.Kind != trace.KindRemoteConfig || record.Status != http.StatusOK || record.Version != f.Metadata.Version ||
			record.Decision.String() != first.header.Get(wire.HeaderDecisionID) || len(record.Context) > 0 {
			t.Errorf("%+v", record)
		}
	}
	if diff := cmp.Diff([]string{`{"plan":"pro","customer_id":"c-1"}`, `{"plan":"pro","customer_id":"c-1"}`, "", ""}, inputs); diff != "" {
		t.Error(diff)
	}

	g.write("definitions/remoteconfigs/static.yaml", "type: string\ndefault: ho\n")
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := again(body, testKey, tag); a.status != http.StatusOK || a.header.Get("Etag") == tag {
		t.Errorf("after an edit: %d %v", a.status, a.header)
	}
	// A broken edit: the values stay, and are stale.
	g.write("definitions/remoteconfigs/static.yaml", "type: nothing\n")
	if err := g.source.Reload(); err == nil {
		t.Fatal("no error")
	}
	if got := g.flags("/static", body, bearer(testKey)).flag(t); string(got.Value) != `"ho"` || got.Reason != "STALE" {
		t.Errorf("%+v", got)
	}
	if got := again(body, testKey).all(t); got[0] != "half true STALE on" {
		t.Errorf("%q", got)
	}
	g.write("definitions/remoteconfigs/static.yaml", "type: string\ndefault: hi\n")
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := again(body, testKey, tag); a.status != http.StatusNotModified {
		t.Errorf("the same flags again: %d", a.status)
	}
}

// TestFlagsCountForLimits: both routes count for the limits of remoteconfigs, also for those
// by metadata, which may come with a request.
func TestFlagsCountForLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, flagFiles(), withLimits(&limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Routes: []string{"remoteconfigs"}, Ceilings: []limit.Ceiling{yearly(limit.Requests, 2)}}))
	for i, path := range []string{"", "/static", "", "/static"} {
		a := g.flags(path, `{"metadata":{"customer":"a"}}`, bearer(testKey))
		if want := map[bool]int{true: 200, false: 429}[i < 2]; a.status != want {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
		g.flags(path, `{"metadata":{"customer":"`+fmt.Sprint(i)+`"}}`, bearer(testKey)).ok(t)
	}
}

// TestAllFlagsAreRecorded by the policies of their definitions, of the workspace and of
// the caller.
func TestAllFlagsAreRecorded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		workspace, definitions, caller string
		recorded, content              bool
	}{
		{"metadata", "", "", true, false},
		{"content", "", "", true, true},
		{"none", "", "", false, false},
		{"none", "log: content", "", true, true},
		{"content", "log: metadata", "", true, false},
		{"content", "log: none", "", false, false},
		{"content", "", "metadata", true, false},
		{"content", "", "none", false, false},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			files := flagFiles()
			for name := range files {
				if strings.Contains(name, "/remoteconfigs/") {
					files[name] += test.definitions + "\n"
				}
			}
			policy, _ := definition.ParseLogPolicy(test.workspace)
			g := startGateway(t, files, with(func(c *gw.WorkspaceConfig) { c.Log = policy }))
			header := bearer(testKey)
			if test.caller != "" {
				header.Set(wire.HeaderLog, test.caller)
			}
			flags := g.flags("", `{"context":{"plan":"pro"}}`, header).flagList(t)
			g.post("/v1/metrics", `{"score":1}`).ok(t) // is written after them
			for _, f := range flags {
				record, found := g.trace("data/cadenza.db", f.Metadata.TraceID)
				if found != test.recorded || found && ((len(record.Context) > 0) != test.content || (string(record.Response) == string(f.Value)) != test.content) {
					t.Errorf("%s: %t %+v", f.Key, found, record)
				}
			}
		})
	}
}

// TestAllFlagsHaveCeilings: neither too many nor too large ones are answered in part.
func TestAllFlagsHaveCeilings(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for n := range gw.MaxFlags {
		files[fmt.Sprintf("definitions/remoteconfigs/f%d.yaml", n)] = "type: boolean\ndefault: true\n"
	}
	if a := startGateway(t, files, options).flags("", `{}`, bearer(testKey)); len(a.all(t)) != gw.MaxFlags {
		t.Errorf("%d flags", len(a.all(t)))
	}
	more := maps.Clone(files)
	more["definitions/remoteconfigs/more.yaml"] = "type: boolean\ndefault: true\n"
	g := startGateway(t, more, options)
	a := g.flags("", `{}`, bearer(testKey))
	checkError(t, a, "invalid_request", "")
	if a.status != 400 || !bytes.Contains(a.body, []byte("There are 1001 configurations")) {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.flags("/more", `{}`, bearer(testKey)).ok(t)

	small := with(func(c *gw.WorkspaceConfig) { c.MaxAnswerSize = 1000 })
	g = startGateway(t, map[string]string{
		"definitions/remoteconfigs/a.yaml": `{ type: string, default: "` + strings.Repeat("a", 600) + `" }`,
		"definitions/remoteconfigs/b.yaml": `{ type: string, default: "` + strings.Repeat("b", 600) + `" }`,
		"definitions/remoteconfigs/c.yaml": `{ type: string, default: "` + strings.Repeat("c", 1200) + `" }`,
	}, small)
	for path, want := range map[string]int{"": 400, "/a": 200, "/b": 200, "/c": 400} {
		a := g.flags(path, `{}`, bearer(testKey))
		if a.status != want || want == 400 && !bytes.Contains(a.body, []byte("more than 1000 bytes (max_answer_size)")) {
			t.Errorf("%q: %d %s", path, a.status, a.body)
		}
	}
	if got := startGateway(t, map[string]string{"definitions/context.yaml": "fields: {}\n", "definitions/prompts/p.yaml": "provider: canned\nmessages: [ { role: user, content: hi } ]\n"}, options).flags("", `{}`, bearer(testKey)).all(t); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
