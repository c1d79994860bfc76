//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// manyStreams is the number of concurrent streams.
	manyStreams = 10_000
	// memoryCalls is the number of calls that a new process answers before its memory is read.
	memoryCalls = 60_000
	// heldEvents is the number of events of a held stream, one each second: enough for
	// all streams to begin before the first one ends.
	heldEvents = 30
	heldPace   = time.Second
	// quickPace is the pace in a test of the command.
	quickPace = 5 * time.Millisecond
)

// modelHeld is the model of long streams.
const modelHeld = "mock-held"

// resident returns the current resident memory of a process, in bytes.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q has no second field", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// memory is the memory of a new process.
type memory struct {
	Target  string `json:"target"`
	Calls   int    `json:"calls"`
	Started int64  `json:"started"` // bytes, after the first call
	After   int64  `json:"after"`   // bytes, after all calls
}

// memory reads the memory of new processes after calls of the first work.
func (b *bench) memory() (list []memory, err error) {
	calls := memoryCalls
	if b.o.quick {
		calls = 600
	}
	w := works()[0]
	for _, target := range append([]string{plain}, b.o.logs...) {
		fmt.Fprintf(b.progress, "memory: %s\n", target)
		m, err := b.memoryOf(target, w, calls)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (b *bench) memoryOf(target string, w work, calls int) (m memory, err error) {
	m = memory{Target: target, Calls: calls}
	var (
		s *server
		x exchange
	)
	if target == plain {
		if s, _, err = b.startPlain(b.mock.url(), nil, "memory-"); err != nil {
			return m, err
		}
		x, err = s.try(s.listen, request("/v1/chat/completions", w.upstream), words(1), false)
	} else {
		if s, err = b.startGateway(target, "memory-", gatewayConfig{upstream: b.mock.url()}); err != nil {
			return m, err
		}
		x, err = s.try(s.listen, request(w.path, w.body), w.content, false)
	}
	defer s.stop()
	if err == nil {
		err = s.settle()
	}
	if err == nil {
		m.Started, err = resident(s.pid())
	}
	if err == nil {
		_, err = drive(x, w.shape, time.Hour, calls)
	}
	if err == nil {
		err = s.settle()
	}
	if err == nil {
		m.After, err = resident(s.pid())
	}
	if err != nil {
		return m, s.complain(err)
	}
	return m, nil
}

// streams is one measurement of concurrent streams.
type streams struct {
	Title    string   `json:"title"`
	Asked    int      `json:"asked"`
	Open     int      `json:"open"` // the maximum number of concurrent streams
	Errors   int      `json:"errors"`
	Before   int64    `json:"before"` // bytes of the server before the streams
	Peak     int64    `json:"peak"`   // the maximum, in bytes
	PerOne   float64  `json:"bytes_per_stream"`
	Seconds  float64  `json:"seconds"`
	Examples []string `json:"examples,omitempty"` // some of the errors
}

// heldStreams opens many concurrent streams on the gateway and on plain Caddy.
func (b *bench) heldStreams() (list []streams, err error) {
	pace := heldPace
	if b.o.quick {
		pace = quickPace
	}
	if err := writeHeld(filepath.Join(b.dir, "definitions"), pace); err != nil {
		return nil, err
	}
	upstream, err := startHTTP2(filepath.Join(b.dir, "upstream.pem"), newStream(heldEvents, pace))
	if err != nil {
		return nil, err
	}
	defer upstream.server.Close()
	trust := "SSL_CERT_FILE=" + upstream.certificate
	for _, run := range []struct {
		title  string
		target string
		key    string
		http2  bool // between client and server
	}{
		{"gateway, `canned`, clients over HTTP/1.1", "metadata", "held", false},
		{"gateway, `canned`, clients over HTTP/2", "metadata", "held", true},
		{"gateway, provider over HTTP/2, clients over HTTP/1.1", "metadata", modelHeld, false},
		{"gateway, provider over HTTP/2, clients over HTTP/2", "metadata", modelHeld, true},
		{"plain Caddy, upstream over HTTP/2, clients over HTTP/1.1", plain, modelHeld, false},
		{"plain Caddy, upstream over HTTP/2, clients over HTTP/2", plain, modelHeld, true},
	} {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		n, err := b.maxStreams(run.http2)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "streams: %s: %d\n", run.title, n)
		var s *server
		path, body := "/v1/endpoints", `{"key":"`+run.key+`","stream":true,"variables":{"text":"How are you?"}}`
		if run.target == plain {
			s, _, err = b.startPlain(upstream.url, nil, "streams-", trust)
			path, body = "/v1/chat/completions", `{"model":"`+run.key+`","stream":true,"messages":[{"role":"user","content":"How are you?"}]}`
		} else {
			s, err = b.startGateway(run.target, "streams-", gatewayConfig{upstream: upstream.url, calls: n}, trust)
		}
		if err != nil {
			return nil, err
		}
		got, err := hold(s, path, body, n, run.http2)
		if err != nil {
			return nil, s.complain(err)
		}
		s.stop()
		// The next server has the same directory.
		if err := os.RemoveAll(s.dir); err != nil {
			return nil, err
		}
		for _, example := range got.Examples {
			fmt.Fprintf(b.progress, "streams: %s: an error: %s\n", run.title, example)
		}
		got.Title = run.title
		list = append(list, got)
	}
	return list, nil
}

// maxStreams returns the maximum number of open streams. Over HTTP/1.1 each stream takes a
// descriptor of the gateway, which reserves another one for the provider of each call,
// and an eighth of all for files.
func (b *bench) maxStreams(http2 bool) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	asked := manyStreams
	if b.o.quick {
		asked = 50
	}
	descriptors := int(min(limit.Max, 1<<30))
	if http2 {
		return min(asked, descriptors/2), nil
	}
	return min(asked, (descriptors-descriptors/8)/2-64), nil
}

// writeHeld adds the definitions of held streams.
func writeHeld(dir string, pace time.Duration) error {
	prompt := "provider: mock\nmodel: " + modelHeld + "\nvariables:\n  text: { required: true }\nmessages:\n  - { role: user, content: \"{{text}}\" }\n"
	const timeout = "timeout: { total: 10m, first_token: 5m, idle: 2m }\n"
	files := map[string]string{
		"prompts/" + modelHeld + ".yaml":   prompt,
		"endpoints/" + modelHeld + ".yaml": "prompt: " + modelHeld + "\n" + timeout,
		"prompts/held.yaml":                strings.Replace(strings.Replace(prompt, "provider: mock", "provider: canned", 1), "model: "+modelHeld, fmt.Sprintf("model: canned\nextra: { answer: %q, pace: %s }", words(heldEvents), pace), 1),
		"endpoints/held.yaml":              "prompt: held\n" + timeout,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// hold opens streams, one each millisecond, reads all of them to their end, and
// measures the server's memory in this time. At a higher rate, a server might open a
// new connection for each stream while earlier handshakes last, and the measurement
// would include the memory of these connections.
func hold(s *server, path, body string, n int, http2 bool) (got streams, err error) {
	transport := &http.Transport{MaxIdleConnsPerHost: -1, ReadBufferSize: 2 << 10, WriteBufferSize: 1 << 10, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	url := "http://" + s.listen + path
	c, err := s.dial(s.listen)
	if err != nil {
		return got, err
	}
	c.close()
	if err := s.settle(); err != nil {
		return got, err
	}
	if got.Before, err = resident(s.pid()); err != nil {
		return got, err
	}
	got.Asked = n
	var (
		open  atomic.Int64
		lock  sync.Mutex
		group sync.WaitGroup
		start = time.Now()
	)
	fail := func(err error) {
		lock.Lock()
		defer lock.Unlock()
		got.Errors++
		if len(got.Examples) < 3 {
			got.Examples = append(got.Examples, err.Error())
		}
	}
	ended := make(chan struct{})
	go func() {
		for i := range n {
			group.Go(func() {
				if err := readStream(client, url, body, &open); err != nil {
					fail(err)
				}
			})
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
		}
		group.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			got.PerOne = float64(got.Peak-got.Before) / float64(max(got.Open, 1))
			got.Seconds = time.Since(start).Seconds()
			return got, nil
		case <-time.After(100 * time.Millisecond):
		}
		got.Open = max(got.Open, int(open.Load()))
		now, err := resident(s.pid())
		if err != nil {
			return got, err
		}
		got.Peak = max(got.Peak, now)
	}
}

// readStream reads one stream to its end. The stream counts as open between its
// first event and its last.
func readStream(client *http.Client, url, body string, open *atomic.Int64) error {
	ask, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	ask.Header.Set("Authorization", "Bearer "+apiKey)
	ask.Header.Set("Content-Type", "application/json")
	response, err := client.Do(ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 512))
		return fmt.Errorf("the status is %d: %s", response.StatusCode, text)
	}
	events, done := 0, false
	for lines := bufio.NewReaderSize(response.Body, 1<<10); ; {
		line, err := lines.ReadSlice('\n')
		if bytes.HasPrefix(line, []byte("data: ")) {
			if events++; events == 1 {
				open.Add(1)
				defer open.Add(-1)
			}
			done = bytes.Equal(line, []byte(doneEvent[:len(doneEvent)-1]))
		}
		switch {
		case err == io.EOF && done && events >= heldEvents:
			return nil
		case err != nil:
			return fmt.Errorf("after %d events: %w", events, errors.Join(err, response.Body.Close()))
		}
	}
}

// http2Mock is an upstream with HTTP/2 over TLS.
type http2Mock struct {
	server      *http.Server
	url         string
	certificate string // a file with its self-signed certificate
}

// startHTTP2 starts an upstream that answers all requests with a stream.
func startHTTP2(certificate string, s stream) (*http2Mock, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "load"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				http.Error(w, "this upstream is for HTTP/2", http.StatusHTTPVersionNotSupported)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			flusher := http.NewResponseController(w)
			for _, event := range s.events {
				if _, err := w.Write(event); err != nil {
					return
				}
				if err := flusher.Flush(); err != nil {
					return
				}
				time.Sleep(s.pace)
			}
		}),
		// A client that dials more connections than it needs closes some of them.
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until Close
	return &http2Mock{server: server, url: "https://" + listener.Addr().String(), certificate: certificate}, nil
}
