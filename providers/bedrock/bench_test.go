package bedrock

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// chunks reads the same message for ever.
type chunks struct {
	chunk string
	at    int
}

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p, c.chunk[c.at:])
	c.at = (c.at + n) % len(c.chunk)
	return n, nil
}

// BenchmarkChunk is the cost of one chunk of a stream, checksums included.
func BenchmarkChunk(b *testing.B) {
	s := newStream(&Client{name: "bedrock"}, &http.Response{Body: io.NopCloser(&chunks{chunk: delta(" token")})}, testModel, nil)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := s.Next(); err != nil || d.Content == "" {
			b.Fatal(d, err)
		}
	}
}

// memory answers in process.
type memory struct{ body string }

func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(m.body)), Request: req}, nil
}

// BenchmarkCall is the cost of a signed call, without a network.
func BenchmarkCall(b *testing.B) {
	for _, bench := range []struct {
		name   string
		stream bool
		body   string
	}{
		{"whole", false, answer(strings.Repeat("word ", 300), "end_turn", 30, 300).Body[0]},
		{"stream of 50", true, join(wholeStream(strings.Split(strings.Repeat("word ", 50), " ")...))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := client(b, "http://localhost", signing)
			c.http.Transport = memory{bench.body}
			req := request(bench.stream)
			b.ReportAllocs()
			for b.Loop() {
				s, err := c.Invoke(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				if o := drain(s); o.err != nil {
					b.Fatal(o.err)
				}
				s.Close()
			}
		})
	}
}
