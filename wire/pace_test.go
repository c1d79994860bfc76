package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// oneConn is a listener of a single connection.
type oneConn struct {
	net.Conn
	taken, closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case l.taken <- struct{}{}:
		return l.Conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return l.LocalAddr() }

// serve serves a handler on a connection within a bubble of synctest, and
// returns the client's end.
func serve(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	listener := &oneConn{server, make(chan struct{}, 1), make(chan struct{})}
	s := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener)
	}()
	t.Cleanup(func() {
		client.Close()
		s.Close()
		<-done
	})
	return client
}

// ask sends a request and returns the answer's headers read.
func ask(t *testing.T, client net.Conn, from *bufio.Reader) *http.Response {
	t.Helper()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// TestSlowReader sends a large answer to readers of different pace.
func TestSlowReader(t *testing.T) {
	const size = 8 << 20
	for _, test := range []struct {
		name  string
		bytes int // read at once
		pause time.Duration
		cut   bool
	}{
		{"one that takes it", 1 << 20, time.Millisecond, false},
		{"a slow one", 64 << 10, time.Second, false},
		{"one that takes a little now and then", 16, 20 * time.Second, true},
		{"one that is too slow", 64 << 10, 2 * time.Second, true},
		{"one that stalls", 1, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := make(chan time.Duration, 1)
				client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					began := time.Now()
					LimitWrite(w, size)
					_, err := io.Copy(w, strings.NewReader(strings.Repeat("x", size)))
					if cut := errors.Is(err, os.ErrDeadlineExceeded); cut != test.cut {
						t.Errorf("%v", err)
					}
					took <- time.Since(began)
				})
				response := ask(t, client, bufio.NewReader(client))
				buffer, n := make([]byte, test.bytes), 0
				for {
					read, err := io.ReadFull(response.Body, buffer)
					if n += read; err != nil {
						break
					}
					time.Sleep(test.pause)
				}
				if test.cut == (n == size) {
					t.Errorf("%d bytes arrived", n)
				}
				if took := <-took; test.cut && took != WriteTime(size) {
					t.Errorf("cut after %s, not %s", took, WriteTime(size))
				}
			})
		})
	}
}

// TestWriteLimitEndsWithTheAnswer has a connection rest for longer than its last
// answer might have taken.
func TestWriteLimitEndsWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := true
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if limit {
				LimitWrite(w, 2)
			}
			limit = false // the next answer has no limit of its own
			_, _ = io.WriteString(w, "ok")
		})
		from := bufio.NewReader(client)
		for range 2 {
			response := ask(t, client, from)
			if body, err := io.ReadAll(response.Body); string(body) != "ok" || response.Close {
				t.Errorf("%q, %v, the connection closes: %t", body, err, response.Close)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestStreamLimit has a stream take its time. The deadlines of one that is told
// as it comes go on, those of one that is there from the beginning don't.
func TestStreamLimit(t *testing.T) {
	const events = 20
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := new(wireLog)
			s := NewEventStream(w, traceID)
			defer s.Close()
			limit := time.Now().Add(WriteTime(events * 200))
			if whole {
				s.Limit(events, events)
			}
			for range events {
				_ = s.Delta("x", true)
				time.Sleep(10 * time.Second)
			}
			if last := w.deadlines[len(w.deadlines)-1]; last.After(limit) == whole {
				t.Errorf("whole %t: the last deadline is %s after the limit", whole, last.Sub(limit))
			}
		})
	}
}
