package caddymodule_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// breaking returns an endpoint whose streams break off after two words.
func breaking() map[string]string {
	files := single()
	files["definitions/prompts/breaking.yaml"] = "provider: canned\nmessages: [ { role: user, content: hello } ]\n" +
		"extra: { answer: \"one two three\", fail: { after: 2, kind: truncate } }\n"
	files["definitions/endpoints/breaking.yaml"] = "prompt: breaking\nmax_attempts: 1\n"
	return files
}

// certificate writes a certificate for example.com and its key to the gateway's directory, and
// returns the configuration of a client that trusts it. The next load logs no debug entries:
// with them, Caddy's TLS app emits an event at each handshake, which races with the fields
// that its Start writes if the HTTP app was started first.
func (g *gateway) certificate() *tls.Config {
	g.t.Helper()
	g.level = "INFO"
	// A server of httptest has a certificate.
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificate := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		g.t.Fatal(err)
	}
	g.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})))
	g.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// overHTTP10 sends a request in HTTP/1.0, which net/http's client does not
// support, and reads until the connection ends.
func overHTTP10(conn net.Conn, body string) (string, error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/endpoints HTTP/1.0\r\nHost: example.com\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// TestBrokenStreamOverEveryProtocol has streams that break off. For each it checks that the
// words and the error event arrive, and that the client sees an error at the end.
func TestBrokenStreamOverEveryProtocol(t *testing.T) {
	// A client on a busy machine reads late, and a reset of HTTP/3 takes what it has not read.
	wait := gw.DeliveryWait
	t.Cleanup(func() { gw.DeliveryWait = wait })
	gw.DeliveryWait = 2 * time.Second
	g := startGateway(t, breaking(), options)
	trust := g.certificate()
	plain, secure := freeport.Port(t), freeport.Port(t)
	// An access log wraps the response, which must not change the result.
	sites := strings.NewReplacer("DIR", g.dir, "PLAIN", fmt.Sprint(plain), "SECURE", fmt.Sprint(secure)).Replace(`
http://127.0.0.1:PLAIN, http://example.com:PLAIN {
	bind 127.0.0.1
	log {
		output file DIR/access
	}
	cadenza
}
https://example.com:SECURE {
	bind 127.0.0.1
	tls DIR/cert.pem DIR/key.pem
	cadenza
}
`)
	if err := g.loadText(g.caddyfile(options) + sites); err != nil {
		t.Fatal(err)
	}
	plainAddress, secureAddress := fmt.Sprint("127.0.0.1:", plain), fmt.Sprint("127.0.0.1:", secure)
	const body = `{"key":"breaking","stream":true}`
	through := func(client *http.Client, url string, major int) func() (string, error) {
		return func() (string, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/endpoints", strings.NewReader(body))
			if err != nil {
				return "", err
			}
			request.Header.Set("Authorization", "Bearer "+testKey)
			response, err := client.Do(request)
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			if response.ProtoMajor != major {
				return "", fmt.Errorf("the answer came over %s", response.Proto)
			}
			text, err := io.ReadAll(response.Body)
			return string(text), err
		}
	}
	toSecure := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, secureAddress)
	}
	one := &http.Transport{}
	two := &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true, DialContext: toSecure}
	three := &http3.Transport{TLSClientConfig: trust.Clone(), Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
		return quic.DialAddrEarly(ctx, secureAddress, t, q)
	}}
	t.Cleanup(func() {
		one.CloseIdleConnections()
		two.CloseIdleConnections()
		three.Close()
	})
	traces := make(map[string]bool)
	reset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	for _, test := range []struct {
		name string
		call func() (string, error)
		ends func(error) bool
	}{
		{"HTTP/1.0", func() (string, error) {
			conn, err := net.Dial("tcp", plainAddress)
			if err != nil {
				return "", err
			}
			return overHTTP10(conn, body)
		}, reset},
		{"HTTP/1.0 with TLS", func() (string, error) {
			conn, err := tls.Dial("tcp", secureAddress, trust)
			if err != nil {
				return "", err
			}
			return overHTTP10(conn, body)
		}, reset},
		{"HTTP/1.1", through(&http.Client{Transport: one}, "http://"+plainAddress, 1), func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"HTTP/2", through(&http.Client{Transport: two}, "https://example.com", 2), func(err error) bool { return err != nil }},
		{"HTTP/3", through(&http.Client{Transport: three}, "https://example.com", 3), func(err error) bool { return err != nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			const calls = 30
			var mu sync.Mutex
			words, errorEvents, cut := 0, 0, 0
			var last string
			var wait sync.WaitGroup
			for range calls {
				wait.Go(func() {
					text, err := test.call()
					mu.Lock()
					defer mu.Unlock()
					if strings.Contains(text, `"two "`) {
						words++
					}
					if strings.Contains(text, "event: error\n") && strings.Contains(text, `"upstream_interrupted"`) {
						errorEvents++
					}
					if test.ends(err) && !strings.Contains(text, `"is_final":true`) && !strings.Contains(text, "[DONE]") {
						cut++
					}
					if _, id, ok := strings.Cut(text, `"trace_id":"`); ok {
						traces[id[:36]] = true
					}
					last = fmt.Sprintf("%v after %q", err, text)
				})
			}
			wait.Wait()
			if words != calls || errorEvents != calls || cut != calls {
				t.Errorf("of %d broken streams %d brought the last word, %d the error event, and %d were cut; the last one ended with %s", calls, words, errorEvents, cut, last)
			}
		})
	}

	// A cut call has ended for the gateway, too.
	if len(traces) != 5*30 {
		t.Errorf("%d traces", len(traces))
	}
	for id := range traces {
		eventually(t, "the trace "+id+" has ended", func() bool {
			record, ok := g.trace("data/cadenza.db", id)
			return ok && record.State == trace.StateEnded && record.Code == "upstream_interrupted"
		})
	}
}
