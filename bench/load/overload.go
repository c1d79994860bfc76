//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// overload is the work with more requests than the gateway can handle.
const overload = "overload"

const (
	// returning is the number of connections that repeat at once, borne the number
	// for measuring the peak, and openly the number for the requests of an open loop,
	// which is more than the gateway delays.
	returning = 1_500
	borne     = 64
	openly    = 4_000
	// times is the rate in an open loop, as a multiple of the peak.
	times = 3
	// longRamp is the time until answers count. It is longer than the delay of a refusal.
	longRamp = 1500 * time.Millisecond
)

// crowd is one measurement of more requests than the gateway can handle, by round.
type crowd struct {
	Title   string    `json:"title"`
	Share   []float64 `json:"share"`   // the answered part of the peak
	Answers []float64 `json:"answers"` // a second
	Refused []float64 `json:"refused"` // a second
	Offered []float64 `json:"offered"` // the offered rate, relative to the peak
	Busy    []float64 `json:"busy"`    // the gateway's CPU time, relative to the peak
	Goal    float64   `json:"goal"`    // for the share
	Within  bool      `json:"within"`  // the share must be within ten points of the share without a ceiling
}

// refusal is the cost of a refusal, by round.
type refusal struct {
	CPU     []float64 `json:"cpu_us"`
	Respond []float64 `json:"respond_us"` // for the same status, body and rate, in the same process
	Answer  []float64 `json:"answer_us"`  // an answer, at the peak
	Goal    float64   `json:"goal"`       // for the ratio of CPU to Respond
}

// overloads are the crowds of a run and the cost of a refusal.
type overloads struct {
	Refusal refusal  `json:"refusal"`
	Crowds  []*crowd `json:"crowds"`
	Open    *crowd   `json:"open"`
}

// pressed counts the answers and refusals in a time.
type pressed struct{ answers, refused int }

// mockVariable is the environment variable that makes the process run only the mock.
const mockVariable = "LOAD_MOCK"

// serveMock runs the mock in its own process, in which its requests do not wait for the
// generator. It ends with its standard input.
func serveMock() {
	m, err := startMock()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load: the mock:", err)
		os.Exit(1)
	}
	fmt.Println(m.url())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startMockProcess() (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	command := exec.Command(self)
	command.Env, command.Stderr = append(os.Environ(), mockVariable+"=1", "GOMAXPROCS=1"), os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = input.Close()
		_ = command.Wait()
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the mock's address: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// press sends a request on many connections, waits until all are active, and counts the
// answers in a time. They must be correct answers or refusals. If a refusal closes its
// connection, press opens another one.
func press(x exchange, s shape, d time.Duration) (total pressed, err error) {
	start := time.Now()
	begin, end := start.Add(s.ramp), start.Add(s.ramp+d)
	var (
		lock  sync.Mutex
		group sync.WaitGroup
	)
	for i := range s.connections {
		group.Go(func() {
			got, fault := x.pressOne(func(n int) bool {
				if s.rate > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(n*s.connections+i) * time.Second / time.Duration(s.rate))))
				}
				return time.Now().Before(end)
			}, begin, end)
			lock.Lock()
			defer lock.Unlock()
			total.answers += got.answers
			total.refused += got.refused
			if err == nil {
				err = fault
			}
		})
	}
	group.Wait()
	return total, err
}

// pressOne is one connection of press. It counts the answers between two times.
func (x exchange) pressOne(next func(int) bool, begin, end time.Time) (got pressed, err error) {
	var c *client
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for n := 0; next(n); n++ {
		if c == nil {
			if c, err = dial(x.address); err != nil {
				return got, err
			}
		}
		a, err := c.do(x.requests[0], false)
		if err != nil {
			return got, fmt.Errorf("request %d of a connection: %w", n, err)
		}
		refused := a.status == 503 || a.status == 429
		if !refused && (a.status != 200 || a.length != x.length) {
			return got, fmt.Errorf("request %d of a connection: the status is %d, and the body has %d bytes", n, a.status, a.length)
		}
		if a.closes {
			c.close()
			c = nil
		}
		switch now := time.Now(); {
		case now.Before(begin) || now.After(end):
		case refused:
			got.refused++
		default:
			got.answers++
		}
	}
	return got, nil
}

// pressure is press with the share of a processor that the server used in this time. It
// writes a profile if a file is named.
func (s *server) pressure(x exchange, load shape, d time.Duration, into string) (pressed, float64, error) {
	type reading struct {
		used time.Duration
		err  error
	}
	used := make(chan reading, 1)
	go func() {
		time.Sleep(load.ramp)
		before, err := processorTime(s.pid())
		if into != "" {
			err = errors.Join(err, s.profile(into, d))
		} else {
			time.Sleep(d)
		}
		after, fault := processorTime(s.pid())
		used <- reading{after - before, errors.Join(err, fault)}
	}()
	got, err := press(x, load, d)
	r := <-used
	if err := errors.Join(err, r.err); err != nil {
		return got, 0, s.complain(err)
	}
	return got, r.used.Seconds() / d.Seconds(), nil
}

// each returns the CPU time per request in microseconds.
func (p pressed) each(busy float64, d time.Duration) float64 {
	return busy * float64(d/time.Microsecond) / float64(max(p.answers+p.refused, 1))
}

// crowdCases are the gateways that are overloaded, by the option in_flight of their
// Caddyfiles.
var crowdCases = []struct {
	name, title, ceiling string
	goal                 float64
}{
	{"default", "no ceiling", "", 0.85},
	{"process", "`in_flight { process 64 }`", "process 64", 0.75},
	{"workspace", "`in_flight { workspace 64 }`", "workspace 64", 0.75},
	{"key", "`in_flight { key 64 }`", "key 64", 0.75},
	{"host", "`in_flight { host 64 }`", "host 64", 0.75},
	{"adaptive", "`in_flight { host 64 adaptive }`", "host 64 adaptive", 0.75},
}

// overload measures the answers of an overloaded gateway, in closed loops and in an open
// one, and the cost of a refusal.
func (b *bench) overload() (*overloads, error) {
	connections, many, ramp := returning, openly, longRamp
	if b.o.quick {
		connections, many, ramp = 80, 160, 100*time.Millisecond
	}
	upstream, stop, err := startMockProcess()
	if err != nil {
		return nil, err
	}
	defer stop()
	w := works()[0]
	var peak exchange
	servers := map[string]*server{}
	exchanges := map[string]exchange{}
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	r := &overloads{Refusal: refusal{Goal: 1.5}, Open: &crowd{Title: fmt.Sprintf("open loop at %d times the peak, `in_flight { process 64 }`", times)}}
	for _, c := range crowdCases {
		s, err := b.startGateway("metadata", "overload-"+c.name+"-", gatewayConfig{upstream: upstream, ceiling: c.ceiling})
		if err != nil {
			return nil, err
		}
		servers[c.name] = s
		x, err := s.try(s.listen, request(w.path, w.body), w.content, false)
		if err != nil {
			return nil, s.complain(err)
		}
		exchanges[c.name] = x
		r.Crowds = append(r.Crowds, &crowd{Title: fmt.Sprintf("%d connections that ask again at once, %s", connections, c.title), Goal: c.goal, Within: c.ceiling != ""})
	}
	peak = exchanges["default"]
	full, respond, err := b.startFull(w, upstream)
	if err != nil {
		return nil, err
	}
	servers["full"] = full
	if b.o.profile != "" {
		if err := os.MkdirAll(b.o.profile, 0o700); err != nil {
			return nil, err
		}
	}
	for round := range b.o.rounds {
		profile := func(name string) string {
			if b.o.profile == "" || round < b.o.rounds-1 {
				return ""
			}
			return filepath.Join(b.o.profile, overload+"-"+name+".pprof")
		}
		fmt.Fprintf(b.progress, "overload: round %d of %d\n", round+1, b.o.rounds)
		for i, c := range crowdCases {
			before, busy, err := servers["default"].pressure(peak, shape{borne, 0, ramp}, b.o.round, profile("peak"))
			if err != nil {
				return nil, err
			}
			r.Refusal.Answer = append(r.Refusal.Answer, before.each(busy, b.o.round))
			took := busy
			got, busy, err := servers[c.name].pressure(exchanges[c.name], shape{connections, 0, ramp}, b.o.round, profile(c.name))
			if err != nil {
				return nil, err
			}
			r.Crowds[i].add(got, before, busy/took, b.o.round)
			if c.name != "process" {
				continue
			}
			rate := int(times * float64(before.answers) / b.o.round.Seconds())
			if got, busy, err = servers[c.name].pressure(exchanges[c.name], shape{many, rate, ramp}, b.o.round, profile("open")); err != nil {
				return nil, err
			}
			r.Open.add(got, before, busy/took, b.o.round)
		}
		release, err := full.occupy()
		if err != nil {
			return nil, full.complain(err)
		}
		load := shape{many, 0, ramp}
		for _, target := range []struct {
			name, address string
			to            *[]float64
		}{{"refusal", full.listen, &r.Refusal.CPU}, {"respond", respond, &r.Refusal.Respond}} {
			x := exchange{address: target.address, requests: peak.requests}
			got, busy, err := full.pressure(x, load, b.o.round, profile(target.name))
			if err != nil {
				return nil, err
			}
			if got.answers > 0 {
				return nil, fmt.Errorf("%d requests were answered that were to be refused", got.answers)
			}
			*target.to = append(*target.to, got.each(busy, b.o.round))
			// The same rate for the other site.
			load.rate = int(float64(got.refused) / b.o.round.Seconds())
		}
		release()
	}
	return r, nil
}

// startFull starts a gateway with a ceiling of one call. Another site responds with the
// same status and body as its refusals.
func (b *bench) startFull(w work, upstream string) (s *server, respond string, err error) {
	if respond, err = freeAddress(); err != nil {
		return nil, "", err
	}
	const body = `{"error":{"message":"The gateway has 1 calls in flight, as many as it may have (in_flight: process). Send the request again.","type":"server_error","param":null,"code":"overloaded"},"name":"overloaded","message":"The gateway has 1 calls in flight, as many as it may have (in_flight: process). Send the request again.","error_code":"overloaded"}`
	s, err = b.startGateway("metadata", "overload-full-", gatewayConfig{
		upstream: upstream, ceiling: "process 1", sites: site(respond, "respond `"+body+"` 503"),
	})
	if err != nil {
		return nil, "", err
	}
	if _, err = s.try(s.listen, request(w.path, w.body), w.content, false); err != nil {
		return nil, "", s.complain(err)
	}
	return s, respond, nil
}

// occupy makes the gateway's only call, which ends when it is released.
func (s *server) occupy() (release func(), err error) {
	conn, err := net.DialTimeout("tcp", s.listen, patience)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(request("/v1/endpoints", `{"key":"`+modelStuck+`","stream":true,"variables":{"text":"Hi?"}}`)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// With the first event, the call is in flight.
	buffer := make([]byte, 4<<10)
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	n, err := conn.Read(buffer)
	if err == nil && !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("the call that is to last begins with %.200q", buffer[:n])
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() { _ = conn.Close() }, nil
}

func (c *crowd) add(got, peak pressed, more float64, d time.Duration) {
	c.Offered = append(c.Offered, float64(got.answers+got.refused)/float64(max(peak.answers, 1)))
	c.Busy = append(c.Busy, more)
	c.Answers = append(c.Answers, float64(got.answers)/d.Seconds())
	c.Refused = append(c.Refused, float64(got.refused)/d.Seconds())
	c.Share = append(c.Share, float64(got.answers)/float64(max(peak.answers, 1)))
}

// part is the CPU time of a refusal, relative to an answer.
func (r *refusal) part() float64 { return median(r.CPU) / median(r.Answer) }
