package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const threeKeys = `"context":{"environment":"production","plan":"pro","locale":"nl-BE"},"variables":{"question":"Where is my order?"}}`

// BenchmarkDecisionOfThreeKeys and BenchmarkThreeRequests get the same three answers.
func BenchmarkDecisionOfThreeKeys(b *testing.B) {
	benchmarkRoute(b, "/v1/decisions", `{"prompts":["reply"],"remoteconfigs":["limits","checkout"],`+threeKeys)
}

func BenchmarkThreeRequests(b *testing.B) {
	benchmarkAll(b, workspace, [][2]string{
		{"/v1/prompts", `{"keys":["reply"],` + threeKeys},
		{"/v1/remoteconfigs", `{"keys":["limits"],` + threeKeys},
		{"/v1/remoteconfigs", `{"keys":["checkout"],` + threeKeys},
	})
}

// discard is a response writer that discards everything.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// A connection has deadlines, so discard has them, too.
func (d *discard) SetReadDeadline(time.Time) error  { return nil }
func (d *discard) SetWriteDeadline(time.Time) error { return nil }

// benchmarkRoute measures the gateway's own work for a request: path, key, parsing,
// evaluation, rendering, answer and record, without Caddy's server.
func benchmarkRoute(b *testing.B, path, body string) { benchmarkFiles(b, workspace, path, body) }

func benchmarkFiles(b *testing.B, files map[string]string, path, body string) {
	benchmarkAll(b, files, [][2]string{{path, body}})
}

// benchmarkAll measures a sequence of requests, each a path and a body.
func benchmarkAll(b *testing.B, files map[string]string, all [][2]string) {
	g := startGateway(b, files, options)
	reader := bytes.NewReader(nil)
	var requests []*http.Request
	for _, r := range all {
		request := httptest.NewRequest(http.MethodPost, r[0], nil)
		request.Header.Set("Authorization", "Bearer "+testKey)
		request.ContentLength = int64(len(r[1]))
		request.Body = io.NopCloser(reader)
		requests = append(requests, request)
	}
	w := &discard{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		for i, request := range requests {
			reader.Reset([]byte(all[i][1]))
			clear(w.header)
			g.serve(w, request)
			if w.status != http.StatusOK {
				b.Fatalf("status %d", w.status)
			}
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

func BenchmarkPromptsOfTenKeys(b *testing.B) {
	files := maps.Clone(workspace)
	var keys []string
	for n := range 10 {
		key := fmt.Sprintf("p%d", n)
		keys = append(keys, `"`+key+`"`)
		files["definitions/prompts/"+key+".yaml"] = workspace["definitions/prompts/reply.yaml"]
	}
	benchmarkFiles(b, files, "/v1/prompts", `{"keys":[`+strings.Join(keys, ",")+`],"context":{"locale":"nl-BE"},"variables":{"question":"Where is my order?","order":{"number":17,"lines":[1,2,3]}}}`)
}

// decidedFiles are a configuration and a prompt whose tables read five fields, two
// of them by a split: near the maximum cost of recording a decision.
func decidedFiles() map[string]string {
	files := maps.Clone(workspace)
	files["definitions/context.yaml"] += "  beta: { type: boolean }\n  customer_id: { type: string }\n"
	files["definitions/remoteconfigs/new_checkout.yaml"] = `
type: boolean
default: false
rules:
  - { id: off, when: { environment: staging }, value: false }
  - { id: beta, when: { beta: true }, value: true }
  - id: ramp
    when: { environment: production, plan: pro, locale: nl }
    split: { by: customer_id, of: [ { value: true, share: 50% }, { value: false, share: 50% } ] }
`
	return files
}

const decidedBody = `{"keys":["new_checkout"],"context":{"environment":"production","plan":"pro","locale":"nl-BE","beta":false,"customer_id":"c-1234567"}}`

// BenchmarkDecidedBySplit has a store that can't be opened, so that it does not
// measure the work of the writer.
func BenchmarkDecidedBySplit(b *testing.B) {
	files := decidedFiles()
	files["data"] = "no directory"
	benchmarkFiles(b, files, "/v1/remoteconfigs", decidedBody)
}

// BenchmarkFlag and BenchmarkRemoteConfig get the same value, and BenchmarkFlags50 gets
// fifty of them.
// BenchmarkGuarded is an answer by a split, and by one with a guard, while it is counted.
func BenchmarkGuarded(b *testing.B) {
	for name, split := range map[string]string{
		"split": "of: [ { value: x, share: 50% } ]",
		"guard": "guard: { new: x, control: y, steps: [50%], every: 1h, stop: [ { value: broken, as: rate, ratio: 1.2 } ] }",
	} {
		b.Run(name, func(b *testing.B) {
			files := maps.Clone(workspace)
			files["definitions/context.yaml"] += "  customer_id: { type: string }\n"
			files["definitions/remoteconfigs/button.yaml"] = "type: string\ndefault: y\nrules: [ { id: colours, split: { by: customer_id, " + split + " } } ]\n"
			benchmarkFiles(b, files, "/v1/remoteconfigs", `{"keys":["button"],"context":{"customer_id":"c-1"}}`)
		})
	}
}

func BenchmarkFlag(b *testing.B) {
	benchmarkRoute(b, "/ofrep/v1/evaluate/flags/limits", `{"context":{"environment":"production","plan":"pro","locale":"nl"}}`)
}

func BenchmarkFlags50(b *testing.B) {
	files := maps.Clone(workspace)
	for name := range files {
		if strings.Contains(name, "/remoteconfigs/") {
			delete(files, name)
		}
	}
	for n := range 50 {
		files[fmt.Sprintf("definitions/remoteconfigs/limits%d.yaml", n)] = workspace["definitions/remoteconfigs/limits.yaml"]
	}
	benchmarkFiles(b, files, "/ofrep/v1/evaluate/flags", `{"context":{"environment":"production","plan":"pro","locale":"nl"}}`)
}
