package browser

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/cadenza-gateway/cadenza"
	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// keyOf returns the API key of a name.
func keyOf(name string) string { return "cadenza-key-of-" + name + "-0001" }

// roles are the API keys with their roles.
var roles = map[string]string{"ops": "admin", "eve": "editor", "vic": "viewer", "app": ""}

// gateway is a real Caddy in this process, which browsers reach on a loopback port. A
// process has one Caddy, so the tests do not run in parallel.
type gateway struct {
	t        *testing.T
	dir      string
	address  string
	upstream *gatewaytest.Upstream
}

// startGateway starts Caddy with the definitions and an upstream, and stops it when the
// test ends.
func startGateway(t *testing.T, files map[string]string, upstream func(http.ResponseWriter, *http.Request)) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the gateway may still write
	g := &gateway{t: t, dir: dir, address: freeport.Address(t)}
	g.upstream = gatewaytest.NewUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) { upstream(w, r) })
	t.Setenv("CADENZA_TEST_KEY", keyOf("upstream"))
	for name, content := range files {
		gatewaytest.Write(t, g.dir, name, content)
	}
	g.writeKeys(roles, nil)
	g.load("")
	t.Cleanup(func() {
		g.stop()
		if logs, err := os.ReadFile(filepath.Join(g.dir, "log")); err == nil && t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", logs[max(0, len(logs)-4000):])
		}
	})
	return g
}

// writeKeys writes the keys file, which the gateway reads once a second: the keys with
// their roles, and when some of them end.
func (g *gateway) writeKeys(roles map[string]string, ends map[string]time.Time) {
	type key struct {
		Name     string    `json:"name"`
		SHA256   string    `json:"sha256"`
		Role     string    `json:"role,omitempty"`
		NotAfter time.Time `json:"not_after,omitzero"`
	}
	var list []key
	for name, role := range roles {
		list = append(list, key{name, fmt.Sprintf("%x", sha256.Sum256([]byte(keyOf(name)))), role, ends[name]})
	}
	text, err := json.Marshal(list)
	if err != nil {
		g.t.Fatal(err)
	}
	gatewaytest.Write(g.t, g.dir, "keys.json", string(text))
}

// load loads a configuration with more options of the workspace.
func (g *gateway) load(options string) {
	g.t.Helper()
	text := strings.NewReplacer("{dir}", g.dir, "{address}", g.address, "{upstream}", g.upstream.URL, "{options}", options).Replace(`{
	admin off
	auto_https off
	persist_config off
	grace_period 2s
	log {
		output file {dir}/log
		level INFO
	}
	cadenza {
		definitions {dir}/definitions
		store sqlite {dir}/data/cadenza.db
		keys {dir}/keys.json
		log content
		provider openai {
			base_url {upstream}/v1
			api_key {env.CADENZA_TEST_KEY}
		}
		provider canned
		price gpt-6-luna 0.10 0.50
		limit customers {
			by metadata.customer
			requests 12/1d
		}
		{options}
	}
}
http://{address} {
	bind 127.0.0.1
	cadenza_console {
		edit files
	}
	cadenza
}
`)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) stop() {
	g.t.Helper()
	if err := caddy.Stop(); err != nil {
		g.t.Errorf("stopping Caddy: %v", err)
	}
}

// url returns the address of a path of the console.
func (g *gateway) url(path string) string { return "http://" + g.address + "/console/" + path }

// post sends a body with an app's key, and ends the test unless the status is as wanted.
func (g *gateway) post(status int, path string, body any) gatewaytest.Answer {
	g.t.Helper()
	return g.send(status, path, body, http.Header{"Authorization": {"Bearer " + keyOf("app")}})
}

func (g *gateway) send(status int, path string, body any, header http.Header) gatewaytest.Answer {
	g.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		g.t.Fatal(err)
	}
	a := gatewaytest.Do(g.t, &http.Client{Transport: toAddress(g.address)}, http.MethodPost, path, string(text), header)
	if a.Status != status {
		g.t.Fatalf("%s %s: %d %.500s, want %d", path, text, a.Status, a.Body, status)
	}
	return a
}

// toAddress is a transport that sends every request to one address.
type toAddress string

func (to toAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host, r.Host = string(to), string(to)
	return http.DefaultTransport.RoundTrip(r)
}

// traced returns the trace id of the answer of an endpoint.
func traced(t *testing.T, a gatewaytest.Answer) string {
	t.Helper()
	id, _ := gatewaytest.Object(t, a.Body)["trace_id"].(string)
	if id == "" {
		t.Fatalf("no trace_id: %s", a.Body)
	}
	return id
}

// stored waits until a trace is in the store.
func (g *gateway) stored(id string) {
	g.t.Helper()
	gatewaytest.Eventually(g.t, "the trace "+id+" is stored", func() bool {
		_, found := gatewaytest.Trace(g.t, filepath.Join(g.dir, "data/cadenza.db"), id)
		return found
	})
}

// object is a JSON object of a request.
type object = map[string]any
