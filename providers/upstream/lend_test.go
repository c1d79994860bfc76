package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// TestLend holds that memory is not given back while anything may read it.
func TestLend(t *testing.T) {
	const size = buffers.Smallest + 1000
	text := bytes.Repeat([]byte("a"), size)
	lend := func() (*http.Request, func()) {
		r, err := http.NewRequest(http.MethodPost, "http://host.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r, Lend(r, append(buffers.Get(size), text...))
	}
	read := func(from io.Reader) {
		t.Helper()
		if got, err := io.ReadAll(from); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	isBack := func(r *http.Request) bool {
		t.Helper()
		return r.Body.(*loanReader).loan.users.Load() == 0
	}

	// The call ends before the transport closes the body, as with an early answer.
	r, sent := lend()
	sent()
	read(r.Body)
	if isBack(r) {
		t.Error("the memory is given back while a reader is open")
	}
	for range 2 {
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if !isBack(r) {
		t.Error("the memory is not given back at the end")
	}
	if n, err := r.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a read after the end: %d bytes, %v", n, err)
	}

	// A request that is sent again has another reader.
	r, sent = lend()
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	if isBack(r) {
		t.Error("the memory is given back before the request is sent again")
	}
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	sent()
	for range 2 {
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	read(again)
	if isBack(r) {
		t.Error("the memory is given back while the second reader is open")
	}
	again.Close()
	if !isBack(r) {
		t.Error("the memory is not given back at the end")
	}

	// Small bodies are read as they are.
	r, err = http.NewRequest(http.MethodPost, "http://host.test", bytes.NewReader(text[:10]))
	if err != nil {
		t.Fatal(err)
	}
	before := r.Body
	if Lend(r, text[:10:10])(); r.Body != before {
		t.Error("a small body is lent")
	}
}

// TestLendClosedWhileRead closes a body in the middle of a read, as HTTP/2 does. The
// memory is overwritten then: a read must have all of it from before.
func TestLendClosedWhileRead(t *testing.T) {
	for range 20 {
		r, err := http.NewRequest(http.MethodPost, "http://host.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		body := buffers.Get(buffers.Largest)
		body = body[:cap(body)]
		for i := range body {
			body[i] = 'a'
		}
		Lend(r, body)()
		var group sync.WaitGroup
		group.Go(func() {
			var piece [4 << 10]byte
			for {
				n, err := r.Body.Read(piece[:])
				if len(bytes.Trim(piece[:n], "a")) > 0 {
					t.Error("a read has what another request wrote")
				}
				if err != nil {
					return
				}
			}
		})
		group.Go(func() {
			r.Body.Close()
			other := buffers.Get(buffers.Largest)
			other = other[:cap(other)]
			for i := range other {
				other[i] = 'b'
			}
		})
		group.Wait()
	}
}
