package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// stream reads answers of {"text":…} and {"done":true}.
type stream struct {
	upstream.EventAnswer
	result providers.Result
}

// Next returns the next delta.
func (s *stream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is the answer as far as it is known.
func (s *stream) Result() providers.Result { return s.result }

// Step reads one event. Only the service's own word is an end.
func (s *stream) Step() (providers.Delta, error) {
	event, err := s.Event()
	if err != nil {
		return providers.Delta{}, s.Cut(err, false)
	}
	v, err := s.Parse(event)
	if err != nil {
		return providers.Delta{}, s.Cut(err, false)
	}
	if v.GetBool("done") {
		s.result.FinishReason = providers.FinishStop
		return providers.Delta{}, io.EOF
	}
	return providers.Delta{Content: s.Body.String(v.GetStringBytes("text"))}, nil
}

// describe reads the errors of the service, {"message":…}.
func describe(call upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	e.Message = call.Text(v.Get("message"))
	return e.Message != ""
}

// A client of a service, without its changes to a request.
func ExampleService() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-key-1234" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"message":"%s is not accepted"}`, r.Header.Get("Authorization"))
			return
		}
		io.WriteString(w, `data: {"text":"Hello, "}`+"\n\n"+`data: {"text":"world!"}`+"\n\n"+`data: {"done":true}`+"\n\n")
	}))
	defer server.Close()
	base, err := upstream.ParseBaseURL(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := []string{"the-key-1234", "another-5678"}
	service, err := upstream.NewService("acme", "", func() (string, error) {
		key := keys[0]
		keys = keys[1:]
		return key, nil
	}, upstream.Config{BaseURL: base})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()

	for range 2 {
		call, err := service.Begin()
		if err != nil {
			fmt.Println(err)
			return
		}
		request, err := service.Request(context.Background(), base.JoinPath("generate"), []byte(`{}`), true)
		if err != nil {
			fmt.Println(err)
			return
		}
		request.Header.Set("Authorization", "Bearer "+call.Secrets[0])
		body, err := service.Send(call, request, describe)
		if err != nil {
			fmt.Println(err)
			return
		}
		s := &stream{EventAnswer: upstream.NewEventAnswer(call, body, "an answer")}
		for err == nil {
			var delta providers.Delta
			delta, err = s.Next()
			fmt.Print(delta.Content)
		}
		fmt.Println("", s.Result().FinishReason)
		s.Close()
	}
	// Output:
	// Hello, world! stop
	// acme: status 401: [redacted] is not accepted
}

func ExampleEventReader() {
	events := upstream.NewEventReader(strings.NewReader(": ping\n\nevent: delta\ndata: one\ndata: two\n\ndata: [DONE]\n\n"), upstream.MaxEvent)
	for {
		event, err := events.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q %q\n", event.Name, event.Data)
	}
	// Output:
	// "delta" "one\ntwo"
	// "" "[DONE]"
	// EOF
}

func ExampleRedact() {
	fmt.Println(upstream.Redact("bad key my-key-1234, see https://api.acme.example/keys?token=abc", "my-key-1234"))
	// Output: bad key [redacted], see https://api.acme.example/keys?[redacted]
}
