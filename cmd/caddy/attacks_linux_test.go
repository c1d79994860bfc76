package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// An attack is what one caller, one upstream or one author of definitions can
// do to the process that all share.
type attack struct {
	name string
	run  func(*testing.T, *siege)
	// Of the gateway that is attacked, which is then one of its own.
	definitions func() map[string]string // instead of those of the others
	store       string
	descriptors int
	waits       bool // it does little but wait
	restarts    bool // it has nobody else ask: there are times when nobody answers
}

var attacks = []attack{
	{name: "prompts that make a large answer", run: largeAnswers},
	{name: "readers that stall", run: stalledReaders, waits: true},
	{name: "metadata and context for a hundred keys", run: largeRecords},
	{name: "replies that fill the store", run: manyReplies, definitions: keeping, store: "max_size 2MiB", restarts: true},
	{name: "calls that hang", run: hangingCalls, descriptors: 4096},
	{name: "an upstream that switches protocols", run: switchedProtocols},
	{name: "upstreams without an end", run: endlessUpstreams},
	{name: "an upstream with a name of megabytes", run: largeModel},
	{name: "definitions that explode", run: explodingDefinitions},
	{name: "a pipe for a definition", run: pipedDefinition},
	{name: "ten thousand stray files", run: strayFiles},
	{name: "texts that patterns are slow on", run: slowPatterns},
	{name: "bodies that drip", run: drippingBodies, waits: true},
	{name: "bodies that are announced and not sent", run: announcedBodies},
}

// alone reports whether an attack needs a gateway that no other has.
func (a attack) alone() bool {
	return a.waits || a.restarts || a.store != "" || a.descriptors > 0
}

// TestAttacks attacks the gateway as users build it. Whatever is done to it,
// others are answered as ever, its memory stays below a ceiling, and who goes
// too far is told so. One gateway suffers all attacks that need no options and,
// as long as it holds, all of them one after the other.
func TestAttacks(t *testing.T) {
	if raceEnabled {
		t.Skip("what is attacked is built without the race detector: once is enough")
	}
	gatewayBinary(t)
	var wait sync.WaitGroup
	defer wait.Wait()
	var shared *siege
	for _, a := range attacks {
		run := func(s *siege) bool {
			return t.Run(a.name, func(t *testing.T) {
				if s == nil {
					s = besiege(t, a)
				}
				s.resetPeak()
				if a.restarts {
					a.run(t, s)
				} else {
					w := s.watch(t)
					defer w.stop()
					a.run(t, s)
					w.served(t)
				}
				s.holds(t)
			})
		}
		switch {
		case a.waits:
			wait.Go(func() { run(nil) }) // beside the others
		case a.alone():
			run(nil)
		default:
			if shared == nil {
				shared = besiege(t, attack{})
			}
			if !run(shared) {
				shared.kill()
				shared = nil // what it suffered is no concern of the next
			}
		}
	}
}

const hundred = 100

// keysOf is a list of keys in JSON: prefix00, prefix01 and so on.
func keysOf(prefix string, n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%02d", prefix, i)
	}
	text, _ := json.Marshal(keys)
	return string(text)
}

// besieged returns the definitions of the workspace that is attacked.
func besieged() map[string]string {
	files := map[string]string{
		"context.yaml":            "fields: { s: { type: string } }\n",
		"prompts/calm.yaml":       "provider: canned\nmodel: m\nvariables: { text: { default: x } }\nmessages: [ { role: user, content: 'Say {{text}}.' } ]\n",
		"remoteconfigs/calm.yaml": "type: string\ndefault: a\ncolumns: [ s, value ]\nmatrix:\n  - [ x, b ]\n",
		"remoteconfigs/slow.yaml": "type: string\ndefault: a\nrules:\n" +
			"  - { when: { s: { matches: '(a|b|ab)*c{1,500}$' } }, value: b }\n" +
			"  - { when: { s: { matches: '[A-Za-z0-9._%+-]{1,64}@(acme|example)\\.com$' } }, value: c }\n",
	}
	for i := range hundred {
		once := "provider: canned\nmodel: m\nvariables: { text: { default: x } }\nmessages: [ { role: user, content: '%s' } ]\n"
		files[fmt.Sprintf("prompts/once%02d.yaml", i)] = fmt.Sprintf(once, "{{text}}")
		files[fmt.Sprintf("prompts/often%02d.yaml", i)] = fmt.Sprintf(once, strings.Repeat("{{text}}", 12))
		files[fmt.Sprintf("remoteconfigs/small%02d.yaml", i)] = "type: string\ndefault: a\n"
	}
	for i := range 20 {
		files[fmt.Sprintf("remoteconfigs/large%02d.yaml", i)] = "type: string\ndefault: " + strings.Repeat("v", 512<<10) + "\n"
	}
	endpoint := func(name, model, more string) {
		files["prompts/p_"+name+".yaml"] = "provider: hostile\nmodel: " + model + "\nmessages: [ { role: user, content: hello } ]\n"
		files["endpoints/"+name+".yaml"] = "prompt: p_" + name + "\nmax_attempts: 2\ntimeout: { total: 8s, first_token: 4s, idle: 4s }\n" + more
	}
	for _, model := range []string{"switching", "endless_header", "endless_error", "endless_line", "endless_event", "endless_events", "endless_body", "drip", "large_model", "fine"} {
		endpoint(model, model, "retry: { count: 0 }\n")
	}
	endpoint("switching_fallback", "switching", "fallback: [ { provider: canned, extra: { answer: Later. } } ]\n")
	endpoint("hang", "hang", "")
	files["endpoints/hang.yaml"] = "prompt: p_hang\nmax_attempts: 1\ntimeout: { total: 120s, first_token: 120s }\n"
	return files
}

// largeAnswers asks for a hundred prompts that all repeat one text: an answer of
// 1.2 GB in the worst case.
func largeAnswers(t *testing.T, s *siege) {
	control := `\u0001`
	tests := []struct {
		name, path, body string
		param            string // of the refusal; empty: it fits
	}{
		{"a text a hundred times", "/v1/prompts", `{"keys":` + keysOf("once", hundred) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`, "keys"},
		{"a text 1,200 times", "/v1/prompts", `{"keys":` + keysOf("often", hundred) + `,"variables":{"text":"` + strings.Repeat("a", 170_000) + `"}}`, "keys"},
		{"a text 1,200 times, of what JSON writes with six bytes", "/v1/prompts", `{"keys":` + keysOf("often", hundred) + `,"variables":{"text":"` + strings.Repeat(control, 170_000) + `"}}`, "keys or variables"},
		{"one prompt too large as it is sent", "/v1/prompts", `{"keys":["often00"],"variables":{"text":"` + strings.Repeat(control, 170_000) + `"}}`, "keys or variables"},
		{"large values", "/v1/remoteconfigs", `{"keys":` + keysOf("large", 20) + `}`, "keys"},
		{"prompts below the ceiling", "/v1/prompts", `{"keys":` + keysOf("once", 7) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`, ""},
		{"one prompt below the ceiling", "/v1/prompts", `{"keys":["often00"],"variables":{"text":"` + strings.Repeat(control, 25_000) + `"}}`, ""},
		{"values below the ceiling", "/v1/remoteconfigs", `{"keys":` + keysOf("large", 15) + `}`, ""},
	}
	for _, test := range tests {
		r := s.ask(t, attackerKey, test.path, test.body)
		switch {
		case test.param == "" && r.status != http.StatusOK:
			t.Errorf("%s: %s", test.name, r)
		case test.param != "" && (r.status != http.StatusBadRequest || r.code != "invalid_request" || r.param == "" || !strings.Contains(test.param, r.param)):
			t.Errorf("%s: want 400 invalid_request of %s, have %s", test.name, test.param, r)
		}
	}
	if t.Failed() {
		return // many of them would take the machine
	}
	// All of them together have a ceiling, too.
	var wait sync.WaitGroup
	for range 4 {
		for _, test := range tests {
			wait.Go(func() {
				r, err := s.send(t.Context(), attackerKey, test.path, strings.NewReader(test.body))
				if err != nil || r.status != http.StatusOK && r.code != "overloaded" && r.code != "invalid_request" {
					t.Errorf("%s, one of many: %v %s", test.name, err, r)
				}
			})
		}
	}
	wait.Wait()
}

// stalledReaders asks for answers just below the ceiling, and reads a few bytes
// of them from time to time: less than anybody who wants them.
func stalledReaders(t *testing.T, s *siege) {
	body := `{"keys":` + keysOf("once", 7) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`
	var wait sync.WaitGroup
	var begun, whole atomic.Int64
	const readers = 9 // as many as a workspace has room for
	for range readers {
		wait.Go(func() {
			dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				// Before the handshake, or the window is large already.
				return c.Control(func(fd uintptr) {
					_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
				})
			}}
			conn, err := dialer.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", s.head("/v1/prompts", attackerKey), len(body), body)
			response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
			if err != nil {
				t.Error(err)
				return
			}
			switch response.StatusCode {
			case http.StatusOK:
				begun.Add(1)
			case http.StatusServiceUnavailable: // no room while others are recorded
				return
			default:
				t.Errorf("answers below the ceiling: %d", response.StatusCode)
			}
			for end := time.Now().Add(ceilings.stalled); err == nil && time.Now().Before(end); time.Sleep(2 * time.Second) {
				_, err = io.CopyN(io.Discard, response.Body, 16)
			}
			if err == nil {
				// What was on its way is still there.
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				_, err = io.Copy(io.Discard, response.Body)
			}
			if err == nil {
				whole.Add(1)
			}
		})
	}
	wait.Wait()
	if n := whole.Load(); n > 0 || begun.Load() == 0 {
		t.Errorf("%d of %d readers that stalled for %s got their answers all the same", n, begun.Load(), ceilings.stalled)
	}
}

// largeRecords sends what is recorded, with a hundred keys to record it for.
func largeRecords(t *testing.T, s *siege) {
	db, err := sql.Open("sqlite", filepath.Join(s.data, "cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Without its log, in which the same page may stand many times.
	size := func() (bytes int64) {
		if err := db.QueryRow("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes); err != nil {
			t.Error(err)
		}
		return bytes
	}
	keys := keysOf("small", hundred)
	large := strings.Repeat("a", 1<<20-4000)
	r := s.ask(t, attackerKey, "/v1/remoteconfigs", `{"keys":`+keys+`,"metadata":{"a":"`+large+`"}}`)
	refused(t, "metadata of 1 MiB", r, http.StatusBadRequest, "invalid_request", "metadata")
	r = s.ask(t, attackerKey, "/v1/remoteconfigs", `{"keys":["calm"]}`)
	r = s.ask(t, attackerKey, "/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"metadata":{"a":%q}}`, r.header.Get("Cadenza-Trace-Id"), large))
	refused(t, "a report with metadata of 1 MiB", r, http.StatusBadRequest, "invalid_request", "metadata")

	// Somebody else's traces must all be there afterwards.
	var mu sync.Mutex
	var others []string
	var wait sync.WaitGroup
	if err := until(20*time.Second, func() bool { return s.metric(t, "cadenza_store_queue_records") == 0 }); err != nil {
		t.Errorf("what was recorded before is not written: %v", err)
	}
	time.Sleep(time.Second) // the last of it is being committed
	before := size()
	const requests, metadata = 100, 15 << 10
	sent := int64(0)
	for i := range requests {
		body := `{"keys":` + keys + `,"metadata":{"a":"` + strings.Repeat("m", metadata) + `"}}`
		if i%10 == 0 {
			// What a request records in all has a ceiling, whichever it is.
			body = `{"keys":` + keys + `,"context":{"s":"` + large + `"}}`
		}
		sent += int64(len(body))
		wait.Go(func() {
			if r, err := s.send(t.Context(), attackerKey, "/v1/remoteconfigs", strings.NewReader(body)); err != nil || r.status != http.StatusOK && r.status != http.StatusBadRequest {
				t.Errorf("what is recorded: %v %s", err, r)
			}
			r, err := s.send(t.Context(), betaKey, "/v1/remoteconfigs", strings.NewReader(`{"keys":["generation"]}`))
			if err != nil || r.status != http.StatusOK {
				t.Errorf("a configuration of another workspace: %v %s", err, r)
			}
			mu.Lock()
			defer mu.Unlock()
			others = append(others, r.header.Get("Cadenza-Trace-Id"))
		})
	}
	wait.Wait()
	if err := until(20*time.Second, func() bool { return s.metric(t, "cadenza_store_queue_records") == 0 }); err != nil {
		t.Errorf("what was recorded is not written: %v", err)
	}
	lost := func() (lost int) {
		for _, id := range others {
			if status, _ := s.get(t, "/cadenza/traces/"+id); status != http.StatusOK {
				lost++
			}
		}
		return lost
	}
	if err := until(ceilings.patience, func() bool { return lost() == 0 }); err != nil { // what is being committed is not in the queue
		t.Errorf("%d of %d traces of another workspace were lost", lost(), len(others))
	}
	// A row for each key, and one for what they share.
	if grown, most := size()-before, 3*sent+requests*hundred*1500; grown > most {
		t.Errorf("%d MB of requests made the store grow by %d MB, more than %d MB", sent/1e6, grown/1e6, most/1e6)
	}
}

// keeping returns definitions that are small themselves, since a store has them
// too, and an endpoint whose answers are kept.
func keeping() map[string]string {
	files := light()
	files["prompts/p_kept.yaml"] = "provider: canned\nmodel: m\nextra: { answer: " + strings.Repeat("k", 20<<10) + " }\nmessages: [ { role: user, content: hello } ]\n"
	files["endpoints/kept.yaml"] = "prompt: p_kept\nidempotency: true\nlog: none\n"
	return files
}

// manyReplies fills a store that may be 2 MiB with answers that are kept for
// idempotency keys. The metrics of another caller, which were acknowledged, stay.
func manyReplies(t *testing.T, s *siege) {
	var victims []string
	for range 100 {
		r := s.ask(t, witnessKey, "/v1/remoteconfigs", `{"keys":["small00"]}`)
		id := r.header.Get("Cadenza-Trace-Id")
		if r = s.ask(t, witnessKey, "/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":1}}`, id)); r.status != http.StatusOK {
			t.Fatalf("metrics: %s", r)
		}
		victims = append(victims, id)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for n := next.Add(1); n <= 400; n = next.Add(1) {
				r, err := s.send(t.Context(), attackerKey, "/v1/endpoints", strings.NewReader(`{"key":"kept"}`), "Idempotency-Key", fmt.Sprintf("%0255d", n))
				if err != nil || r.status != http.StatusOK && r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
					t.Errorf("an idempotency key: %v %s", err, r)
					return
				}
			}
		})
	}
	wait.Wait()
	// A store is looked after when it is opened, and each minute.
	pid := s.command.Process.Pid
	_ = s.command.Process.Signal(syscall.SIGTERM)
	<-s.exited
	s.startWith(s.command.Args[slices.Index(s.command.Args, "--config")+1])
	if s.command.Process.Pid == pid {
		t.Fatal("the gateway did not start anew")
	}
	time.Sleep(2 * time.Second)
	lost := 0
	for _, id := range victims {
		status, text := s.get(t, "/cadenza/traces/"+id)
		if status != http.StatusOK || strings.Contains(text, `"metrics":[]`) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d reports that were acknowledged are gone", lost, len(victims))
	}
}

// hangingCalls has 4,000 calls made of an upstream that never answers. There
// are ceilings for them, which leave room for all that calls nobody.
func hangingCalls(t *testing.T, s *siege) {
	const calls = 4000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*calls {
		t.Skipf("the test needs %d descriptors, and has %d (%v)", 3*calls, limit.Cur, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	var wait sync.WaitGroup
	var answered, unanswered atomic.Int64
	statuses := make(map[string]int)
	var mu sync.Mutex
	for range calls {
		wait.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/endpoints", strings.NewReader(`{"key":"hang"}`))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+attackerKey)
			response, err := client.Do(request)
			if err != nil {
				if ctx.Err() == nil {
					unanswered.Add(1)
				}
				return
			}
			defer response.Body.Close()
			var failure struct {
				Error struct{ Code string }
			}
			_ = json.NewDecoder(response.Body).Decode(&failure)
			what := fmt.Sprintf("%d %s", response.StatusCode, failure.Error.Code)
			if response.Header.Get("Retry-After") == "" {
				what += " without Retry-After"
			}
			mu.Lock()
			statuses[what]++
			mu.Unlock()
			answered.Add(1)
		})
	}
	// A call is held, or it is told that it can't be.
	if err := until(30*time.Second, func() bool { return answered.Load()+unanswered.Load()+s.upstream.hanging.Load() >= calls }); err != nil {
		t.Errorf("%d calls hang, %d were answered, %d broke: the others wait, %v", s.upstream.hanging.Load(), answered.Load(), unanswered.Load(), err)
	}
	held := s.upstream.hanging.Load()
	if held == 0 || held > 2048 {
		t.Errorf("%d calls are held with 4,096 descriptors", held)
	}
	if n := unanswered.Load(); n > 0 {
		t.Errorf("%d calls got no answer", n)
	}
	// Meanwhile the same key gets all that calls nobody.
	for path, body := range map[string]string{"/v1/prompts": `{"keys":["calm"]}`, "/v1/remoteconfigs": `{"keys":["calm"]}`, "/v1/metrics": `{"score":1}`} {
		if r := s.ask(t, attackerKey, path, body); r.status != http.StatusOK {
			t.Errorf("%s, of the same key: %s", path, r)
		}
	}
	time.Sleep(time.Second) // of the witness
	mu.Lock()
	for what := range statuses {
		if what != "429 rate_limited" && what != "503 overloaded" {
			t.Errorf("%d calls were answered %s", statuses[what], what)
		}
	}
	t.Logf("%d calls held, %v", held, statuses)
	mu.Unlock()
	cancel()
	wait.Wait()
	if err := until(20*time.Second, func() bool { return s.upstream.hanging.Load() == 0 }); err != nil {
		t.Errorf("%d calls are still held when all callers have left", s.upstream.hanging.Load())
	}
}

// switchedProtocols calls an upstream that answers 101, which net/http takes out
// of a request's hands.
func switchedProtocols(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	for _, stream := range []bool{false, true} {
		for _, endpoint := range []string{"switching", "switching_fallback"} {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second+ceilings.patience)
				defer cancel()
				r, err := s.send(ctx, attackerKey, "/v1/endpoints", strings.NewReader(fmt.Sprintf(`{"key":%q,"stream":%v}`, endpoint, stream)))
				failed := r.status == http.StatusBadGateway || r.status == http.StatusGatewayTimeout || r.status == http.StatusServiceUnavailable
				if endpoint == "switching_fallback" {
					failed = r.status == http.StatusOK && strings.Contains(r.body, "Later.")
				}
				if err != nil || !failed {
					t.Errorf("%s, stream %v: %v %s", endpoint, stream, err, r)
				}
			})
		}
	}
	wait.Wait()
	if err := until(ceilings.patience, func() bool { return s.upstream.hanging.Load() == 0 }); err != nil {
		t.Errorf("%d connections to the upstream are still open when all calls have ended", s.upstream.hanging.Load())
	}
}

// endlessUpstreams calls upstreams that never come to an end, or never begin.
func endlessUpstreams(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	for _, endpoint := range []string{"endless_header", "endless_error", "endless_line", "endless_event", "endless_events", "endless_body", "drip"} {
		for i := range 16 {
			wait.Go(func() {
				stream := i%2 == 0
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second+2*ceilings.patience)
				defer cancel()
				r, err := s.send(ctx, attackerKey, "/v1/endpoints", strings.NewReader(fmt.Sprintf(`{"key":%q,"stream":%v}`, endpoint, stream)))
				if ctx.Err() != nil {
					t.Errorf("%s, stream %v: no end: %v %s", endpoint, stream, err, r)
				}
				if strings.Contains(r.body, `"is_final":true`) {
					t.Errorf("%s, stream %v: passed for an answer: %s", endpoint, stream, r)
				}
				if r.status != http.StatusOK && r.status/100 != 5 {
					t.Errorf("%s, stream %v: %s", endpoint, stream, r)
				}
			})
		}
	}
	wait.Wait()
}

// largeModel calls an upstream whose answers say that a model of 8 MiB made
// them. Lists of traces name the model.
func largeModel(t *testing.T, s *siege) {
	for range 12 {
		r := s.ask(t, attackerKey, "/v1/endpoints", `{"key":"large_model"}`)
		if served := r.header.Get("Cadenza-Served-By"); r.status != http.StatusOK || len(served) > 1024 {
			t.Fatalf("a model of 8 MiB: %s", r)
		}
	}
	if err := until(ceilings.patience, func() bool {
		_, text := s.get(t, "/cadenza/traces?workspace=alpha&key=large_model&limit=100")
		if int64(len(text)) > ceilings.list {
			t.Errorf("a page of traces has %d MB", len(text)/1e6)
			return true
		}
		return strings.Count(text, `"trace_id"`) == 12
	}); err != nil {
		t.Errorf("the traces are not listed: %v", err)
	}
}

// explodingDefinitions has workspace beta's author save what is small on disk.
func explodingDefinitions(t *testing.T, s *siege) {
	chain := func(levels, rows int) map[string]string {
		files := make(map[string]string)
		for i := range levels {
			text := "type: boolean\ndefault: false\n"
			if i > 0 {
				text += "rules:\n"
				for row := range rows {
					text += fmt.Sprintf("  - { when: { config: { c%d: true }, s: v%d }, value: true }\n", i-1, row)
				}
			} else {
				text += "rules: [ { when: { s: yes }, value: true } ]\n"
			}
			files[fmt.Sprintf("remoteconfigs/c%d.yaml", i)] = text
		}
		return files
	}
	aliases := func(text string, texts, n int) string {
		var b strings.Builder
		b.WriteString("type: list\ndefault:\n")
		for i := range texts {
			fmt.Fprintf(&b, "  - &a%d %s\n", i, text)
		}
		for i := range n {
			fmt.Fprintf(&b, "  - *a%d\n", i%texts)
		}
		return b.String()
	}
	many := make(map[string]string)
	for i := range 50 {
		many[fmt.Sprintf("remoteconfigs/m%d.yaml", i)] = aliases(strings.Repeat("t", 900), 90, 1090)
	}
	expressions := "fields: { s: { type: string } }\ncomputed:\n  c0: s + s\n"
	for i := 1; i < 27; i++ {
		expressions += fmt.Sprintf("  c%d: c%d + c%d\n", i, i-1, i-1)
	}
	bombs := []struct {
		name   string
		files  map[string]string
		served bool   // it must be
		ask    string // for a key, once it is served
	}{
		{name: "one text of 1 MB, a thousand times", files: map[string]string{"remoteconfigs/bomb.yaml": aliases(strings.Repeat("t", 1_000_000), 1, 1000)}},
		{name: "90 texts in each of 50 files, 1,090 times", files: many},
		{name: "40 levels that ask the one below twice", files: chain(40, 2), ask: "c39"},
		{name: "30 levels of 20 rows", files: chain(30, 20), served: true, ask: "c29"},
		{name: "a: a: a", files: map[string]string{"remoteconfigs/bomb.yaml": "type: object\ndefault: " + strings.Repeat("a: ", 700_000) + "\n"}},
		{name: "lists in lists", files: map[string]string{"remoteconfigs/bomb.yaml": "type: list\ndefault: " + strings.Repeat("[", 1_000_000) + "\n"}},
		{name: "a list of 1.9 million", files: map[string]string{"remoteconfigs/bomb.yaml": "type: list\ndefault: [" + strings.Repeat("1,", 1_900_000) + "1]\n"}},
		{name: "ten lists of a million", files: func() map[string]string {
			files := make(map[string]string)
			for i := range 10 {
				files[fmt.Sprintf("remoteconfigs/bomb%d.yaml", i)] = "type: list\ndefault: [" + strings.Repeat("1,", 1_000_000) + "1]\n"
			}
			return files
		}()},
		{name: "a text doubled 27 times", files: map[string]string{
			"context.yaml":           expressions,
			"remoteconfigs/cel.yaml": "type: string\ndefault: a\nrules: [ { when: { c26: x }, value: b } ]\n",
		}, ask: "cel"},
	}
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) {
			files := s.generation()
			for name, text := range bomb.files {
				files[name] = text
			}
			s.resetPeak()
			refusals := s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`)
			began := time.Now()
			s.serveBeta(t, files)
			served := false
			err := until(ceilings.load, func() bool {
				served = s.serves(t)
				return served || s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`) > refusals
			})
			took := time.Since(began).Round(time.Millisecond)
			switch {
			case err != nil:
				t.Errorf("neither served nor refused: %v", err)
			case bomb.served && !served:
				t.Error("refused, and it is legal")
			}
			if served && bomb.ask != "" {
				ctx, cancel := context.WithTimeout(t.Context(), ceilings.patience)
				defer cancel()
				body := fmt.Sprintf(`{"keys":[%q],"context":{"s":%q}}`, bomb.ask, strings.Repeat("x", 1000))
				if r, err := s.send(ctx, betaKey, "/v1/remoteconfigs", strings.NewReader(body)); err != nil || r.status != http.StatusOK {
					t.Errorf("asked for %s: %v %s", bomb.ask, err, r)
				}
			}
			s.serveBeta(t, s.generation())
			if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
				t.Errorf("a set that is good is not served afterwards: %v", err)
			}
			s.holds(t)
			t.Logf("served %v after %s", served, took)
		})
		if s.gone() {
			return
		}
	}
}

// pipedDefinition has a named pipe stand where the data model is. Whoever opens
// one waits for a writer.
func pipedDefinition(t *testing.T, s *siege) {
	for _, name := range []string{"context.yaml", "remoteconfigs/pipe.yaml"} {
		folder, err := os.MkdirTemp(s.folder, "set")
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range s.generation() {
			if file != name {
				write(t, folder, file, text)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(folder, name), 0o600); err != nil {
			t.Fatal(err)
		}
		refusals := s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`)
		s.swapBeta(t, folder)
		if err := until(ceilings.load, func() bool {
			return s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`) > refusals
		}); err != nil {
			t.Fatalf("a pipe for %s is not refused: %v", name, err)
		}
		s.serveBeta(t, s.generation())
		if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
			t.Errorf("a set that is good is not served after a pipe for %s: %v", name, err)
		}
	}
}

// strayFiles leaves files among the definitions that are none.
func strayFiles(t *testing.T, s *siege) {
	folder, err := os.MkdirTemp(s.folder, "set")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range s.generation() {
		write(t, folder, file, text)
	}
	for i := range 10_000 {
		write(t, folder, fmt.Sprintf("remoteconfigs/stray%05d.txt", i), "")
	}
	before := strings.Count(s.output.String(), "\n")
	s.swapBeta(t, folder)
	if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
		t.Errorf("stray files keep definitions from being served: %v", err)
	}
	time.Sleep(500 * time.Millisecond) // for the last lines
	if lines := strings.Count(s.output.String(), "\n") - before; lines > ceilings.logLines {
		t.Errorf("10,000 stray files made %d lines of the log", lines)
	}
}

// slowPatterns asks for a configuration whose patterns take long on a text of
// 1 MiB, several times at once.
func slowPatterns(t *testing.T, s *siege) {
	body := `{"keys":["slow"],"context":{"s":"` + strings.Repeat("ab", 500_000) + `"}}`
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), ceilings.patience)
			defer cancel()
			if r, err := s.send(ctx, attackerKey, "/v1/remoteconfigs", strings.NewReader(body)); err != nil || r.status != http.StatusOK {
				t.Errorf("a text of 1 MB: %v %s", err, r)
			}
		})
	}
	wait.Wait()
}

// drippingBodies sends bodies a byte at a time, whose deadline is their own.
func drippingBodies(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	var read atomic.Int64
	for range 20 {
		wait.Go(func() {
			conn, err := net.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sContent-Length: 10000\r\n\r\n{", s.head("/v1/remoteconfigs", attackerKey))
			ended := make(chan error, 1)
			go func() {
				_ = conn.SetReadDeadline(time.Now().Add(ceilings.dripping))
				_, err := io.Copy(io.Discard, conn)
				ended <- err
			}()
			for {
				select {
				case err := <-ended:
					if errors.Is(err, os.ErrDeadlineExceeded) {
						read.Add(1)
					}
					return
				case <-time.After(time.Second):
					_, _ = conn.Write([]byte(" "))
				}
			}
		})
	}
	wait.Wait()
	if n := read.Load(); n > 0 {
		t.Errorf("%d of 20 bodies that drip are still read after %s", n, ceilings.dripping)
	}
}

// announcedBodies announces bodies to requests that are refused before them. The
// error comes at once.
func announcedBodies(t *testing.T, s *siege) {
	tests := []struct {
		name, path, key, header string
		status                  int
	}{
		{"an unknown key", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Content-Length: 10000", http.StatusUnauthorized},
		{"an unknown key, in chunks", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Transfer-Encoding: chunked", http.StatusUnauthorized},
		{"an unknown key that expects", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Content-Length: 10000000\r\nExpect: 100-continue", http.StatusUnauthorized},
		{"an unknown path", "/v1/nothing", attackerKey, "Content-Length: 10000", http.StatusNotFound},
		{"a body that is too large", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000000", http.StatusRequestEntityTooLarge},
		{"a body that is too large and expected", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000000\r\nExpect: 100-continue", http.StatusRequestEntityTooLarge},
		{"an encoding", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000\r\nContent-Encoding: gzip", http.StatusUnsupportedMediaType},
	}
	var wait sync.WaitGroup
	for _, test := range tests {
		wait.Go(func() {
			conn, err := net.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s%s\r\n\r\n", s.head(test.path, test.key), test.header)
			if !strings.Contains(test.header, "Expect") {
				_, _ = conn.Write([]byte("1"))
			}
			_ = conn.SetReadDeadline(time.Now().Add(ceilings.patience))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != test.status || !response.Close {
				t.Errorf("%s: %s, the connection closes: %v", test.name, response.Status, response.Close)
			}
		})
	}
	wait.Wait()
}
