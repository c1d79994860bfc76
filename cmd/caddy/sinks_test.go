package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startWorkspaces runs a gateway with these workspaces, whose keys are cadenza-key-of-NAME.
func startWorkspaces(t *testing.T, options func(name string) string, names []string, environ ...string) *process {
	t.Helper()
	var workspaces strings.Builder
	for _, name := range names {
		fmt.Fprintf(&workspaces, "workspace %[1]s {\ndefinitions {$CADENZA_ROOT}/examples/definitions\napi_key app {env.CADENZA_KEY_%[1]s}\nprovider openai {\napi_key {env.OPENAI_API_KEY}\n}\nprovider canned\n%[2]s\n}\n", name, options(name))
		environ = append(environ, "CADENZA_KEY_"+name+"=cadenza-key-of-"+name)
	}
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\nadmin off\npersist_config off\ngrace_period 2s\ncadenza {\n" + workspaces.String() + "}\n}\n{$CADENZA_ADDRESS} {\ncadenza\n}\n"
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, t.TempDir(), environ...)
	p.startWith(caddyfile)
	return p
}

// ask asks a workspace for a configuration and returns the trace id.
func (p *process) ask(workspace string) string {
	p.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url+"/v1/remoteconfigs", strings.NewReader(`{"keys":["banner_text"]}`))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer cadenza-key-of-"+workspace)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		p.t.Fatalf("workspace %s: %d", workspace, response.StatusCode)
	}
	return response.Header.Get("Cadenza-Trace-Id")
}

// terminate stops the process and returns the duration.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	<-p.exited
	return time.Since(began)
}

// TestExitCopiesTheLastAnswers stops a gateway right after its last answers. The sinks of
// all workspaces must get them, also if workspaces share a store.
func TestExitCopiesTheLastAnswers(t *testing.T) {
	t.Parallel()
	dir, names := t.TempDir(), []string{"one", "two", "three"}
	p := startWorkspaces(t, func(name string) string {
		return fmt.Sprintf("store sqlite %s/shared.db\nsink file %s/%s.jsonl", dir, dir, name)
	}, names)
	// The sinks poll the store: answers between two polls must not wait for the
	// next start.
	time.Sleep(700 * time.Millisecond)
	answered := make(map[string]string) // the workspace of each trace
	for range 3 {
		for _, name := range names {
			answered[p.ask(name)] = name
		}
	}
	p.terminate()
	for id, name := range answered {
		content, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
		if err != nil || !strings.Contains(string(content), id) {
			t.Errorf("the sink of %s lacks %s: %v", name, id, err)
		}
	}
}

// TestExitWithSilentDatabases stops a gateway whose databases accept connections and never
// answer. The exit waits for all of them together, and logs the rows that they did not take.
func TestExitWithSilentDatabases(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			connection, err := silent.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
		}
	}()
	dir, names := t.TempDir(), []string{"one", "two", "three", "four"}
	p := startWorkspaces(t, func(name string) string {
		return fmt.Sprintf("store sqlite %s/%s.db\ntrace_key {env.CADENZA_TRACE_KEY}\nsink postgres {env.CADENZA_TEST_DATABASE}", dir, name)
	}, names, "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has", "CADENZA_TEST_DATABASE=postgres://user:verysecret@"+silent.Addr().String()+"/none")
	for _, name := range names {
		p.ask(name)
	}
	if took := p.terminate(); took > 12*time.Second {
		t.Errorf("the exit took %v", took)
	}
	output := p.output.String()
	if n := strings.Count(output, "has not taken everything"); n != len(names) {
		t.Errorf("%d of %d sinks are told to lack something:\n%s", n, len(names), output)
	}
	if strings.Contains(output, "verysecret") {
		t.Error("the log has the password")
	}
}
