package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// eveningCaddyfile configures a gateway in which everything that can fail exists once.
const eveningCaddyfile = `{
	admin {$CADENZA_ADMIN}
	grace_period 5s
	log {
		format json
		exclude admin.api
	}
	cadenza {
		definitions {$CADENZA_TEST_DIR}/definitions
		store sqlite {$CADENZA_DATA}/cadenza.db
		trace_key {env.CADENZA_TRACE_KEY}
		api_key app {env.CADENZA_API_KEY}
		keys {$CADENZA_TEST_DIR}/keys.json
		sink postgres {env.CADENZA_TEST_DATABASE}
		provider canned
		provider fake openai {
			api_key {file.{$CADENZA_TEST_DIR}/secret}
			base_url {$CADENZA_TEST_UPSTREAM}/v1
			allow_private
		}
		provider gone openai {
			base_url http://gone.invalid/v1
			api_key {file.{$CADENZA_TEST_DIR}/secret}
		}
		provider rotating openai {
			base_url {$CADENZA_TEST_UPSTREAM}/v1
			api_key {file.{$CADENZA_TEST_DIR}/rotating}
			allow_private
		}
	}
}
{$CADENZA_ADDRESS} {
	cadenza_health
	cadenza
}
`

// evening is a gateway that has mishaps.
type evening struct {
	t       *testing.T
	process *process
	dir     string
	client  http.Client
	full    func(t *testing.T, full bool) // nil: the disk can't be made small
	modes   sync.Map                      // the http.HandlerFunc of each model
}

// mishap is one failure.
type mishap struct {
	name string
	// condition and subject are its names in the status.
	condition, subject string
	// The log has one line about it with this message and this value of field.
	message, field, value string
	happen, mend          func(t *testing.T)
	// lasting reports that its end takes more than a minute.
	lasting bool
}

// String returns its name in the status.
func (m *mishap) String() string { return m.condition + " " + m.subject }

// TestBadEvening makes all failures of the runbook happen at once. Each mishap is a
// condition of the status, of readiness and of the metric, and has one line in the log
// and a section of the runbook. Callers get answers all the time. When everything is
// repaired, no condition remains.
func TestBadEvening(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	database := postgrestest.Start(t)
	e := startEvening(t, database.DSN())
	e.waitFor(t, "a good start", func() bool { return len(e.degraded(t)) == 0 })
	mishaps := e.mishaps(database)
	for i := range mishaps {
		mishaps[i].happen(t)
	}
	e.waitFor(t, "all conditions", func() bool {
		e.call(t)
		degraded := e.degraded(t)
		return !slices.ContainsFunc(mishaps, func(m mishap) bool { return !slices.Contains(degraded, m.String()) })
	})
	// Conditions begin before their lines: a target is down after a few failures in a row,
	// and left alone after more of them.
	e.waitFor(t, "the lines of the log", func() bool {
		e.call(t)
		return !slices.ContainsFunc(mishaps, func(m mishap) bool { return e.lines(m.message, m.field, m.value) == 0 })
	})
	ready := e.get(t, e.process.url+"/readyz")
	metrics := e.get(t, "http://"+e.process.admin+"/metrics")
	count := make(map[string]int)
	for _, m := range mishaps {
		count[m.condition]++
	}
	for _, m := range mishaps {
		if !strings.Contains(ready, strconv.Quote(m.condition)) || !strings.Contains(ready, strconv.Quote(m.subject)) {
			t.Errorf("%s: /readyz does not have it: %s", m.name, ready)
		}
		if want := fmt.Sprintf("cadenza_degraded{condition=%q,workspace=\"default\"} %d\n", m.condition, count[m.condition]); !strings.Contains(metrics, want) {
			t.Errorf("%s: the metrics lack %s", m.name, want)
		}
		if n := e.lines(m.message, m.field, m.value); n != 1 {
			t.Errorf("%s: %d lines of the log say so", m.name, n)
		}
		if text := string(runbook); !strings.Contains(text, "\n## "+m.condition+"\n") || !strings.Contains(text, m.message) {
			t.Errorf("%s: the runbook lacks %s or the line %q", m.name, m.condition, m.message)
		}
	}
	for i := range mishaps {
		mishaps[i].mend(t)
	}
	e.waitFor(t, "the morning", func() bool {
		e.call(t)
		degraded := e.degraded(t)
		return !slices.ContainsFunc(mishaps, func(m mishap) bool { return !m.lasting && slices.Contains(degraded, m.String()) })
	})
	recovered := func(m mishap) bool { return m.condition == "target_down" && !m.lasting }
	e.waitFor(t, "the lines of what answers again", func() bool {
		return !slices.ContainsFunc(mishaps, func(m mishap) bool { return recovered(m) && e.lines("target answers again", m.field, m.value) == 0 })
	})
	for _, m := range mishaps {
		if recovered(m) {
			if n := e.lines("target answers again", m.field, m.value); n != 1 {
				t.Errorf("%s: %d lines of the log say that it is over", m.name, n)
			}
		}
	}
	// A repeated line would hide the others.
	for line, n := range e.loud() {
		if n > 1 {
			t.Errorf("%d times in the log: %s", n, line)
		}
	}
	if t.Failed() {
		t.Logf("the log:\n%s", e.process.output)
	}
}

// targets are the targets of the evening. Each has an endpoint named as its model,
// with a canned answer as the fallback.
var targets = []string{"fake/revoked", "fake/limited", "fake/slow", "fake/cut", "gone/away", "rotating/fine"}

func startEvening(t *testing.T, database string) *evening {
	t.Helper()
	e := &evening{t: t, dir: t.TempDir(), client: http.Client{Timeout: gatewaytest.Patience}}
	t.Cleanup(e.client.CloseIdleConnections)
	upstream := httptest.NewServer(http.HandlerFunc(e.serveUpstream))
	t.Cleanup(upstream.Close)

	gatewaytest.Write(t, e.dir, "definitions/prompts/plain.yaml", plain)
	for _, target := range targets {
		provider, name, _ := strings.Cut(target, "/")
		// No pause of a busy machine may pass for a failure of the others.
		patience := "20s"
		if name == "slow" {
			patience = "3s"
		}
		gatewaytest.Write(t, e.dir, "definitions/prompts/"+name+".yaml", fmt.Sprintf(
			"provider: %s\nmodel: %s\nmessages: [ { role: user, content: hello } ]\n", provider, name))
		gatewaytest.Write(t, e.dir, "definitions/endpoints/"+name+".yaml", fmt.Sprintf(
			"prompt: %s\nretry: { count: 0 }\ntimeout: { total: 30s, first_token: %s }\n"+
				"fallback: [ { provider: canned, extra: { answer: later } } ]\n", name, patience))
	}
	gatewaytest.Write(t, e.dir, "keys.json", listedKey)
	gatewaytest.Write(t, e.dir, "secret", "a-secret-of-the-provider")
	gatewaytest.Write(t, e.dir, "Caddyfile", eveningCaddyfile)

	gatewaytest.Write(t, e.dir, "rotating", "another-secret-of-a-provider")
	disk := filepath.Join(e.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mountSmall(t, disk, "64m"); err != nil {
		t.Logf("without a full disk: %v", err)
	} else {
		e.full = func(t *testing.T, full bool) { fill(t, filepath.Join(disk, "ballast"), full) }
	}
	e.process = newProcess(t, disk,
		"CADENZA_TEST_DIR="+e.dir, "CADENZA_TEST_UPSTREAM="+upstream.URL, "CADENZA_TEST_DATABASE="+database,
		"CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has")
	e.process.startWith(filepath.Join(e.dir, "Caddyfile"))
	t.Cleanup(e.process.kill) // before the disk is unmounted
	return e
}

// mishaps returns the failures.
func (e *evening) mishaps(database *postgrestest.Server) []mishap {
	target := func(name, target string, mode http.HandlerFunc) mishap {
		_, model, _ := strings.Cut(target, "/")
		return mishap{
			name: name, condition: "target_down", subject: target,
			message: "target left alone", field: "target", value: target,
			happen: func(*testing.T) { e.modes.Store(model, mode) },
			mend:   func(*testing.T) { e.modes.Delete(model) },
		}
	}
	edit := func(file, bad, good string) (happen, mend func(*testing.T)) {
		return func(t *testing.T) { gatewaytest.Write(t, e.dir, file, bad) }, func(t *testing.T) { gatewaytest.Write(t, e.dir, file, good) }
	}
	revoked := target("a revoked key", "fake/revoked", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`)
	})
	revoked.lasting = true
	away := target("a host without an address", "gone/away", nil)
	away.happen, away.lasting = func(*testing.T) {}, true
	list := []mishap{
		revoked,
		target("a rate limit", "fake/limited", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "15")
			w.WriteHeader(http.StatusTooManyRequests)
		}),
		target("a slow provider", "fake/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		target("answers that are cut", "fake/cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
			panic(http.ErrAbortHandler)
		}),
		away,
		{
			name: "a database that is away", condition: "sink_failing", subject: "postgres",
			message: "traces and metrics are not delivered to a sink, and wait in the store; trying again", field: "sink", value: "postgres",
			happen: func(t *testing.T) {
				database.Stop()
				// The sink notices when it has something to deliver. Once the disk is full, nothing is stored.
				if status, _, text, err := post(t.Context(), &e.client, e.process.url+"/v1/prompts", `{"keys":["plain"]}`); err != nil || status != http.StatusOK {
					t.Fatal(status, text, err)
				}
				e.waitFor(t, "a trace for the sink", func() bool { return slices.Contains(e.degraded(t), "sink_failing postgres") })
			},
			mend: func(*testing.T) { database.Restart() },
		},
	}
	bad := mishap{
		name: "a bad edit", condition: "definitions_invalid", subject: "definitions",
		message: "the definitions on disk are invalid, the last good ones are served",
	}
	bad.happen, bad.mend = edit("definitions/prompts/plain.yaml", "messages: 1\n", plain)
	keys := mishap{
		name: "a bad keys file", condition: "keys_invalid", subject: "keys",
		message: "the keys file can't be used, its last keys stay valid", field: "file", value: "keys.json",
	}
	keys.happen, keys.mend = edit("keys.json", "[]", listedKey)
	secret := mishap{
		name: "an emptied file of a provider's key", condition: "secret_stale", subject: "rotating",
		message: "a secret can't be read again, the last one stays",
	}
	secret.happen, secret.mend = edit("rotating", "", "another-secret-of-a-provider")
	list = append(list, bad, keys, secret)
	if e.full != nil {
		list = append(list, mishap{
			name: "a full disk", condition: "store_down", subject: "store",
			message: "traces and metrics are not stored; trying again",
			happen:  func(t *testing.T) { e.full(t, true) }, mend: func(t *testing.T) { e.full(t, false) },
		})
	}
	return list
}

// plain is a prompt, and listedKey a keys file.
const plain = "messages: [ { role: user, content: hello } ]\n"

var listedKey = `[{"name": "other", "sha256": "` + strings.Repeat("0a", 32) + `"}]`

// serveUpstream streams an answer like OpenAI, or calls the handler of the model's mode.
func (e *evening) serveUpstream(w http.ResponseWriter, r *http.Request) {
	var request struct{ Model string }
	_ = json.NewDecoder(r.Body).Decode(&request)
	if mode, ok := e.modes.Load(request.Model); ok {
		mode.(http.HandlerFunc)(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"well\"}}]}\n\n", request.Model)
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// call asks for a prompt and calls each endpoint, with several concurrent calls. All
// must be answered.
func (e *evening) call(t *testing.T) {
	t.Helper()
	var calls sync.WaitGroup
	ask := func(path, body string) {
		calls.Go(func() {
			status, _, text, err := post(t.Context(), &e.client, e.process.url+path, body)
			if err != nil || status != http.StatusOK || strings.Contains(text, "event: error") {
				t.Errorf("%s %s: %d %s %v", path, body, status, text, err)
			}
		})
	}
	ask("/v1/prompts", `{"keys":["plain"]}`)
	for _, target := range targets {
		_, name, _ := strings.Cut(target, "/")
		for range 5 {
			ask("/v1/endpoints", fmt.Sprintf(`{"key":%q,"stream":true}`, name))
		}
	}
	calls.Wait()
}

// degraded returns the conditions of the status, as "condition subject".
func (e *evening) degraded(t *testing.T) (list []string) {
	t.Helper()
	var status struct {
		Workspaces map[string]struct {
			Degraded []struct {
				Code, Subject, Message string
				Since                  time.Time
			}
		}
	}
	text := e.get(t, "http://"+e.process.admin+"/cadenza/status")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, c := range status.Workspaces["default"].Degraded {
		if c.Message == "" || c.Since.IsZero() {
			t.Errorf("a condition says less than it should: %+v", c)
		}
		list = append(list, c.Code+" "+c.Subject)
	}
	return list
}

func (e *evening) get(t *testing.T, url string) string {
	t.Helper()
	response, err := e.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", url, response.StatusCode, text, err)
	}
	return string(text)
}

// waitFor waits until done returns true.
func (e *evening) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	e.process.eventually(what, done)
}

// entries returns the decoded lines of the log.
func (e *evening) entries() (all []map[string]any) {
	for line := range strings.Lines(e.process.output.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil {
			all = append(all, entry)
		}
	}
	return all
}

// lines counts the log's lines with a message and a field that ends in a value.
func (e *evening) lines(message, field, value string) (n int) {
	for _, entry := range e.entries() {
		text, _ := entry[field].(string)
		if entry["msg"] == message && (field == "" || strings.HasSuffix(text, value)) {
			n++
		}
	}
	return n
}

// loud counts the warnings and errors of the log by message and subject.
func (e *evening) loud() map[string]int {
	count := make(map[string]int)
	for _, entry := range e.entries() {
		if entry["level"] != "warn" && entry["level"] != "error" {
			continue
		}
		line := fmt.Sprint(entry["msg"])
		for _, field := range []string{"target", "sink", "file", "provider", "reason"} {
			if value, ok := entry[field]; ok {
				line += fmt.Sprintf(" %s=%v", field, value)
			}
		}
		count[line]++
	}
	return count
}

// fill makes a file as large as its disk allows, or removes it.
func fill(t *testing.T, path string, full bool) {
	t.Helper()
	if !full {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
}
