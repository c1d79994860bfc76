//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binaryVariable is the environment variable with the path of a gateway's binary.
// Without it the test builds one.
const binaryVariable = "CADENZA_LOAD_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(mockVariable) != "" {
		serveMock()
		return
	}
	os.Exit(m.Run())
}

// TestQuick runs the command with a real gateway, to check that it works. Its
// figures are meaningless.
func TestQuick(t *testing.T) {
	args := []string{"-json", "-quick", "-logs", "none,metadata", "-works", "json,reports,memory,streams,overload,readers"}
	if binary := os.Getenv(binaryVariable); binary != "" {
		args = append(args, "-binary", binary)
	} else if testing.Short() {
		t.Skipf("linking the gateway takes a while, and %s names none", binaryVariable)
	}
	var output, progress bytes.Buffer
	if err := run(t.Context(), args, &output, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	var r report
	if err := json.Unmarshal(output.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Works) != 2 || len(r.Memory) != 3 || len(r.Streams) != 6 {
		t.Fatalf("%d works, %d processes and %d kinds of streams were measured, want 2, 3 and 6", len(r.Works), len(r.Memory), len(r.Streams))
	}
	if r.Overload == nil || len(r.Overload.Crowds) != len(crowdCases) {
		t.Fatalf("the overload is %+v", r.Overload)
	}
	for _, c := range r.Overload.Crowds {
		if c.Answers[0] < 1 || c.Busy[0] <= 0 {
			t.Errorf("%s: %+v", c.Title, *c)
		}
	}
	if f := r.Overload.Refusal; f.CPU[0] < 1 || f.Respond[0] < 1 || f.Answer[0] < 1 {
		t.Errorf("a refusal: %+v", f)
	}
	if n := r.Readers; n == nil || n.Alone[0] <= 0 || n.Read[0] <= 0 || len(n.Pages) != 5 {
		t.Errorf("the readers are %+v", n)
	}
	for _, m := range r.Memory {
		if m.After < 10e6 || m.After > 1e9 {
			t.Errorf("%s has %d bytes", m.Target, m.After)
		}
	}
	for _, s := range r.Streams {
		if s.Open != s.Asked || s.Errors != 0 || s.Peak < 10e6 {
			t.Errorf("the streams are %+v", s)
		}
	}
	for _, m := range r.Works {
		for _, target := range []string{plain, "none", "metadata"} {
			f := m.Targets[target]
			if f == nil {
				t.Fatalf("%s: %s was not measured", m.Name, target)
			}
			if len(f.CPU) != 1 || f.CPU[0] < 1 || f.CPU[0] > 1e5 || f.Answers[0] < 1 || (f.Ratio > 0) != (target != plain) {
				t.Errorf("%s: %s has the figures %+v", m.Name, target, *f)
			}
		}
	}
}

func TestMockAnswers(t *testing.T) {
	m, err := startMock()
	if err != nil {
		t.Fatal(err)
	}
	defer m.listener.Close()
	for model, events := range map[string]int{modelWhole: 0, modelBurst: 102, modelOnce: 102, modelShort: 12, modelGentle: 52} {
		c, err := dial(m.address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		ask := request("/v1/chat/completions", `{"model":"`+model+`"}`)
		first, err := c.do(ask, true)
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		for line := range strings.Lines(string(first.body)) {
			text, ok := strings.CutPrefix(line, "data: ")
			if ok && text != "[DONE]\n" && !json.Valid([]byte(text)) {
				t.Errorf("%s: an event is no JSON: %s", model, text)
			}
		}
		if got := bytes.Count(first.body, []byte(`"chat.completion.chunk"`)); got != events {
			t.Errorf("%s: %d events, want %d", model, got, events)
		}
		if events == 0 && !json.Valid(first.body) {
			t.Errorf("%s: the answer is no JSON: %s", model, first.body)
		}
		// The connection is used again. An answer that is not kept has the same counts.
		second, err := c.do(ask, false)
		if err != nil {
			t.Fatalf("%s, again: %v", model, err)
		}
		if second.length != first.length || !bytes.HasSuffix(first.body, second.end[:]) {
			t.Errorf("%s: the second answer has %d bytes and ends with %q, the first has %d", model, second.length, second.end, first.length)
		}
	}
}

// TestWrongAnswers checks that wrong answers do not count.
func TestWrongAnswers(t *testing.T) {
	const right = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	for _, c := range []struct {
		answer, want string
		stream       bool
	}{
		{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ngood", "the status is 503", false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ngreat", "the body has 5 bytes where the first had 4", false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n", "not with [DONE]", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngo", "EOF", false},
		{"HTTP/1.1 200 OK\r\n\r\ngood", "neither a length nor chunks", false},
		{"nonsense\r\n\r\n", "the status line is", false},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			for _, answer := range []string{right, c.answer} {
				if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
					return
				}
				if _, err := io.WriteString(conn, answer); err != nil {
					return
				}
			}
		}()
		x := exchange{address: listener.Addr().String(), requests: [][]byte{[]byte("ask\n")}, length: 4, stream: c.stream}
		_, err = drive(x, shape{connections: 1}, time.Minute, 2)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: the error is %v, want %q in it", c.answer, err, c.want)
		}
		listener.Close()
	}
}

func TestMarkdown(t *testing.T) {
	json, first := works()[0], works()[len(works())-1]
	r := report{Date: time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC), Machine: "a machine", Load: "1 2 3", Binary: "abc", Rounds: 3, Seconds: 1, Between: 0.005}
	for _, w := range []work{json, first} {
		m := newMeasured(w)
		for round := range 3 {
			for i, target := range []string{direct, plain, "metadata"} {
				if i > 0 && round == 2 { // plain Caddy comes last
					i = 3 - i
					target = []string{"", plain, "metadata"}[i]
				}
				if w.name != latency && target == direct {
					continue
				}
				got := result{answers: 100, first: []time.Duration{time.Duration(i+1) * time.Millisecond}}
				// In one round everything takes ten times as long.
				used := time.Duration(i) * 5 * time.Millisecond
				if round == 1 {
					used *= 10
				}
				m.add(target, got, used, time.Second)
			}
		}
		m.compare()
		r.Works = append(r.Works, m)
	}
	got := r.markdown()
	for _, want := range []string{
		"2026-11-22 18:00 UTC; a machine; load average 1 2 3 at the start. Built from abc. Medians of 3 rounds of 1 s, by turns. Between its rounds a server used 0.5 % of a processor at most.\n",
		"| work | plain Caddy, CPU a request | metadata | to reach, at metadata | and at content |\n|---|---:|---:|---|---|\n",
		"connections flat out | 50 µs | 2.00 × | 1.3 × | 1.4 × |\n",
		"| metadata | 3.00 ms | 3.00 ms | +2.00 ms | +2.00 ms | +1.00 ms | +1.00 ms |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
}

// TestPage checks that the page of the figures has the marks, and that only the text
// between them is replaced.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := putInto(page, "new figures\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(string(text), pageBegin)+len(pageBegin), strings.Index(string(text), pageEnd)
	if want := string(text[:from]) + "new figures\n" + string(text[to:]); string(got) != want {
		t.Errorf("the page became\n%s", got)
	}
	if err := os.WriteFile(page, []byte(pageEnd+pageBegin), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := putInto(page, ""); err == nil || !strings.Contains(err.Error(), "are not there") {
		t.Errorf("a page without marks: the error is %v", err)
	}
}

// TestServerHasOneProcessor starts a program that prints the processors on which it may run.
func TestServerHasOneProcessor(t *testing.T) {
	allowed, err := cpus()
	if err != nil {
		t.Fatal(err)
	}
	cpu := allowed[len(allowed)-1]
	dir := t.TempDir()
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\necho GOMAXPROCS=$GOMAXPROCS\ncat $3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &server{name: "test", dir: filepath.Join(dir, "server")}
	if err := s.start(binary, "the Caddyfile", cpu); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if got, want := s.output.String(), fmt.Sprintf("Cpus_allowed_list:\t%d\nGOMAXPROCS=1\nthe Caddyfile", cpu); got != want {
		t.Errorf("the server says %q, want %q", got, want)
	}
	if _, err := s.dial("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "the process ended") {
		t.Errorf("the error is %v", err)
	}
}

func TestProcessorTime(t *testing.T) {
	measure := func() (clock, usage time.Duration) {
		clock, err := processorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return clock, time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	clock, usage := measure()
	for {
		if now, used := measure(); used-usage > 30*time.Millisecond {
			if d := (now - clock) - (used - usage); d.Abs() > 10*time.Millisecond {
				t.Errorf("the process used %v by its clock and %v by its accounts", now-clock, used-usage)
			}
			return
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-works jsn", `there is no work "jsn", but json, json500`},
		{"-logs all", `there is no log "all", but none, metadata, content, postgres`},
		{"-rounds 0", "at least one round"},
		{"json", `the argument "json" is none`},
	} {
		if _, err := parse(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", c.args, err, c.want)
		}
	}
	o, err := parse([]string{"-works", "prompt,json"}, io.Discard)
	if err != nil || strings.Join(o.works, " ") != "json prompt" || len(o.logs) != 4 || o.rounds != 5 {
		t.Errorf("the options are %+v (%v)", o, err)
	}
}
