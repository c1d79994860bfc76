//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// patience is the maximum time for one answer.
const patience = 30 * time.Second

// client is one connection that sends prepared requests. net/http would use more
// CPU time in the generator than the servers use.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

// doneEvent ends the streams of OpenAI and of the gateway.
const doneEvent = "data: [DONE]\n\n"

// answer describes an answer.
type answer struct {
	status  int
	length  int           // bytes of the body, without the framing of chunks
	first   time.Duration // from the request to the first bytes of the body
	elapsed time.Duration
	closes  bool     // the server closes the connection after it
	end     [16]byte // the last bytes of the body, if it came in chunks
	body    []byte   // only if the caller keeps it
}

func dial(address string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *client) close() { c.conn.Close() }

// do sends a request and reads the whole answer.
func (c *client) do(request []byte, keep bool) (a answer, err error) {
	start := time.Now()
	if err := c.conn.SetDeadline(start.Add(patience)); err != nil {
		return a, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return a, err
	}
	length, err := c.head(&a)
	if err != nil {
		return a, err
	}
	if length >= 0 {
		a.first = time.Since(start)
		err = c.body(&a, length, keep)
		a.elapsed = time.Since(start)
		return a, err
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return a, err
		}
		if a.first == 0 {
			a.first = time.Since(start)
		}
		if size > 0 {
			if err := c.body(&a, int(size), keep); err != nil {
				return a, err
			}
		}
		if _, err := c.r.Discard(2); err != nil {
			return a, err
		}
		if size == 0 {
			a.elapsed = time.Since(start)
			return a, nil
		}
	}
}

// head reads the status and the headers. The length is -1 for a body in chunks.
func (c *client) head(a *answer) (length int, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("the status line is %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("the status line is %q", line)
	}
	length = -2
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := header(line, "content-length:"); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		} else if _, ok := header(line, "transfer-encoding:"); ok {
			length = -1
		} else if _, ok := header(line, "connection:"); ok {
			a.closes = true // the only value that servers send
		}
	}
	if length == -2 {
		return 0, errors.New("the answer has neither a length nor chunks")
	}
	return length, nil
}

// body reads n bytes of the body.
func (c *client) body(a *answer, n int, keep bool) error {
	a.length += n
	if keep {
		start := len(a.body)
		a.body = append(a.body, make([]byte, n)...)
		_, err := io.ReadFull(c.r, a.body[start:])
		return err
	}
	if n > len(a.end) {
		if _, err := c.r.Discard(n - len(a.end)); err != nil {
			return err
		}
		n = len(a.end)
	}
	copy(a.end[:], a.end[n:])
	_, err := io.ReadFull(c.r, a.end[len(a.end)-n:])
	return err
}

// shape describes the load on a server.
type shape struct {
	connections int
	rate        int           // requests a second of all connections; 0: each sends again at once
	ramp        time.Duration // for press: the time until answers count
}

// result is the result of a round of load.
type result struct {
	answers int
	first   []time.Duration // sorted
}

// exchange is a request with the expected length and end of its answers. The
// content of the first answer was checked.
type exchange struct {
	address  string
	requests [][]byte // sent in turns
	length   int
	stream   bool // ends with [DONE]
}

// drive sends a request on all connections for some time, or, if limit is not 0,
// until there were as many answers. It returns after the last answer.
func drive(x exchange, s shape, d time.Duration, limit int) (result, error) {
	var (
		lock  sync.Mutex
		group sync.WaitGroup
		total result
		fault error
	)
	start := time.Now()
	end := start.Add(d)
	for i := range s.connections {
		share := limit / s.connections
		if i < limit%s.connections {
			share++
		}
		group.Go(func() {
			first, err := x.repeat(func(n int) bool {
				if limit > 0 {
					return n < share
				}
				if s.rate > 0 {
					// The connections take turns.
					turn := time.Duration(n*s.connections+i) * time.Second / time.Duration(s.rate)
					if turn >= d {
						return false
					}
					time.Sleep(time.Until(start.Add(turn)))
				}
				return time.Now().Before(end)
			})
			lock.Lock()
			defer lock.Unlock()
			total.answers += len(first)
			total.first = append(total.first, first...)
			if fault == nil {
				fault = err
			}
		})
	}
	group.Wait()
	slices.Sort(total.first)
	if fault == nil && total.answers == 0 {
		fault = errors.New("there was no answer in the time of a round")
	}
	return total, fault
}

// repeat sends the request on one connection as long as next returns true. next gets the
// number of requests sent so far. repeat returns the time to the first bytes of each answer.
func (x exchange) repeat(next func(int) bool) ([]time.Duration, error) {
	c, err := dial(x.address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var first []time.Duration
	for n := 0; next(n); n++ {
		a, err := c.do(x.requests[n%len(x.requests)], false)
		switch {
		case err != nil:
			return first, fmt.Errorf("request %d of a connection: %w", n, err)
		case a.status != 200:
			return first, fmt.Errorf("request %d of a connection: the status is %d, the end of the body %q", n, a.status, a.end)
		case a.length != x.length:
			return first, fmt.Errorf("request %d of a connection: the body has %d bytes where the first had %d", n, a.length, x.length)
		case x.stream && !bytes.HasSuffix(a.end[:], []byte(doneEvent)):
			return first, fmt.Errorf("request %d of a connection: the stream ends with %q and not with [DONE]", n, a.end)
		}
		first = append(first, a.first)
	}
	return first, nil
}
