package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// workFiles returns the definitions of works.
func workFiles() map[string]string {
	files := make(map[string]string)
	files["definitions/context.yaml"] = `
fields:
  environment: { type: string, values: [production, staging, development] }
  plan:        { type: string, values: [free, starter, pro, enterprise] }
  seats:       { type: number }
  locale:      { type: string, match: language-range }
  app_version: { type: string, format: semver }
`
	files["definitions/remoteconfigs/flag.yaml"] = `
type: boolean
default: false
columns: [ environment, plan, value ]
matrix:
  - [ production, [pro, enterprise], true ]
`
	table := "type: number\ndefault: 0\ncolumns: [ environment, plan, seats, locale, app_version, value ]\nmatrix:\n"
	for i := range 100 {
		table += fmt.Sprintf("  - [ %s, %s, %d..<%d, %s, '%d.%d.0..', %d ]\n",
			[]string{"production", "staging"}[i%2], []string{"free", "starter", "pro", "enterprise"}[i%4],
			i*10, i*10+10, []string{"nl", "en", "de", "fr", "any"}[i%5], 1+i%3, i%7, i)
	}
	files["definitions/remoteconfigs/table.yaml"] = table
	text := strings.Repeat("Answer in English, keep to what you know, and say so where you do not. ", 28)[:1950]
	files["definitions/prompts/long.yaml"] = "variables: { company: { default: Acme }, question: { required: true } }\n" +
		"provider: openai\nmodel: gpt-4o-mini\ntemperature: 0.2\nmax_tokens: 400\nmessages:\n" +
		"  - { role: system, content: \"You are the support agent of {{company}}. " + text + "\" }\n  - { role: user, content: \"{{question}}\" }\n"
	return files
}

// work is a kind of request.
type work struct{ name, path, body string }

// works are the evaluations that the load command of bench/ measures.
var works = []work{
	{"flag", "/v1/remoteconfigs", `{"keys":["flag"],"context":{"environment":"production","plan":"pro"}}`},
	{"table", "/v1/remoteconfigs", `{"keys":["table"],"context":{"environment":"production","plan":"pro","seats":455,"locale":"nl-BE","app_version":"2.5.1"}}`},
	{"prompt", "/v1/prompts", `{"keys":["long"],"context":{"environment":"production"},"variables":{"company":"Cadenza Ltd","question":"How do I reset the password of my account, please?"}}`},
}

// workServer returns a function that makes a gateway answer requests of a kind. It has no
// server and no store, whose writer would be measured, too.
func workServer(t testing.TB, files map[string]string, policy definition.LogPolicy, more ...setting) func(work) (serve func()) {
	files["data"] = "no directory"
	g := startGateway(t, files, append([]setting{withTraceKey, with(func(c *gw.WorkspaceConfig) { c.Log = policy })}, more...)...)
	return func(work work) func() {
		body := []byte(work.body)
		reader := bytes.NewReader(nil)
		request := httptest.NewRequest(http.MethodPost, work.path, io.NopCloser(reader))
		request.Header.Set("Authorization", "Bearer "+testKey)
		request.ContentLength = int64(len(body))
		w := &discard{header: make(http.Header)}
		serve := func() {
			reader.Reset(body)
			clear(w.header)
			if g.serve(w, request); w.status != http.StatusOK {
				t.Fatal(w.status)
			}
		}
		for n := 0; policy != definition.LogNone && g.store.Recorder.Stats().Drops.QueueFull == 0; n++ { // until records are reused
			if serve(); n > 1_000_000 {
				t.Fatal("the queue of records does not fill")
			}
		}
		return serve
	}
}

// BenchmarkWork measures the gateway's part of these requests, by log policy.
func BenchmarkWork(b *testing.B) {
	for _, work := range works {
		for _, policy := range []definition.LogPolicy{definition.LogNone, definition.LogMetadata, definition.LogContent} {
			b.Run(work.name+"/"+policy.String(), func(b *testing.B) {
				serve := workServer(b, workFiles(), policy)(work)
				b.ReportAllocs()
				for b.Loop() {
					serve()
				}
			})
		}
	}
}
