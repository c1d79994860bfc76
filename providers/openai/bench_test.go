package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func response(r io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(r)}
}

// chunks reads the same chunk for ever.
type chunks struct {
	chunk string
	at    int
}

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p, c.chunk[c.at:])
	c.at = (c.at + n) % len(c.chunk)
	return n, nil
}

// BenchmarkChunk is the cost of one chunk of a stream.
func BenchmarkChunk(b *testing.B) {
	s := newStream(&Client{name: "openai"}, response(&chunks{chunk: pt.ContentChunk(" token")}), nil)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := s.Next(); err != nil || d.Content == "" {
			b.Fatal(d, err)
		}
	}
}

// memory answers in process.
type memory struct {
	body   string
	header http.Header
}

func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{StatusCode: 200, Header: m.header, Body: io.NopCloser(strings.NewReader(m.body)), Request: req}, nil
}

// BenchmarkCall is the cost of a call, without a network.
func BenchmarkCall(b *testing.B) {
	for _, bench := range []struct {
		name   string
		stream bool
		body   string
	}{
		{"whole", false, pt.OpenAIAnswer(strings.Repeat("word ", 300), 300).Body[0]},
		{"stream of 50", true, strings.Join(pt.OpenAIStream(strings.Split(strings.Repeat("word ", 50), " ")...).Body, "")},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := client(b, "http://localhost")
			c.http.Transport = memory{bench.body, http.Header{}}
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
