package invoke

import (
	"context"
	"io"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// ready is a provider that answers at once and costs nothing, so that the
// benchmark measures the engine.
type ready struct {
	pieces int
	result providers.Result
}

type readyStream struct {
	*ready
	left int
}

func (p *ready) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	return &readyStream{p, p.pieces}, nil
}

func (s *readyStream) Close() error             { return nil }
func (s *readyStream) Result() providers.Result { return s.result }
func (s *readyStream) Next() (providers.Delta, error) {
	if s.left == 0 {
		return providers.Delta{}, io.EOF
	}
	s.left--
	return providers.Delta{Content: "word", More: s.left > 0}, nil
}

// readyCall is a call with a target that answers at once, of two.
func readyCall(pieces int) *Call {
	p := &ready{pieces: pieces, result: providers.Result{Model: "m", FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2}}}
	target := Target{Name: "p", Provider: p, Model: "m"}
	return &Call{
		Targets: []Target{target, target}, Messages: []providers.Message{{Role: "user", Content: "hi"}},
		Stream: pieces > 1,
	}
}

// maxCallAllocations is how many objects a call allocates that its first target
// answers, the provider's one among them.
const maxCallAllocations = 8

func TestAllocationsOfACall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, pieces := range map[string]int{"whole": 1, "stream": 100} {
		e, c := NewEngine(), readyCall(pieces)
		// A caller's context can end.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := testing.AllocsPerRun(100, func() {
			if _, err := e.Invoke(ctx, c, func(providers.Delta) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
		if got > maxCallAllocations {
			t.Errorf("%s: %.0f allocations, at most %d are allowed", name, got, maxCallAllocations)
		}
	}
}

func benchmarkInvoke(b *testing.B, pieces int) {
	e, c := NewEngine(), readyCall(pieces)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Invoke(ctx, c, func(providers.Delta) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B)          { benchmarkInvoke(b, 1) }
func BenchmarkCallOfAStream(b *testing.B) { benchmarkInvoke(b, 102) }
