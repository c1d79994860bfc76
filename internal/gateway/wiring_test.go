package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Other packages do the following work, and test it. These tests check that the
// gateway uses them.

func TestIdleTimeoutIsPassedOn(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
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
	t.Parallel()
	for status, want := range map[int]int64{http.StatusInternalServerError: 1, http.StatusBadGateway: 2} {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		g := startGateway(t, endpointWith("retry: { count: 1, on_codes: [502] }\n"), fakeProvider(u.URL))
		if a := g.post("/v1/endpoints", ask("?", false)); a.status != http.StatusBadGateway || u.Calls.Load() != want {
			t.Errorf("%d: %d %s after %d calls, want %d", status, a.status, a.body, u.Calls.Load(), want)
		}
	}
}

// TestBindErrorNamesTheField checks that an error of the context names the field, like
// errors of the body name the member.
func TestBindErrorNamesTheField(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/context.yaml"] += "  country: { type: string, required: true }\non_type_mismatch: reject\n"
	g := startGateway(t, files, options)
	for path, body := range map[string]string{
		"/v1/remoteconfigs": `{"keys":["limits"],"context":{"plan":"pro"}}`,
		"/v1/prompts":       `{"keys":["hello"],"context":{"plan":"pro"}}`,
		"/v1/endpoints":     `{"key":"chat","context":{"plan":"pro"},` + question + `}`,
	} {
		a := g.post(path, body)
		var got struct{ Error struct{ Code, Param string } }
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusBadRequest || got.Error.Param != "context.country" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
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

// TestPanicIsAnError checks that a request that panics is answered, counted and logged
// without the panic's value, and that it keeps no resources.
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	panics := func() string {
		return string(regexp.MustCompile(`(?m)^cadenza_requests_total\{code="internal",definition="hello",route="prompts",workspace="default"\} .*$`).Find([]byte(g.scrape())))
	}
	before := panics()
	ofStore, ofMemory := g.store.Leases, g.memory["default"].Leases
	request := httptest.NewRequest(http.MethodPost, "/v1/prompts", strings.NewReader(`{"keys":["hello"]}`))
	request.Header = bearer(testKey)
	w := &brokenWriter{ResponseRecorder: httptest.NewRecorder()}
	g.serve(w, request)
	if got := w.Body.String(); !w.broken || w.Code != http.StatusInternalServerError || !strings.Contains(got, `"code":"internal"`) {
		t.Errorf("%d %s", w.Code, got)
	}
	if s, m := ofStore(), ofMemory(); s != 0 || m != 0 {
		t.Errorf("%d leases of the store and %d of the memory are held", s, m)
	}
	if after := panics(); after == "" || after == before {
		t.Errorf("counted: %q, before: %q", after, before)
	}
	logs := g.logs.Bytes()
	if !strings.Contains(string(logs), "a request panicked") || !strings.Contains(string(logs), "brokenWriter") || strings.Contains(string(logs), testKey) {
		t.Errorf("log:\n%s", logs)
	}
}
