package caddymodule_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestEditUnderLoad(t *testing.T) {
	g := startGateway(t, workspace, options)
	config := func(n int) string {
		return fmt.Sprintf("type: number\ndefault: %d\n", n)
	}
	g.write("definitions/remoteconfigs/counter.yaml", config(0))
	get := func() (int, error) {
		response, err := g.send(context.Background(), "POST", "/v1/remoteconfigs", `{"keys":["counter"]}`, http.Header{"Authorization": {"Bearer " + testKey}})
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%d %s", response.StatusCode, body)
		}
		var got map[string]struct{ Value int }
		if err := json.Unmarshal(body, &got); err != nil {
			return 0, err
		}
		return got["counter"].Value, nil
	}
	eventually(t, "the new definition is served", func() bool { _, err := get(); return err == nil })

	var wait sync.WaitGroup
	var requests, failures atomic.Int64
	stop := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			last := 0
			for {
				select {
				case <-stop:
					return
				default:
				}
				n, err := get()
				requests.Add(1)
				if err != nil || n < last {
					failures.Add(1)
					t.Errorf("after %d: %d, %v", last, n, err)
					return
				}
				last = n
			}
		})
	}
	var late []time.Duration
	for n := 1; n <= 8; n++ {
		// Each edit has requests before it.
		eventually(t, "there is load", func() bool { return requests.Load() >= int64(13*n) })
		saved := time.Now()
		g.write("definitions/remoteconfigs/counter.yaml", config(n))
		eventually(t, fmt.Sprintf("edit %d is served", n), func() bool { got, err := get(); return err == nil && got == n })
		if took := time.Since(saved); took > time.Second {
			late = append(late, took)
		}
	}
	// Other work on the machine may delay a request.
	if len(late) > 2 {
		t.Errorf("of 8 edits these were served late: %s", late)
	}

	// A broken edit is refused with its place, and the old answers stay.
	g.write("definitions/remoteconfigs/counter.yaml", "type: number\ndefalt: 9\n")
	eventually(t, "the refusal is logged", func() bool {
		logs, err := os.ReadFile(g.logs)
		return err == nil && strings.Contains(string(logs), `counter.yaml","line":2,"column":1,"mistake":"unknown member \"defalt\"`)
	})
	if n, err := get(); n != 8 || err != nil {
		t.Errorf("after a broken edit: %d, %v", n, err)
	}
	close(stop)
	wait.Wait()
	// A reload of Caddy reads the invalid directory, and returns the error. (The load on
	// the gateway has stopped: Caddy closes idle connections during a reload.)
	if err := g.load(options + "log content\n"); err == nil || !strings.Contains(err.Error(), "counter.yaml:2:1: ") {
		t.Errorf("reload with broken definitions: %v", err)
	}
	if n, err := get(); n != 8 || err != nil {
		t.Errorf("after the reload: %d, %v", n, err)
	}
	// A reload right after an edit includes it, whether the watcher has seen it or not.
	g.write("definitions/remoteconfigs/counter.yaml", config(9))
	if err := g.load(options + "log content\n"); err != nil {
		t.Error(err)
	}
	if n, err := get(); n != 9 || err != nil {
		t.Errorf("after the reload with mended definitions: %d, %v", n, err)
	}
	g.write("definitions/remoteconfigs/counter.yaml", "type: nothing\n")
	if err := g.load(options + "log none\n"); err == nil || !strings.Contains(err.Error(), "counter.yaml:1:7: ") {
		t.Errorf("reload at once after a broken edit: %v", err)
	}
	g.write("definitions/remoteconfigs/counter.yaml", config(10))
	eventually(t, "the mended edit is served", func() bool { n, err := get(); return err == nil && n == 10 })
	t.Logf("%d requests, %d failures", requests.Load(), failures.Load())
}

func TestReloadDuringStream(t *testing.T) {
	next := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("before", ""))
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, chunk(" after", "stop")+"data: [DONE]\n\n")
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	response, err := g.send(context.Background(), "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, http.Header{"Authorization": {"Bearer " + testKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "before") {
		t.Fatalf("%q, %v", line, err)
	}
	id := response.Header.Get("Cadenza-Trace-Id")
	// The store has another path now; the stream's store stays open until the stream ends.
	moved := strings.Replace(fakeProvider(u.URL), "data/cadenza.db", "data/other.db", 1) + "trace_key {env.CADENZA_TEST_KEY}\n"
	for i := range 3 {
		if err := g.load(moved + fmt.Sprintf("max_body_size %dKiB\n", 10+i)); err != nil {
			t.Fatal(err)
		}
	}
	close(next)
	rest := events(t, reader)
	if len(rest) != 3 || !strings.Contains(rest[0], " after") || rest[2] != "[DONE]" {
		t.Errorf("the rest of the stream is %q", rest)
	}
	eventually(t, "the stream's trace is in the store that it began with", func() bool {
		record, ok := g.trace("data/cadenza.db", id)
		return ok && record.State == trace.StateEnded && record.Status == http.StatusOK
	})
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "after the reload")
}

func TestFailedReloadLeavesEverything(t *testing.T) {
	g := startGateway(t, workspace, options)
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	for name, broken := range map[string]string{
		"a missing key":           strings.Replace(options, "CADENZA_TEST_KEY", "CADENZA_TEST_UNSET", 1),
		"a missing directory":     strings.Replace(options, "/definitions", "/nothing", 1),
		"an unknown option":       options + "retries 3\n",
		"a key that is no secret": options + "api_key other 0123456789abcdef\n",
	} {
		if err := g.load(broken); err == nil {
			t.Errorf("%s: the reload succeeded", name)
		}
	}
	g.post("/v1/metrics", `{"trace_id":"`+id+`","score":1}`).ok(t, "afterwards")
}

func TestConfigurationErrorsSayWhatToDo(t *testing.T) {
	g := startGateway(t, workspace, options)
	for _, test := range []struct{ name, options, want string }{
		{"unset variable", strings.Replace(options, "CADENZA_TEST_KEY", "CADENZA_TEST_UNSET", 1), "{env.CADENZA_TEST_UNSET} is empty"},
		{"no key", strings.Replace(options, "api_key test {env.CADENZA_TEST_KEY}", "", 1), "api_key"},
		{"literal key", options + "api_key other 0123456789abcdef\n", "a secret must be a reference"},
		{"expanded variable", options + "api_key other {$CADENZA_TEST_KEY}\n", "a secret must be a reference"},
		{"misspelled option", options + "definitons x\n", `did you mean "definitions"`},
		{"option's line", options + "definitons x\n", "Caddyfile:"},
		{"no definitions", strings.Replace(options, "definitions {dir}/definitions", "", 1), "definitions is required"},
		{"another store", strings.Replace(options, "sqlite", "mysql", 1), "the store is sqlite"},
		{"unknown provider", options + "provider x nothing\n", `provider x names no module: the word after its name must be one of anthropic, azure`},
	} {
		err := g.load(test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%s: the error repeats the secret: %v", test.name, err)
		}
	}
}
