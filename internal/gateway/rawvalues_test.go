package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/sinks/jsonlines"
)

// TestRawValuesAreNotRecorded searches the store's files, a sink and the log, at the log
// policy metadata, for the units of splits and for values of fields that must be hashed or
// omitted. Values that the data model has recorded as they are must be there, without secrets.
func TestRawValuesAreNotRecorded(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch {
		case bytes.Contains(text, []byte("refuse")):
			w.WriteHeader(http.StatusBadRequest)
		case bytes.Contains(text, []byte("break")), bytes.Contains(text, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("half of", ""))
		default:
			completion(w, "all of it")
		}
	})
	files := decidingFiles()
	files["definitions/context.yaml"] = strings.Replace(files["definitions/context.yaml"], "customer: { type: number, trace: value }", "customer: { type: number }", 1)
	table := `
rules:
  - { id: tags, when: { tags: { any: [canary-none] }, since: ..2001-01-01, secret: x, email: { matches: '^x' } }, value: V1 }
  - { id: customers, when: { config: { colour: [ grey, black ] } }, split: { by: customer, coverage: 0%, of: [ { value: V1, share: 100% } ] } }
  - { id: secrets, split: { by: secret, coverage: 0%, of: [ { value: V1, share: 100% } ] } }
  - { id: users, split: { by: user, of: [ { value: V1, share: 50% }, { value: V2, share: 50% } ] } }
`
	for _, name := range []string{"reply", "hello"} {
		whole := workspace["definitions/prompts/"+name+".yaml"]
		before, _, _ := strings.Cut(whole, "columns:")
		second := "nl"
		if name == "hello" {
			second = "only"
		}
		first := map[string]string{"reply": "en", "hello": "only"}[name]
		files["definitions/prompts/"+name+".yaml"] = before + strings.NewReplacer("V1", first, "V2", second).Replace(table)
	}
	files["definitions/remoteconfigs/checkout.yaml"] = "type: boolean\ndefault: false\n" + strings.NewReplacer("V1", "true", "V2", "false").Replace(table)
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nmax_attempts: 1\ncache: { ttl: 1h }\nidempotency: true\n"
	files["definitions/endpoints/varied.yaml"] = strings.Replace(files["definitions/endpoints/varied.yaml"], "prompt: limited", "prompt: hello", 1)

	const long = "canary-long-value "
	raw := []string{"canary-unit-4711", "918273645", "canary-element", "2031-07-09", "canary-hidden", strings.TrimSpace(long)}
	in := `"context":{"plan":"pro","environment":"production","user":"half-canary-unit-4711","customer":918273645,"tags":["canary-element"],` +
		`"since":"2031-07-09T10:11:12.131Z","secret":"canary-hidden","seats":700,"email":"E"}`
	short := strings.Replace(in, `"E"`, `"canary-shown, `+testKey+`"`, 1)
	in = strings.Replace(in, `"E"`, `"`+strings.Repeat(long, 20)+`"`, 1)

	copied := new(logBuffer)
	g := startGateway(t, files, fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) {
		c.Sinks = []gw.Sink{{Name: "copy", Sink: jsonlines.NewStream(copied)}}
	}))
	var ids []string
	for _, in := range []string{in, short} {
		const variables = `,"variables":{"question":`
		for _, request := range []struct{ path, body string }{
			{"/v1/prompts", `{"keys":["reply"],` + in + variables + `"a"}}`},
			{"/v1/prompts", `{"keys":["reply","hello"],` + in + variables + `"a"}}`},
			{"/v1/remoteconfigs", `{"keys":["checkout","banner","quiet","colour","team"],` + in + `}`},
			{"/v1/remoteconfigs", `{"keys":["team"],` + in + `}`}, // possibly from the cache
			{"/v1/decisions", `{"prompts":["reply"],"remoteconfigs":["team"],` + in + variables + `"a"}}`},
			{"/v1/endpoints", `{"key":"chat",` + in + variables + `"a"}}`},
			{"/v1/endpoints", `{"key":"chat",` + in + variables + `"a"}}`}, // from the cache
			{"/v1/endpoints", `{"key":"chat",` + in + variables + `"refuse"}}`},
			{"/v1/endpoints", `{"key":"varied",` + in + `}`},
			{"/v1/endpoints", `{"key":"varied","remoteconfigs":["checkout","team"],` + in + `}`},
			{"/v1/endpoints", `{"key":"chat","stream":true,` + in + variables + `"break"}}`},
		} {
			response, err := g.send(context.Background(), http.MethodPost, request.path, request.body, bearer(testKey))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
			if refused := strings.Contains(request.body, "refuse"); response.StatusCode != http.StatusOK && !refused {
				t.Errorf("%s: %d", request.path, response.StatusCode)
			}
			if id := response.Header.Get("Cadenza-Trace-Id"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		r := g.ended(t, id)
		if !bytes.Contains(r.Inputs, []byte(`"user":{"hash":"`)) {
			t.Errorf("%s %s: inputs %s", r.Kind, r.Key, r.Inputs)
		}
		eventually(t, "the sink has the trace", func() bool { return bytes.Contains(copied.Bytes(), []byte(id)) })
	}
	kept := map[string][]byte{"the log": g.logs.Bytes(), "the sink": copied.Bytes()}
	databases, err := filepath.Glob(filepath.Join(g.dir, "data/*"))
	if err != nil || len(databases) < 2 {
		t.Fatalf("the store has the files %q, %v: its log is to be looked at, too", databases, err)
	}
	for _, name := range databases {
		if kept[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	stored := 0
	for where, text := range kept {
		for _, value := range raw {
			if i := bytes.Index(text, []byte(value)); i >= 0 {
				t.Errorf("%s has %s: %q", where, value, text[max(0, i-100):min(len(text), i+100)])
			}
		}
		if bytes.Contains(text, []byte("canary-shown, [redacted:")) {
			stored++
		}
		if bytes.Contains(text, []byte(testKey)) {
			t.Errorf("%s has the API key", where)
		}
	}
	if stored < 2 {
		t.Errorf("a field with trace: value is in %d places", stored)
	}
}
