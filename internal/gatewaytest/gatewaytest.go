// Package gatewaytest holds what tests of a whole gateway share, with Caddy
// around it or without.
package gatewaytest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// RunWaiting runs the tests of a package whose parallel tests mostly wait: twice as
// many of them run at once as without it.
func RunWaiting(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	return m.Run()
}

// Key is the API key of the tests.
const Key = "cadenza-test-key-0001"

// Definitions are a small set that tests share, by the file.
var Definitions = map[string]string{
	"definitions/context.yaml": `
fields:
  environment: { type: string, values: [production, staging] }
  locale:      { type: string, match: language-range }
  plan:        { type: string, values: [free, pro] }
  seats:       { type: number }
  tags:        { type: list }
`,
	"definitions/prompts/reply.yaml": `
default: en
variables: { company: { default: Acme }, question: { required: true } }
variants:
  en:
    provider: fake
    model: small
    temperature: 0.2
    max_tokens: 400
    messages:
      - { role: system, content: "You answer for {{company}}." }
      - { role: user,   content: "{{question}}" }
  nl:
    extends: en
    name: dutch
    messages:
      - { role: user, content: "{{ question }} ({{company}})" }
columns: [ locale, value ]
matrix:
  - [ nl, nl ]
`,
	"definitions/prompts/hello.yaml": `
variants:
  only:
    provider: fake
    model: small
    messages:
      - { role: user, content: "Say hello." }
`,
	"definitions/remoteconfigs/checkout.yaml": `
type: boolean
default: false
rules:
  - id: staff
    when: { tags: { any: [employee] } }
    value: true
`,
	"definitions/remoteconfigs/limits.yaml": `
type: object
default: { rpm: 60, burst: 10 }
columns: [ environment, plan, value ]
matrix:
  - [ production, pro, { rpm: 600, burst: 60 } ]
`,
	"definitions/endpoints/chat.yaml": `
prompt: reply
fallback:
  - { provider: canned, extra: { answer: "one two three", pace: 1ms } }
timeout: { total: 10s, first_token: 4s }
`,
}

// Upstream is an OpenAI-compatible server whose answers a test decides.
type Upstream struct {
	*httptest.Server
	Calls atomic.Int64
}

// NewUpstream starts a server that answers as a test says, and counts its calls.
func NewUpstream(t *testing.T, answer func(call int64, w http.ResponseWriter, r *http.Request)) *Upstream {
	u := new(Upstream)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(u.Calls.Add(1), w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// Chunk is one event of a streamed chat completion.
func Chunk(content, finish string) string {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}
	text, _ := json.Marshal(content)
	return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small-1","choices":[{"index":0,"delta":{"content":%s},"finish_reason":%s}]}`+"\n\n", text, reason)
}

// Completion answers with a whole chat completion.
func Completion(w http.ResponseWriter, content string) {
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(content)
	fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, text)
}

// Events reads a stream's events: the data of each.
func Events(t *testing.T, body io.Reader) []string {
	t.Helper()
	var all []string
	scanner := bufio.NewScanner(body)
	for scanner.Scan() {
		if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
			all = append(all, data)
		} else if scanner.Text() != "" {
			all = append(all, scanner.Text())
		}
	}
	if err := scanner.Err(); err != nil {
		all = append(all, "cut: "+err.Error())
	}
	return all
}

// Single is the tests' endpoint without a fallback.
func Single() map[string]string {
	files := make(map[string]string)
	for name, content := range Definitions {
		files[name] = content
	}
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nmax_attempts: 1\n"
	return files
}

// EndpointWith is the tests' Definitions with another endpoint "chat".
func EndpointWith(text string) map[string]string {
	files := Single()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nlog: metadata\n" + text
	return files
}

// CheckLogs holds every line that a gateway logged to be an object that has each
// member once: strict readers refuse others.
func CheckLogs(t testing.TB, logs []byte) {
	t.Helper()
	for line := range bytes.Lines(logs) {
		if err := UniqueMembers(line); err != nil {
			t.Errorf("%v in the log line %s", err, line)
		}
	}
}

// UniqueMembers reads one JSON object, and fails where it, or one in it, has a
// member twice.
func UniqueMembers(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object func() error
	value := func() error {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			return object()
		}
		return nil
	}
	object = func() error { // or a list, of which only the objects matter
		inObject := text[decoder.InputOffset()-1] == '{'
		seen := map[string]bool{}
		for decoder.More() {
			if inObject {
				name, err := decoder.Token()
				if err != nil {
					return err
				}
				if seen[name.(string)] {
					return fmt.Errorf("a second %q", name)
				}
				seen[name.(string)] = true
			}
			if err := value(); err != nil {
				return err
			}
		}
		_, err := decoder.Token()
		return err
	}
	if err := value(); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("something follows the object (%w)", err)
	}
	return nil
}

// Patience is how long tests wait for what others do: a busy machine takes long for a
// little. A test that passes does not wait that long.
const Patience = time.Minute

// Eventually waits until a condition holds, for at most Patience. If it never does, the
// failure shows logs.
func Eventually(t testing.TB, what string, holds func() bool, logs ...any) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s\n%s", Patience, what, fmt.Sprint(logs...))
		}
	}
}

// Random returns a source of random numbers for one goroutine. A test that fails shows
// the seed, and draws the same again with it in CADENZA_SEED.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CADENZA_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("CADENZA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Trace reads a trace from a store's file, and reports whether it is there.
func Trace(t testing.TB, store, id string) (*trace.Record, bool) {
	t.Helper()
	parsed, reader := open(t, store, id)
	if reader == nil {
		return nil, false
	}
	defer reader.Close()
	record, err := reader.Trace(context.Background(), parsed)
	return record, err == nil
}

// Metrics reads what was reported on a trace from a store's file.
func Metrics(t testing.TB, store, id string) []trace.Metrics {
	t.Helper()
	parsed, reader := open(t, store, id)
	if reader == nil {
		t.Fatalf("%s can't be opened", store)
	}
	defer reader.Close()
	reports, err := reader.MetricsFor(context.Background(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func open(t testing.TB, store, id string) (trace.ID, *sqlite.Reader) {
	t.Helper()
	parsed, ok := trace.ParseID(id)
	if !ok {
		t.Fatalf("%q is no trace id", id)
	}
	reader, err := sqlite.OpenReader(context.Background(), store)
	if err != nil {
		return parsed, nil
	}
	return parsed, reader
}

// Write puts a file into a directory, replacing it at once.
func Write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	temporary := path + "~"
	if err := os.WriteFile(temporary, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// Database opens a store's file as another process would.
func Database(t testing.TB, store string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+store+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// EndlessPeaks makes queries of a store's peaks of limits for the subject x run until they
// are ended.
func EndlessPeaks(t testing.TB, store *sql.DB) {
	t.Helper()
	if _, err := store.ExecContext(t.Context(), `
DROP TABLE limit_peaks;
CREATE VIEW limit_peaks AS WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n)
SELECT iif(i < 0, 'default', 'none') AS workspace, i AS hour, '' AS limit_name, 'x' AS subject, 0 AS percent, '' AS measure, '' AS ceiling, 0.0 AS used FROM n`); err != nil {
		t.Fatal(err)
	}
}

// Rows counts the rows of a table of a store.
func Rows(t testing.TB, store *sql.DB, table string) (rows int) {
	t.Helper()
	if err := store.QueryRow("SELECT count(*) FROM " + table).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// Ask is the body of a call of the endpoint "chat".
func Ask(text string, stream bool) string {
	return fmt.Sprintf(`{"key":"chat","stream":%t,"variables":{"question":%q}}`, stream, text)
}

// HundredConfigs are configurations, and the list of their keys.
func HundredConfigs() (files map[string]string, keys string) {
	files = make(map[string]string)
	list := make([]string, 100)
	for n := range list {
		list[n] = fmt.Sprintf(`"c%d"`, n)
		files[fmt.Sprintf("definitions/remoteconfigs/c%d.yaml", n)] = "type: number\ndefault: 1\n"
	}
	return files, "[" + strings.Join(list, ",") + "]"
}

// Answer is a response that was read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request to the gateway that a client reaches.
func Send(ctx context.Context, client *http.Client, method, path, body string, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header.Clone()
	return client.Do(request)
}

// Do sends a request as Send does, and reads the response.
func Do(t testing.TB, client *http.Client, method, path, body string, header http.Header) Answer {
	t.Helper()
	response, err := Send(context.Background(), client, method, path, body, header)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return Answer{response.StatusCode, response.Header, data}
}

// Object decodes a body, which must be a JSON object.
func Object(t testing.TB, body []byte) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("body is not a JSON object: %v\n%s", err, body)
	}
	return value
}

// TraceIDs returns the trace ids of the body of an answer, by key.
func TraceIDs(t testing.TB, body []byte) map[string]string {
	t.Helper()
	var values map[string]struct {
		TraceID string `json:"trace_id"`
	}
	if err := json.Unmarshal(body, &values); err != nil {
		t.Fatalf("%.200s (%v)", body, err)
	}
	ids := make(map[string]string)
	for key, value := range values {
		ids[key] = value.TraceID
	}
	return ids
}

// CheckError checks an answer against the contract of errors.
func CheckError(t *testing.T, a Answer, code, param string) {
	t.Helper()
	body := Object(t, a.Body)
	inner, _ := body["error"].(map[string]any)
	if body["error_code"] != code || body["name"] != code || inner["code"] != code {
		t.Errorf("codes of %s, want %s", a.Body, code)
	}
	if message, _ := body["message"].(string); message == "" || inner["message"] != message {
		t.Errorf("messages of %s", a.Body)
	}
	if got, _ := inner["param"].(string); got != param {
		t.Errorf("param %q, want %q: %s", got, param, a.Body)
	}
	if contentType := a.Header.Get("Content-Type"); contentType != "application/json" {
		t.Errorf("Content-Type %q", contentType)
	}
	switch a.Status {
	case 401:
		if !strings.HasPrefix(a.Header.Get("Www-Authenticate"), `Bearer realm="cadenza"`) {
			t.Errorf("WWW-Authenticate %q", a.Header.Get("Www-Authenticate"))
		}
	case 405:
		if a.Header.Get("Allow") != "POST" {
			t.Errorf("Allow %q", a.Header.Get("Allow"))
		}
	case 429, 503:
		if a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}

// Full returns n where the environment variable CADENZA_FULL is set, and a hundredth
// of it elsewhere: how often a test does what must hold n times.
func Full(n int) int {
	if os.Getenv("CADENZA_FULL") != "" {
		return n
	}
	return n / 100
}
