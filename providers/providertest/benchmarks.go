package providertest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Endless returns a body that repeats the same events for ever.
func Endless(events string) io.ReadCloser { return &endlessBody{events: events} }

type endlessBody struct {
	events string
	at     int
}

func (e *endlessBody) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		more := copy(p[n:], e.events[e.at:])
		e.at = (e.at + more) % len(e.events)
		n += more
	}
	return len(p), nil
}

func (*endlessBody) Close() error { return nil }

// InProcess is a transport that answers every request with Body, without a
// network.
type InProcess struct {
	Body string
	// URL is the URL of the last request.
	URL string
}

// RoundTrip implements http.RoundTripper.
func (p *InProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	p.URL = req.URL.String()
	_, err := io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(p.Body)), Request: req}, err
}

// BenchmarkPiece measures one piece of a stream. Each event has one piece.
func (s *Subject) BenchmarkPiece(b *testing.B, event string) {
	answer := s.Open(Endless(event))
	defer answer.Close()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := answer.Next(); err != nil || d.Content == "" {
			b.Fatal(d, err)
		}
	}
}

// CheckPieceAllocations checks the allocations in BenchmarkPiece: only the blocks of
// text are allocated, one for many pieces.
func (s *Subject) CheckPieceAllocations(t *testing.T, events string) {
	t.Helper()
	answer := s.Open(Endless(events))
	defer answer.Close()
	if n := testing.AllocsPerRun(5000, func() {
		if _, err := answer.Next(); err != nil {
			t.Fatal(err)
		}
	}); n >= 0.1 {
		t.Errorf("%v allocations a piece", n)
	}
}

// BenchmarkCalls measures one call without a network. connect makes a provider that uses a
// transport; whole and stream make the two bodies, which have the same words.
func (s *Subject) BenchmarkCalls(b *testing.B, connect func(http.RoundTripper) providers.Provider, whole func(text string) Reply, stream func(words ...string) Reply) {
	for _, bench := range []struct {
		name   string
		stream bool
		body   string
	}{
		{"whole", false, whole(strings.Repeat("word ", 300)).Text()},
		{"stream of 50", true, stream(strings.Split(strings.Repeat("word ", 50), " ")...).Text()},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := connect(&InProcess{Body: bench.body})
			req := s.request(bench.stream)
			req.Messages = []providers.Message{
				{Role: "system", Content: "You are the support agent of Acme."}, {Role: "user", Content: "Where is my order?"},
			}
			b.ReportAllocs()
			for b.Loop() {
				answer, err := p.Invoke(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = answer.Next()
				}
				if err != io.EOF {
					b.Fatal(err)
				}
				answer.Close()
			}
		})
	}
}
