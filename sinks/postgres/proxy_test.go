package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a bad network between a sink and its database.
type proxy struct {
	listener net.Listener
	to       string

	delay     atomic.Int64 // of each piece, at most, in nanoseconds
	silent    atomic.Bool  // requests are dropped
	deaf      atomic.Bool  // answers are dropped
	cutAfter  atomic.Int64 // bytes from the client, then the connection is cut; 0: never
	cutCommit atomic.Int32 // commits whose answer does not come back any more
	commits   atomic.Int32 // whose answer did not come back

	mu    sync.Mutex
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, to: to, conns: make(map[net.Conn]bool)}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *proxy) dsn() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=1", p.listener.Addr())
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		closeBoth := sync.OnceFunc(func() {
			client.Close()
			server.Close()
			p.mu.Lock()
			delete(p.conns, client)
			delete(p.conns, server)
			p.mu.Unlock()
		})
		var mute atomic.Bool // the answer to a commit is not to come back
		p.work.Go(func() { defer closeBoth(); p.pump(server, client, true, &mute) })
		p.work.Go(func() { defer closeBoth(); p.pump(client, server, false, &mute) })
	}
}

func (p *proxy) pump(to, from net.Conn, upwards bool, mute *atomic.Bool) {
	buffer := make([]byte, 8<<10)
	passed := int64(0)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		piece := buffer[:n]
		if most := p.delay.Load(); most > 0 {
			time.Sleep(rand.N(time.Duration(most)))
		}
		if p.silent.Load() || !upwards && (p.deaf.Load() || mute.Load()) {
			continue
		}
		if upwards && bytes.Contains(piece, []byte("commit\x00")) && p.cutCommit.Add(-1) >= 0 {
			mute.Store(true)
			p.commits.Add(1)
			time.AfterFunc(30*time.Millisecond, func() { from.Close() })
		}
		if limit := p.cutAfter.Load(); upwards && limit > 0 {
			if passed+int64(n) > limit {
				to.Write(piece[:max(0, limit-passed)])
				return
			}
		}
		passed += int64(n)
		if _, err := to.Write(piece); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}
