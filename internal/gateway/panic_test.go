package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// panicking is a provider that panics: at once, or after a word if its model is "later".
type panicking struct{}

const panicText = "the caller said: my secret"

func (panicking) Invoke(_ context.Context, r *providers.Request) (providers.Stream, error) {
	if r.Model != "later" {
		panic(panicText)
	}
	return new(panickingStream), nil
}

type panickingStream struct{ said bool }

func (s *panickingStream) Next() (providers.Delta, error) {
	if s.said {
		panic(panicText)
	}
	s.said = true
	return providers.Delta{Content: "one "}, nil
}

func (s *panickingStream) Result() providers.Result { return providers.Result{} }
func (s *panickingStream) Close() error             { return nil }

// TestAPanicEndsItsRequestAlone has a provider that panics: the caller gets an error or a cut
// stream, the log has the place but not the text of the panic, and the gateway continues.
func TestAPanicEndsItsRequestAlone(t *testing.T) {
	t.Parallel()
	files := single()
	for _, when := range []string{"now", "later"} {
		files["definitions/prompts/"+when+".yaml"] = fmt.Sprintf("provider: faulty\nmodel: %s\nmessages: [ { role: user, content: hello } ]\n", when)
		files["definitions/endpoints/"+when+".yaml"] = fmt.Sprintf("prompt: %s\nmax_attempts: 1\n", when)
	}
	g := startGateway(t, files, withProvider("faulty", panicking{}))
	for _, test := range []struct {
		key    string
		stream bool
	}{
		{"now", false}, {"now", true}, {"later", false},
	} {
		a := g.post("/v1/endpoints", fmt.Sprintf(`{"key":%q,"stream":%t}`, test.key, test.stream))
		if a.status != http.StatusInternalServerError {
			t.Errorf("%s, stream %t: status %d", test.key, test.stream, a.status)
		}
		checkError(t, a, "internal", "")
	}
	response, err := g.send(t.Context(), http.MethodPost, "/v1/endpoints", `{"key":"later","stream":true}`, bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that a panic broke off ended with %v", err)
	}
	if got := string(text); !strings.Contains(got, `"one "`) || !strings.HasSuffix(got, "}\n\n") || !strings.Contains(got, "event: error\n") || !strings.Contains(got, `"upstream_interrupted"`) {
		t.Errorf("the stream was %q", got)
	}
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "afterwards")
	logs := g.logs.Bytes()
	if n := strings.Count(string(logs), "a request panicked"); n != 4 || !strings.Contains(string(logs), "panickingStream") {
		t.Errorf("%d panics are logged with their places", n)
	}
	if strings.Contains(string(logs), panicText) {
		t.Error("the log repeats what the panic said")
	}
}
