package providers_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Echo answers with the last message of the request, word by word.
type Echo struct{}

// Invoke begins an answer.
func (Echo) Invoke(_ context.Context, req *providers.Request) (providers.Stream, error) {
	// Echo has no parameters: the optional ones are named in the result.
	leftOut, err := req.Parameters.Lacking("echo")
	if err != nil {
		return nil, err
	}
	words := strings.SplitAfter(req.Messages[len(req.Messages)-1].Content.Plain(), " ")
	return &echo{words: words, result: providers.Result{Model: req.Model, LeftOut: leftOut}}, nil
}

type echo struct {
	words  []string
	result providers.Result
}

// Next returns the next word, and io.EOF after the last one.
func (e *echo) Next() (providers.Delta, error) {
	if len(e.words) == 0 {
		e.result.FinishReason = providers.FinishStop
		return providers.Delta{}, io.EOF
	}
	word := e.words[0]
	e.words = e.words[1:]
	return providers.Delta{Content: word, More: true}, nil
}

// Result is the answer as far as it is known.
func (e *echo) Result() providers.Result { return e.result }

// Close ends the call.
func (e *echo) Close() error { return nil }

func ExampleProvider() {
	temperature := 0.5
	stream, err := Echo{}.Invoke(context.Background(), &providers.Request{
		Model:      "echo-1",
		Messages:   []providers.Message{{Role: "user", Content: "Hello, world!"}},
		Parameters: providers.Parameters{Temperature: &temperature},
		Stream:     true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for {
		delta, err := stream.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q\n", delta.Content)
	}
	result := stream.Result()
	fmt.Println(result.Model, result.FinishReason, "without", result.LeftOut)
	// Output:
	// "Hello, "
	// "world!"
	// echo-1 stop without [temperature]
}

func ExampleParameters_Lacking() {
	p := providers.Parameters{Tools: []providers.Tool{{Name: "get_weather"}}}
	_, err := p.Lacking("echo", "temperature", "max_tokens")
	fmt.Println(err)
	// Output: echo: status 400 (tools): echo has no tools, without which the answer would be another
}
