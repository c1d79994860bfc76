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
		first int // bytes read at once
		bytes int // and then at a time
		pause time.Duration
		cut   time.Duration // after which it is cut off; 0: it isn't
	}{
		{"one that takes it", 0, 1 << 20, time.Millisecond, 0},
		{"a slow one", 0, 64 << 10, time.Second, 0},
		{"one that takes a little now and then", 0, 16, 20 * time.Second, WriteTime(writePiece)},
		{"one that is too slow", 0, 64 << 10, 2 * time.Second, WriteTime(size)},
		{"one that stalls", 0, 1, time.Hour, WriteTime(writePiece)},
		{"one that stalls in the middle", size / 2, 1, time.Hour, WriteTime(writePiece)},
		{"one that stalls in the last piece", size - writePiece/2, 1, time.Hour, WriteTime(writePiece)},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := make(chan time.Duration, 1)
				client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					began := time.Now()
					err := WriteBody(w, []byte(strings.Repeat("x", size)), time.Now())
					if errors.Is(err, os.ErrDeadlineExceeded) != (test.cut > 0) {
						t.Errorf("%v", err)
					}
					took <- time.Since(began)
				})
				response := ask(t, client, bufio.NewReader(client))
				n, err := io.CopyN(io.Discard, response.Body, int64(test.first))
				for buffer := make([]byte, test.bytes); err == nil; time.Sleep(test.pause) {
					var read int
					read, err = io.ReadFull(response.Body, buffer)
					n += int64(read)
				}
				if (test.cut > 0) == (n == size) {
					t.Errorf("%d bytes arrived", n)
				}
				if took := <-took; test.cut > 0 && took != test.cut {
					t.Errorf("cut after %s, not %s", took, test.cut)
				}
			})
		})
	}
}

// slowWriter takes its time for each write, and records the time then left
// until its deadline.
type slowWriter struct {
	wireLog
	pause time.Duration
	left  []time.Duration
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.left = append(w.left, time.Until(w.deadlines[len(w.deadlines)-1]))
	time.Sleep(w.pause)
	return w.wireLog.Write(p)
}

// TestLargeEventsHaveDeadlines sends an event of several pieces. Each piece has
// its own deadline, which is never later than the deadline of the whole event
// or of the whole stream, if that has one.
func TestLargeEventsHaveDeadlines(t *testing.T) {
	const pieces, pause = 3, 2 * time.Second
	for _, limited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &slowWriter{pause: pause}
			s := newAnswer(w)
			defer s.Close()
			content := strings.Repeat("x", pieces*writePiece-1000)
			if limited {
				s.Limit(0, 0) // much less than it has
			}
			if err := s.Delta(content, true); err != nil {
				t.Fatal(err)
			}
			if len(w.left) != pieces || !strings.Contains(strings.Join(w.entries(), ""), event(content, false)) {
				t.Errorf("an event of %d writes", len(w.left))
			}
			for n, left := range w.left {
				least, most := WriteTime(writePiece-1000), WriteTime(writePiece)+deadlineSlack
				if limited {
					least = writeTimeout - time.Duration(n)*pause
					most = least
				}
				if left < least || left > most {
					t.Errorf("limited %t, piece %d: %s left, not %s to %s", limited, n, left, least, most)
				}
			}
		})
	}
}

// TestSmallBodiesAreWrittenOnce: a body of one piece costs one write and one
// deadline, and a larger one as many as it has pieces.
func TestSmallBodiesAreWrittenOnce(t *testing.T) {
	for size, pieces := range map[int]int{0: 1, 1: 1, writePiece: 1, writePiece + 1: 2, 3 * writePiece: 3} {
		w := new(wireLog)
		body := strings.Repeat("x", size)
		if err := WriteBody(w, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		if log := w.entries(); len(log) != pieces || strings.Join(log, "") != body || len(w.deadlines) != pieces {
			t.Errorf("%d bytes in %d writes, with %d deadlines", size, len(log), len(w.deadlines))
		}
	}
}

// TestWriteLimitEndsWithTheAnswer has a connection rest for longer than its last
// answer might have taken.
func TestWriteLimitEndsWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := true
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if limit {
				_ = WriteBody(w, []byte("ok"), time.Now())
			} else {
				_, _ = io.WriteString(w, "ok")
			}
			limit = false // the next answer has no limit of its own
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

// TestStreamLimit slows a stream down. The deadlines go on if events are sent
// as they arise; they don't if all content is known at the beginning.
func TestStreamLimit(t *testing.T) {
	const events = 20
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := new(wireLog)
			s := newAnswer(w)
			defer s.Close()
			limit := time.Now().Add(WriteTime(events * (1 + aroundContent)))
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
