package providertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Bare starts an HTTP/1.1 server on a loopback address that answers every request
// with reply at once. It uses only the header and the body of reply; a body with
// several pieces is sent in chunks. The server does as little as possible and does
// not allocate for a request, so a benchmark in the same process measures the
// client. Bare returns the server's URL, without a path.
func Bare(t testing.TB, reply Reply) string {
	t.Helper()
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n")
	for name, value := range reply.Header {
		fmt.Fprintf(&answer, "%s: %s\r\n", name, value)
	}
	if len(reply.Body) == 1 {
		fmt.Fprintf(&answer, "Content-Length: %d\r\n\r\n%s", len(reply.Body[0]), reply.Body[0])
	} else {
		answer.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for _, piece := range reply.Body {
			fmt.Fprintf(&answer, "%x\r\n%s\r\n", len(piece), piece)
		}
		answer.WriteString("0\r\n\r\n")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serveBare(c, answer.Bytes())
		}
	}()
	return "http://" + listener.Addr().String()
}

// serveBare answers the requests of a connection until its client closes it.
func serveBare(c net.Conn, answer []byte) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		length := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= len("\r\n") {
				break
			}
			const name = "Content-Length: "
			if len(line) > len(name) && string(line[:len(name)]) == name {
				for _, digit := range bytes.TrimSpace(line[len(name):]) {
					length = 10*length + int(digit-'0')
				}
			}
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// served is a call of a provider over the network.
type served struct {
	name   string
	stream bool
	reply  Reply
}

// connectServed connects a provider to a server with the reply and returns a request
// with 1 KB of messages, prepared like the gateway's.
func (s *Subject) connectServed(t testing.TB, c served) (providers.Provider, *providers.Request) {
	t.Helper()
	p, req := s.Connect(t, Bare(t, c.reply)), s.request(c.stream)
	req.Messages = []providers.Message{
		{Role: "system", Content: providers.Escape(strings.Repeat("You are the support agent of Acme. ", 15))},
		{Role: "user", Content: providers.Escape(strings.Repeat("Where is my order? ", 25))},
	}
	req.Parameters.Temperature, req.Parameters.MaxTokens = new(0.2), new(int64(400))
	var err error
	if req.Prepared, err = providers.Prepare(p, req); err != nil {
		t.Fatal(err)
	}
	return p, req
}

// servedCalls returns a whole answer of 300 words and a stream of 100 words.
func servedCalls(whole func(text string) Reply, stream func(words ...string) Reply) []served {
	return []served{
		{"whole", false, whole(strings.Repeat("word ", 300))},
		{"stream of 100", true, stream(slices.Repeat([]string{"word "}, 100)...)},
	}
}

// call makes one call and reads its answer to the end.
func call(t testing.TB, p providers.Provider, req *providers.Request) {
	answer, err := p.Invoke(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = answer.Next()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	answer.Close()
}

// BenchmarkServed measures one call of a server at a loopback address, and for comparison
// net/http's transport alone with the same bytes. whole and stream make the two replies.
func (s *Subject) BenchmarkServed(b *testing.B, whole func(text string) Reply, stream func(words ...string) Reply) {
	for _, c := range servedCalls(whole, stream) {
		b.Run(c.name, func(b *testing.B) {
			p, req := s.connectServed(b, c)
			call(b, p, req)
			b.ReportAllocs()
			for b.Loop() {
				call(b, p, req)
			}
		})
		b.Run(c.name+", the transport alone", func(b *testing.B) {
			base, body := Bare(b, c.reply), strings.Repeat("x", 1200)
			transport := &http.Transport{DisableCompression: true}
			b.Cleanup(transport.CloseIdleConnections)
			buffer := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Content-Type", MediaJSON)
				r.Header.Set("Authorization", "Bearer "+strconv.Itoa(b.N))
				resp, err := transport.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buffer)
				}
				resp.Body.Close()
			}
		})
	}
}

// CheckServedAllocations checks the maximum number of allocations of one call of a
// server after the first one, including allocations of net/http's transport.
func (s *Subject) CheckServedAllocations(t *testing.T, whole func(text string) Reply, stream func(words ...string) Reply, most map[string]float64) {
	t.Helper()
	for _, c := range servedCalls(whole, stream) {
		p, req := s.connectServed(t, c)
		if n := testing.AllocsPerRun(300, func() { call(t, p, req) }); n > most[c.name] {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, n, most[c.name])
		}
	}
}
