package caddymodule_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
)

// patience is the maximum time that a test waits for an event that should come at
// once. It is much less than Caddy's own timeout of a minute.
const patience = 20 * time.Second

// dial opens a connection to the gateway.
func (g *gateway) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	connection, err := net.Dial("unix", g.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return connection, bufio.NewReader(connection)
}

// read reads an answer from a connection.
func read(t *testing.T, reader *bufio.Reader) (a answer, closes bool) {
	t.Helper()
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: body}, response.Close
}

// closed waits for the end of a connection, and checks that nothing more comes.
func closed(t *testing.T, reader *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(reader); errors.Is(err, os.ErrDeadlineExceeded) || len(rest) > 0 {
		t.Errorf("the connection stays: %q, %v", rest, err)
	}
}

// TestRefusedBeforeTheBody announces bodies and does not send them: mistakes that need
// no body are answered at once, and the connection is closed.
func TestRefusedBeforeTheBody(t *testing.T) {
	g := startGateway(t, workspace, options+"max_body_size 4KiB\n")
	const (
		key     = "Authorization: Bearer " + testKey + "\r\n"
		wrong   = "Authorization: Bearer " + testKey + "x\r\n"
		chunked = "Transfer-Encoding: chunked\r\n"
		expect  = "Expect: 100-continue\r\n"
	)
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	for _, test := range []struct {
		name, line, header, body string
		code                     string
	}{
		{"a small body", "POST /v1/prompts", wrong + length(10), "", "invalid_api_key"},
		{"half a small body", "POST /v1/prompts", wrong + length(10), "{", "invalid_api_key"},
		{"a body", "POST /v1/prompts", wrong + length(100_000), "", "invalid_api_key"},
		{"a large body", "POST /v1/prompts", wrong + length(10<<20), "", "invalid_api_key"},
		{"a body of unknown length", "POST /v1/prompts", wrong + chunked, "", "invalid_api_key"},
		{"no key", "POST /v1/prompts", chunked, "", "invalid_api_key"},
		{"a small body that waits", "POST /v1/prompts", wrong + expect + length(10), "", "invalid_api_key"},
		{"a large body that waits", "POST /v1/prompts", wrong + expect + length(10<<20), "", "invalid_api_key"},
		{"a body of unknown length that waits", "POST /v1/prompts", wrong + expect + chunked, "", "invalid_api_key"},
		{"no route", "POST /v1/nothing", wrong + chunked, "", "not_found"},
		{"another method", "PUT /v1/prompts", wrong + chunked, "", "method_not_allowed"},
		{"a body that is too large", "POST /v1/prompts", key + length(10<<20), "", "body_too_large"},
		{"one that waits", "POST /v1/prompts", key + expect + length(10<<20), "", "body_too_large"},
		{"one that turns out too large", "POST /v1/prompts", key + chunked, "2000\r\n" + strings.Repeat("x", 0x2000) + "\r\n", "body_too_large"},
		{"a coding", "POST /v1/prompts", key + chunked + "Content-Encoding: br\r\n", "", "unsupported_encoding"},
		{"a wrong header", "POST /v1/prompts", key + chunked + "Cadenza-Log: all\r\n", "", "invalid_request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			connection, reader := g.dial(t)
			fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: gateway\r\n%s\r\n%s", test.line, test.header, test.body)
			a, closes := read(t, reader)
			var problem struct{ Name string }
			if err := json.Unmarshal(a.body, &problem); err != nil || problem.Name != test.code || !closes {
				t.Errorf("%d %s, the connection closes: %t", a.status, a.body, closes)
			}
			closed(t, reader)
		})
	}
}

// TestSmallBodyKeepsTheConnection checks that after a refused request whose body has
// come, the connection serves the next request.
func TestSmallBodyKeepsTheConnection(t *testing.T) {
	g := startGateway(t, workspace, options)
	connection, reader := g.dial(t)
	body := `{"keys":["hello"]}`
	for _, header := range []string{
		"Authorization: Bearer " + testKey + "x\r\n",
		"Authorization: Bearer " + testKey + "\r\nContent-Encoding: br\r\n",
	} {
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
		if a, closes := read(t, reader); closes || a.status == http.StatusOK {
			t.Errorf("%d %s, the connection closes: %t", a.status, a.body, closes)
		}
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
		if a, closes := read(t, reader); closes || a.status != http.StatusOK {
			t.Errorf("the next one: %d %s, the connection closes: %t", a.status, a.body, closes)
		}
	}
}

// dripping is an endless body that comes slowly, byte by byte.
type dripping struct{ ctx context.Context }

func (d dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(20 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

// TestDrippingBodyIsCut sends dripping bodies over every protocol. Each byte would
// extend Caddy's own timeout by a minute.
func TestDrippingBodyIsCut(t *testing.T) {
	const slow = options + "body_timeout 300ms\n"
	g := startGateway(t, workspace, slow)
	trust := g.certificate()
	port := freeport.Port(t)
	site := strings.NewReplacer("DIR", g.dir, "PORT", fmt.Sprint(port)).Replace(`
https://example.com:PORT {
	bind 127.0.0.1
	tls DIR/cert.pem DIR/key.pem
	log {
		output file DIR/access
	}
	cadenza
}
`)
	if err := g.loadText(g.caddyfile(slow) + site); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint("127.0.0.1:", port)
	toSite := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	one := &http.Transport{TLSClientConfig: trust.Clone(), DialContext: toSite}
	two := &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true, DialContext: toSite}
	three := &http3.Transport{TLSClientConfig: trust.Clone(), Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
		return quic.DialAddrEarly(ctx, address, t, q)
	}}
	t.Cleanup(func() {
		one.CloseIdleConnections()
		two.CloseIdleConnections()
		three.Close()
	})
	for major, transport := range map[int]http.RoundTripper{1: one, 2: two, 3: three} {
		t.Run(fmt.Sprint("HTTP/", major), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/v1/prompts", dripping{ctx})
			if err != nil {
				t.Fatal(err)
			}
			request.Header = bearer(testKey)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.ProtoMajor != major || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "did not arrive within 300ms") {
				t.Errorf("%s: %d %s, %v", response.Proto, response.StatusCode, body, err)
			}
			if major == 1 && !response.Close {
				t.Error("the connection stays")
			}
		})
	}
	t.Run("a body of which nothing comes", func(t *testing.T) {
		connection, reader := g.dial(t)
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n", testKey)
		a, closes := read(t, reader)
		if !closes {
			t.Error("the connection stays")
		}
		checkError(t, a, "invalid_request", "")
		closed(t, reader)
	})
}

// TestBodyTimeoutEndsWithTheBody has an answer that takes longer than the body's
// timeout, and a connection that is idle as long: neither is cut.
func TestBodyTimeoutEndsWithTheBody(t *testing.T) {
	const timeout = 200 * time.Millisecond
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * timeout)
		completion(w, "late")
	})
	g := startGateway(t, endpointWith(""), fakeProvider(u.URL)+fmt.Sprintf("body_timeout %s\n", timeout))
	connection, reader := g.dial(t)
	body := ask("?", false)
	for range 2 {
		fmt.Fprintf(connection, "POST /v1/endpoints HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
		if a, closes := read(t, reader); closes || a.status != http.StatusOK {
			t.Fatalf("%d %s, the connection closes: %t", a.status, a.body, closes)
		}
		time.Sleep(2 * timeout)
	}
}
