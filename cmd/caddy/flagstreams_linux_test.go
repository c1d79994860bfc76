package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// flagTraceKey is the trace key of the gateways whose streams a test opens.
const flagTraceKey = "5fb1c2a09d7e4e63b8f0d4c91a7e2f68"

// maxOfStream is what a stream may take of the process's memory, in bytes.
const maxOfStream = 48 << 10

// TestManyFlagStreams opens streams of flags' changes over HTTP/1.1, CADENZA_FLAG_STREAMS
// of them (default: 300), and checks what memory of the process each takes, and that all
// learn of an edit. The machine needs twice as many descriptors, and a few more.
func TestManyFlagStreams(t *testing.T) {
	streams := 300
	if text := os.Getenv("CADENZA_FLAG_STREAMS"); text != "" {
		var err error
		if streams, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	flag := func(on bool) {
		gatewaytest.Write(t, dir, "definitions/remoteconfigs/banner.yaml", fmt.Sprintf("type: boolean\ndefault: %t\n", on))
	}
	flag(false)
	gatewaytest.Write(t, dir, "Caddyfile", `{
		admin off
		persist_config off
		cadenza {
			definitions `+dir+`/definitions
			store sqlite `+dir+`/cadenza.db
			api_key demo {env.CADENZA_API_KEY}
			trace_key {env.CADENZA_TRACE_KEY}
		}
	}
	{env.CADENZA_ADDRESS} {
		cadenza
	}
	`)
	// Garbage is not what a stream takes: with the usual GOGC the process may keep as much
	// of it as it uses.
	p := newProcess(t, filepath.Join(dir, "cadenza.db"), "CADENZA_TRACE_KEY="+flagTraceKey, "GOGC=10")
	text, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Write(t, dir, "Caddyfile", strings.Replace(string(text), "{env.CADENZA_ADDRESS}", p.url, 1))
	p.startWith(filepath.Join(dir, "Caddyfile"))
	address := strings.TrimPrefix(p.url, "http://")
	path := "/ofrep/v1/events?token=" + gatewaytest.FlagToken(t, flagTraceKey, "default", "demo", demoKey, time.Now().Add(time.Hour))

	before, err := memory(p.command.Process.Pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	var readers sync.WaitGroup
	connections := make([]net.Conn, 0, streams)
	defer func() {
		for _, c := range connections {
			c.Close()
		}
		readers.Wait()
	}()
	for range streams {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		connections = append(connections, c)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", path, address)
		began := make(chan struct{})
		readers.Go(func() {
			lines := bufio.NewReaderSize(c, 512)
			for started := false; ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "HTTP/1.1 ") && !strings.Contains(line, " 200 ") {
					t.Error(line)
					return
				}
				if strings.HasPrefix(line, "data: ") { // the first: the address says nothing of a state
					if !started {
						close(began)
						started = true
					} else {
						told.Add(1)
					}
				}
			}
		})
		select {
		case <-began:
		case <-time.After(time.Minute):
			t.Fatalf("stream %d does not begin: %s", len(connections), p.output)
		}
	}
	after, err := memory(p.command.Process.Pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams: %.1f MB, before %.1f MB, %.1f KB for each", streams, float64(after)/1e6, float64(before)/1e6, float64(after-before)/1e3/float64(streams))

	edited := time.Now()
	flag(true)
	p.eventually("all streams tell of the edit", func() bool { return told.Load() == int64(streams) })
	took := time.Since(edited)
	last, err := memory(p.command.Process.Pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all told after %v, then %.1f MB", took, float64(last)/1e6)
	// A collection may leave some garbage of the rest, which few streams don't outweigh.
	// The race detector's memory, some hundred KB for each goroutine, is not the gateway's.
	if grown, most := max(after, last)-before, int64(streams)*maxOfStream+32<<20; grown > most && !raceEnabled {
		t.Errorf("the streams take %d bytes, at most %d are expected", grown, most)
	}
	if streams >= 10_000 && (last > 600e6 || took > 2*time.Second) {
		t.Errorf("%.1f MB, and an edit reached all after %v", float64(last)/1e6, took)
	}

	// Without a grace period Caddy waits for requests forever: these end by themselves.
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		t.Errorf("the process waits for the streams:\n%s", p.output)
	}
}
