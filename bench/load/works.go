//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// work is one kind of request, with the shape of its load.
type work struct {
	name  string
	title string
	shape shape

	// gateway is the path and the body of the request to the gateway.
	path, body string
	// upstream is, for a call, the body of the same request to the provider,
	// which plain Caddy's reverse_proxy forwards. It is empty for an
	// evaluation, which plain Caddy answers with respond.
	upstream string
	// content is a text in each correct answer of the gateway.
	content string
	// metadata and logged are the goals for the ratios at log metadata and content.
	metadata, logged float64
}

func (w work) stream() bool { return strings.Contains(w.upstream, `"stream":true`) }

// Works that have their own table.
const (
	latency = "first"   // counts the time to the first token
	reports = "reports" // counts durable answers
	held    = "streams" // keeps streams open
	vectors = "vector"  // has no words in its answers
	growth  = "memory"  // reads the memory after many calls
)

// works returns the works to measure, in the order of the table.
func works() []work {
	prompt := strings.Repeat("The parcel is late. ", 52)[:1024]
	call := func(name, title, model string, s shape, metadata, logged float64) work {
		w := work{name: name, title: title, shape: s, path: "/v1/endpoints", metadata: metadata, logged: logged}
		w.body = compact(map[string]any{"key": model, "variables": map[string]any{"text": prompt}})
		question := map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": prompt}}}
		w.content = `"content":"` + words(40) + `","is_final":true`
		if model != modelWhole {
			w.body = strings.TrimSuffix(w.body, "}") + `,"stream":true}`
			question["stream"] = true
			question["stream_options"] = map[string]any{"include_usage": true}
			w.content = `"content":" word","is_final":false}`
		}
		w.upstream = compact(question)
		return w
	}
	flatOut := shape{connections: 64}
	few := shape{connections: 8}
	return []work{
		call("json", "`/v1/endpoints`, JSON, 1 KB prompt, 64 connections flat out", modelWhole, flatOut, 1.3, 1.4),
		call("json500", "the same at 500 requests/s", modelWhole, shape{connections: 64, rate: 500}, 1.2, 1.25),
		call("burst", "stream of 102 events, 64 connections flat out", modelBurst, flatOut, 1.2, 1.25),
		call("once", "the same, written at once by the provider", modelOnce, flatOut, 0, 0),
		conversation("history", "`/v1/chat/completions`, 200 messages, 1 MiB", "/v1/chat/completions", chatted(200, 1<<20), few),
		conversation("messages", "the same at `/v1/endpoints`", "/v1/endpoints", chatted(200, 1<<20), few),
		conversation("image", "`/v1/chat/completions`, an image of 1 MiB in base64", "/v1/chat/completions", pictured(1<<20), few),
		call("gentle", "20 gentle streams of 52 events", modelGentle, shape{connections: 20}, 1.1, 1.1),
		{
			name: vectors, title: "`/v1/embeddings`, a vector of 1,536 numbers, 1 KB text", shape: flatOut,
			path: "/v1/embeddings", body: compact(map[string]any{"model": "vectors", "input": prompt}),
			upstream: compact(map[string]any{"model": modelVector, "input": prompt}),
			content:  `-0.021484375,0.0078125]}],"model":"vectors"`, metadata: 1.5, logged: 1.5,
		},
		{
			name: "boolean", title: "`/v1/remoteconfigs`, one boolean, 2 fields", shape: flatOut,
			path: "/v1/remoteconfigs", body: `{"keys":["flag"],"context":{"environment":"production","plan":"pro"}}`,
			content: `"value":true,"type":"boolean"`, metadata: 1.3, logged: 1.4,
		},
		{
			name: "table", title: "`/v1/remoteconfigs`, 100 rows, 5 fields", shape: flatOut,
			path:    "/v1/remoteconfigs",
			body:    `{"keys":["limits"],"context":{"environment":"production","locale":"nl-BE","plan":"plan-12","seats":120,"beta":true}}`,
			content: `"value":{"rpm":62}`, metadata: 1.2, logged: 1.3,
		},
		{
			name: "prompt", title: "`/v1/prompts`, 2 KB, 2 variables", shape: flatOut,
			path:    "/v1/prompts",
			body:    `{"keys":["letter"],"variables":{"name":"Ada Lovelace","question":"Where is my parcel, and when will it be here?"}}`,
			content: `Dear Ada Lovelace, `, metadata: 1.3, logged: 1.5,
		},
		{
			name: reports, title: "`/v1/metrics`, 64 connections flat out", shape: flatOut,
			path: "/v1/metrics", body: `{"trace_id":"%s","score":85}`, content: `{"ok":true}`,
		},
		call(latency, "time to first token, streams of 12 events at 500 requests/s", modelShort, shape{connections: 64, rate: 500}, 0, 0),
	}
}

// modelTalk is an endpoint that accepts the caller's messages.
const modelTalk = "talk"

// conversation returns a call whose caller brings the messages.
func conversation(name, title, path string, messages []any, s shape) work {
	question := map[string]any{"model": modelWhole, "messages": messages}
	w := work{name: name, title: title, shape: s, path: path, upstream: compact(question), content: `"content":"` + words(40) + `"`}
	delete(question, "model")
	if question["model"] = modelTalk; path == "/v1/endpoints" {
		delete(question, "model")
		question["key"] = modelTalk
	}
	w.body = compact(question)
	return w
}

// chatted returns a conversation of n messages whose texts have size bytes in all.
// About each fortieth byte needs an escape.
func chatted(n, size int) []any {
	text := strings.Repeat("It said: \"the parcel is on its way.\"\nNobody knows where the parcel is now, or when it will be here.\n", size/n/100+1)[:size/n]
	list := make([]any, n)
	for i := range list {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		list[i] = map[string]any{"role": role, "content": text}
	}
	return list
}

// pictured returns a question about an image of size bytes in base64.
func pictured(size int) []any {
	data := strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", size/24+1)[:size]
	return []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "text", "text": "What is this?"},
		map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + data}},
	}}}
}

// compact returns a value as JSON.
func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and maps of them
	}
	return string(text)
}

// writeDefinitions writes the directory of definitions for the works.
func writeDefinitions(dir string) error {
	files := map[string]string{
		"context.yaml": `fields:
  environment: { type: string, values: [production, staging, development] }
  locale:      { type: string, match: language-range }
  plan:        { type: string }
  seats:       { type: number }
  beta:        { type: boolean }
`,
		"remoteconfigs/flag.yaml": `type: boolean
default: false
columns: [ environment, plan, value ]
matrix:
  - [ staging,    any,               true ]
  - [ production, [pro, enterprise], true ]
`,
		"prompts/letter.yaml": fmt.Sprintf(`provider: mock
model: %s
variables:
  name:     { required: true }
  question: { required: true }
messages:
  - { role: system, content: "You answer letters. %s" }
  - { role: user,   content: "Dear {{name}}, this was asked: {{question}}" }
`, modelWhole, strings.Repeat("Be kind, and be short. ", 85)),
	}
	var table strings.Builder
	table.WriteString("type: object\ndefault: { rpm: 0 }\ncolumns: [ environment, locale, plan, seats, beta, value ]\nmatrix:\n")
	environments, locales := []string{"staging", "development", "production"}, []string{"fr", "de", "nl"}
	for row := range 100 {
		fmt.Fprintf(&table, "  - [ %s, %s, plan-%d, %d.., %t, { rpm: %d } ]\n",
			environments[row%3], locales[row/3%3], row/5, row, row%2 == 0, row)
	}
	files["remoteconfigs/limits.yaml"] = table.String()
	for _, model := range []string{modelWhole, modelBurst, modelOnce, modelShort, modelGentle, modelStuck} {
		files["prompts/"+model+".yaml"] = fmt.Sprintf("provider: mock\nmodel: %s\nvariables:\n  text: { required: true }\nmessages:\n  - { role: user, content: \"{{text}}\" }\n", model)
		files["endpoints/"+model+".yaml"] = fmt.Sprintf("prompt: %s\n", model)
	}
	files["endpoints/vectors.yaml"] = fmt.Sprintf("task: embedding\ntargets: [ { provider: mock, model: %s, space: bench } ]\n", modelVector)
	files["prompts/"+modelTalk+".yaml"] = fmt.Sprintf("provider: mock\nmodel: %s\nmessages:\n  - { history: true }\n", modelWhole)
	files["endpoints/"+modelTalk+".yaml"] = fmt.Sprintf("prompt: %s\naccept: { history: true }\n", modelTalk)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// request returns the bytes of a request.
func request(path, body string) []byte {
	return []byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway.test\r\nUser-Agent: load\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, apiKey, len(body), body))
}

// try sends a request once to a server that may still be starting, checks its answer,
// and returns the exchange that all later answers must match.
func (s *server) try(address string, ask []byte, content string, stream bool) (exchange, error) {
	x := exchange{address: address, requests: [][]byte{ask}, stream: stream}
	c, err := s.dial(address)
	if err != nil {
		return x, err
	}
	defer c.close()
	a, err := c.do(ask, true)
	switch {
	case err != nil:
		return x, err
	case a.status != 200:
		return x, fmt.Errorf("the status is %d: %s", a.status, a.body)
	case !bytes.Contains(a.body, []byte(content)):
		return x, fmt.Errorf("the answer lacks %q: %.2000s", content, a.body)
	case stream && !bytes.HasSuffix(a.body, []byte(doneEvent)):
		return x, fmt.Errorf("the stream does not end with [DONE]: %.2000s", a.body)
	}
	x.length = a.length
	return x, nil
}

// reportsOn returns reports on new traces of a gateway.
func (s *server) reportsOn(body string) (list [][]byte, err error) {
	c, err := s.dial(s.listen)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for range 64 {
		a, err := c.do(request("/v1/prompts", `{"keys":["letter"],"variables":{"name":"Ada","question":"Where?"}}`), true)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Letter struct {
				TraceID string `json:"trace_id"`
			} `json:"letter"`
		}
		if err := json.Unmarshal(a.body, &answer); err != nil || answer.Letter.TraceID == "" {
			return nil, fmt.Errorf("a prompt has no trace id: %.200s", a.body)
		}
		list = append(list, request("/v1/metrics", fmt.Sprintf(body, answer.Letter.TraceID)))
	}
	return list, nil
}
