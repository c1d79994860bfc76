package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// askWith is the body of a call of the endpoint "chat" that asks for configurations,
// in a context.
func askWith(text string, stream bool, keys, context string) string {
	return strings.TrimSuffix(ask(text, stream), "}") + `,"remoteconfigs":` + keys + `,"context":` + context + `}`
}

// given has the members of an endpoint's answer, or of an event of its stream.
type given struct {
	TraceID       string           `json:"trace_id"`
	Content       string           `json:"content"`
	IsFinal       bool             `json:"is_final"`
	RemoteConfigs map[string]entry `json:"remoteconfigs"`
}

func readGiven(t *testing.T, text []byte) (g given) {
	t.Helper()
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return g
}

// firstGiven reads a stream, of which only the first event may have configurations.
func firstGiven(t *testing.T, body []byte) given {
	t.Helper()
	all := events(t, strings.NewReader(string(body)))
	first := readGiven(t, []byte(all[0]))
	for _, data := range all[1:] {
		if strings.Contains(data, "remoteconfigs") {
			t.Errorf("an event after the first: %s", data)
		}
	}
	return first
}

const production = `{"environment":"production","plan":"pro"}`

// upstreamOf starts an upstream that answers as the question says.
func upstreamOf(t *testing.T) string {
	return newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		stream := strings.Contains(string(text), `"stream":true`)
		switch {
		case strings.Contains(string(text), "refuse"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(text), "never"):
			<-r.Context().Done()
		case strings.Contains(string(text), "tools"):
			callTools(w, "", stream)
		case !stream:
			completion(w, "all of it")
		case strings.Contains(string(text), "break"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("half of", ""))
		case strings.Contains(string(text), "nothing"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("", "stop")+"data: [DONE]\n\n")
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("all ", "")+chunk("of it", "stop")+"data: [DONE]\n\n")
		}
	}).URL
}

// tooled is the tests' endpoint with a tool that its model may call.
func tooled(text string) map[string]string {
	files := endpointWith(text)
	files["definitions/prompts/reply.yaml"] = strings.Replace(files["definitions/prompts/reply.yaml"], "    max_tokens: 400\n",
		"    max_tokens: 400\n    tools: [ { name: find_order, description: Finds it., parameters: { type: object } }, { name: stop, description: Stops it., parameters: { type: object } } ]\n", 1)
	return files
}

// TestConfigurationsBesideAnswers checks that the values come with the answer, or with
// the first event of a stream, whatever that is. They equal the values of their own
// route, and their traces belong to the call's decision.
func TestConfigurationsBesideAnswers(t *testing.T) {
	t.Parallel()
	g := startGateway(t, tooled(""), fakeProvider(upstreamOf(t)))
	var want map[string]entry
	if err := json.Unmarshal(g.post("/v1/remoteconfigs", `{"keys":["limits","checkout"],"context":`+production+`}`).body, &want); err != nil {
		t.Fatal(err)
	}
	for _, question := range []string{"all", "tools", "nothing"} {
		for _, stream := range []bool{false, true} {
			a := g.post("/v1/endpoints", askWith(question, stream, `["limits","nothing","checkout","limits"]`, production)).ok(t, question)
			got := given{}
			if stream {
				got = firstGiven(t, a.body)
			} else {
				got = readGiven(t, a.body)
			}
			sameEntries(t, question, got.RemoteConfigs, want)
			ids := []string{got.TraceID, got.RemoteConfigs["limits"].TraceID, got.RemoteConfigs["checkout"].TraceID}
			g.decisionOf(t, a.header, ids...)
			for i, id := range ids {
				r := g.ended(t, id)
				if i > 0 && (r.Kind != trace.KindRemoteConfig || r.Status != http.StatusOK || r.Latency <= 0 || r.Latency > g.ended(t, ids[0]).Latency) {
					t.Errorf("%s, stream %t: %s", question, stream, r.AppendJSON(nil))
				}
			}
			if header := a.header; header.Get("Cadenza-Trace-Id") != got.TraceID || header.Get("Cadenza-Unknown-Keys") != "remoteconfigs/nothing" {
				t.Errorf("%s: %v", question, header)
			}
		}
	}
	if n := strings.Count(g.scrape(), `cadenza_unknown_keys_total{route="endpoints"} 6`); n != 1 {
		t.Error("unknown keys are not counted")
	}
}

// TestListsOfConfigurations checks that an answer has the member if the request has the list.
func TestListsOfConfigurations(t *testing.T) {
	t.Parallel()
	g := startGateway(t, endpointWith(""), fakeProvider(upstreamOf(t)))
	for list, want := range map[string]string{
		`[]`:              `,"remoteconfigs":{}}`,
		`["nothing","a"]`: `,"remoteconfigs":{}}`,
		`null`:            ``,
	} {
		for _, stream := range []bool{false, true} {
			a := g.post("/v1/endpoints", askWith("all", stream, list, "null"))
			if a.status != http.StatusOK || strings.Count(string(a.body), `remoteconfigs`) != min(len(want), 1) || !strings.Contains(string(a.body), want) {
				t.Errorf("%s: %d %s", list, a.status, a.body)
			}
			if unknown := a.header.Get("Cadenza-Unknown-Keys"); (unknown == "remoteconfigs/nothing, remoteconfigs/a") != strings.Contains(list, "nothing") {
				t.Errorf("%s: unknown keys %q", list, unknown)
			}
		}
	}
	for body, param := range map[string]string{
		askWith("all", false, `"limits"`, "null"): "remoteconfigs",
		askWith("all", false, `["a b"]`, "null"):  "remoteconfigs[0]",
		askWith("all", true, `["limits"]`, `[]`):  "context",
	} {
		a := g.post("/v1/endpoints", body)
		checkError(t, a, "invalid_request", param)
	}
}

// TestConfigurationsBesideCachedAnswers checks that callers share a model's answer, and
// that each gets the values for its own context: callers that wait for the answer, and
// callers that get it from the cache.
func TestConfigurationsBesideCachedAnswers(t *testing.T) {
	t.Parallel()
	const callers = 6
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		<-release
		completion(w, "shared")
	})
	files := endpointWith("cache: { ttl: 1h }\n")
	g := startGateway(t, files, fakeProvider(u.URL))
	contextOf := func(n int) (string, string) {
		if n%2 == 0 {
			return production, `{"rpm":600,"burst":60}`
		}
		return `{"environment":"staging"}`, `{"rpm":60,"burst":10}`
	}
	decisions := make(chan string, callers)
	check := func(n int, cached bool) {
		own, want := contextOf(n)
		a := g.post("/v1/endpoints", askWith("one", n%3 == 0, `["limits"]`, own))
		got := given{}
		if n%3 == 0 {
			got = firstGiven(t, a.body)
		} else {
			got = readGiven(t, a.body)
		}
		if a.status != http.StatusOK || string(got.RemoteConfigs["limits"].Value) != want {
			t.Errorf("%s: %d %s", own, a.status, a.body)
		}
		if r := g.ended(t, got.RemoteConfigs["limits"].TraceID); r.Cached || r.Decision.String() != a.header.Get("Cadenza-Decision-Id") {
			t.Errorf("recorded %s", r.AppendJSON(nil))
		}
		if cached && !strings.Contains(a.header.Get("Cache-Status"), "hit") {
			t.Errorf("Cache-Status %q", a.header.Get("Cache-Status"))
		}
		decisions <- a.header.Get("Cadenza-Decision-Id")
	}
	var waiting sync.WaitGroup
	for n := range callers {
		waiting.Go(func() { check(n, false) })
	}
	eventually(t, "all callers wait", func() bool {
		now, _ := g.process.CallMetrics("default", "")
		return now == callers
	})
	close(release)
	waiting.Wait()
	seen := make(map[string]bool)
	for range callers {
		seen[<-decisions] = true
	}
	if len(seen) != callers || u.Calls.Load() != 1 {
		t.Errorf("%d decisions, %d calls", len(seen), u.Calls.Load())
	}
	eventually(t, "the answer is remembered", func() bool {
		return strings.Contains(g.post("/v1/endpoints", ask("one", false)).header.Get("Cache-Status"), "hit")
	})
	for n := range 4 {
		check(n, true)
	}
}

// TestConfigurationsOfFailedCalls checks that a call that fails before its first content
// returns no values and records none. If it fails later, its caller has them.
func TestConfigurationsOfFailedCalls(t *testing.T) {
	t.Parallel()
	g := startGateway(t, endpointWith(""), fakeProvider(upstreamOf(t)))
	for _, stream := range []bool{false, true} {
		a := g.post("/v1/endpoints", askWith("refuse", stream, `["limits","nothing"]`, production))
		if a.status != http.StatusBadGateway || strings.Contains(string(a.body), "limits") || a.header.Get("Cadenza-Unknown-Keys") != "" {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
		g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	}
	for _, stream := range []bool{false, true} {
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() {
			response, err := g.send(ctx, http.MethodPost, "/v1/endpoints", askWith("never", stream, `["limits"]`, production), bearer(testKey))
			if err == nil {
				response.Body.Close()
				t.Errorf("answered %d", response.StatusCode)
			}
		})
		eventually(t, "the provider is asked", func() bool { process, _ := g.process.CallsInFlight(""); return process == 1 })
		leave()
		left.Wait()
		eventually(t, "the call has ended", func() bool { process, _ := g.process.CallsInFlight(""); return process == 0 })
	}
	response, err := g.send(t.Context(), http.MethodPost, "/v1/endpoints", askWith("break", true, `["limits"]`, production), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil || !strings.Contains(string(body), "upstream_interrupted") {
		t.Fatalf("%v after %s", err, body)
	}
	got := firstGiven(t, body)
	g.decisionOf(t, response.Header, got.TraceID, got.RemoteConfigs["limits"].TraceID)
	if n := g.configTraces(); n != 1 {
		t.Errorf("%d traces of configurations", n)
	}
}

// configTraces counts the traces of configurations.
func (g *gateway) configTraces() (n int) {
	g.t.Helper()
	if err := g.database().QueryRow(`SELECT count(*) FROM traces WHERE kind = 'remoteconfig'`).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// TestConfigurationsGivenAgain checks that the reply to an idempotency key has the values
// of the first answer, and is no new decision.
func TestConfigurationsGivenAgain(t *testing.T) {
	t.Parallel()
	g := startGateway(t, endpointWith("idempotency: true\n"), fakeProvider(upstreamOf(t)))
	body := askWith("all", false, `["limits"]`, production)
	first := g.keyed("k", "/v1/endpoints", body)
	got := readGiven(t, first.body)
	if string(got.RemoteConfigs["limits"].Value) != `{"rpm":600,"burst":60}` {
		t.Errorf("%d %s", first.status, first.body)
	}
	g.ended(t, got.RemoteConfigs["limits"].TraceID)
	g.write("definitions/remoteconfigs/limits.yaml", "type: number\ndefault: 1\n")
	var last string
	eventually(t, "the definitions are new", func() bool {
		limits := g.post("/v1/remoteconfigs", `{"keys":["limits"]}`).json(t)["limits"].(map[string]any)
		last = limits["trace_id"].(string)
		return limits["type"] == "number"
	})
	g.ended(t, last) // the earlier ones have ended, too
	before := g.configTraces()
	checkReplayed(t, g.keyed("k", "/v1/endpoints", body), first)
	if n := g.configTraces(); n != before {
		t.Errorf("%d traces more", n-before)
	}
}

// TestUnrecordedConfigurations checks that with log: none the values are returned, and
// nothing is recorded.
func TestUnrecordedConfigurations(t *testing.T) {
	t.Parallel()
	g := startGateway(t, endpointWith(""), fakeProvider(upstreamOf(t)))
	header := bearer(testKey)
	header.Set("Cadenza-Log", "none")
	for _, stream := range []bool{false, true} {
		a := g.do(http.MethodPost, "/v1/endpoints", askWith("all", stream, `["limits"]`, "{}"), header)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"remoteconfigs":{"limits":{"value":`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	g.decisionOf(t, g.post("/v1/prompts", `{"keys":["hello"]}`).header)
	eventually(t, "the prompt is stored", func() bool { return rowsOf(t, g, "traces") > 0 })
	if n := rowsOf(t, g, "traces"); n != 1 {
		t.Errorf("%d traces", n)
	}
}

// TestSizeOfConfigurationsBesideAnswers checks that the size of the values is bounded
// before a provider is called, to the byte.
func TestSizeOfConfigurationsBesideAnswers(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	body := `{"key":"chat","remoteconfigs":["limits","checkout"],"variables":{"question":"?"}}`
	a := g.post("/v1/endpoints", body)
	_, member, _ := strings.Cut(string(a.body), `,"remoteconfigs":`)
	size := len(`,"remoteconfigs":`) + len(member) - 1
	for less, want := range []int{http.StatusOK, http.StatusBadRequest} {
		g.load(with(func(c *gw.WorkspaceConfig) { c.MaxAnswerSize = int64(size - less) }))
		a := g.post("/v1/endpoints", body)
		if a.status != want {
			t.Errorf("%d bytes less: %d %s", less, a.status, a.body)
		}
		if want == http.StatusBadRequest {
			checkError(t, a, "invalid_request", "remoteconfigs")
		}
	}
}

// largeConfigs returns configurations of 1 MiB each, and the list of their keys.
func largeConfigs(n int) (files map[string]string, keys string) {
	files = maps.Clone(workspace)
	var list []string
	for i := range n {
		key := fmt.Sprintf("large%d", i)
		files["definitions/remoteconfigs/"+key+".yaml"] = "type: string\nlog: content\ndefault: \"" + strings.Repeat("x", 1<<20) + "\"\n"
		list = append(list, `"`+key+`"`)
	}
	return files, "[" + strings.Join(list, ",") + "]"
}

// TestRoomOfConfigurationsBesideAnswers checks that large values count as large answers
// while they are sent, in a whole answer and in a stream, and no longer. A stream that
// has sent them does not count.
func TestRoomOfConfigurationsBesideAnswers(t *testing.T) {
	t.Parallel()
	files, keys := largeConfigs(7)
	held := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `"stream":true`) {
			completion(w, "all of it")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("first", ""))
		w.(http.Flusher).Flush()
		if strings.Contains(string(text), "hold") {
			<-held
		}
		io.WriteString(w, chunk("last", "stop")+"data: [DONE]\n\n")
	})
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nlog: metadata\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	body := func(text string, stream bool) string { return askWith(text, stream, keys, "null") }
	var streams []*http.Response
	for range 2 {
		response, err := g.send(t.Context(), http.MethodPost, "/v1/endpoints", body("hold", true), bearer(testKey))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadFull(response.Body, make([]byte, 7<<20)); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, response)
	}
	for _, stream := range []bool{false, true} {
		if a := g.post("/v1/endpoints", body("all", stream)); a.status != http.StatusOK || len(a.body) < 7<<20 {
			t.Errorf("stream %t: %d, %d bytes", stream, a.status, len(a.body))
		}
	}
	eventually(t, "streams that go on hold no room", func() bool { return g.memory["default"].HeldByAnswers() == 0 })
	// The values, and the copies in the traces, count as large requests during the calls.
	if _, own := g.process.HeldByRequests(g.memory["default"]); own < 4*(7<<20) {
		t.Errorf("the calls hold %d bytes", own)
	}
	close(held)
	for _, response := range streams {
		if rest, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(rest), "[DONE]") {
			t.Errorf("%v, %d bytes", err, len(rest))
		}
	}
	release := g.memory["default"].FillRequests()
	full := g.post("/v1/endpoints", body("all", true))
	checkError(t, full, "overloaded", "")
	if small := g.post("/v1/endpoints", askWith("all", true, `["limits"]`, "null")); full.status != http.StatusServiceUnavailable || small.status != http.StatusOK {
		t.Errorf("%d %s, and a small one %d", full.status, full.body, small.status)
	}
	release()
	// A stream that does not fit is refused before its provider is asked.
	releaseAnswers := g.memory["default"].FillAnswers()
	calls := u.Calls.Load()
	checkNoRoom(t, "a stream", g.post("/v1/endpoints", body("all", true)))
	if u.Calls.Load() != calls {
		t.Error("a provider was called")
	}
	checkNoRoom(t, "whole", g.post("/v1/endpoints", body("all", false)))
	releaseAnswers()
	g.post("/v1/endpoints", body("all", true)).ok(t)
	eventually(t, "all room is given back", func() bool { return g.memory["default"].HeldByAnswers() == 0 })
	if all, own := g.process.HeldByRequests(g.memory["default"]); all != 0 || own != 0 {
		t.Errorf("requests hold %d bytes, and %d of the workspace's", all, own)
	}
}

// TestOldRequestsOfEndpoints checks that without the list, an answer has the same bytes as
// in earlier versions, except for an estimate if the provider counts no tokens.
func TestOldRequestsOfEndpoints(t *testing.T) {
	t.Parallel()
	g := startGateway(t, endpointWith(""), fakeProvider(upstreamOf(t)))
	whole := g.post("/v1/endpoints", ask("all", false))
	id := whole.header.Get("Cadenza-Trace-Id")
	if want := `{"trace_id":"` + id + `","content":"all of it","is_final":true,"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`; string(whole.body) != want {
		t.Errorf("%s, want %s", whole.body, want)
	}
	stream := g.post("/v1/endpoints", ask("all", true))
	id = stream.header.Get("Cadenza-Trace-Id")
	event := func(content, rest string) string {
		return `data: {"trace_id":"` + id + `","content":"` + content + `","is_final":` + rest + "}\n\n"
	}
	if want := event("all ", "false") + event("of it", "false") + event("", `true,"finish_reason":"stop","usage":{"prompt_tokens":18,"completion_tokens":3,"total_tokens":21,"estimated":true}`) + "data: [DONE]\n\n"; string(stream.body) != want {
		t.Errorf("%s, want %s", stream.body, want)
	}
}

// TestVariablesOfDecisions checks that the log policy content of a configuration does not
// record variables, which belong to prompts.
func TestVariablesOfDecisions(t *testing.T) {
	t.Parallel()
	files := maps.Clone(workspace)
	files["definitions/remoteconfigs/checkout.yaml"] += "log: content\n"
	files["definitions/remoteconfigs/limits.yaml"] += "log: content\n"
	g := startGateway(t, files, options)
	const body = `,"remoteconfigs":["checkout","limits"],"context":{"environment":"production"},"variables":{"question":"canary"}}`
	for _, request := range [][2]string{
		{"/v1/decisions", `{"prompts":["hello"]` + body}, {"/v1/decisions", `{"prompts":[]` + body},
		{"/v1/endpoints", `{"key":"chat"` + body}, {"/v1/endpoints", `{"key":"chat","stream":true` + body},
	} {
		g.post(request[0], request[1]).ok(t, request[1])
	}
	const traces, ofConfigs = 3 + 2 + 3 + 3, 2 + 2 + 2 + 2
	eventually(t, "all traces are stored", func() bool { return rowsOf(t, g, "traces") == traces })
	var contexts, variables int
	err := g.database().QueryRow(`SELECT count(*) FILTER (WHERE kind = 'remoteconfig' AND context = '{"environment":"production"}'),
		count(variables) FROM traces`).Scan(&contexts, &variables)
	if err != nil || contexts != ofConfigs || variables != 0 {
		t.Errorf("%d contexts, %d variables, %v", contexts, variables, err)
	}
}
