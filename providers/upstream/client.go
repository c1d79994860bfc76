// Package upstream is the HTTP side of all providers: one client with retries
// below the response's headers, limits and an address check; a reader of
// server-sent events; and what providers' bodies, headers and error texts have in
// common.
package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// The limits of an upstream response, in bytes.
const (
	MaxHeader    = 64 << 10
	MaxErrorBody = 64 << 10 // more of an error's body is not read
	MaxBody      = 16 << 20 // of a whole answer
	MaxStream    = 64 << 20 // of a streamed answer, framing included
	MaxEvent     = 2 << 20  // of one line or one event of a stream
)

// How long establishing a connection may take.
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
)

// UserAgent is the User-Agent header of requests.
var UserAgent = "Cadenza/" + version()

func version() string {
	const module = "github.com/cadenza-gateway/cadenza"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "devel"
}

// Config describes the upstream of one provider.
type Config struct {
	// BaseURL is the URL that requests are sent to; its host decides which
	// addresses are connected to.
	BaseURL *url.URL
	// AllowPrivate permits the host's name to resolve to an address that is not
	// public, such as 10.0.0.1 or 127.0.0.1.
	AllowPrivate bool
	// Proxy is the proxy to use, nil for none. The environment's is never
	// used. A proxy resolves names itself: the address check is then its task.
	Proxy *url.URL
	// TLS is the base of the TLS configuration, nil for the default.
	TLS *tls.Config
}

// Client is the HTTP client of one provider. It follows no redirects (they
// would carry the key and the prompt to another host), keeps no cookies, reads
// no proxy from the environment and has no timeout of its own: the request's
// context bounds a call.
type Client struct {
	// Transport sends the requests. Tests replace it.
	Transport http.RoundTripper

	transport *http.Transport
	host      string
}

// NewClient makes a client. Its errors are mistakes of the configuration.
func NewClient(config Config) (*Client, error) {
	if err := checkBaseURL(config.BaseURL); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok {
				return connection{tcp}, nil
			}
			return conn, err
		},
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           inflight.MaxDefault,
		MaxIdleConnsPerHost:    idleConnections(inflight.Descriptors()),
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: MaxHeader,
		// No limit could be set on the decompressed size.
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     5 * time.Second,
		},
	}
	if config.TLS != nil {
		transport.TLSClientConfig = config.TLS.Clone()
	} else {
		transport.TLSClientConfig = &tls.Config{}
	}
	transport.TLSClientConfig.MinVersion = max(transport.TLSClientConfig.MinVersion, tls.VersionTLS12)
	if config.Proxy != nil {
		transport.Proxy = http.ProxyURL(config.Proxy)
	} else {
		dialer.Control = ruleFor(config.BaseURL.Hostname(), config.AllowPrivate).control
	}
	return &Client{
		Transport: &repeater{limiter{transport}},
		transport: transport,
		host:      hostOf(config.BaseURL),
	}, nil
}

// Do sends a request and returns the answer to it, of any status. What an
// http.Client does around a transport, it does for redirects, cookies and timeouts,
// and it copies the header of each request for them: none of these exist here.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.Transport.RoundTrip(req) }

// Host is the host and port of the base URL, the same text for every way to
// write them. A provider gives it as its own, see providers.Host.
func (c *Client) Host() string { return c.host }

func hostOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

// idleConnections is how many connections to a host a client keeps that no call uses, in
// a process that may hold so many descriptors: as many as calls may be in flight there by
// default, since beyond that each call dials anew, as far as the reserve that calls leave
// alone suffices for the headers of three clients.
func idleConnections(descriptors int) int {
	return min(max(descriptors/32, 2), inflight.Limits{}.WithDefaults(descriptors).Host)
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
