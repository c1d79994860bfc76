package caddymodule_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
)

// What follows is done by other packages and tested there. These tests see that
// the gateway has it done.

func TestIdleTimeoutIsPassedOn(t *testing.T) {
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("and then", ""))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	g := startGateway(t, endpointWith("timeout: { total: 20s, idle: 200ms }\n"), fakeProvider(u.URL))
	began := time.Now()
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", ask("?", true), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all := strings.Join(events(t, response.Body), "\n")
	if took := time.Since(began); !strings.Contains(all, "and then") || !strings.Contains(all, "upstream_") || took > 10*time.Second {
		t.Errorf("after %s: %s", took, all)
	}
}

func TestOnCodesArePassedOn(t *testing.T) {
	for status, want := range map[int]int64{http.StatusInternalServerError: 1, http.StatusBadGateway: 2} {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		g := startGateway(t, endpointWith("retry: { count: 1, on_codes: [502] }\n"), fakeProvider(u.URL))
		if a := g.post("/v1/endpoints", ask("?", false)); a.status != http.StatusBadGateway || u.calls.Load() != want {
			t.Errorf("%d: %d %s after %d calls, want %d", status, a.status, a.body, u.calls.Load(), want)
		}
	}
}

// TestBindErrorNamesTheField has an error of the context name the field, as
// errors of the body name the member.
func TestBindErrorNamesTheField(t *testing.T) {
	files := single()
	files["definitions/context.yaml"] += "  country: { type: string, required: true }\non_type_mismatch: reject\n"
	g := startGateway(t, files, options)
	for path, body := range map[string]string{
		"/v1/remoteconfigs": `{"keys":["limits"],"context":{"plan":"pro"}}`,
		"/v1/prompts":       `{"keys":["hello"],"context":{"plan":"pro"}}`,
		"/v1/endpoints":     `{"key":"chat","context":{"plan":"pro"},` + question + `}`,
	} {
		a := g.post(path, body)
		var told struct{ Error struct{ Code, Param string } }
		if err := json.Unmarshal(a.body, &told); err != nil || a.status != http.StatusBadRequest || told.Error.Param != "context.country" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestBodyIsLeftUnreadWithoutAKey has callers who are nobody send headers only:
// whoever asks to continue is answered, not told to go on.
func TestBodyIsLeftUnreadWithoutAKey(t *testing.T) {
	g := startGateway(t, workspace, options)
	for _, test := range []struct{ name, header, want string }{
		{"a wrong key", "Authorization: Bearer cadenza-test-key-0002\r\n", "HTTP/1.1 401"},
		{"a malformed key", "Authorization: Bearer x\r\n", "HTTP/1.1 401"},
		{"no key", "", "HTTP/1.1 401"},
		{"a good key", "Authorization: Bearer " + testKey + "\r\n", "HTTP/1.1 100"},
	} {
		connection, err := net.Dial("unix", g.socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nContent-Length: 18\r\nConnection: close\r\nExpect: 100-continue\r\n%s\r\n", test.header)
		line, err := bufio.NewReader(connection).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, test.want) {
			t.Errorf("%s: %q, %v, want %s", test.name, line, err, test.want)
		}
		connection.Close()
	}
}

// brokenWriter is a response writer that panics once, in the handler's first write.
type brokenWriter struct {
	*httptest.ResponseRecorder
	broken bool
}

func (b *brokenWriter) WriteHeader(status int) {
	if !b.broken {
		b.broken = true
		panic(errors.New("a secret of " + testKey))
	}
	b.ResponseRecorder.WriteHeader(status)
}

// TestPanicIsAnError has a request that panics answered, counted and logged
// without what it panicked with, and hold nothing afterwards.
func TestPanicIsAnError(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, observed)
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		t.Fatal(err)
	}
	panics := func() string {
		return string(regexp.MustCompile(`(?m)^cadenza_requests_total\{code="internal",route="prompts"\} .*$`).Find([]byte(g.scrape())))
	}
	before := panics()
	ofStore, ofMemory := caddymodule.CountLeases()
	handler := caddymodule.NewTestHandler(app.(*caddymodule.App))
	request := httptest.NewRequest(http.MethodPost, "/v1/prompts", strings.NewReader(`{"keys":["hello"]}`))
	request.Header = bearer(testKey)
	w := &brokenWriter{ResponseRecorder: httptest.NewRecorder()}
	if err := handler.ServeHTTP(w, request, nil); err != nil {
		t.Error(err)
	}
	if got := w.Body.String(); !w.broken || w.Code != http.StatusInternalServerError || !strings.Contains(got, `"code":"internal"`) {
		t.Errorf("%d %s", w.Code, got)
	}
	if s, m := ofStore(), ofMemory(); s != 0 || m != 0 {
		t.Errorf("%d leases of the store and %d of the memory are held", s, m)
	}
	if after := panics(); after == "" || after == before {
		t.Errorf("counted: %q, before: %q", after, before)
	}
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(logs), "a request panicked") || !strings.Contains(string(logs), "brokenWriter") || strings.Contains(string(logs), testKey) {
		t.Errorf("log:\n%s", logs)
	}
}

// TestLossOfASinkIsCounted has the store's size delete what a sink could not
// take yet.
func TestLossOfASinkIsCounted(t *testing.T) {
	g := startGateway(t, workspace, options)
	storeOld(t, filepath.Join(g.dir, "full.db"), "losing", 600, 4000, time.Minute)
	// What is no file takes nothing.
	if err := os.Mkdir(filepath.Join(g.dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A workspace of its own: its counter is the process's.
	g.site(sharing(t, map[string]string{"losing": "store sqlite {dir}/full.db {\nmax_size 1MiB\n}\nsink file {dir}/out\n"}, "losing"), observed)
	lost := regexp.MustCompile(`(?m)^cadenza_sink_lost_rows_total\{sink="file",workspace="losing"\} [1-9]`)
	eventually(t, "the loss is counted", func() bool { return lost.MatchString(g.scrape()) })
}

// TestTooLargeAPrompt has variables of legal size fill a prompt that is not.
func TestTooLargeAPrompt(t *testing.T) {
	files := single()
	files["definitions/prompts/hello.yaml"] = strings.Replace(workspace["definitions/prompts/hello.yaml"], "Say hello.", strings.Repeat("{{name}}", 5), 1) +
		"variables: { name: { required: true } }\n"
	files["definitions/endpoints/hi.yaml"] = "prompt: hello\n"
	g := startGateway(t, files, options)
	name := strings.Repeat("x", 500<<10)
	for path, body := range map[string]string{
		"/v1/prompts":   `{"keys":["hello"],"variables":{"name":"` + name + `"}}`,
		"/v1/endpoints": `{"key":"hi","variables":{"name":"` + name + `"}}`,
	} {
		checkError(t, g.post(path, body), "invalid_request", "variables")
	}
}

// TestKeysFileThatCannotBeUsed keeps the last keys while the file is gone, or
// holds a key that is another workspace's.
func TestKeysFileThatCannotBeUsed(t *testing.T) {
	list := func(key string) string {
		return fmt.Sprintf(`[{"name":"listed","sha256":"%x"}]`, sha256.Sum256([]byte(key)))
	}
	files := single()
	files["keys.json"] = list(otherKey)
	t.Setenv("CADENZA_TEST_KEY", testKey)
	const foreign = "cadenza-test-key-of-another"
	t.Setenv("CADENZA_FOREIGN_KEY", foreign)
	g := startGateway(t, files, `
		workspace one {
			definitions {dir}/definitions
			store sqlite {dir}/data/cadenza.db
			api_key test {env.CADENZA_TEST_KEY}
			provider canned
			keys {dir}/keys.json
		}
		workspace two {
			definitions {dir}/definitions
			store sqlite {dir}/data/cadenza.db
			api_key test {env.CADENZA_FOREIGN_KEY}
			provider canned
		}
	`)
	said := func(what string) func() bool {
		return func() bool {
			logs, err := os.ReadFile(g.logs)
			return err == nil && strings.Contains(string(logs), what)
		}
	}
	valid := func(what string) {
		t.Helper()
		if a := g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(otherKey)); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	valid("at first")
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file is reported", said("the keys file can't be used"))
	valid("without the file")
	g.write("keys.json", list(foreign))
	eventually(t, "the foreign key is reported", said("it has no usable key"))
	valid("with a foreign key")
	g.write("keys.json", list("cadenza-test-key-0009"))
	eventually(t, "the mended file is used", func() bool {
		return g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(otherKey)).status == http.StatusUnauthorized
	})
}
