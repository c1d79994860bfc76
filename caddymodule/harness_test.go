package caddymodule_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/cadenza-gateway/cadenza"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/trace"
)

const testKey = gatewaytest.Key

// The tests share these with internal/gateway.
var (
	workspace    = gatewaytest.Definitions
	single       = gatewaytest.Single
	endpointWith = gatewaytest.EndpointWith
	newUpstream  = gatewaytest.NewUpstream
	chunk        = gatewaytest.Chunk
	completion   = gatewaytest.Completion
	events       = gatewaytest.Events
	eventually   = gatewaytest.Eventually
	ask          = gatewaytest.Ask
)

// options are the tests' options of the cadenza block. The provider "fake" has no key, so
// its targets are skipped.
const options = withoutFake + keylessFake

// keylessFake declares the tests' provider "fake" without a key.
const keylessFake = `
	provider fake openai {
		base_url http://127.0.0.1:9/v1
		api_key {env.CADENZA_TEST_NO_KEY}
	}
`

// withoutFake are the options without the provider "fake".
const withoutFake = `
	definitions {dir}/definitions
	store sqlite {dir}/data/cadenza.db
	api_key test {env.CADENZA_TEST_KEY}
	provider canned
`

// fakeProvider declares the tests' provider "fake" at a base URL.
func fakeProvider(url string) string {
	return withoutFake + "provider fake openai {\nbase_url " + url + "/v1\napi_key {env.CADENZA_TEST_KEY}\n}\n"
}

const question = `"variables":{"question":"Hi?"}`

// gateway is a real Caddy in this process, reached over a Unix socket. A process has
// only one Caddy, so tests that start one do not run in parallel.
type gateway struct {
	t      testing.TB
	dir    string // the directory of all files of the gateway
	socket string
	client *http.Client
	logs   string // a file
	level  string // of the logs
}

// startGateway starts Caddy with a cadenza block of the given options, and
// stops it when the test ends. In the options {dir} is the test's directory.
func startGateway(t testing.TB, files map[string]string, options string) *gateway {
	t.Helper()
	// The path of a Unix socket must be short; t.TempDir's may be long.
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &gateway{t: t, dir: dir, socket: filepath.Join(dir, "s"), logs: filepath.Join(dir, "log"), level: "DEBUG"}
	if _, benchmark := t.(*testing.B); benchmark {
		g.level = "ERROR"
	}
	for name, content := range files {
		g.write(name, content)
	}
	store := filepath.Join(dir, "data", "cadenza.db")
	if _, err := os.Stat(filepath.Dir(store)); err != nil && strings.Contains(options, "{dir}/data/cadenza.db") {
		gatewaytest.PutEmptyStore(t, store)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.socket)
		},
		DisableCompression: true,
	}
	g.client = &http.Client{Transport: transport}
	t.Setenv("CADENZA_TEST_KEY", testKey)
	if err := g.load(options); err != nil {
		t.Fatal(err)
	}
	if len(servers()) == 0 {
		t.Fatal("no server is found: Caddy starts them in another way")
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
		gatewaytest.Eventually(t, "what Caddy's stop leaves to the background has ended", ended)
		logs, err := os.ReadFile(g.logs)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		gatewaytest.CheckLogs(t, logs)
		if t.Failed() {
			t.Logf("gateway's log:\n%s", logs)
		}
	})
	return g
}

// caddyfile returns a complete Caddyfile with the options in its cadenza block.
func (g *gateway) caddyfile(options string) string {
	return fmt.Sprintf(`{
	admin off
	auto_https off
	persist_config off
	log {
		output file %s
		level %s
	}
	cadenza {
%s
	}
}
http:// {
	bind unix/%s
	cadenza
}
`, g.logs, g.level, strings.ReplaceAll(options, "{dir}", g.dir), g.socket)
}

func (g *gateway) load(options string) error {
	return g.loadText(g.caddyfile(options))
}

// loadText loads a configuration and waits until it answers.
func (g *gateway) loadText(caddyfile string) error {
	return g.reload(func() error { return loadCaddyfile(caddyfile) })
}

// reload waits until the servers of the configuration that load ended accept no connections:
// those of the previous one, or of one that failed in a Start after its servers had begun.
// Caddy's Load only waits until they begin to stop.
func (g *gateway) reload(load func() error) error {
	former := servers()
	err := load()
	gatewaytest.Eventually(g.t, "the servers that were ended have stopped", func() bool {
		for id := range servers() {
			if former[id] == (err == nil) {
				return false
			}
		}
		return true
	})
	if err == nil {
		g.client.CloseIdleConnections()
	}
	return err
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			return string(text[:n])
		}
		text = make([]byte, 2*len(text))
	}
}

// ended reports whether the stores, caches and sinks of all former configurations are closed.
// Caddy does not wait for that. Until then they are in the metrics, and write to the log.
func ended() bool {
	running := stacks()
	for _, closing := range []string{"caddymodule.(*sharedStore).Destruct", "caddymodule.(*sharedMemory).Destruct", "gateway.(*Gateway).StopSinks"} {
		if strings.Contains(running, closing) {
			return false
		}
	}
	return true
}

// servers returns the numbers of the goroutines that accept connections for Caddy's HTTP
// servers.
func servers() map[string]bool {
	found := make(map[string]bool)
	for stack := range strings.SplitSeq(stacks(), "\n\n") {
		if strings.Contains(stack, "created by github.com/caddyserver/caddy/v2/modules/caddyhttp.(*App).Start") {
			id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
			found[id] = true
		}
	}
	return found
}

func loadCaddyfile(text string) error {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// write writes a file in the gateway's directory. It replaces an old one atomically.
func (g *gateway) write(name, content string) {
	g.t.Helper()
	gatewaytest.Write(g.t, g.dir, name, content)
}

// answer is a completely read response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ok ends the test unless the answer is a success. about describes the request.
func (a answer) ok(t testing.TB, about ...any) answer {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %.500s", fmt.Sprint(about...), a.status, a.body)
	}
	return a
}

// json decodes the body, which must be a JSON object.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	return gatewaytest.Object(t, a.body)
}

// post sends a body with the test's key.
func (g *gateway) post(path, body string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, path, body, http.Header{"Authorization": {"Bearer " + testKey}})
}

func (g *gateway) do(method, path, body string, header http.Header) answer {
	g.t.Helper()
	read := gatewaytest.Do(g.t, g.client, method, path, body, header)
	return answer{read.Status, read.Header, read.Body}
}

func (g *gateway) send(ctx context.Context, method, path, body string, header http.Header) (*http.Response, error) {
	return gatewaytest.Send(ctx, g.client, method, path, body, header)
}

// trace reads a trace from a store's file.
func (g *gateway) trace(store, id string) (*trace.Record, bool) {
	g.t.Helper()
	return gatewaytest.Trace(g.t, filepath.Join(g.dir, store), id)
}

// metrics reads the reports on a trace from a store's file.
func (g *gateway) metrics(store, id string) []trace.Metrics {
	g.t.Helper()
	return gatewaytest.Metrics(g.t, filepath.Join(g.dir, store), id)
}

// loadJSON adapts a Caddyfile with these options to JSON, replaces a part of it, and loads it.
func (g *gateway) loadJSON(options, old, replacement string) error {
	g.t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(g.caddyfile(options)), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.reload(func() error { return caddy.Load(bytes.Replace(config, []byte(old), []byte(replacement), 1), true) })
}

// checkError checks an answer against the contract of errors.
func checkError(t *testing.T, a answer, code, param string) {
	t.Helper()
	gatewaytest.CheckError(t, gatewaytest.Answer{Status: a.status, Header: a.header, Body: a.body}, code, param)
}

// database opens the store's file as another process would.
func (g *gateway) database() *sql.DB {
	g.t.Helper()
	return gatewaytest.Database(g.t, filepath.Join(g.dir, "data/cadenza.db"))
}
