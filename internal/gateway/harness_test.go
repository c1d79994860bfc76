package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	testKey  = gatewaytest.Key
	otherKey = "cadenza-other-key-0002"
)

// patience is the maximum time that a test waits for an event that should come at
// once. It is long enough for a busy machine.
const patience = 20 * time.Second

// Names that these tests share with the tests of caddymodule.
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

// gateway is a gateway in this process with its own store, keys and definitions,
// reached over HTTP. It shares nothing with the gateways of other tests.
type gateway struct {
	t       testing.TB
	dir     string // the directory of all files of the gateway
	logs    *logBuffer
	process *gw.Process
	memory  map[string]*gw.Memory // by the workspace's name
	store   *gw.Store
	source  *definition.Source
	current atomic.Pointer[gw.Gateway]
	server  *httptest.Server
	client  *http.Client

	reading sync.Mutex
	readers map[string]*reader // by the path of the store
}

// reader reads a store's file as another process would. It stays open until the gateway is
// stopped or the file is another: to open a file takes longer than to read a trace.
type reader struct {
	*sqlite.Reader
	file os.FileInfo
}

// A setting changes a configuration.
type setting func(g *gateway, c *gw.Config)

// options sets nothing: a gateway always has the workspace "default" with definitions, a
// store, the key testKey named "test" and the provider "canned".
func options(*gateway, *gw.Config) {}

// with changes the workspaces configured so far.
func with(change func(*gw.WorkspaceConfig)) setting {
	return func(_ *gateway, c *gw.Config) {
		for i := range c.Workspaces {
			change(&c.Workspaces[i])
		}
	}
}

// logContent sets the log policy that records everything.
var logContent = with(func(c *gw.WorkspaceConfig) { c.Log = definition.LogContent })

// withProvider declares a provider.
func withProvider(name string, provider providers.Provider) setting {
	return with(func(c *gw.WorkspaceConfig) { c.Providers[name] = provider })
}

// fakeProvider declares the tests' provider "fake" at a base URL.
func fakeProvider(url string) setting {
	return withProvider("fake", openaiProvider(url, openai.Quirks{}))
}

// openaiProvider is a provider at an OpenAI-compatible server.
func openaiProvider(url string, quirks openai.Quirks) providers.Provider {
	base, err := upstream.ParseBaseURL(url + "/v1")
	if err != nil {
		panic(err)
	}
	client, err := openai.New(openai.Config{Key: testKey, Quirks: quirks, Upstream: upstream.Config{BaseURL: base}})
	if err != nil {
		panic(err)
	}
	return client
}

// all combines settings into one.
func all(settings ...setting) setting {
	return func(g *gateway, c *gw.Config) {
		for _, set := range settings {
			set(g, c)
		}
	}
}

// withWorkspace adds a workspace with the store and the definitions of the
// others, and with keys by their names.
func withWorkspace(name string, keys map[string]string) setting {
	return func(g *gateway, c *gw.Config) { c.Workspaces = append(c.Workspaces, g.configure(name, keys)) }
}

// startGateway starts a gateway with these files, and stops it when the test ends.
func startGateway(t testing.TB, files map[string]string, settings ...setting) *gateway {
	t.Helper()
	// The path of a Unix socket must be short; t.TempDir's may be long.
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &gateway{t: t, dir: dir, logs: new(logBuffer), process: gw.NewProcess()}
	for name, content := range files {
		g.write(name, content)
	}
	if _, taken := files["data"]; !taken { // as where there can be no store
		gatewaytest.PutEmptyStore(t, filepath.Join(dir, "data/cadenza.db"))
	}
	g.open()
	g.load(settings...)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	g.server = &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: http.HandlerFunc(g.serve), ErrorLog: log.New(io.Discard, "", 0),
	}}
	g.server.Start()
	g.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
		},
		DisableCompression: true,
	}}
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		g.server.CloseClientConnections()
		g.server.Close()
		g.close()
		gatewaytest.CheckLogs(t, g.logs.Bytes())
		if t.Failed() {
			t.Logf("gateway's log:\n%s", g.logs.Bytes())
		}
	})
	return g
}

func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	g.current.Load().Serve(w, r, r.URL.Path)
}

// open creates the objects that outlive a configuration.
func (g *gateway) open() {
	g.t.Helper()
	g.memory = make(map[string]*gw.Memory)
	g.store = g.process.NewStore(filepath.Join(g.dir, "data/cadenza.db"), g.storeLogger())
	g.source = definition.OpenAnyway(filepath.Join(g.dir, "definitions"))
}

// configure returns the configuration of a workspace.
func (g *gateway) configure(name string, keys map[string]string) gw.WorkspaceConfig {
	g.t.Helper()
	if g.memory[name] == nil {
		memory, err := gw.NewMemory()
		if err != nil {
			g.t.Fatal(err)
		}
		g.memory[name] = memory
	}
	c := gw.WorkspaceConfig{
		Name: name, Logger: g.logger(), Source: g.source, Store: g.store, Memory: g.memory[name],
		Providers: map[string]providers.Provider{"canned": &canned.Provider{Pace: canned.DefaultPace}},
		InFlight:  inflight.Limits{}.WithDefaults(inflight.Descriptors()),
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		file := name + "." + key + ".key"
		g.write(file, keys[key])
		c.APIKeys = append(c.APIKeys, gw.APIKey{Name: key, Key: secret.Reference("{file." + filepath.Join(g.dir, file) + "}")})
	}
	return c
}

// load replaces the configuration, like a reload of Caddy.
func (g *gateway) load(settings ...setting) {
	g.t.Helper()
	config := gw.Config{
		Process: g.process, Logger: g.logger(), KeysInterval: 20 * time.Millisecond,
		Workspaces: []gw.WorkspaceConfig{g.configure("default", map[string]string{"test": testKey})},
	}
	for _, set := range settings {
		set(g, &config)
	}
	next, err := gw.New(config)
	if err != nil {
		g.t.Fatal(err)
	}
	g.awaitStore()
	if err := next.Start(); err != nil {
		g.t.Fatal(err)
	}
	if last := g.current.Swap(next); last != nil {
		last.Stop()
		last.StopSinks(false)
	}
}

// awaitStore opens the store, and waits until it is open or has failed. A start waits only
// some seconds, in which a busy machine may not have created the file: then the key and
// the hashes in traces would change during a test.
func (g *gateway) awaitStore() {
	g.t.Helper()
	g.store.Recorder.Open()
	eventually(g.t, "the store is open, or can't be", func() bool {
		stats := g.store.Recorder.Stats()
		return stats.Availability == recorder.Available || stats.LastError != ""
	})
}

// close stops the gateway.
func (g *gateway) close() {
	g.t.Helper()
	last := g.current.Swap(nil)
	last.Stop()
	g.closeReaders()
	if err := g.store.Close(); err != nil {
		g.t.Error(err)
	}
	last.StopSinks(true)
	for _, memory := range g.memory {
		memory.Close()
	}
	if err := g.source.Close(); err != nil {
		g.t.Error(err)
	}
}

// storeAt loads a configuration with another file for the store.
func (g *gateway) storeAt(name string, settings ...setting) {
	g.t.Helper()
	former := g.store
	g.store = g.process.NewStore(filepath.Join(g.dir, name), g.storeLogger())
	g.load(settings...)
	g.closeReaders()
	if err := former.Close(); err != nil {
		g.t.Error(err)
	}
}

// restart stops the gateway, and starts it again with the same files.
func (g *gateway) restart(settings ...setting) {
	g.t.Helper()
	g.close()
	g.open()
	g.load(settings...)
}

func (g *gateway) logger() *zap.Logger {
	level := zap.DebugLevel
	if _, benchmark := g.t.(*testing.B); benchmark {
		level = zap.ErrorLevel
	}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), g.logs, level))
}

func (g *gateway) storeLogger() *slog.Logger {
	return slog.New(zapslog.NewHandler(g.logger().Core(), zapslog.AddStacktraceAt(slog.Level(math.MaxInt))))
}

// logBuffer contains the log of a gateway.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (*logBuffer) Sync() error { return nil }

func (b *logBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.text.Bytes())
}

// said returns a function that reports whether the log contains a text.
func (g *gateway) said(part string) func() bool {
	return func() bool { return bytes.Contains(g.logs.Bytes(), []byte(part)) }
}

// scrape reads the process's metrics.
func (g *gateway) scrape() string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(g.process.Collectors()...)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String()
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

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// post sends a body with the test's key.
func (g *gateway) post(path, body string) answer {
	g.t.Helper()
	return g.postAs(testKey, path, body)
}

// postAs sends a body with a key.
func (g *gateway) postAs(key, path, body string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, path, body, bearer(key))
}

// keyed posts a body with an idempotency key.
func (g *gateway) keyed(key, path, body string) answer {
	g.t.Helper()
	header := bearer(testKey)
	header.Set("Idempotency-Key", key)
	return g.do(http.MethodPost, path, body, header)
}

func (g *gateway) do(method, path, body string, header http.Header) answer {
	g.t.Helper()
	read := gatewaytest.Do(g.t, g.client, method, path, body, header)
	a := answer{read.Status, read.Header, read.Body}
	checkContract(g.t, method, path, body, a)
	return a
}

func (g *gateway) send(ctx context.Context, method, path, body string, header http.Header) (*http.Response, error) {
	return gatewaytest.Send(ctx, g.client, method, path, body, header)
}

// closeReaders closes the readers before a store: the last to close a file empties its log.
func (g *gateway) closeReaders() {
	g.reading.Lock()
	defer g.reading.Unlock()
	for _, r := range g.readers {
		_ = r.Close()
	}
	g.readers = nil
}

// reader returns a reader of a store's file, or nil if it can't be opened.
func (g *gateway) reader(store string) *sqlite.Reader {
	g.reading.Lock()
	defer g.reading.Unlock()
	path := filepath.Join(g.dir, store)
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if r := g.readers[path]; r != nil {
		if os.SameFile(r.file, file) {
			return r.Reader
		}
		_ = r.Close()
		delete(g.readers, path)
	}
	opened, err := sqlite.OpenReader(context.Background(), path)
	if err != nil {
		return nil
	}
	if g.readers == nil {
		g.readers = make(map[string]*reader)
	}
	g.readers[path] = &reader{opened, file}
	return opened
}

// trace reads a trace from a store's file.
func (g *gateway) trace(store, id string) (*trace.Record, bool) {
	g.t.Helper()
	r := g.reader(store)
	if r == nil {
		return nil, false
	}
	record, err := r.Trace(context.Background(), g.parse(id))
	return record, err == nil
}

func (g *gateway) parse(id string) trace.ID {
	g.t.Helper()
	parsed, ok := trace.ParseID(id)
	if !ok {
		g.t.Fatalf("%q is no trace id", id)
	}
	return parsed
}

// ended waits for the trace of an answer that has ended, and returns it.
func (g *gateway) ended(t *testing.T, id string) (record *trace.Record) {
	t.Helper()
	eventually(t, "the trace is stored", func() (ok bool) {
		record, ok = g.trace("data/cadenza.db", id)
		return ok && record.State == trace.StateEnded
	})
	return record
}

// running returns the record of a running call.
func (g *gateway) running(id string) (*trace.Record, bool) {
	g.t.Helper()
	record := g.store.Recorder.Call(g.parse(id))
	return record, record != nil
}

// metrics reads the metrics reported on a trace from a store's file.
func (g *gateway) metrics(store, id string) []trace.Metrics {
	g.t.Helper()
	return gatewaytest.Metrics(g.t, filepath.Join(g.dir, store), id)
}

// dial opens a connection to the gateway.
func (g *gateway) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	connection, err := net.Dial("unix", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return connection, bufio.NewReader(connection)
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
