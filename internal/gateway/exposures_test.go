package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

// exposedFiles are definitions whose answers are recorded as record says.
func exposedFiles(record string) map[string]string {
	return map[string]string{
		"definitions/context.yaml": "unit: customer_id\nfields:\n  plan: { type: string, values: [free, pro], trace: value }\n  customer_id: { type: string }\n",
		"definitions/remoteconfigs/half.yaml": record + `type: boolean
default: false
rules:
  - { id: pro, when: { plan: pro }, split: { by: customer_id, of: [ { value: true, share: 50%, name: on }, { value: false, share: 50%, name: off } ] } }
`,
		"definitions/remoteconfigs/plain.yaml": record + "aliases: [old]\ntype: string\ndefault: hi\nrules: [ { id: free, when: { plan: free }, value: ho } ]\n",
		"definitions/prompts/greeting.yaml": record + `variables: { who: { default: you } }
default: en
variants:
  en: { provider: canned, extra: { echo: true }, messages: [ { role: user, content: "hi {{who}}" } ] }
  nl: { provider: canned, extra: { echo: true }, messages: [ { role: user, content: "dag {{who}}" } ] }
columns: [ plan, value ]
matrix: [ [ free, nl ] ]
`,
		"definitions/prompts/strict.yaml": record + "provider: canned\nvariables: { who: { required: true } }\nmessages: [ { role: user, content: \"{{who}}\" } ]\n",
	}
}

const exposureRecord = "record: exposures\n"

// asked returns the trace ids and the decision that a request for a configuration or several
// keys is answered with.
func (g *gateway) asked(t *testing.T, path, body string) (ids map[string]string, decision string) {
	t.Helper()
	a := g.post(path, body).ok(t)
	ids = map[string]string{}
	if path == "/v1/decisions" {
		d := readDecided(t, a)
		if d.ID != a.header.Get(wire.HeaderDecisionID) {
			t.Errorf("the body names the decision %q, the header %q", d.ID, a.header.Get(wire.HeaderDecisionID))
		}
		for _, part := range []map[string]entry{d.Prompts, d.RemoteConfigs} {
			for key, e := range part {
				ids[key] = e.TraceID
			}
		}
		return ids, d.ID
	}
	var entries map[string]entry
	if err := json.Unmarshal(a.body, &entries); err != nil {
		t.Fatal(err)
	}
	for key, e := range entries {
		ids[key] = e.TraceID
	}
	return ids, a.header.Get(wire.HeaderDecisionID)
}

// traffic asks for answers of each kind by each route, of some units.
func (g *gateway) traffic(t *testing.T, units int) {
	t.Helper()
	for unit := range units {
		for _, plan := range []string{"free", "pro"} {
			context := fmt.Sprintf(`"context":{"plan":%q,"customer_id":"c-%d"}`, plan, unit)
			g.post("/v1/remoteconfigs", `{"keys":["half","plain"],`+context+`}`).ok(t)
			g.post("/v1/remoteconfigs", `{"keys":["half"],`+context+`}`).ok(t)
			g.post("/v1/prompts", `{"keys":["greeting"],`+context+`}`).ok(t)
			g.post("/v1/decisions", `{"prompts":["greeting"],"remoteconfigs":["old"],`+context+`}`).ok(t)
			g.flags("/half", `{`+context+`}`, bearer(testKey)).ok(t)
		}
		g.post("/v1/remoteconfigs", `{"keys":["plain"]}`).ok(t)
	}
}

// answersBy returns the answers in the statistics, by what stays the same over policies.
func (g *gateway) answersBy(t *testing.T) map[string]int64 {
	t.Helper()
	if err := g.store.Recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := sqlite.OpenReader(t.Context(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	stats, err := r.Stats(t.Context(), sqlite.StatsQuery{Workspace: "default", Interval: sqlite.Overall, By: sqlite.ByArm | sqlite.ByVariant})
	if err != nil || stats.Pending > 0 {
		t.Fatal(stats.Pending, err)
	}
	answers := map[string]int64{}
	for _, row := range stats.Rows {
		answers[strings.Join([]string{row.Kind, row.Key, row.Variant, row.Arm}, " ")] += row.Traces
	}
	return answers
}

// TestExposuresCountAsEvery: the same traffic has the same statistics and metrics whatever is
// recorded, over restarts, and fewer traces.
func TestExposuresCountAsEvery(t *testing.T) {
	t.Parallel()
	const units, rounds = 5, 3
	every, exposures := startGateway(t, exposedFiles(""), options), startGateway(t, exposedFiles(exposureRecord), options)
	for round := range rounds {
		if round == 2 {
			every.restart(options)
			exposures.restart(options)
		}
		for _, g := range []*gateway{every, exposures} {
			g.traffic(t, units)
			g.traffic(t, units)
		}
		if diff := cmp.Diff(every.answersBy(t), exposures.answersBy(t)); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
	}
	answers := func(g *gateway) (lines []string) {
		for line := range strings.Lines(g.scrape()) {
			if strings.HasPrefix(line, "cadenza_answers_total") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if diff := cmp.Diff(answers(every), answers(exposures)); diff != "" {
		t.Error(diff)
	}
	// Of each process and unit, two traces of each of three keys, and at most some of the
	// answers without a unit: one for each minute.
	all, few := rowsOf(t, every, "traces"), rowsOf(t, exposures, "traces")
	if least := 2 * units * 6; few < least || few >= 2*least || all != rounds*2*units*(2*7+1) {
		t.Errorf("%d traces of %d answers", few, all)
	}
	// What is counted is on the traces once it is folded, which the next process does at once.
	exposures.restart(options)
	eventually(t, "the counts are on the traces", func() bool {
		var sum int
		if err := exposures.database().QueryRowContext(t.Context(), "SELECT coalesce(sum(answers), 0) FROM exposures").Scan(&sum); err != nil {
			t.Fatal(err)
		}
		return sum == all-few
	})
}

// TestWhichAnswersAreExposures asks twice, with a change.
func TestWhichAnswersAreExposures(t *testing.T) {
	t.Parallel()
	g := startGateway(t, exposedFiles(exposureRecord), options)
	const path, one = "/v1/remoteconfigs", `{"keys":["plain"],"context":{"plan":"free","customer_id":"c-1"}}`
	first, decision := g.asked(t, path, one)
	if decision == "" {
		t.Error("a first answer names no decision")
	}
	for _, test := range []struct {
		what, path, body string
		same             bool
	}{
		{"the same", path, one, true},
		{"another unit", path, `{"keys":["plain"],"context":{"plan":"free","customer_id":"c-2"}}`, false},
		{"another row", path, `{"keys":["plain"],"context":{"plan":"pro","customer_id":"c-1"}}`, false},
		{"no unit", path, `{"keys":["plain"],"context":{"plan":"free"}}`, false},
		{"metadata", path, `{"keys":["plain"],"metadata":{"a":1},"context":{"plan":"free","customer_id":"c-1"}}`, true},
		{"an alias", path, `{"keys":["old"],"context":{"plan":"free","customer_id":"c-1"}}`, true},
		{"decisions", "/v1/decisions", `{"remoteconfigs":["plain"],"context":{"plan":"free","customer_id":"c-1"}}`, true},
	} {
		ids, again := g.asked(t, test.path, test.body)
		for _, id := range ids {
			if (id == first["plain"]) != test.same || (again == decision) != test.same {
				t.Errorf("%s: the trace %s of the decision %s, first %s of %s", test.what, id, again, first["plain"], decision)
			}
		}
	}
	g.post("/v1/metrics", `{"trace_id":"`+first["plain"]+`","values":{"clicks":1}}`).ok(t, "a report on a counted answer")
	if record := g.ended(t, first["plain"]); record.Decision.String() != decision {
		t.Errorf("%+v", record)
	}
	if got := g.metrics("data/cadenza.db", first["plain"]); len(got) != 1 {
		t.Errorf("%d reports", len(got))
	}
	// Another caller, and an edit.
	if a := g.postAs(testKey, path, one).ok(t); a.header.Get(wire.HeaderTraceID) != first["plain"] {
		t.Errorf("Cadenza-Trace-Id %q", a.header.Get(wire.HeaderTraceID))
	}
	g.write("definitions/remoteconfigs/plain.yaml", exposedFiles(exposureRecord)["definitions/remoteconfigs/plain.yaml"]+"description: d\n")
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if ids, _ := g.asked(t, path, one); ids["plain"] != first["plain"] {
		t.Error("an edit that changes no version makes another trace")
	}
	g.write("definitions/remoteconfigs/plain.yaml", strings.Replace(exposedFiles(exposureRecord)["definitions/remoteconfigs/plain.yaml"], "default: hi", "default: he", 1))
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if ids, _ := g.asked(t, path, one); ids["plain"] == first["plain"] {
		t.Error("another version has the same trace")
	}
}

// TestDecisionsOfExposures: an answer names an earlier decision only if that answered exactly
// the same keys.
func TestDecisionsOfExposures(t *testing.T) {
	t.Parallel()
	g := startGateway(t, exposedFiles(exposureRecord), options)
	const path = "/v1/remoteconfigs"
	ask := func(unit string, keys ...string) string {
		t.Helper()
		list, _ := json.Marshal(keys)
		_, decision := g.asked(t, path, fmt.Sprintf(`{"keys":%s,"context":{"plan":"pro","customer_id":%q}}`, list, unit))
		return decision
	}
	both := ask("a", "half", "plain")
	if both == "" || ask("a", "half", "plain") != both || ask("a", "plain", "half") != both {
		t.Error("the same keys have another decision")
	}
	if got := ask("a", "half"); got != "" {
		t.Errorf("a part of the keys has the decision %s", got)
	}
	half := ask("b", "half")
	if half == "" || half == both {
		t.Errorf("decision %q", half)
	}
	if got := ask("b", "half", "plain"); got != "" {
		t.Errorf("of two keys one was counted, and the decision is %s", got)
	}
	if got := ask("b", "half", "plain"); got != "" {
		t.Errorf("of two decisions, the answer names %s", got)
	}
	if got := ask("b", "plain"); got != "" {
		t.Errorf("a trace of a request that counted another key has the decision %s", got)
	}
	if got := ask("b", "half"); got != half {
		t.Errorf("the decision %s, first %s", got, half)
	}
	// A request that fails counts nothing, and none of its traces stands for others.
	if a := g.post("/v1/prompts", `{"keys":["greeting","strict"],"context":{"plan":"pro","customer_id":"a"}}`); a.status != http.StatusBadRequest {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const greeting = `{"keys":["greeting"],"context":{"plan":"pro","customer_id":"a"}}`
	ids, _ := g.asked(t, "/v1/prompts", greeting)
	g.ended(t, ids["greeting"])
	g.asked(t, "/v1/prompts", greeting)
	if a := g.post("/v1/prompts", `{"keys":["greeting","strict"],"context":{"plan":"pro","customer_id":"a"}}`); a.status != http.StatusBadRequest {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for series, n := range g.answersBy(t) {
		if strings.HasPrefix(series, "prompt") && n != 2 {
			t.Errorf("%d answers of %s", n, series)
		}
	}
}

// TestExposuresWithinRetention: no trace stands for answers when it may have been deleted.
func TestExposuresWithinRetention(t *testing.T) {
	t.Parallel()
	g := startGateway(t, exposedFiles(exposureRecord), with(func(c *gw.WorkspaceConfig) { c.Limits.Retention = 1 }))
	const body = `{"keys":["half"],"context":{"plan":"pro","customer_id":"a"}}`
	first, _ := g.asked(t, "/v1/remoteconfigs", body)
	if again, _ := g.asked(t, "/v1/remoteconfigs", body); again["half"] == first["half"] {
		t.Error("an answer is counted on a trace that is to be deleted")
	}
}

// TestExposuresByPolicy: where nothing is to be recorded, nothing is counted.
func TestExposuresByPolicy(t *testing.T) {
	t.Parallel()
	files := exposedFiles(exposureRecord)
	files["definitions/remoteconfigs/plain.yaml"] += "log: none\n"
	g := startGateway(t, files, options)
	lowered := bearer(testKey)
	lowered.Set(wire.HeaderLog, "none")
	const body = `{"keys":["half"],"context":{"plan":"pro","customer_id":"a"}}`
	ids, _ := g.asked(t, "/v1/remoteconfigs", body)
	if a := g.do(http.MethodPost, "/v1/remoteconfigs", body, lowered).ok(t); a.header.Get(wire.HeaderTraceID) == ids["half"] || a.header.Get(wire.HeaderDecisionID) == "" {
		t.Errorf("an answer that is not recorded has %v", a.header)
	}
	first, _ := g.asked(t, "/v1/remoteconfigs", `{"keys":["plain"]}`)
	if again, _ := g.asked(t, "/v1/remoteconfigs", `{"keys":["plain"]}`); again["plain"] == first["plain"] {
		t.Error("an answer with log: none stands for another")
	}
	if diff := cmp.Diff([]int64{1}, slices.Collect(maps.Values(g.answersBy(t)))); diff != "" {
		t.Error(diff)
	}
}

// TestExposuresOfReadConfigurations: a prompt's text is another one when a configuration
// that it takes a variable from answers otherwise, and only then.
func TestExposuresOfReadConfigurations(t *testing.T) {
	t.Parallel()
	files := exposedFiles(exposureRecord)
	files["definitions/context.yaml"] += "  account: { type: string }\n"
	const tone = `type: string
default: plain
rules: [ { id: tone, split: { by: account, of: [ { value: soft, share: 50%, name: soft }, { value: hard, share: 50%, name: hard } ] } } ]
`
	files["definitions/remoteconfigs/tone.yaml"] = tone
	files["definitions/prompts/greeting.yaml"] = strings.Replace(files["definitions/prompts/greeting.yaml"], "who: { default: you }", "who: { config: tone }", 1)
	g := startGateway(t, files, options)
	ask := func(account, variables string) string {
		t.Helper()
		ids, _ := g.asked(t, "/v1/prompts", fmt.Sprintf(`{"keys":["greeting"],"context":{"customer_id":"a","account":%q}%s}`, account, variables))
		return ids["greeting"]
	}
	traces := map[string]bool{}
	first := ask("1", "")
	for account := range 20 {
		id := ask(fmt.Sprint(account), "")
		traces[id] = true
		if again := ask(fmt.Sprint(account), ""); again != id {
			t.Errorf("account %d has the traces %s and %s", account, id, again)
		}
	}
	if len(traces) != 20 {
		t.Errorf("%d traces of 20 units of the configuration's split", len(traces))
	}
	if own := ask("1", `,"variables":{"who":"me"}`); traces[own] || own != ask("2", `,"variables":{"who":"me"}`) {
		t.Error("a configuration counts that was not read")
	}
	g.write("definitions/remoteconfigs/tone.yaml", strings.Replace(tone, "value: soft", "value: softer", 1))
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if ask("1", "") == first {
		t.Error("an edit of the configuration leaves the trace")
	}
}

// TestExposuresOfTracesThatAreGone: nothing is counted on a trace that was deleted for the
// size, and no answer has an id that a report can't name.
func TestExposuresOfTracesThatAreGone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, exposedFiles(exposureRecord), options)
	const body = `{"keys":["half"],"context":{"plan":"pro","customer_id":"a"}}`
	ask := func() string {
		t.Helper()
		ids, _ := g.asked(t, "/v1/remoteconfigs", body)
		return ids["half"]
	}
	first := ask()
	id, _ := trace.ParseID(first)
	evicted := g.store.Config().OnEvicted
	evicted("metrics", 1, time.Now())
	evicted("traces", 1, id.Time().Add(-time.Millisecond))
	if ask() != first {
		t.Error("an exposure is gone whose trace is there")
	}
	evicted("traces", 1, id.Time())
	evicted("traces", 1, id.Time().Add(-time.Hour))
	second := ask()
	if second == first {
		t.Error("an answer is counted on a trace that was deleted for the size")
	}
	g.write("trace.key", testTraceKey)
	g.load(options, with(func(c *gw.WorkspaceConfig) {
		c.TraceKey = secret.Reference("{file." + filepath.Join(g.dir, "trace.key") + "}")
	}))
	if ask() == second {
		t.Error("an answer has the id of a trace under the former key")
	}
}

// TestExposuresAreForgotten: after an erasure no answer is counted on a trace that is gone.
func TestExposuresAreForgotten(t *testing.T) {
	t.Parallel()
	g := startGateway(t, exposedFiles(exposureRecord), options)
	const body = `{"keys":["half"],"context":{"plan":"pro","customer_id":"a"}}`
	first, _ := g.asked(t, "/v1/remoteconfigs", body)
	g.store.Recorder.Forget()
	if again, _ := g.asked(t, "/v1/remoteconfigs", body); again["half"] == first["half"] {
		t.Error("an exposure is still there")
	}
}

// TestExposuresOfCalls: values beside an endpoint's answer are exposures, too.
func TestExposuresOfCalls(t *testing.T) {
	t.Parallel()
	files := exposedFiles(exposureRecord)
	files["definitions/endpoints/chat.yaml"] = "prompt: greeting\n"
	g := startGateway(t, files, options)
	ask := func() (call, value string) {
		t.Helper()
		a := g.post("/v1/endpoints", `{"key":"chat","remoteconfigs":["half"],"context":{"plan":"pro","customer_id":"a"}}`).ok(t)
		var got struct {
			RemoteConfigs map[string]entry
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			t.Fatal(err)
		}
		if a.header.Get(wire.HeaderDecisionID) == "" {
			t.Error("a call has no decision")
		}
		return a.header.Get(wire.HeaderTraceID), got.RemoteConfigs["half"].TraceID
	}
	call, value := ask()
	again, same := ask()
	if call == again || value != same || value == "" {
		t.Errorf("calls %s and %s, values %s and %s", call, again, value, same)
	}
	if n := g.answersBy(t)["remoteconfig half on on"] + g.answersBy(t)["remoteconfig half off off"] + g.answersBy(t)["remoteconfig half pro on"] + g.answersBy(t)["remoteconfig half pro off"]; n != 2 {
		t.Errorf("%d answers: %v", n, g.answersBy(t))
	}
}

// TestStoreGrowsByUnits: however often they ask, units have one trace each.
func TestStoreGrowsByUnits(t *testing.T) {
	t.Parallel()
	const units, times = 200, 20
	g := startGateway(t, exposedFiles(exposureRecord), options)
	for range times {
		for unit := range units {
			body := fmt.Sprintf(`{"keys":["half"],"context":{"plan":"pro","customer_id":"c-%d"}}`, unit)
			request := httptest.NewRequest(http.MethodPost, "/v1/remoteconfigs", strings.NewReader(body))
			request.Header = bearer(testKey)
			w := httptest.NewRecorder()
			g.serve(w, request)
			answer{w.Code, w.Header(), w.Body.Bytes()}.ok(t)
		}
	}
	var answers int64
	for _, n := range g.answersBy(t) {
		answers += n
	}
	if n := rowsOf(t, g, "traces"); n != units || answers != units*times {
		t.Errorf("%d traces of %d answers", n, answers)
	}
}

// exposureBench serves one boolean of many units.
func exposureBench(b *testing.B, record string) {
	g := startGateway(b, exposedFiles(record), options)
	reader := bytes.NewReader(nil)
	var bodies [][]byte
	for unit := range 1000 {
		bodies = append(bodies, fmt.Appendf(nil, `{"keys":["half"],"context":{"plan":"pro","customer_id":"c-%d"}}`, unit))
	}
	request := httptest.NewRequest(http.MethodPost, "/v1/remoteconfigs", nil)
	request.Header.Set("Authorization", "Bearer "+testKey)
	request.ContentLength = int64(len(bodies[0]))
	request.Body = io.NopCloser(reader)
	w := &discard{header: make(http.Header)}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		body := bodies[n%len(bodies)]
		reader.Reset(body)
		request.ContentLength = int64(len(body))
		clear(w.header)
		g.serve(w, request)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
	_ = g.store.Recorder.Flush(context.Background())
}

// BenchmarkRecorded compares what a boolean costs by what is recorded of it.
func BenchmarkRecorded(b *testing.B) {
	for _, record := range []string{"log: none\n", exposureRecord, ""} {
		b.Run(cmpOr(record), func(b *testing.B) { exposureBench(b, record) })
	}
}

func cmpOr(record string) string {
	if record == "" {
		return "record: every"
	}
	return strings.TrimSpace(record)
}
