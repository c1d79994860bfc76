package inflight

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn reports to the connections that it is closed, as a server does that
// reads from it.
type fakeConn struct {
	net.Conn
	of   *Connections
	once sync.Once
}

func (c *fakeConn) Close() error {
	c.once.Do(func() { c.of.State(c, http.StateClosed) })
	return nil
}

// opened has connections go through states, one after the other.
func opened(c *Connections, states ...http.ConnState) *fakeConn {
	conn := &fakeConn{of: c}
	for _, state := range states {
		c.State(conn, state)
		time.Sleep(time.Millisecond)
	}
	return conn
}

func (c *Connections) has(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[conn] != nil
}

func TestScarce(t *testing.T) {
	var c Connections
	for open := 1; open <= 8; open++ {
		opened(&c, http.StateNew)
		c.SetLimit(0)
		if c.Scarce() {
			t.Errorf("%d of any number are scarce", open)
		}
		c.SetLimit(8)
		if got := c.Scarce(); got != (open > 4) {
			t.Errorf("%d of 8: %t", open, got)
		}
	}
}

func TestNewConnectionTakesThePlaceOfTheLongestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Connections
		c.SetLimit(4)
		first := opened(&c, http.StateNew, http.StateActive, http.StateIdle)
		second := opened(&c, http.StateNew, http.StateActive, http.StateIdle)
		busy := opened(&c, http.StateNew, http.StateActive)
		silent := opened(&c, http.StateNew)
		// The first has another request in between.
		c.State(first, http.StateActive)
		c.State(first, http.StateIdle)
		began := time.Now()
		fifth := opened(&c, http.StateNew, http.StateActive)
		if c.has(second) || !c.has(first) {
			t.Error("another was closed than the one that idled longest")
		}
		sixth := opened(&c, http.StateNew, http.StateActive)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("they waited %s", took)
		}
		if c.has(second) || c.has(first) || !c.has(busy) || !c.has(silent) || !c.has(fifth) || !c.has(sixth) {
			t.Error("another was closed than the two that idled")
		}
		if idle, silent, refused := c.Closed(); idle != 2 || silent != 0 || refused != 0 {
			t.Errorf("%d, %d, %d were closed", idle, silent, refused)
		}
		// None idles: one that has said nothing for long is next.
		time.Sleep(silence)
		if opened(&c, http.StateNew); c.has(silent) || c.Open() != 4 {
			t.Errorf("%d are open, the silent one: %v", c.Open(), c.has(silent))
		}
	})
}

func TestConnectionWaitsForAPlace(t *testing.T) {
	for _, test := range []struct {
		name  string
		state http.ConnState // of the busy connection, half a second later
		let   bool
	}{
		{"one is closed", http.StateClosed, true},
		{"one idles", http.StateIdle, true},
		{"one is taken over", http.StateHijacked, true},
		{"all stay busy", http.StateActive, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Connections
				c.SetLimit(1)
				busy := opened(&c, http.StateNew, http.StateActive)
				time.AfterFunc(acceptWait/2, func() { c.State(busy, test.state) })
				began := time.Now()
				late := &fakeConn{of: &c}
				c.State(late, http.StateNew)
				took := time.Since(began)
				synctest.Wait()
				if c.has(late) != test.let || c.Open() != 1 {
					t.Errorf("let in: %v, %d are open", c.has(late), c.Open())
				}
				if want := acceptWait; test.let && took > want*3/4 || !test.let && took != want {
					t.Errorf("after %s", took)
				}
				if _, _, refused := c.Closed(); (refused == 0) != test.let {
					t.Errorf("%d refused", refused)
				}
			})
		})
	}
}

func TestNoCeilingOfConnections(t *testing.T) {
	var c Connections
	for range 100 {
		c.State(&fakeConn{of: &c}, http.StateNew)
	}
	if c.Open() != 100 {
		t.Errorf("%d are open", c.Open())
	}
	// It ignores an unknown connection, for example from before a reload.
	c.State(&fakeConn{of: &c}, http.StateIdle)
	c.State(&fakeConn{of: &c}, http.StateClosed)
	if c.Open() != 100 {
		t.Errorf("%d are open", c.Open())
	}
}

// TestServerKeepsToItsConnections has many callers at once on a real server of
// few connections: all are answered, and none finds it full.
func TestServerKeepsToItsConnections(t *testing.T) {
	const limit, callers = 8, 200
	var c Connections
	c.SetLimit(limit)
	most := make(chan int, callers)
	server := &http.Server{
		ConnState: c.State,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			most <- c.Open()
			_, _ = io.WriteString(w, "fine")
		}),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			// Each keeps its connection, as clients do.
			client := &http.Client{Transport: new(http.Transport)}
			response, err := client.Get("http://" + listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
		})
	}
	group.Wait()
	close(most)
	for n := range most {
		if n > limit {
			t.Fatalf("%d connections were open", n)
		}
	}
}

func BenchmarkConnectionOfARequest(b *testing.B) {
	var c Connections
	c.SetLimit(10)
	conn := opened(&c, http.StateNew)
	b.ReportAllocs()
	for b.Loop() {
		c.State(conn, http.StateActive)
		c.State(conn, http.StateIdle)
	}
}
