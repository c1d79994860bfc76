package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stalledReaders asks for answers just below the ceiling, and reads a few bytes
// of them from time to time.
func stalledReaders(t *testing.T, s *siege) {
	body := `{"keys":` + keysOf("once", 7) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`
	var wait sync.WaitGroup
	var begun, whole atomic.Int64
	const readers = 9 // as many as a workspace has memory for
	for range readers {
		wait.Go(func() {
			dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				// It must be set before the handshake, which sets the window.
				return c.Control(func(fd uintptr) {
					_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
				})
			}}
			conn, err := dialer.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", s.head("/v1/prompts", attackerKey), len(body), body)
			response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
			if err != nil {
				t.Error(err)
				return
			}
			switch response.StatusCode {
			case http.StatusOK:
				begun.Add(1)
			case http.StatusServiceUnavailable: // no memory while others are recorded
				return
			default:
				t.Errorf("answers below the ceiling: %d", response.StatusCode)
			}
			for end := time.Now().Add(ceilings.stalled); err == nil && time.Now().Before(end); time.Sleep(2 * time.Second) {
				_, err = io.CopyN(io.Discard, response.Body, 16)
			}
			if err == nil {
				// The bytes in flight can still be read.
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				_, err = io.Copy(io.Discard, response.Body)
			}
			if err == nil {
				whole.Add(1)
			}
		})
	}
	wait.Wait()
	if n := whole.Load(); n > 0 || begun.Load() == 0 {
		t.Errorf("%d of %d readers that stalled for %s got their answers all the same", n, begun.Load(), ceilings.stalled)
	}
}

// drippingBodies sends bodies byte by byte until the deadline for a body cuts them.
func drippingBodies(t *testing.T, s *siege) {
	var wait sync.WaitGroup
	var read atomic.Int64
	for range 20 {
		wait.Go(func() {
			conn, err := net.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sContent-Length: 10000\r\n\r\n{", s.head("/v1/remoteconfigs", attackerKey))
			ended := make(chan error, 1)
			go func() {
				_ = conn.SetReadDeadline(time.Now().Add(ceilings.dripping))
				_, err := io.Copy(io.Discard, conn)
				ended <- err
			}()
			for {
				select {
				case err := <-ended:
					if errors.Is(err, os.ErrDeadlineExceeded) {
						read.Add(1)
					}
					return
				case <-time.After(time.Second):
					_, _ = conn.Write([]byte(" "))
				}
			}
		})
	}
	wait.Wait()
	if n := read.Load(); n > 0 {
		t.Errorf("%d of 20 bodies that drip are still read after %s", n, ceilings.dripping)
	}
}

// announcedBodies announces bodies of requests that are refused before their body is
// read. The error must come at once.
func announcedBodies(t *testing.T, s *siege) {
	tests := []struct {
		name, path, key, header string
		status                  int
	}{
		{"an unknown key", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Content-Length: 10000", http.StatusUnauthorized},
		{"an unknown key, in chunks", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Transfer-Encoding: chunked", http.StatusUnauthorized},
		{"an unknown key that expects", "/v1/remoteconfigs", "not-a-key-of-this-gateway", "Content-Length: 10000000\r\nExpect: 100-continue", http.StatusUnauthorized},
		{"an unknown path", "/v1/nothing", attackerKey, "Content-Length: 10000", http.StatusNotFound},
		{"a body that is too large", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000000", http.StatusRequestEntityTooLarge},
		{"a body that is too large and expected", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000000\r\nExpect: 100-continue", http.StatusRequestEntityTooLarge},
		{"an encoding", "/v1/remoteconfigs", attackerKey, "Content-Length: 10000\r\nContent-Encoding: gzip", http.StatusUnsupportedMediaType},
	}
	var wait sync.WaitGroup
	for _, test := range tests {
		wait.Go(func() {
			conn, err := net.Dial("tcp", s.host())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s%s\r\n\r\n", s.head(test.path, test.key), test.header)
			if !strings.Contains(test.header, "Expect") {
				_, _ = conn.Write([]byte("1"))
			}
			_ = conn.SetReadDeadline(time.Now().Add(ceilings.patience))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != test.status || !response.Close {
				t.Errorf("%s: %s, the connection closes: %v", test.name, response.Status, response.Close)
			}
		})
	}
	wait.Wait()
}
