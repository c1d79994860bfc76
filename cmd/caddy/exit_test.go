package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// slowWorkspace has an endpoint whose answer takes about a minute.
func slowWorkspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"definitions/prompts/slow.yaml": "provider: canned\nmessages: [ { role: user, content: hello } ]\n" +
			"extra: { pace: 100ms, answer: \"" + strings.Repeat("word ", 600) + "\" }\n",
		"definitions/endpoints/slow.yaml": "prompt: slow\n",
		"Caddyfile": `{
	admin off
	persist_config off
	grace_period 2s
	cadenza {
		definitions ` + dir + `/definitions
		store sqlite ` + dir + `/cadenza.db
		api_key app {env.CADENZA_API_KEY}
		provider canned
	}
}
{$CADENZA_ADDRESS} {
	cadenza
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// openStream opens a stream of the slow endpoint and reads its first event.
func openStream(t *testing.T, p *process) (*http.Response, *bufio.Reader) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, p.url+"/v1/endpoints", strings.NewReader(`{"key":"slow","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+demoKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	reader := bufio.NewReader(response.Body)
	if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("first line %q, %v", line, err)
	}
	return response, reader
}

// storedTrace returns a stored trace, or nil.
func storedTrace(t *testing.T, dir, id string) *trace.Record {
	t.Helper()
	parsed, ok := trace.ParseID(id)
	if !ok {
		t.Fatalf("%q is no trace id", id)
	}
	reader, err := sqlite.OpenReader(context.Background(), filepath.Join(dir, "cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	record, err := reader.Trace(context.Background(), parsed)
	if errors.Is(err, sqlite.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatalf("the trace %s: %v", id, err)
	}
	return record
}

// TestExitEndsStreamsByTheirErrorEvent stops the gateway during a stream: the client gets the
// error event before the grace period cuts the connection, and the trace is stored.
func TestExitEndsStreamsByTheirErrorEvent(t *testing.T) {
	t.Parallel()
	dir := slowWorkspace(t)
	p := newProcess(t, dir)
	p.startWith(filepath.Join(dir, "Caddyfile"))
	response, reader := openStream(t, p)
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	_, err := reader.WriteTo(&text)
	if err == nil {
		t.Error("the stream ended cleanly: a client may take it for complete")
	}
	if got := text.String(); !strings.Contains(got, "event: error\n") || !strings.Contains(got, `"upstream_interrupted"`) ||
		strings.Contains(got, `"is_final":true`) || strings.Contains(got, "[DONE]") {
		t.Errorf("the stream ended with %q", got[max(0, len(got)-300):])
	}
	select {
	case <-p.exited:
	case <-time.After(gatewaytest.Patience):
		t.Fatal("the process goes on")
	}
	record := storedTrace(t, dir, response.Header.Get("Cadenza-Trace-Id"))
	if record == nil || record.State != trace.StateEnded || record.Code != "upstream_interrupted" {
		t.Errorf("the trace is %v with code %q", record.State, record.Code)
	}
}

// TestCrashShowsUpstreamCallAsInterrupted kills the gateway during a stream. The next
// start finds the running call.
func TestCrashShowsUpstreamCallAsInterrupted(t *testing.T) {
	dir := slowWorkspace(t)
	p := newProcess(t, dir)
	p.startWith(filepath.Join(dir, "Caddyfile"))
	response, _ := openStream(t, p)
	id := response.Header.Get("Cadenza-Trace-Id")
	// The call waits 20 ms for its record, and goes on without it on a busy machine.
	p.eventually("the start of the call is on the disk", func() bool {
		parsed, _ := trace.ParseID(id)
		calls, err := os.ReadFile(filepath.Join(dir, "cadenza.db-calls"))
		return err == nil && bytes.Contains(calls, parsed[:])
	})
	p.kill()
	if record := storedTrace(t, dir, id); record != nil {
		t.Errorf("after the crash the trace is %v", record.State)
	}
	p.startWith(filepath.Join(dir, "Caddyfile"))
	var record *trace.Record
	p.eventually("the next start stores the trace", func() bool {
		record = storedTrace(t, dir, id)
		return record != nil
	})
	if record.State != trace.StateInterrupted || record.Status != 0 || record.Key == "" {
		t.Errorf("after the next start: %+v", record)
	}
	// Metrics can still be reported on the trace.
	status, _, body, err := post(context.Background(), http.DefaultClient, p.url+"/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"score":1}`, id))
	if err != nil || status != http.StatusOK {
		t.Errorf("metrics of an interrupted trace: %d %s %v", status, body, err)
	}
}
