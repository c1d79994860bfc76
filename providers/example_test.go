package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cadenza-gateway/cadenza/providers"
)

// shouting answers with the last message, without a network.
type shouting struct{}

func (shouting) Invoke(_ context.Context, req *providers.Request) (providers.Stream, error) {
	return &shout{text: req.Messages[len(req.Messages)-1].Content + "!", model: req.Model}, nil
}

// shout is an answer of one piece.
type shout struct {
	text, model string
	said        bool
}

func (s *shout) Next() (providers.Delta, error) {
	if s.said {
		return providers.Delta{}, io.EOF
	}
	s.said = true
	return providers.Delta{Content: s.text}, nil
}

func (s *shout) Result() providers.Result {
	return providers.Result{Model: s.model, FinishReason: providers.FinishStop}
}

func (*shout) Close() error { return nil }

// The gateway reads an answer to io.EOF, which a provider returns only if the
// service said that the answer is whole.
func ExampleProvider() {
	var p providers.Provider = shouting{}
	stream, err := p.Invoke(context.Background(), &providers.Request{
		Model: "loud-1", Messages: []providers.Message{{Role: "user", Content: "Hello"}},
	})
	if err != nil {
		panic(err)
	}
	defer stream.Close()
	for {
		delta, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(delta.Content)
	}
	fmt.Println(stream.Result().FinishReason)
	// Output:
	// Hello!
	// stop
}
