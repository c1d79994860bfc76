package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hostileUpstream is a malicious server with OpenAI's API. The model of a request
// selects its behaviour.
type hostileUpstream struct {
	url     string
	hanging atomic.Int64 // the number of unanswered calls
	mu      sync.Mutex
	open    map[net.Conn]bool
	closed  bool
}

func newHostileUpstream(t *testing.T) *hostileUpstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &hostileUpstream{url: "http://" + listener.Addr().String() + "/v1", open: make(map[net.Conn]bool)}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if !u.keep(conn) {
				conn.Close()
				continue
			}
			wait.Go(func() {
				defer u.drop(conn)
				u.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		u.mu.Lock()
		u.closed = true
		for conn := range u.open {
			conn.Close()
		}
		u.mu.Unlock()
		wait.Wait()
	})
	return u
}

func (u *hostileUpstream) keep(conn net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.open[conn] = true
	}
	return !u.closed
}

func (u *hostileUpstream) drop(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, conn)
	conn.Close()
}

const (
	wholeHead  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// serve answers requests of a connection until one of them ends it.
func (u *hostileUpstream) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		var body struct {
			Model  string
			Stream bool
		}
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			return
		}
		_ = request.Body.Close()
		if !u.answer(conn, in, body.Model, body.Stream) {
			return
		}
	}
}

// answer behaves as the model says, and reports whether the connection can still be used.
func (u *hostileUpstream) answer(conn net.Conn, in *bufio.Reader, model string, stream bool) bool {
	chunk := func(text string) bool {
		_, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text)
		return err == nil
	}
	endless := func(head, first, text string) bool {
		if _, err := conn.Write([]byte(head)); err != nil {
			return false
		}
		for ok := chunk(first); ok; ok = chunk(text) {
		}
		return false
	}
	hold := func() bool {
		u.hanging.Add(1)
		defer u.hanging.Add(-1)
		_, _ = in.ReadByte() // until the gateway closes the connection
		return false
	}
	filler := strings.Repeat("x", 64<<10)
	switch model {
	case "hang":
		return hold()
	case "hang_in_stream":
		if _, err := conn.Write([]byte(streamHead)); err != nil || !chunk(event("Wait ")) {
			return false
		}
		return hold()
	case "switching":
		if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")); err != nil {
			return false
		}
		return hold()
	case "endless_header":
		_, err := conn.Write([]byte("HTTP/1.1 200 OK\r\n"))
		for err == nil {
			_, err = conn.Write([]byte("X-More: " + filler[:4<<10] + "\r\n"))
		}
		return false
	case "endless_error":
		return endless("HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
			`{"error":{"message":"`, filler)
	case "endless_line":
		return endless(streamHead, `data: {"choices":[{"index":0,"delta":{"content":"`, filler)
	case "endless_event":
		return endless(streamHead, "data: {\n", "data: "+filler+"\n")
	case "endless_events":
		return endless(streamHead, event("Once "), event(filler[:8<<10]))
	case "endless_body":
		return endless(wholeHead, `{"choices":[{"index":0,"message":{"content":"`, filler)
	case "drip":
		if _, err := conn.Write([]byte(wholeHead)); err != nil {
			return false
		}
		for chunk(" ") {
			time.Sleep(200 * time.Millisecond)
		}
		return false
	case "large_model": // the answer has a huge model name
		return u.complete(conn, strings.Repeat("m", 8<<20), "fine", stream)
	case "large":
		return u.complete(conn, "large", strings.Repeat("An answer. ", 80_000), stream)
	}
	return u.complete(conn, model, "fine", stream)
}

func event(content string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + content + `"}}]}` + "\n\n"
}

// complete answers correctly.
func (u *hostileUpstream) complete(conn net.Conn, model, content string, stream bool) bool {
	head, text := wholeHead, fmt.Sprintf(`{"model":%q,"choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}]}`, model, content)
	if stream {
		head, text = streamHead, ""
		for len(content) > 0 {
			n := min(len(content), 64<<10)
			text += event(content[:n])
			content = content[n:]
		}
		text += fmt.Sprintf(`data: {"model":%q,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, model) + "\n\ndata: [DONE]\n\n"
	}
	_, err := fmt.Fprintf(conn, "%s%x\r\n%s\r\n0\r\n\r\n", head, len(text), text)
	return err == nil
}
