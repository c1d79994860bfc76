package caddymodule_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// startRecorded starts a gateway with the admin API, and makes a few requests of each
// kind. It returns their trace ids by name.
func startRecorded(t *testing.T) (g *gateway, address string, ids map[string]string) {
	files := map[string]string{
		"definitions/endpoints/talk.yaml": "prompt: reply\nfallback: [{ provider: canned, extra: { echo: true } }]\n",
		"definitions/endpoints/dead.yaml": "prompt: reply\n", // its provider has no key
	}
	for name, content := range workspace {
		files[name] = content
	}
	const recorded = options + "log content\n"
	g = startGateway(t, files, recorded)
	address = adminOf(t, g, recorded)
	ids = make(map[string]string)
	ask := func(name, path, body string, want int) {
		t.Helper()
		a := g.post(path, body)
		if a.status != want {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		ids[name] = a.header.Get("Cadenza-Trace-Id")
	}
	const who = `"context":{"locale":"nl"},"metadata":{"user":"ada","n":7},"variables":{"question":"Hoi?"}`
	ask("prompt", "/v1/prompts", `{"keys":["reply"],`+who+`}`, 200)
	ask("configuration", "/v1/remoteconfigs", `{"keys":["checkout"],"context":{"plan":"pro"},"metadata":{"user":"7"}}`, 200)
	ask("endpoint", "/v1/endpoints", `{"key":"talk",`+who+`}`, 200)
	ask("failure", "/v1/endpoints", `{"key":"dead",`+who+`}`, 502)
	ask("report", "/v1/metrics", `{"trace_id":"`+ids["prompt"]+`","score":80,"conversation_id":"c-1","chain_id":"chain","latency":12.5,"llm_response":"Hoi!"}`, 200)
	ask("score", "/v1/metrics", `{"trace_id":"`+ids["endpoint"]+`","score":40}`, 200)
	ask("last", "/v1/prompts", `{"keys":["hello"]}`, 200)
	eventually(t, "all traces are stored", func() bool {
		_, ok := g.trace("data/cadenza.db", ids["last"])
		return ok
	})
	return g, address, ids
}

// listed returns the ids of a list of traces.
func listed(t *testing.T, answer map[string]any) []string {
	t.Helper()
	list, ok := answer["traces"].([]any)
	if !ok {
		t.Fatalf("no traces: %v", answer)
	}
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.(map[string]any)["trace_id"].(string)
	}
	return ids
}

func TestAdminTraces(t *testing.T) {
	g, address, ids := startRecorded(t)
	names := func(list []string) string {
		found := make([]string, len(list))
		for i, id := range list {
			found[i] = "another"
			for name, known := range ids {
				if id == known && name != "report" && name != "score" {
					found[i] = name
				}
			}
		}
		slices.Sort(found) // ids of one millisecond are ordered by kind
		return strings.Join(found, " ")
	}
	for query, want := range map[string]string{
		"":                                       "configuration endpoint failure last prompt",
		"kind=endpoint":                          "endpoint failure",
		"key=reply":                              "prompt",
		"key=talk&kind=endpoint":                 "endpoint",
		"api_key=test&kind=remoteconfig":         "configuration",
		"api_key=other":                          "",
		"status=error":                           "failure",
		"status=ok&kind=endpoint":                "endpoint",
		"status=502":                             "failure",
		"code=upstream_credentials":              "failure",
		"provider=canned":                        "endpoint",
		"finish_reason=stop":                     "endpoint",
		"finish_reason=length":                   "",
		"conversation_id=c-1":                    "prompt",
		"chain_id=chain":                         "prompt",
		"conversation_id=c-2":                    "",
		"metadata.user=ada":                      "endpoint failure prompt",
		"metadata.user=7":                        "configuration",
		"metadata.n=7&kind=prompt":               "prompt",
		`metadata.n="7"`:                         "",
		"since=1h&kind=prompt":                   "last prompt",
		"until=1h":                               "",
		"state=interrupted":                      "",
		"variant=nl":                             "endpoint failure prompt",
		"variant=none":                           "",
		"revision=none":                          "",
		"version=none":                           "",
		"slower=1us":                             "configuration endpoint failure last prompt",
		"slower=1h":                              "",
		"attempts=1":                             "endpoint",
		"attempts=9":                             "",
		"fallback=true":                          "endpoint failure",
		"score=..40":                             "endpoint",
		"score=..<40":                            "",
		"score=40..80":                           "endpoint prompt",
		"score=80":                               "prompt",
		"score=0..&kind=prompt":                  "prompt",
		"sort=score":                             "endpoint prompt",
		"sort=time&kind=remoteconfig":            "configuration",
		"workspace=default&key=checkout&limit=1": "configuration",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := callAdmin(t, "GET", address, "/cadenza/traces?"+values.Encode(), "")
		if status != http.StatusOK {
			t.Errorf("%s: %d %v", query, status, answer)
			continue
		}
		if got := names(listed(t, answer)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}

	// Page by page.
	var all []string
	for before := ""; ; {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=2"+before, "")
		page := listed(t, answer)
		if len(page) > 2 {
			t.Fatalf("a page of %d", len(page))
		}
		all = append(all, page...)
		next, more := answer["next"].(string)
		if !more {
			break
		}
		before = "&before=" + next
	}
	if got := names(all); got != "configuration endpoint failure last prompt" {
		t.Errorf("the pages: %q", got)
	}

	// The lowest score first, page by page.
	var worst []string
	for before, pages := "", 1; ; pages++ {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces?sort=score&limit=1"+before, "")
		for i, id := range listed(t, answer) {
			score := answer["traces"].([]any)[i].(map[string]any)["score"]
			worst = append(worst, fmt.Sprint(names([]string{id}), " ", score))
		}
		next, more := answer["next"].(string)
		if !more || pages > 3 {
			break
		}
		before = "&before=" + next
	}
	if want := []string{"endpoint 40", "prompt 80"}; !slices.Equal(worst, want) {
		t.Errorf("the worst: %q, want %q", worst, want)
	}

	// The slowest, page by page: those that took less than 10 ms are left out, as evaluations
	// do on a machine with nothing else to do.
	for _, order := range []string{"cost", "latency"} {
		status, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=1&sort="+order, "")
		found, _ := answer["traces"].([]any)
		if next, more := answer["next"].(string); more {
			status, answer = callAdmin(t, "GET", address, "/cadenza/traces?limit=1&sort="+order+"&before="+next, "")
			second, _ := answer["traces"].([]any)
			found = append(found, second...)
		}
		if status != http.StatusOK || answer["complete"] != true {
			t.Errorf("by %s: %d %v", order, status, answer)
		}
		for _, one := range found {
			one := one.(map[string]any)
			if latency, _ := one["latency_ms"].(float64); order == "latency" && latency < 10 || order == "cost" && one["trace_id"] == ids["configuration"] {
				t.Errorf("by %s: %v", order, one)
			}
		}
	}

	// Traces that are written after the first page of a list.
	_, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=1", "")
	follow := func(answer map[string]any) string {
		n, err := json.Marshal(answer["follow"])
		if err != nil {
			t.Fatal(err)
		}
		return string(n)
	}
	since := follow(answer)
	later := g.post("/v1/endpoints", `{"key":"talk",`+question+`}`).header.Get("Cadenza-Trace-Id")
	var states []string
	eventually(t, "the call's start and end are followed", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces?key=talk&follow="+since, "")
		since = follow(answer)
		for _, one := range answer["traces"].([]any) {
			if trace := one.(map[string]any); trace["trace_id"] == later {
				states = append(states, trace["state"].(string))
			}
		}
		return len(states) > 0 && states[len(states)-1] == "ended"
	})

	for query, want := range map[string]string{
		"kinds=prompt":        `did you mean "kind"?`,
		"kind=flag":           "no kind",
		"limit=0":             "limit",
		"limit=1001":          "limit",
		"before=x":            "before",
		"follow=x":            "follow",
		"since=yesterday":     "RFC 3339",
		"status=bad":          "status",
		"state=done":          "state",
		"slower=quick":        "such as 800ms or 2s",
		"slower=-1s":          "such as 800ms or 2s",
		"attempts=0":          "at least",
		"fallback=false":      "fallback must be true",
		"score=low":           "such as ..20",
		"score=..":            "such as ..20",
		"score=90..101":       "0 to 100",
		"score=40..20":        "selects nothing",
		"sort=size":           "sort must be time, the newest first, score",
		"sort=cost&before=x":  "before must be the next",
		"follow=1&score=0":    "can't be combined",
		"follow=1&sort=score": "can't be combined",
		"follow=1&sort=cost":  "can't be combined",
		"sort=score&before=01990001-0000-8200-8000-000000000003": "before must be the next",
		"finish_reason=end": "stop, tool_calls, length, content_filter",
		"key=a&key=b":       "2 times",
		"workspace=other":   "no workspace",
		"since=1h&until=2h": "since must be before until",
	} {
		status, answer := callAdmin(t, "GET", address, "/cadenza/traces?"+query, "")
		if message, _ := answer["error"].(string); status < 400 || !strings.Contains(message, want) {
			t.Errorf("%s: %d %v, want %q", query, status, answer, want)
		}
	}
}

func TestAdminTrace(t *testing.T) {
	_, address, ids := startRecorded(t)
	status, story := callAdmin(t, "GET", address, "/cadenza/traces/"+strings.ToUpper(ids["prompt"]), "")
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, story)
	}
	record := story["trace"].(map[string]any)
	if record["key"] != "reply" || record["variant"] != "nl" || record["kind"] != "prompt" || record["status"] != 200.0 ||
		record["context"].(map[string]any)["locale"] != "nl" || record["metadata"].(map[string]any)["user"] != "ada" {
		t.Errorf("trace %v", record)
	}
	reports := story["metrics"].([]any)
	if len(reports) != 1 || reports[0].(map[string]any)["score"] != 80.0 || reports[0].(map[string]any)["llm_response"] != "Hoi!" {
		t.Errorf("metrics %v", reports)
	}
	definition := story["definition"].(map[string]any)
	if definition["version"] != record["version"] || definition["ordinal"] != 1.0 || definition["content"] == nil {
		t.Errorf("definition %v", definition)
	}
	_, story = callAdmin(t, "GET", address, "/cadenza/traces/"+ids["endpoint"], "")
	call := story["trace"].(map[string]any)
	if call["finish_reason"] != "stop" || call["prompt"] != "reply" || call["prompt_version"] != record["version"] || call["version"] == record["version"] {
		t.Errorf("the endpoint's trace %v", call)
	}
	sent, _ := story["prompt"].(map[string]any)
	if definition := story["definition"].(map[string]any); sent["version"] != record["version"] || sent["content"] == nil || definition["version"] != call["version"] {
		t.Errorf("its definitions %v and %v", definition, sent)
	}
	if attempts := call["attempts"].([]any); attempts[len(attempts)-1].(map[string]any)["provider"] != "canned" {
		t.Errorf("attempts %v", attempts)
	}
	for path, want := range map[string]int{
		"/cadenza/traces/x": 400,
		"/cadenza/traces/00000000-0000-8200-8000-000000000000":              404,
		"/cadenza/traces/" + ids["prompt"] + "?workspace=other":             404,
		"/cadenza/traces/" + ids["prompt"] + "?workspace=default":           200,
		"/cadenza/traces/" + ids["prompt"] + "?unknown=1":                   400,
		"/cadenza/traces/" + ids["prompt"][:35] + "g":                       400,
		"/cadenza/traces/" + ids["prompt"] + "/metrics":                     400,
		"/cadenza/traces/" + strings.ReplaceAll(ids["last"], "-", ""):       200,
		"/cadenza/traces/" + strings.ReplaceAll(ids["last"], "-", "") + "0": 400,
		"/cadenza/traces/" + ids["last"][:27]:                               200,
		"/cadenza/traces/" + strings.ToUpper(ids["report"][:27]):            200,
		"/cadenza/traces/" + ids["last"][:27] + "?workspace=other":          404,
		"/cadenza/traces/" + ids["last"][:7]:                                400,
		"/cadenza/traces/" + "00000000":                                     404,
	} {
		if status, answer := callAdmin(t, "GET", address, path, ""); status != want {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

// TestAdminTraceByPrefix asks for a trace by a prefix of several ids.
func TestAdminTraceByPrefix(t *testing.T) {
	g, address, ids := startRecorded(t)
	g.post("/v1/prompts", `{"keys":["reply","hello"],`+question+`}`)
	last := g.post("/v1/metrics", `{"score":1}`).body // its trace has only this report
	var lonely struct {
		TraceID string `json:"trace_id"`
	}
	if err := json.Unmarshal(last, &lonely); err != nil || lonely.TraceID == "" {
		t.Fatalf("%s: %v", last, err)
	}
	if _, story := callAdmin(t, "GET", address, "/cadenza/traces/"+lonely.TraceID, ""); len(story) != 2 || story["metrics_total"] != 1.0 {
		t.Errorf("a trace with a report only is shown as %v", story)
	}
	// A minute may have ended before it. None ends before and after it.
	g.post("/v1/metrics", `{"score":1}`).ok(t)
	for digits := 27; ; digits-- {
		status, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+lonely.TraceID[:digits], "")
		if status == http.StatusOK {
			if digits == 8 {
				t.Fatal("the first digits of all ids are one trace's")
			}
			continue
		}
		message, _ := answer["error"].(string)
		if status != http.StatusConflict || !strings.Contains(message, lonely.TraceID) || !strings.Contains(message, "more digits") {
			t.Fatalf("%d: %d %v", digits, status, answer)
		}
		break
	}
	status, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+ids["last"][:8], "")
	if message, _ := answer["error"].(string); status != http.StatusConflict || !strings.Contains(message, ids["last"]+"  prompt hello") {
		t.Errorf("%d %v", status, answer)
	}
}

func TestAdminStats(t *testing.T) {
	_, address, _ := startRecorded(t)
	for _, interval := range []string{"", "&interval=hour", "&interval=day", "&interval=all"} {
		var row map[string]any
		status, answer := callAdmin(t, "GET", address, "/cadenza/stats?since=2h&key=reply"+interval, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", interval, status, answer)
		}
		for _, one := range answer["rows"].([]any) {
			row = one.(map[string]any)
		}
		latency, _ := row["latency_ms"].(map[string]any)
		if row["kind"] != "prompt" || row["variant"] != "nl" || row["traces"] != 1.0 || row["errors"] != 0.0 ||
			row["reports"] != 1.0 || row["score_mean"] != 80.0 || latency["count"] != 1.0 || latency["p99"].(float64) <= 0 {
			t.Errorf("%s: %v", interval, answer)
		}
	}
	_, answer := callAdmin(t, "GET", address, "/cadenza/stats?kind=endpoint", "")
	errors := 0.0
	for _, one := range answer["rows"].([]any) {
		errors += one.(map[string]any)["errors"].(float64)
		if reasons, some := one.(map[string]any)["finish_reasons"]; some != (one.(map[string]any)["key"] == "talk") || some && reasons.(map[string]any)["stop"] != 1.0 {
			t.Errorf("reasons: %v", one)
		}
	}
	if errors != 1 {
		t.Errorf("errors of endpoints: %v", answer)
	}
	for query, want := range map[string]string{
		"interval=week": "hour, day or all", "status=ok": "no parameter", "metadata.a=1": "no parameter", "kind=x": "no kind",
		"units=1": "units must be true", "units=true&interval=day": "a unit counts once for the whole time",
	} {
		status, answer := callAdmin(t, "GET", address, "/cadenza/stats?"+query, "")
		if message, _ := answer["error"].(string); status != 400 || !strings.Contains(message, want) {
			t.Errorf("%s: %d %v", query, status, answer)
		}
	}
}

// export reads the lines of an export.
func export(t *testing.T, address, query string) []map[string]any {
	t.Helper()
	response, err := http.Get("http://" + address + "/cadenza/export?" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s: %d %v", query, response.StatusCode, response.Header)
	}
	var lines []map[string]any
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("%v\n%s", err, scanner.Bytes())
		}
		lines = append(lines, line)
	}
	return lines
}

func TestAdminExportAndErase(t *testing.T) {
	g, address, ids := startRecorded(t)
	lines := export(t, address, "since=1h")
	if len(lines) != 5 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
	reported := 0
	for i, line := range lines {
		record := line["trace"].(map[string]any)
		if i > 0 && record["trace_id"].(string) <= lines[i-1]["trace"].(map[string]any)["trace_id"].(string) {
			t.Errorf("line %d is older than the one before", i)
		}
		reports, _ := line["metrics"].([]any)
		if id := record["trace_id"]; (len(reports) == 1) != (id == ids["prompt"] || id == ids["endpoint"]) {
			t.Errorf("reports on %s: %v", id, reports)
		}
		reported += len(reports)
	}
	if reported != 2 {
		t.Errorf("%d reports", reported)
	}
	if lines := export(t, address, "until=1h"); len(lines) != 0 {
		t.Errorf("of another time: %v", lines)
	}

	erase := func(query string, traces, metrics float64) {
		t.Helper()
		status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?"+query, "")
		erased, _ := answer["erased"].(map[string]any)
		if status != http.StatusOK || erased["traces"] != traces || erased["metrics"] != metrics {
			t.Errorf("%s: %d %v", query, status, answer)
		}
	}
	for _, form := range []string{"conversation_id=c-1&dry_run=true", "metadata.user=ada&dry_run=true"} {
		status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces", form)
		if found, _ := answer["found"].(map[string]any); status != http.StatusOK || found["traces"].(float64) < 1 || answer["erased"] != nil {
			t.Errorf("%s: %d %v", form, status, answer)
		}
	}
	for _, form := range []string{"dry_run=maybe&conversation_id=c-1", "%zz", "conversation_id=c-1&decision=x"} {
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces", form); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", form, status, answer)
		}
	}
	erase("conversation_id=c-1", 1, 1)
	if _, there := g.trace("data/cadenza.db", ids["prompt"]); there {
		t.Error("an erased trace is there")
	}
	erase("conversation_id=c-1", 0, 0)
	// As text and as a number, because the operator does not know how it was sent.
	erase("metadata.user=7", 1, 0)
	erase("metadata.user=ada", 2, 1)
	if lines := export(t, address, ""); len(lines) != 1 {
		t.Errorf("left: %v", lines)
	}
	for _, name := range []string{"cadenza.db", "cadenza.db-wal"} {
		content, err := os.ReadFile(filepath.Join(g.dir, "data", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{`"ada"`, "Hoi", "c-1"} {
			// The selector itself stays stored, for sinks that get it later.
			if strings.Contains(string(content), word) && word != "c-1" && word != `"ada"` {
				t.Errorf("%s still holds %s", name, word)
			}
		}
	}
	for _, query := range []string{"", "conversation_id=a&metadata.b=c", "metadata.a=1&metadata.b=2", "key=reply", "conversation_id="} {
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%q: %d %v", query, status, answer)
		}
	}
	if status, _ := callAdmin(t, "POST", address, "/cadenza/traces", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

// TestAdminVerifies checks the seals of traces, before and after a change in the
// database.
func TestAdminVerifies(t *testing.T) {
	g, address, ids := startRecorded(t)
	results := func(when string, want map[string]string) {
		t.Helper()
		got := make(map[string]string)
		for _, line := range export(t, address, "verify=true") {
			verification, _ := line["verification"].(map[string]any)
			id := line["trace"].(map[string]any)["trace_id"].(string)
			got[id] = fmt.Sprintf("%v%v%v", verification["result"], verification["changed"], verification["removed"])
			_, story := callAdmin(t, "GET", address, "/cadenza/traces/"+id, "")
			if diff := cmp.Diff(verification, story["verification"]); diff != "" {
				t.Errorf("%s: (-export +trace):\n%s", when, diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", when, diff)
		}
	}
	const valid = "valid<nil><nil>"
	want := map[string]string{ids["prompt"]: valid, ids["configuration"]: valid, ids["endpoint"]: valid, ids["failure"]: valid, ids["last"]: valid}
	results("as recorded", want)
	db := g.database()
	for name, change := range map[string]struct{ set, result string }{
		"prompt":        {"time_ms = time_ms + 1", "changed<nil><nil>"},
		"configuration": {"context = NULL", "valid<nil>[context]"},
		"endpoint":      {"response = 'other', messages = NULL", "changed[response][messages]"},
		"last":          {"seal = NULL, state = 'started'", "none<nil><nil>"},
		"failure":       {"state = 'started'", "changed<nil><nil>"},
	} {
		if _, err := db.Exec("UPDATE traces SET "+change.set+" WHERE hex(id) = ?", strings.ToUpper(strings.ReplaceAll(ids[name], "-", ""))); err != nil {
			t.Fatal(err)
		}
		want[ids[name]] = change.result
	}
	results("changed", want)
	for _, line := range export(t, address, "verify=false") {
		if line["verification"] != nil {
			t.Errorf("not asked for: %v", line)
		}
	}
	if status, answer := callAdmin(t, "GET", address, "/cadenza/export?verify=maybe", ""); status != http.StatusBadRequest || !strings.Contains(fmt.Sprint(answer), `true or false, this is "maybe"`) {
		t.Errorf("%d %v", status, answer)
	}
}

// TestFormerKeysStayValid configures a trace key after the store's own key was
// used: ids of earlier answers stay valid.
func TestFormerKeysStayValid(t *testing.T) {
	g, address, ids := startRecorded(t)
	if err := g.loadText(withAdmin(g, options+"trace_key {env.CADENZA_TEST_KEY}\n", address)); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?workspace=default"} {
		if status, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+ids["prompt"]+query, ""); status != http.StatusOK {
			t.Errorf("%d %v", status, answer)
		}
	}
	eventually(t, "seals of former traces are verified", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+ids["prompt"], "")
		return answer["verification"].(map[string]any)["result"] == "valid"
	})
	eventually(t, "reports on former traces are taken", func() bool {
		return g.post("/v1/metrics", `{"trace_id":"`+ids["prompt"]+`","score":80}`).status == http.StatusOK
	})
}

// TestEraseReachesWhatWasJustAnswered erases a record that is not written yet.
func TestEraseReachesWhatWasJustAnswered(t *testing.T) {
	g, address, _ := startRecorded(t)
	for range 5 {
		id := g.post("/v1/prompts", `{"keys":["hello"],"metadata":{"user":"eve"}}`).header.Get("Cadenza-Trace-Id")
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?metadata.user=eve", ""); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
		last := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
		eventually(t, "what came later is stored", func() bool {
			_, ok := g.trace("data/cadenza.db", last)
			return ok
		})
		if _, there := g.trace("data/cadenza.db", id); there {
			t.Fatal("a trace was stored after it was erased")
		}
	}
}

func TestAdminTakesAnyQuery(t *testing.T) {
	_, address, _ := startRecorded(t)
	odd := url.QueryEscape("\xff\x00\\ud800")
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"DELETE", "/cadenza/traces?metadata.=x", 400},
		{"GET", "/cadenza/traces?metadata.=x", 400},
		{"GET", "/cadenza/traces?status=0", 400},
		{"GET", "/cadenza/traces?follow=0&limit=5", 400},
		{"DELETE", "/cadenza/traces?metadata.user=1e999", 200},
		{"GET", "/cadenza/traces?metadata.user=1e999", 200},
		{"GET", "/cadenza/traces?metadata.user=" + odd, 200},
		{"DELETE", "/cadenza/traces?metadata.user=" + odd, 200},
		{"DELETE", "/cadenza/traces?conversation_id=" + odd, 200},
		{"GET", "/cadenza/traces?since=1960-01-01&until=9999-12-31", 200},
		{"GET", "/cadenza/traces?since=99999999d", 400},
		{"GET", "/cadenza/traces?since=0000-01-01T00:00:00Z", 200},
		{"GET", "/cadenza/traces?follow=9223372036854775807", 200},
		{"GET", "/cadenza/traces?before=ffffffff-ffff-8fff-bfff-ffffffffffff", 200},
		{"GET", "/cadenza/stats?since=0001-01-02&until=9999-12-31&interval=hour", 200},
		{"GET", "/cadenza/stats?conversation_id=x", 400},
	} {
		if status, answer := callAdmin(t, test.method, address, test.path, ""); status != test.want {
			t.Errorf("%s %s: %d %v, want %d", test.method, test.path, status, answer, test.want)
		}
	}
}
