package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

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
		copy(body, bytes.Repeat([]byte{'a'}, len(body)))
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
			copy(other, bytes.Repeat([]byte{'b'}, len(other)))
		})
		group.Wait()
	}
}

// TestLentBodyIsWrittenFromItsMemory: a client writes a large body without a copy. A write
// that hangs uses the memory after the request was given up, until its connection is closed.
func TestLentBodyIsWrittenFromItsMemory(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	client, err := NewClient(Config{BaseURL: address, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text := bytes.Repeat([]byte("a"), buffers.Largest)
	request := func(ctx context.Context) (*http.Request, *loan, func()) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		sent := Lend(r, append(buffers.Get(len(text)), text...))
		return r, r.Body.(*loanReader).loan, sent
	}
	users := func(l *loan, n int64) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); l.users.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d use the memory, not %d", l.users.Load(), n)
			}
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, hangs, sent := request(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Do(r)
		ended <- err
	}()
	silent, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	users(hangs, 3) // the call, the body and the write
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a request that hangs ends with %v", err)
	}
	sent()
	users(hangs, 0)

	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, text) {
			http.Error(w, fmt.Sprintf("%d bytes, %v", len(got), err), http.StatusBadRequest)
		}
	})}
	defer server.Close()
	go server.Serve(listener)
	r, whole, sent := request(t.Context())
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Errorf("%d %s", response.StatusCode, answer)
	}
	sent()
	users(whole, 0)
}
