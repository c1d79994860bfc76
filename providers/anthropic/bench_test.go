package anthropic

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// endless reads the same events for ever.
type endless struct {
	events string
	at     int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.events[e.at:])
	e.at = (e.at + n) % len(e.events)
	return n, nil
}

// BenchmarkChunk is the cost of one piece of a stream.
func BenchmarkChunk(b *testing.B) {
	s := newStream(call{&Client{name: "anthropic"}, ""}, io.NopCloser(&endless{events: textDelta(" token")}), nil)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := s.Next(); err != nil || d.Content == "" {
			b.Fatal(d, err)
		}
	}
}

// TestAChunkAllocatesNothing holds what BenchmarkChunk shows: only the blocks
// of text are allocated, one for a great many pieces.
func TestAChunkAllocatesNothing(t *testing.T) {
	s := newStream(call{&Client{name: "anthropic"}, ""}, io.NopCloser(&endless{events: textDelta(" token") + ping}), nil)
	defer s.Close()
	if n := testing.AllocsPerRun(5000, func() {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}); n >= 0.1 {
		t.Errorf("%v allocations a piece", n)
	}
}

// memory answers without a network.
type memory struct{ body string }

func (m memory) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(m.body))}, nil
}

// BenchmarkInvoke is the cost of one call, the network left out.
func BenchmarkInvoke(b *testing.B) {
	for _, bench := range []struct {
		name   string
		stream bool
		body   string
	}{
		{"answer of 1.5 kB", false, joined(answer(strings.Repeat("word ", 300), "end_turn", 300))},
		{"stream of 50", true, joined(wholeStream(strings.Split(strings.Repeat("word ", 50), " ")...))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := client(b, "http://localhost")
			c.http.Transport = memory{bench.body}
			req := &providers.Request{Model: "m", Stream: bench.stream, Messages: []providers.Message{
				{Role: "system", Content: "You are the support agent of Acme."}, {Role: "user", Content: "Where is my order?"},
			}}
			b.ReportAllocs()
			for b.Loop() {
				s, err := c.Invoke(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = s.Next()
				}
				if err != io.EOF {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}
