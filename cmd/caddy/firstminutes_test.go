package main

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// with adds variables to the environment of the process.
func (p *process) with(variables ...string) *process {
	p.environ = append(p.environ, variables...)
	return p
}

// waitSaid waits until the output contains a text.
func (p *process) waitSaid(text string) {
	p.t.Helper()
	p.eventually(text+" is said", func() bool { return strings.Contains(p.output.String(), text) })
}

// TestAddressOfTheExample checks that the example serves plain HTTP at the configured
// address, and only there, and answers requests for any host.
func TestAddressOfTheExample(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"127.0.0.1:PORT", "localhost:PORT", ":PORT", "PORT", "http://127.0.0.1:PORT/"} {
		t.Run(form, func(t *testing.T) {
			p := newProcess(t, t.TempDir())
			port := p.url[strings.LastIndex(p.url, ":")+1:]
			p.with("CADENZA_ADDRESS=" + strings.ReplaceAll(form, "PORT", port))
			p.start()
			for _, host := range []string{"", "localhost", "127.0.0.1", "gateway.example.com", "127.0.0.1:1"} {
				request, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/v1/remoteconfigs", strings.NewReader(`{"keys":["banner_text"]}`))
				if err != nil {
					t.Fatal(err)
				}
				request.Host = host
				request.Header.Set("Authorization", "Bearer "+demoKey)
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusOK || response.Header.Get("Cadenza-Trace-Id") == "" {
					t.Errorf("Host %q: %d %v", host, response.StatusCode, response.Header)
				}
			}
			p.waitSaid(`"ready: open the address in a browser`)
			if log := p.output.String(); strings.Contains(log, "root certificate") || strings.Contains(log, "automatic TLS") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// TestBadAddressOfTheExample checks that an invalid address is an error that names the
// variable, and that nothing starts.
func TestBadAddressOfTheExample(t *testing.T) {
	for _, address := range []string{"https://gateway.example.com", "gateway.example.com, other.example.com", "127.0.0.1:x:1"} {
		p := newProcess(t, t.TempDir()).with("CADENZA_ADDRESS=" + address)
		p.run("run", "--config", "Caddyfile.example", "--adapter", "caddyfile")
		<-p.exited
		if log := p.output.String(); !strings.Contains(log, "invalid port 'CADENZA_ADDRESS is no address to listen on'") {
			t.Errorf("%s: %s", address, log)
		}
	}
}

// TestPortOfAnotherProcess checks that a second gateway on a port of the first one does not
// start, and says what to set. Caddy without Cadenza would share the port.
func TestPortOfAnotherProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows what other processes listen on")
	}
	first := newProcess(t, t.TempDir())
	first.start()
	for variable, taken := range map[string]string{"CADENZA_ADDRESS": first.url, "CADENZA_ADMIN": first.admin} {
		second := newProcess(t, t.TempDir()).with(variable + "=" + taken)
		second.run("run", "--config", "Caddyfile.example", "--adapter", "caddyfile")
		<-second.exited
		address := strings.TrimPrefix(taken, "http://")
		if log := second.output.String(); !strings.Contains(log, "another process listens on "+address) || !strings.Contains(log, variable) {
			t.Errorf("%s: %s", variable, log)
		}
	}
	// The port is no obstacle to a reload of the first.
	first.with("CADENZA_ADMIN=" + first.admin)
	reload := *first
	reload.run("reload", "--force", "--config", "Caddyfile.example", "--adapter", "caddyfile", "--address", first.admin)
	<-reload.exited
	if code := reload.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("reload: %d %s", code, reload.output)
	}
}

// TestInitRuns serves the files of `caddy cadenza init`, with the Caddyfile next to them,
// and runs a command that knows only CADENZA_ADMIN.
func TestInitRuns(t *testing.T) {
	dir := t.TempDir()
	p := newProcess(t, filepath.Join(dir, "data"))
	p.root = dir
	p.run("cadenza", "init", "definitions")
	<-p.exited
	if _, err := os.Stat(filepath.Join(dir, "Caddyfile")); err != nil {
		t.Fatalf("%v\n%s", err, p.output)
	}
	p.startWith("Caddyfile")
	status, _, body, err := post(t.Context(), http.DefaultClient, p.url+"/v1/endpoints", `{"key":"summarise","variables":{"text":"A text."}}`)
	if err != nil || status != http.StatusOK || !strings.Contains(body, "No summary is available") {
		t.Errorf("%d %s %v", status, body, err)
	}
	asking := *p
	asking.root = t.TempDir()
	asking.run("cadenza", "traces")
	<-asking.exited
	if output := asking.output.String(); !strings.Contains(output, "summarise") {
		t.Errorf("traces: %s", output)
	}
}
