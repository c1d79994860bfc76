package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// largeRecords sends large contexts and metadata, which are recorded for each of a
// hundred keys.
func largeRecords(t *testing.T, s *siege) {
	db, err := sql.Open("sqlite", filepath.Join(s.data, "cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// The write-ahead log is not counted: it may have the same page many times.
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

	// The traces of another caller must all be stored afterwards.
	var mu sync.Mutex
	var others []string
	var wait sync.WaitGroup
	if err := until(gatewaytest.Patience, func() bool { return s.metric(t, "cadenza_store_queue_records") == 0 }); err != nil {
		t.Errorf("what was recorded before is not written: %v", err)
	}
	time.Sleep(time.Second) // until the last records are committed
	before := size()
	const requests, metadata = 100, 15 << 10
	sent := int64(0)
	for i := range requests {
		body := `{"keys":` + keys + `,"metadata":{"a":"` + strings.Repeat("m", metadata) + `"}}`
		if i%10 == 0 {
			// The sum of a request's records has a ceiling.
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
	if err := until(gatewaytest.Patience, func() bool { return s.metric(t, "cadenza_store_queue_records") == 0 }); err != nil {
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
	if err := until(gatewaytest.Patience, func() bool { return lost() == 0 }); err != nil { // records in a commit have left the queue
		t.Errorf("%d of %d traces of another workspace were lost", lost(), len(others))
	}
	// There is a row for each key, and one for the shared content.
	if grown, allowed := size()-before, 3*sent+requests*hundred*1500; grown > allowed {
		t.Errorf("%d MB of requests made the store grow by %d MB, more than %d MB", sent/1e6, grown/1e6, allowed/1e6)
	}
}

// keeping returns definitions with an endpoint whose answers are stored. They are
// small, because the store has the definitions, too.
func keeping() map[string]string {
	files := light()
	files["prompts/p_kept.yaml"] = "provider: canned\nmodel: m\nextra: { answer: " + strings.Repeat("k", 20<<10) + " }\nmessages: [ { role: user, content: hello } ]\n"
	files["endpoints/kept.yaml"] = "prompt: p_kept\nidempotency: true\nlog: none\n"
	return files
}

// manyReplies fills a store with a maximum of 2 MiB with answers for idempotency
// keys. The acknowledged metrics of another caller must stay.
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
	// The store runs its maintenance when it opens, and each minute.
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
