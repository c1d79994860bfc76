package upstream

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// Lend has a request with the body, made by Service.Request, give the memory of a large
// body back to package buffers: once it is sent, which the returned function says, and
// all readers of the body are closed. A transport may read on after it has returned an
// error, or an answer that came before the body was sent, until it closes the body.
// The caller must not use the body afterwards.
func Lend(r *http.Request, body []byte) (sent func()) {
	if cap(body) < buffers.Smallest {
		return func() {}
	}
	l := &loan{body: body}
	l.users.Store(1) // the call
	r.Body, _ = l.reader()
	r.GetBody = l.reader
	return l.leave
}

// loan is memory that a call and its transport use.
type loan struct {
	body  []byte
	users atomic.Int64
}

// leave gives the memory back when its last user leaves.
func (l *loan) leave() {
	if l.users.Add(-1) == 0 {
		buffers.Put(l.body)
	}
}

// reader returns a reader of the whole body. It is called while the call or another
// reader uses the memory.
func (l *loan) reader() (io.ReadCloser, error) {
	l.users.Add(1)
	return &loanReader{loan: l, rest: l.body}, nil
}

// loanReader reads memory that is given back. HTTP/2 closes a body while it reads it.
type loanReader struct {
	loan *loan

	lock   sync.Mutex
	rest   []byte
	closed bool
}

func (r *loanReader) Read(p []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case r.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(r.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// writeTo writes what is left, of so many bytes, from its own memory. It does not hold the
// lock meanwhile: a transport may close the body of a connection that hangs.
func (r *loanReader) writeTo(w io.Writer, most int64) (int64, error) {
	r.lock.Lock()
	if r.closed {
		r.lock.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	text := r.rest[:min(int64(len(r.rest)), most)]
	r.rest = r.rest[len(text):]
	r.loan.users.Add(1)
	r.lock.Unlock()
	defer r.loan.leave()
	n, err := w.Write(text)
	return int64(n), err
}

func (r *loanReader) Close() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return nil
	}
	r.closed, r.rest = true, nil
	r.loan.leave()
	return nil
}

// connection is a connection that a lent body is written to at once. Otherwise net/http
// would copy it, 32 KiB at a time.
type connection struct{ *net.TCPConn }

// ReadFrom implements io.ReaderFrom. net/http reads a body through the bound of its length.
func (c connection) ReadFrom(r io.Reader) (int64, error) {
	if bounded, ok := r.(*io.LimitedReader); ok {
		if body, ok := bounded.R.(*loanReader); ok {
			n, err := body.writeTo(c.TCPConn, bounded.N)
			bounded.N -= n
			return n, err
		}
	}
	return c.TCPConn.ReadFrom(r)
}
