// Package providertest has the common tools for tests of providers:
//
//   - [Upstream], a local server whose answers and failures a test specifies byte by
//     byte,
//   - [Run], the contract that every provider must pass,
//   - [Subject], checks for cases of a single wire format: unusual, cut and corrupt
//     answers, error bodies, requests.
package providertest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// End is how a reply ends.
type End int

// The ways a reply ends.
const (
	// Complete ends the body correctly.
	Complete End = iota
	// Cut closes the connection without the body's end.
	Cut
	// Reset resets the connection.
	Reset
	// Hang sends nothing more until the client closes the connection.
	Hang
	// Unframed sends the body without a length or chunks and closes the
	// connection, so its end looks like a cut.
	Unframed
)

// Reply is one answer of an upstream.
type Reply struct {
	// Status is the HTTP status; 0 means 200. If it is negative, nothing is
	// sent, not even headers, and only End applies. After 101 nothing is sent
	// until the client closes the connection.
	Status int
	Header map[string]string
	// Body is sent piece by piece, each in its own write and chunk.
	Body []string
	// Delay is the pause before each piece, HeaderDelay before the headers.
	Delay, HeaderDelay time.Duration
	// Gate, if set, is received from before each piece except the first.
	Gate <-chan struct{}
	End  End

	joined bool // the end of a complete body is sent with its last piece
}

// Text returns the whole body.
func (r Reply) Text() string { return strings.Join(r.Body, "") }

// Ended returns the reply with another end.
func Ended(how End, r Reply) Reply {
	r.End = how
	return r
}

// Request is a request received by an upstream.
type Request struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   string
}

// Upstream is an HTTP server with scripted replies, on a loopback address.
type Upstream struct {
	// URL is its base URL, without a path.
	URL string

	server *httptest.Server
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex
	next     []Reply
	always   *Reply
	choose   func(Request) Reply
	requests []Request
	conns    atomic.Int64
	active   atomic.Int64
}

// NewUpstream starts an upstream, and closes it when the test ends.
func NewUpstream(t testing.TB) *Upstream {
	u := &Upstream{closed: make(chan struct{})}
	u.server = httptest.NewUnstartedServer(http.HandlerFunc(u.serve))
	u.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			u.conns.Add(1)
		}
	}
	u.server.Start()
	u.URL = u.server.URL
	t.Cleanup(u.Close)
	return u
}

// Close stops the upstream and its unfinished replies.
func (u *Upstream) Close() {
	u.close.Do(func() { close(u.closed) })
	u.server.CloseClientConnections()
	u.server.Close()
}

// Then adds replies to the next requests, one reply for each.
func (u *Upstream) Then(replies ...Reply) *Upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = append(u.next, replies...)
	return u
}

// Always sets the reply to requests for which no other reply was set.
func (u *Upstream) Always(reply Reply) *Upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.always = &reply
	return u
}

// Choose sets a function that makes the replies to requests for which no other reply
// was set. Several goroutines may call it concurrently.
func (u *Upstream) Choose(choose func(Request) Reply) *Upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.choose = choose
	return u
}

// Play is Choose for a factory of the contract, and passes the requests to the test.
func (u *Upstream) Play(b Behaviour, choose func(Request) Reply) *Upstream {
	return u.Choose(func(r Request) Reply {
		if b.asked != nil {
			b.asked(r)
		}
		if reply, ok := endless(b); ok {
			return reply
		}
		return choose(r)
	})
}

// Requests returns the requests so far.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Request(nil), u.requests...)
}

// Connections returns the number of connections that were opened.
func (u *Upstream) Connections() int { return int(u.conns.Load()) }

// Active returns the number of requests being answered.
func (u *Upstream) Active() int { return int(u.active.Load()) }

func (u *Upstream) take(r Request) Reply {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests = append(u.requests, r)
	switch {
	case len(u.next) > 0:
		reply := u.next[0]
		u.next = u.next[1:]
		return reply
	case u.choose != nil:
		return u.choose(r)
	case u.always != nil:
		return *u.always
	}
	return Reply{Status: http.StatusNotImplemented, Body: []string{"no reply was set"}}
}

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	u.active.Add(1)
	defer u.active.Add(-1)
	body, _ := io.ReadAll(r.Body)
	reply := u.take(Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
	if !wait(r, reply.HeaderDelay) {
		return
	}
	if reply.Status < 0 {
		end(w, r, reply.End)
		return
	}
	if reply.Status == 0 {
		reply.Status = http.StatusOK
	}
	if reply.Status == http.StatusSwitchingProtocols {
		u.switchProtocols(w)
		return
	}
	if reply.End == Unframed {
		unframed(w, reply)
		return
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(reply.Status)
	flush := http.NewResponseController(w).Flush
	flush()
	for i, piece := range reply.Body {
		if i > 0 && reply.Gate != nil {
			select {
			case <-reply.Gate:
			case <-r.Context().Done():
				return
			}
		}
		if !wait(r, reply.Delay) {
			return
		}
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
		if !reply.joined || i < len(reply.Body)-1 {
			flush()
		}
	}
	if reply.End != Complete {
		end(w, r, reply.End)
	}
}

func wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// end ends an answer incorrectly.
func end(w http.ResponseWriter, r *http.Request, how End) {
	if how == Hang {
		<-r.Context().Done()
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && how == Reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// switchProtocols answers 101 and then sends nothing on the connection, until the
// client closes it or the upstream ends.
func (u *Upstream) switchProtocols(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	select {
	case <-gone:
	case <-u.closed:
		conn.Close()
		<-gone
	}
}

func unframed(w http.ResponseWriter, reply Reply) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\nConnection: close\r\n", reply.Status, http.StatusText(reply.Status))
	for name, value := range reply.Header {
		fmt.Fprintf(&head, "%s: %s\r\n", name, value)
	}
	head.WriteString("\r\n")
	head.WriteString(strings.Join(reply.Body, ""))
	conn.Write(head.Bytes())
}
