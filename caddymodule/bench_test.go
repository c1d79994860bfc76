package caddymodule_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
)

// discard is a response writer that costs nothing.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// benchmarkRoute measures what the gateway itself does for a request: path,
// key, parsing, evaluation, rendering, answer and record; not Caddy's server.
func benchmarkRoute(b *testing.B, path, body string) { benchmarkFiles(b, workspace, path, body) }

func benchmarkFiles(b *testing.B, files map[string]string, path, body string) {
	startGateway(b, files, options)
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		b.Fatal(err)
	}
	handler := caddymodule.NewTestHandler(app.(*caddymodule.App))
	reader := bytes.NewReader(nil)
	request := httptest.NewRequest(http.MethodPost, path, nil)
	request.Header.Set("Authorization", "Bearer "+testKey)
	request.ContentLength = int64(len(body))
	request.Body = io.NopCloser(reader)
	w := &discard{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset([]byte(body))
		clear(w.header)
		if err := handler.ServeHTTP(w, request, nil); err != nil || w.status != http.StatusOK {
			b.Fatalf("status %d, %v", w.status, err)
		}
	}
}

func BenchmarkRemoteConfig(b *testing.B) {
	benchmarkRoute(b, "/v1/remoteconfigs", `{"keys":["limits"],"context":{"environment":"production","plan":"pro","locale":"nl"}}`)
}

func BenchmarkRemoteConfigsOfTenKeys(b *testing.B) {
	benchmarkRoute(b, "/v1/remoteconfigs", `{"keys":["limits","checkout","a","b","c","d","e","f","g","h"],"context":{"environment":"production","plan":"pro"}}`)
}

func BenchmarkPrompt(b *testing.B) {
	benchmarkRoute(b, "/v1/prompts", `{"keys":["reply"],"context":{"locale":"nl-BE"},"metadata":{"page":"/help"},"variables":{"question":"Where is my order?"}}`)
}

// BenchmarkRemoteConfigsOfHundredKeys has metadata that the redactor has much to
// look at: what is done once for a request must not be done once for each key.
func BenchmarkRemoteConfigsOfHundredKeys(b *testing.B) {
	files, keys := hundredConfigs()
	benchmarkFiles(b, files, "/v1/remoteconfigs", `{"keys":`+keys+`,"metadata":{"tokens":"`+strings.Repeat("4111 1111 1111 1111 ", 700)+`"}}`)
}

// hundredConfigs are configurations, and the list of their keys.
func hundredConfigs() (files map[string]string, keys string) {
	files = make(map[string]string)
	list := make([]string, 100)
	for n := range list {
		list[n] = fmt.Sprintf(`"c%d"`, n)
		files[fmt.Sprintf("definitions/remoteconfigs/c%d.yaml", n)] = "type: number\ndefault: 1\n"
	}
	return files, "[" + strings.Join(list, ",") + "]"
}
