package caddymodule_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// flagTraceKey is the trace key of the gateways of these tests.
const flagTraceKey = "5fb1c2a09d7e4e63b8f0d4c91a7e2f68"

// flagOptions are the options of a gateway whose streams of flags' changes a test opens.
const flagOptions = options + "trace_key {env.CADENZA_TEST_TRACE_KEY}\n"

// flagStream is a client of a stream.
type flagStream struct {
	t      *testing.T
	status int
	header http.Header
	body   io.ReadCloser
	lines  chan string // closed at the end of the stream
}

// flagPath is the path of the stream of a key, with its token.
func flagPath(t *testing.T, name, key, more string) string {
	return "/ofrep/v1/events?token=" + gatewaytest.FlagToken(t, flagTraceKey, "default", name, key, time.Now().Add(time.Hour)) + more
}

// openFlags opens a stream.
func (g *gateway) openFlags(t *testing.T, path string, header http.Header) *flagStream {
	t.Helper()
	response, err := g.send(context.Background(), http.MethodGet, path, "", header)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	s := &flagStream{t, response.StatusCode, response.Header, response.Body, make(chan string, 100)}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(s.body); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { s.body.Close() })
	return s
}

// next returns the next line with a prefix, without the prefix. ok is false if the stream
// ends before.
func (s *flagStream) next(prefix string) (text string, ok bool) {
	s.t.Helper()
	timeout := time.After(gatewaytest.Patience)
	for {
		select {
		case line, more := <-s.lines:
			if !more {
				return "", false
			}
			if text, found := strings.CutPrefix(line, prefix); found {
				return text, true
			}
		case <-timeout:
			s.t.Fatalf("the stream has no line with %q", prefix)
		}
	}
}

// event returns the state in the next event.
func (s *flagStream) event() string {
	s.t.Helper()
	text, ok := s.next("data: ")
	if !ok {
		s.t.Fatal("the stream has ended")
	}
	var data struct {
		Type, ETag   string
		LastModified int64
	}
	if err := json.Unmarshal([]byte(text), &data); err != nil || data.Type != "refetchEvaluation" || data.ETag == "" || data.LastModified == 0 {
		s.t.Fatalf("%s: %v", text, err)
	}
	return data.ETag
}

// flagFile is a definition of a flag.
func flagFile(on bool) string { return fmt.Sprintf("type: boolean\ndefault: %t\n", on) }

// TestFlagStreams checks a stream from edit to edit, over a reload and over a reconnection,
// and that no log has its token.
func TestFlagStreams(t *testing.T) {
	t.Setenv("CADENZA_TEST_TRACE_KEY", flagTraceKey)
	g := startGateway(t, workspace, flagOptions)
	access := filepath.Join(g.dir, "access")
	site := "\t\tlog {\n\t\t\toutput file " + access + "\n\t\t}\n\t\tmetrics /metrics\n\t\thandle_path /below/* {\n\t\t\tcadenza\n\t\t}\n\t\tcadenza\n"
	g.site(flagOptions, site)
	open := func() string { return line(g.scrape(), `cadenza_flag_streams{workspace="default"}`) }

	path := flagPath(t, "test", testKey, "")
	s := g.openFlags(t, path, nil)
	if got := s.header.Get("Content-Type") + " " + s.header.Get("Cache-Control"); got != "text/event-stream; charset=utf-8 no-store, no-transform" {
		t.Error(got)
	}
	if wait, ok := s.next("retry: "); !ok || len(wait) != 4 {
		t.Errorf("it connects again after %q ms", wait)
	}
	first, _ := s.next("id: ")
	if told := s.event(); told != first {
		t.Errorf("a client that knows nothing is told of %q, the state is %q", told, first)
	}
	current := g.openFlags(t, path+"&since="+first, nil)
	current.next("id: ")
	eventually(t, "both streams are counted", func() bool { return open() == "2" })

	g.write("definitions/remoteconfigs/flag.yaml", flagFile(false))
	second := s.event()
	if told := current.event(); told != second || second == first {
		t.Errorf("told of %q and %q after %q", second, told, first)
	}

	// The streams of the former configuration follow the new one.
	g.site(flagOptions+"max_body_size 2MiB\n", site)
	if got := open(); got != "2" {
		t.Errorf("after a reload %s streams are open", got)
	}
	g.write("definitions/remoteconfigs/flag.yaml", flagFile(true))
	third := s.event()
	if told := current.event(); told != third || third == second {
		t.Errorf("after a reload: told of %q and %q after %q", third, told, second)
	}

	// A client that was away learns of what it missed.
	s.body.Close()
	current.body.Close()
	eventually(t, "no stream is counted", func() bool { return open() == "0" })
	again := g.openFlags(t, path+"&since="+first, http.Header{"Last-Event-ID": {second}})
	if told := again.event(); told != third {
		t.Errorf("told of %q, not %q", told, third)
	}
	below := g.openFlags(t, "/below"+path+"&since="+first, http.Header{"Last-Event-ID": {third}})
	below.next("id: ")
	g.write("definitions/remoteconfigs/flag.yaml", flagFile(false))
	if told := below.event(); told != second {
		t.Errorf("told of %q: as it was before would be %q", told, second)
	}
	again.body.Close()
	below.body.Close()
	eventually(t, "no stream is open", func() bool { return open() == "0" })
	eventually(t, "four requests are counted", func() bool {
		return line(g.scrape(), `cadenza_requests_total{code="ok",definition="",route="flag_events",workspace="default"}`) == "4"
	})
	g.do(http.MethodGet, path[:60], "", nil)
	for _, file := range []string{access, g.logs} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			// Caddy's handle_path logs each address at the level DEBUG.
			if strings.Contains(line, "token=") && !strings.Contains(line, `"logger":"http.handlers.rewrite"`) {
				t.Errorf("%s has a token: %s", file, line)
			}
		}
	}
}

// line returns the value of a metric in a scrape.
func line(scrape, series string) string {
	for line := range strings.Lines(scrape) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestFlagStreamsOfOthers checks that a stream needs a token that its workspace has sealed,
// for a key that is still valid.
func TestFlagStreamsOfOthers(t *testing.T) {
	t.Setenv("CADENZA_TEST_TRACE_KEY", flagTraceKey)
	files := maps.Clone(workspace)
	files["keys.json"] = keyList(keyOf("listed", otherKey, ""), keyOf("lasting", "cadenza-lasting-key-9", ""))
	g := startGateway(t, files, flagOptions+"keys {dir}/keys.json\n")
	now := time.Now()
	token := func(traceKey, workspace, name, key string, end time.Time) string {
		return gatewaytest.FlagToken(t, traceKey, workspace, name, key, end)
	}
	good := token(flagTraceKey, "default", "test", testKey, now.Add(time.Hour))
	for name, query := range map[string]string{
		"none": "", "empty": "?token=", "no token": "?token=abc", "the key": "?token=" + testKey,
		"expired":             "?token=" + token(flagTraceKey, "default", "test", testKey, now.Add(-time.Second)),
		"another trace key":   "?token=" + token("6fb1c2a09d7e4e63b8f0d4c91a7e2f68", "default", "test", testKey, now.Add(time.Hour)),
		"another key":         "?token=" + token(flagTraceKey, "default", "test", otherKey, now.Add(time.Hour)),
		"another name":        "?token=" + token(flagTraceKey, "default", "nobody", testKey, now.Add(time.Hour)),
		"another workspace":   "?token=" + token(flagTraceKey, "other", "test", testKey, now.Add(time.Hour)),
		"a token and a half":  "?token=" + good + good[:20],
		"a part of the token": "?token=" + good[:len(good)-1],
	} {
		a := g.do(http.MethodGet, "/ofrep/v1/events"+query, "", http.Header{"Authorization": {"Bearer " + testKey}})
		checkError(t, a, "invalid_api_key", "")
		if a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := g.do(http.MethodPost, "/ofrep/v1/events?token="+good, "{}", nil); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", a.status, a.body)
	}

	listed, test := g.openFlags(t, flagPath(t, "listed", otherKey, ""), nil), g.openFlags(t, flagPath(t, "test", testKey, ""), nil)
	listed.event()
	test.event()
	g.write("keys.json", keyList(keyOf("listed", otherKey, `, "revoked": true`), keyOf("lasting", "cadenza-lasting-key-9", "")))
	if _, ok := listed.next("data: "); ok {
		t.Error("a revoked key's stream goes on")
	}
	checkError(t, g.do(http.MethodGet, flagPath(t, "listed", otherKey, ""), "", nil), "invalid_api_key", "")
	g.write("definitions/remoteconfigs/flag.yaml", flagFile(true))
	test.event()
}

// TestFlagStreamsAtTheCeiling checks the answer to one stream too many, and that streams
// leave nothing behind.
func TestFlagStreamsAtTheCeiling(t *testing.T) {
	t.Setenv("CADENZA_TEST_TRACE_KEY", flagTraceKey)
	g := startGateway(t, workspace, flagOptions+"max_flag_streams 20\n")
	g.post("/v1/remoteconfigs", `{"keys":["limits"]}`)
	path := flagPath(t, "test", testKey, "")
	var all []*flagStream
	for range 20 {
		s := g.openFlags(t, path, nil)
		s.event()
		all = append(all, s)
	}
	a := g.do(http.MethodGet, path, "", nil)
	checkError(t, a, "overloaded", "")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "max_flag_streams") {
		t.Errorf("%d %s", a.status, a.body)
	}
	all[0].body.Close()
	eventually(t, "one that leaves makes room", func() bool {
		response, err := g.send(context.Background(), http.MethodGet, path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	for _, s := range all {
		s.body.Close()
	}
	eventually(t, "no goroutine of a stream is left", func() bool {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("streamFlagEvents")) && !bytes.Contains(stacks, []byte("flagEvents"))
	})
}

// TestFlagStreamsEndWithCaddy checks that streams end when Caddy stops the app, also those of
// a former configuration.
func TestFlagStreamsEndWithCaddy(t *testing.T) {
	t.Setenv("CADENZA_TEST_TRACE_KEY", flagTraceKey)
	g := startGateway(t, workspace, flagOptions)
	former := g.openFlags(t, flagPath(t, "test", testKey, ""), nil)
	former.event()
	if err := g.load(flagOptions + "max_body_size 2MiB\n"); err != nil {
		t.Fatal(err)
	}
	latter := g.openFlags(t, flagPath(t, "test", testKey, ""), nil)
	latter.event()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*flagStream{former, latter} {
		if _, ok := s.next("data: "); ok {
			t.Error("a stream has an event after the end")
		}
	}
}
