package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// traced makes a request that is recorded, and returns its trace id.
func (g *gateway) traced(path, key string) string {
	g.t.Helper()
	a := g.post(path, `{"keys":["`+key+`"]}`).ok(g.t)
	return a.header.Get("Cadenza-Trace-Id")
}

// stored counts the metrics of a trace.
func (g *gateway) stored(id string) int {
	g.t.Helper()
	parsed, ok := trace.ParseID(id)
	if !ok {
		g.t.Fatalf("%q is no trace id", id)
	}
	reader, err := sqlite.OpenReader(context.Background(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer reader.Close()
	records, err := reader.MetricsFor(context.Background(), parsed)
	if err != nil {
		g.t.Fatal(err)
	}
	return len(records)
}

// checkReplayed checks that an answer repeats the first one.
func checkReplayed(t *testing.T, again, first answer) {
	t.Helper()
	if again.status != first.status || string(again.body) != string(first.body) {
		t.Errorf("%d %s\nwant again: %d %s", again.status, again.body, first.status, first.body)
	}
	if again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("Idempotent-Replayed: first %q, then %q", first.header.Get("Idempotent-Replayed"), again.header.Get("Idempotent-Replayed"))
	}
	for _, name := range []string{"Cadenza-Trace-Id", "Cadenza-Decision-Id", "Content-Type", "Cache-Control"} {
		if got, want := again.header.Get(name), first.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMetricsOfAKeyAreStoredOnce(t *testing.T) {
	t.Parallel()
	options := withWorkspace("other", map[string]string{"app": otherKey})
	g := startGateway(t, workspace, options)
	id := g.traced("/v1/prompts", "hello")
	record := `{"trace_id":"` + id + `","score":85}`
	first := g.keyed("k1", "/v1/metrics", record).ok(t)
	checkReplayed(t, g.keyed("k1", "/v1/metrics", record), first)
	a := g.keyed("k1", "/v1/metrics", strings.Replace(record, `:85`, `:86`, 1))
	if a.status != http.StatusUnprocessableEntity {
		t.Errorf("another record: %d %s", a.status, a.body)
	}
	checkError(t, a, "idempotency_mismatch", "Idempotency-Key")
	if n := g.stored(id); n != 1 {
		t.Errorf("stored %d times", n)
	}

	// Later requests are unaffected, and so are keys of another workspace.
	if a := g.post("/v1/metrics", record); a.status != 200 || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("without a key: %d %v", a.status, a.header)
	}
	if a := g.keyed("K1", "/v1/metrics", record); a.status != 200 || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another key: %d %v", a.status, a.header)
	}
	if n := g.stored(id); n != 3 {
		t.Errorf("stored %d times", n)
	}
	theirs := bearer(otherKey)
	theirs.Set("Idempotency-Key", "k1")
	if a := g.do("POST", "/v1/metrics", `{"score":1}`, theirs); a.status != 200 {
		t.Errorf("the key in another workspace: %d %s", a.status, a.body)
	}

	g.restart(options)
	checkReplayed(t, g.keyed("k1", "/v1/metrics", record), first)
	if n := g.stored(id); n != 3 {
		t.Errorf("after a restart stored %d times", n)
	}

	// A day later the key may be used again.
	if _, err := g.database().Exec("UPDATE replies SET time_ms = time_ms - 24*3600*1000 WHERE key = 'k1'"); err != nil {
		t.Fatal(err)
	}
	if a := g.keyed("k1", "/v1/metrics", strings.Replace(record, `:85`, `:86`, 1)); a.status != 200 || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("after a day: %d %s", a.status, a.body)
	}
	if n := g.stored(id); n != 4 {
		t.Errorf("after a day stored %d times", n)
	}
}

func TestIdempotencyKeysOfMetrics(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	prompt, config := g.traced("/v1/prompts", "hello"), g.traced("/v1/remoteconfigs", "checkout")
	byPath := "/v2/prompts/" + prompt + "/metrics"
	for _, test := range []struct {
		name, path, body string
		differs          string // another request of the same key
	}{
		{"unattached", "/v1/metrics", `{"score":1}`, "/v1/metrics?x"},
		{"nothing to store", "/v1/metrics", `{"trace_id":"` + config + `"}`, "/v2/remoteconfigs/" + config + "/metrics"},
		{"members that are ignored", "/v1/metrics", `{"trace_id":"` + config + `","score":1,"metadata":{"a":1}}`, "/v1/metrics?x"},
		{"the trace in the path", byPath, `{"score":1}`, "/v1/metrics"},
		{"the record in the query", byPath + "?metadata[a]=b", "", byPath + "?metadata[a]=c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := strings.ReplaceAll(test.name, " ", "-")
			first := g.keyed(key, test.path, test.body).ok(t)
			checkReplayed(t, g.keyed(key, test.path, test.body), first)
			if a := g.keyed(key, test.differs, test.body); a.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", test.differs, a.status, a.body)
			}
		})
	}

	// A refused record does not use up its key.
	for _, wrong := range []string{`{"score":1`, `{"score":101}`, `{}`, `{"trace_id":"` + prompt[:35] + `x","score":1}`} {
		if a := g.keyed("refused", "/v1/metrics", wrong); a.status < 400 || a.status > 404 {
			t.Errorf("%s: %d %s", wrong, a.status, a.body)
		}
	}
	if a := g.keyed("refused", "/v1/metrics", `{"score":1}`); a.status != 200 || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("mended: %d %s", a.status, a.body)
	}

	header := bearer(testKey)
	for _, values := range [][]string{{""}, {"a", "b"}, {"a b"}, {"clé"}, {strings.Repeat("k", 256)}} {
		header["Idempotency-Key"] = values
		a := g.do("POST", "/v1/metrics", `{"score":1}`, header)
		if a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", values, a.status, a.body)
		}
		checkError(t, a, "invalid_request", "Idempotency-Key")
		// Routes without idempotency ignore the header.
		for _, path := range []string{"/v1/prompts", "/v1/remoteconfigs"} {
			if a := g.do("POST", path, `{"keys":["hello","checkout"]}`, header); a.status != 200 {
				t.Errorf("%s with %q: %d", path, values, a.status)
			}
		}
		if a := g.do("POST", "/v1/endpoints", `{"key":"chat",`+question+`}`, header); a.status != 200 {
			t.Errorf("an endpoint that honours none, with %q: %d", values, a.status)
		}
	}
}

// TestMetricsOfAKeyConflict repeats a record while the first one is being stored,
// which a lock on the file delays.
func TestMetricsOfAKeyConflict(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	id := g.traced("/v1/prompts", "hello")
	record := `{"trace_id":"` + id + `","score":85}`
	eventually(t, "the trace is stored", func() bool { _, ok := g.trace("data/cadenza.db", id); return ok })
	conn, err := g.database().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer)
	for range 2 {
		go func() { answers <- g.keyed("k", "/v1/metrics", record) }()
	}
	a := <-answers // the one that came second
	if a.status != http.StatusConflict || a.header.Get("Retry-After") != "1" {
		t.Errorf("the same record: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}
	checkError(t, a, "conflict", "Idempotency-Key")
	if a := g.keyed("k", "/v1/metrics", record+" "); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another record: %d %s", a.status, a.body)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	first := <-answers
	if first.status != http.StatusOK {
		t.Fatalf("the first: %d %s", first.status, first.body)
	}
	checkReplayed(t, g.keyed("k", "/v1/metrics", record), first)
	if n := g.stored(id); n != 1 {
		t.Errorf("stored %d times", n)
	}
}

func TestManyRepetitionsAtOnce(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	id := g.traced("/v1/prompts", "hello")
	record := `{"trace_id":"` + id + `","score":85}`
	const keys = 5
	var wait sync.WaitGroup
	var originals, others atomic.Int64
	for n := range 100 {
		wait.Go(func() {
			for {
				a := g.keyed(fmt.Sprint("k", n%keys), "/v1/metrics", record)
				switch {
				case a.status == http.StatusConflict:
					continue
				case a.status != http.StatusOK:
					t.Errorf("%d %s", a.status, a.body)
				case a.header.Get("Idempotent-Replayed") == "":
					originals.Add(1)
				default:
					others.Add(1)
				}
				return
			}
		})
	}
	wait.Wait()
	if n := g.stored(id); n != keys || originals.Load() != keys || others.Load() != 100-keys {
		t.Errorf("%d records, %d originals and %d replays of %d keys", n, originals.Load(), others.Load(), keys)
	}
}

// idempotent is the tests' endpoint without a fallback, with idempotency keys.
func idempotent() map[string]string {
	files := single()
	files["definitions/endpoints/chat.yaml"] += "idempotency: true\n"
	return files
}

func TestEndpointIsAskedOnceForAKey(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch text := string(body); {
		case strings.Contains(text, "fail"):
			http.Error(w, "sk-secret", http.StatusInternalServerError)
		case strings.Contains(text, "limit"):
			http.Error(w, "{}", http.StatusTooManyRequests)
		case strings.Contains(text, "long"):
			http.Error(w, "{}", http.StatusRequestEntityTooLarge)
		case strings.Contains(text, `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk(fmt.Sprint("answer ", call), "stop")+"data: [DONE]\n\n")
		default:
			completion(w, fmt.Sprint("answer ", call))
		}
	})
	g := startGateway(t, idempotent(), fakeProvider(u.URL))
	first := g.keyed("k", "/v1/endpoints", ask("one?", false))
	if first.status != 200 || first.json(t)["content"] != "answer 1" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	again := g.keyed("k", "/v1/endpoints", ask("one?", false))
	checkReplayed(t, again, first)
	if again.header.Get("X-Should-Retry") != "" {
		t.Error("an answer is no error to give up at")
	}
	a := g.keyed("k", "/v1/endpoints", ask("two?", false))
	if a.status != http.StatusUnprocessableEntity {
		t.Errorf("another question: %d %s", a.status, a.body)
	}
	checkError(t, a, "idempotency_mismatch", "Idempotency-Key")
	if a := g.keyed("k", "/v1/metrics", `{"score":1}`); a.status != 200 {
		t.Errorf("the key on another route: %d %s", a.status, a.body)
	}
	header := bearer(testKey)
	header["Idempotency-Key"] = []string{"a", "b"}
	a = g.do("POST", "/v1/endpoints", ask("one?", false), header)
	checkError(t, a, "invalid_request", "Idempotency-Key")
	g.restart(fakeProvider(u.URL))
	checkReplayed(t, g.keyed("k", "/v1/endpoints", ask("one?", false)), first)
	if calls := u.Calls.Load(); calls != 1 {
		t.Fatalf("%d upstream calls", calls)
	}

	// Without a key, and as a stream, every request calls the model.
	for n := range 2 {
		if a := g.post("/v1/endpoints", ask("one?", false)); a.json(t)["content"] != fmt.Sprint("answer ", 2+2*n) {
			t.Errorf("without a key: %s", a.body)
		}
		if a := g.keyed("k", "/v1/endpoints", ask("one?", true)); !strings.Contains(string(a.body), fmt.Sprint("answer ", 3+2*n)) {
			t.Errorf("a stream: %d %s", a.status, a.body)
		}
	}

	t.Run("failures", func(t *testing.T) {
		u.Calls.Store(0)
		first := g.keyed("fails", "/v1/endpoints", ask("fail?", false))
		if first.status != http.StatusBadGateway {
			t.Fatalf("%d %s", first.status, first.body)
		}
		again := g.keyed("fails", "/v1/endpoints", ask("fail?", false))
		checkReplayed(t, again, first)
		checkError(t, again, "upstream_error", "")
		if first.header.Get("X-Should-Retry") != "" || again.header.Get("X-Should-Retry") != "false" {
			t.Errorf("X-Should-Retry: first %q, then %q", first.header.Get("X-Should-Retry"), again.header.Get("X-Should-Retry"))
		}
		if calls := u.Calls.Load(); calls != 1 {
			t.Errorf("%d upstream calls", calls)
		}
	})
	t.Run("what asks for its repetition", func(t *testing.T) {
		for n := range 2 {
			a := g.keyed("limited", "/v1/endpoints", ask("limit?", false))
			if a.status != http.StatusServiceUnavailable || a.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("try %d: %d %s", n+1, a.status, a.body)
			}
		}
	})
	t.Run("what the caller can mend", func(t *testing.T) {
		first := g.keyed("long", "/v1/endpoints", ask("too long?", false))
		checkError(t, first, "context_length_exceeded", "")
		g.keyed("long", "/v1/endpoints", ask("shorter?", false)).ok(t)
	})
	t.Run("what is refused", func(t *testing.T) {
		a := g.keyed("refused", "/v1/endpoints", `{"key":"chat"}`)
		checkError(t, a, "missing_variable", "variables.question")
		if a := g.keyed("refused", "/v1/endpoints", ask("mended?", false)); a.status == http.StatusUnprocessableEntity || a.status == http.StatusConflict {
			t.Errorf("mended: %d %s", a.status, a.body)
		}
	})
}

// TestEndpointOfAKeyConflict repeats a request while the model answers, also
// over a reload.
func TestEndpointOfAKeyConflict(t *testing.T) {
	t.Parallel()
	asked, next := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		close(asked) // a second call would panic here
		<-next
		completion(w, "late")
	})
	g := startGateway(t, idempotent(), fakeProvider(u.URL))
	done := make(chan answer)
	go func() { done <- g.keyed("k", "/v1/endpoints", ask("one?", false)) }()
	<-asked
	for _, reload := range []bool{false, true} {
		if reload {
			g.load(fakeProvider(u.URL))
		}
		a := g.keyed("k", "/v1/endpoints", ask("one?", false))
		if a.status != http.StatusConflict || a.header.Get("Retry-After") != "1" {
			t.Errorf("reloaded %t: %d %s", reload, a.status, a.body)
		}
		checkError(t, a, "conflict", "Idempotency-Key")
		if a := g.keyed("k", "/v1/endpoints", ask("two?", false)); a.status != http.StatusUnprocessableEntity {
			t.Errorf("another question, reloaded %t: %d %s", reload, a.status, a.body)
		}
	}
	close(next)
	first := <-done
	if first.status != http.StatusOK {
		t.Fatalf("%d %s", first.status, first.body)
	}
	checkReplayed(t, g.keyed("k", "/v1/endpoints", ask("one?", false)), first)
}

// TestCallerThatLeftMayComeAgain has a caller that leaves while the model answers:
// its call ends, and the key is free again.
func TestCallerThatLeftMayComeAgain(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if call == 1 {
			close(asked)
			<-r.Context().Done()
			return
		}
		completion(w, "second")
	})
	g := startGateway(t, idempotent(), fakeProvider(u.URL))
	ctx, cancel := context.WithCancel(t.Context())
	header := bearer(testKey)
	header.Set("Idempotency-Key", "k")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := g.send(ctx, "POST", "/v1/endpoints", ask("one?", false), header); err == nil {
			response.Body.Close()
		}
	}()
	<-asked
	cancel()
	<-left
	var a answer
	eventually(t, "the key is free", func() bool {
		a = g.keyed("k", "/v1/endpoints", ask("one?", false))
		return a.status != http.StatusConflict
	})
	if a.status != 200 || a.header.Get("Idempotent-Replayed") != "" || a.json(t)["content"] != "second" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestCachedAnswerIsKept(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) { completion(w, fmt.Sprint("answer ", call)) })
	files := caching()
	files["definitions/endpoints/chat.yaml"] += "idempotency: true\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	if a := g.post("/v1/endpoints", ask("one?", false)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	first := g.keyed("k", "/v1/endpoints", ask("one?", false))
	if !strings.Contains(first.header.Get("Cache-Status"), "hit") || first.json(t)["content"] != "answer 1" {
		t.Fatalf("%d %s %v", first.status, first.body, first.header)
	}
	checkReplayed(t, g.keyed("k", "/v1/endpoints", ask("one?", false)), first)
}

// TestKeysWithoutAStore checks that a request with a key is refused before the model
// is asked, and that an answer that was paid for is still sent.
func TestKeysWithoutAStore(t *testing.T) {
	t.Parallel()
	var g *gateway
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		if err := os.Remove(filepath.Join(g.dir, "data/cadenza.db")); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		completion(w, "paid for")
	})
	g = startGateway(t, idempotent(), fakeProvider(u.URL))
	if a := g.keyed("k", "/v1/endpoints", ask("one?", false)); a.status != 200 || a.json(t)["content"] != "paid for" {
		t.Errorf("the file is deleted while the model answers: %d %s", a.status, a.body)
	}
	eventually(t, "a new file is begun", func() bool { return g.post("/v1/metrics", `{"score":1}`).status == 200 })

	blocked := filepath.Join(g.dir, "blocked", "cadenza.db")
	if err := os.MkdirAll(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	g.storeAt("blocked/cadenza.db", fakeProvider(u.URL))
	u.Calls.Store(0)
	for _, path := range []string{"/v1/endpoints", "/v1/metrics"} {
		body := ask("one?", false)
		if path == "/v1/metrics" {
			body = `{"score":1}`
		}
		a := g.keyed("k", path, body)
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		checkError(t, a, "store_unavailable", "")
	}
	if u.Calls.Load() != 0 {
		t.Error("a model was asked")
	}
	if a := g.post("/v1/endpoints", ask("one?", false)); a.status != 200 {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	// Neither refusal used up its key.
	for _, path := range []string{"/v1/endpoints", "/v1/metrics"} {
		body := ask("two?", false)
		if path == "/v1/metrics" {
			body = `{"score":2}`
		}
		eventually(t, path+" is served again", func() bool { return g.keyed("k", path, body).status == 200 })
	}
}
