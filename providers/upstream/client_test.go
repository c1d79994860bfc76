package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t testing.TB, base string, change ...func(*Config)) *Client {
	return providertest.Client(t, NewClient, Config{BaseURL: providertest.URL(t, base)}, change...)
}

// post sends a body within a budget and returns the status and the body.
func post(ctx context.Context, c *Client, url, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

func budget(t *testing.T, tries int) (context.Context, *providertest.Budget) {
	b := providertest.NewBudget(tries)
	return providers.WithBudget(t.Context(), b), b
}

func TestRepeatsWhatGotNoAnswer(t *testing.T) {
	nothing := providertest.Reply{Status: -1, End: providertest.Reset}
	for _, test := range []struct {
		name         string
		tries        int
		replies      []providertest.Reply
		wantRequests int
		wantStatus   int
		wantConnect  bool
	}{
		{"reset, then an answer", 4, []providertest.Reply{nothing, nothing, providertest.JSON(200, "fine")}, 3, 200, false},
		{"closed, then an answer", 4, []providertest.Reply{{Status: -1, End: providertest.Cut}, providertest.JSON(200, "fine")}, 2, 200, false},
		{"a status is an answer", 4, []providertest.Reply{nothing, providertest.JSON(503, "busy")}, 2, 503, false},
		{"the tries are used up", 2, []providertest.Reply{nothing, nothing, nothing}, 2, 0, true},
		{"none but the first is allowed", 1, []providertest.Reply{nothing, nothing}, 1, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			up := providertest.NewUpstream(t).Then(test.replies...)
			c := newClient(t, up.URL)
			ctx, budget := budget(t, test.tries)
			status, _, err := post(ctx, c, up.URL, "the body")
			if status != test.wantStatus || len(up.Requests()) != test.wantRequests || budget.Tries() != test.wantRequests {
				t.Errorf("status %d, %d requests, %d tries, error %v", status, len(up.Requests()), budget.Tries(), err)
			}
			for _, r := range up.Requests() {
				if r.Body != "the body" || r.Header.Get("Content-Length") != "8" {
					t.Errorf("attempt with the body %q and the length %s", r.Body, r.Header.Get("Content-Length"))
				}
			}
			if _, ok := errors.AsType[*providers.ConnectError](err); ok != test.wantConnect {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestNoBudgetNoRepeat(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.Reply{Status: -1, End: providertest.Reset})
	if _, _, err := post(t.Context(), newClient(t, up.URL), up.URL, "x"); err == nil || len(up.Requests()) != 1 {
		t.Errorf("error %v, %d requests", err, len(up.Requests()))
	}
}

func TestRetryAfterIsNotObeyedBelow(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.Reply{
		Status: 429, Header: map[string]string{"Retry-After": "86400"}, Body: []string{"no"},
	})
	ctx, _ := budget(t, 4)
	began := time.Now()
	status, body, err := post(ctx, newClient(t, up.URL), up.URL, "x")
	if status != 429 || body != "no" || err != nil || time.Since(began) > time.Minute || len(up.Requests()) != 1 {
		t.Errorf("status %d, body %q, error %v, %d requests in %s", status, body, err, len(up.Requests()), time.Since(began))
	}
}

// cancelling is a budget that ends the call in the wait.
type cancelling struct {
	*providertest.Budget
	cancel func()
}

func (c cancelling) Repeat(ctx context.Context, err error) (time.Duration, bool) {
	time.AfterFunc(10*time.Millisecond, c.cancel)
	return c.Budget.Repeat(ctx, err)
}

func TestCancelInTheWait(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.Reply{Status: -1, End: providertest.Reset})
	ctx, cancel := context.WithCancel(t.Context())
	budget := providertest.NewBudget(10)
	budget.Wait = time.Hour
	began := time.Now()
	_, _, err := post(providers.WithBudget(ctx, cancelling{budget, cancel}), newClient(t, up.URL), up.URL, "x")
	if !errors.Is(err, context.Canceled) || time.Since(began) > time.Minute {
		t.Errorf("error %v after %s", err, time.Since(began))
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestWhereARequestGoes(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.JSON(200, "{}"))
	for _, test := range []struct{ base, route, want string }{
		{"", "generate", "/generate"}, {"/", "generate", "/generate"}, {"/v1/", "generate", "/v1/generate"},
		{"/a%2Fb", "generate", "/a%2Fb/generate"}, {"", "a%2Fb", "/a%2Fb"}, {"", "", "/"},
	} {
		base, err := url.Parse(up.URL + test.base)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewService("acme", "", nil, Config{BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		to := base.JoinPath(test.route)
		written := to.String()
		r, err := s.Request(t.Context(), to, []byte("{}"), false)
		if err != nil {
			t.Fatal(err)
		}
		body, err := s.Send(Call{}, r, nil)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		body.Close()
		if got := r.URL.RequestURI(); got != test.want {
			t.Errorf("%q and %q: sent to %s, want %s", test.base, test.route, got, test.want)
		}
		if to.String() != written {
			t.Errorf("the URL %s became %s", written, to)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := providertest.NewUpstream(t).Always(providertest.JSON(200, "stolen"))
	for _, code := range []int{301, 302, 307, 308} {
		for _, failures := range []int{0, 1} { // before the redirect
			up := providertest.NewUpstream(t).Then(slices.Repeat([]providertest.Reply{{Status: -1, End: providertest.Reset}}, failures)...).
				Always(providertest.Reply{Status: code, Header: map[string]string{"Location": other.URL}})
			ctx, _ := budget(t, 2)
			status, _, err := post(ctx, newClient(t, up.URL), up.URL, "prompt")
			if err != nil || status != code || len(up.Requests()) != 1+failures {
				t.Errorf("%d: status %d, error %v, %d requests", code, status, err, len(up.Requests()))
			}
		}
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("%d requests went to the other host", n)
	}
}

func TestAFailureKeepsTheConnectionsOfOthers(t *testing.T) {
	good := providertest.NewUpstream(t).Choose(func(r providertest.Request) providertest.Reply {
		if r.Body == "bad" {
			return providertest.Reply{Status: -1, End: providertest.Reset}
		}
		return providertest.JSON(200, "fine")
	})
	c := newClient(t, good.URL)
	for range 10 {
		// Two connections at once, so that one stays idle while the other
		// fails.
		done := make(chan error, 1)
		go func() {
			_, _, err := post(t.Context(), c, good.URL, "good")
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		post(t.Context(), c, good.URL+"/x", "bad")
	}
	// Each failure costs the connection it happened on, and no other.
	if n := good.Connections(); n > 12 {
		t.Errorf("%d connections for 10 good and 10 bad requests", n)
	}
}

func TestNothingIsTakenFromTheEnvironment(t *testing.T) {
	proxy := providertest.NewUpstream(t).Always(providertest.JSON(200, "proxied"))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	up := providertest.NewUpstream(t).Always(providertest.JSON(200, "direct"))
	c := newClient(t, up.URL)
	if c.transport.Proxy != nil {
		t.Error("a proxy function is set")
	}
	if _, body, err := post(t.Context(), c, up.URL, "x"); err != nil || body != "direct" {
		t.Errorf("body %q, error %v", body, err)
	}
	proxyURL, _ := url.Parse(proxy.URL)
	c = newClient(t, "http://provider.example", func(c *Config) { c.Proxy = proxyURL })
	if _, body, err := post(t.Context(), c, "http://provider.example/", "x"); err != nil || body != "proxied" {
		t.Errorf("with a proxy set: body %q, error %v", body, err)
	}
}

func TestNoTimeoutOfItsOwn(t *testing.T) {
	c := newClient(t, "https://provider.example")
	repeats := c.Transport.(*repeater).after(errors.New("failed"))
	if repeats.Timeout != 0 || repeats.Jar != nil || c.transport.ResponseHeaderTimeout != 0 {
		t.Error("the client has a timeout, which would cut streams, or a cookie jar")
	}
	if _, ok := repeats.Transport.(interface{ CloseIdleConnections() }); ok {
		t.Error("the retrying client can close idle connections")
	}
	if !c.transport.DisableCompression || c.transport.TLSClientConfig.MinVersion != tls.VersionTLS12 || c.transport.MaxResponseHeaderBytes != MaxHeader {
		t.Error("compression, TLS version or header limit")
	}
}

func TestBodiesAreLimited(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	up := providertest.NewUpstream(t).Then(
		providertest.JSON(500, big),
		providertest.Reply{Status: 200, Body: slices.Repeat([]string{big}, MaxStream>>20)},
		providertest.Reply{Status: 200, Body: append(slices.Repeat([]string{big}, MaxStream>>20), "y")},
	)
	c := newClient(t, up.URL)
	if status, body, err := post(t.Context(), c, up.URL, "x"); status != 500 || len(body) != MaxErrorBody || err != nil {
		t.Errorf("error body: status %d, %d bytes, error %v", status, len(body), err)
	}
	if _, body, err := post(t.Context(), c, up.URL, "x"); len(body) != MaxStream || err != nil {
		t.Errorf("body at the limit: %d bytes, error %v", len(body), err)
	}
	if _, _, err := post(t.Context(), c, up.URL, "x"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("body over the limit: error %v", err)
	}
}

func TestHeadersAreLimited(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.Reply{Header: map[string]string{"X-Large": strings.Repeat("x", 2*MaxHeader)}})
	if _, _, err := post(t.Context(), newClient(t, up.URL), up.URL, "x"); err == nil {
		t.Error("headers over the limit were taken")
	}
}

// TestConnectFailuresSayWhatFailed checks that the step that failed is found in
// the errors that the client has.
func TestConnectFailuresSayWhatFailed(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	for address, want := range map[string]string{
		secure.URL: "TLS", strings.Replace(plain.URL, "http:", "https:", 1): "TLS", gone.URL: "refused", cut.URL: "reset",
	} {
		_, _, err := post(t.Context(), newClient(t, address), address, "x")
		e, ok := errors.AsType[*providers.ConnectError](err)
		if !ok || e.What() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestABadCertificateIsNotRetried(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var connections atomic.Int32
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ctx, budget := budget(t, 5)
	_, _, err := post(ctx, newClient(t, server.URL), server.URL, "x")
	e, ok := errors.AsType[*providers.ConnectError](err)
	if !ok || !e.Permanent || budget.Tries() != 1 {
		t.Errorf("error %v, %d repeats", err, budget.Tries()-1)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c := newClient(t, server.URL, func(c *Config) { c.TLS = &tls.Config{RootCAs: pool} })
	if status, _, err := post(t.Context(), c, server.URL, "x"); err != nil || status != 200 {
		t.Errorf("with the certificate trusted: status %d, error %v", status, err)
	}
}

func TestErrorsHoldNoURL(t *testing.T) {
	up := providertest.NewUpstream(t)
	up.Close()
	_, _, err := post(t.Context(), newClient(t, up.URL), up.URL+"/?key=AIzaSECRET", "x")
	e, ok := errors.AsType[*providers.ConnectError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(e.Error(), "SECRET") {
		t.Errorf("the error repeats the query: %v", e)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		address string
		public  bool
	}{
		{"1.1.1.1", true}, {"8.8.8.8", true}, {"172.15.0.1", true}, {"172.32.0.1", true}, {"2606:4700::1111", true},
		{"::ffff:8.8.8.8", true}, {"64:ff9b::808:808", true},
		{"127.0.0.1", false}, {"127.9.9.9", false}, {"::1", false}, {"0.0.0.0", false}, {"::", false}, {"0.1.2.3", false},
		{"10.1.2.3", false}, {"172.16.0.1", false}, {"192.168.1.1", false}, {"fd00::1", false},
		{"169.254.169.254", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fd00:ec2::254", false},
		{"100.64.0.1", false}, {"100.100.100.200", false}, {"192.0.0.192", false}, {"198.18.0.1", false},
		{"224.0.0.1", false}, {"ff02::1", false}, {"240.0.0.1", false}, {"255.255.255.255", false},
		{"::ffff:127.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::127.0.0.1", false},
		{"64:ff9b::7f00:1", false}, {"64:ff9b::a9fe:a9fe", false}, {"2002:7f00:1::", false}, {"2001::1", false}, {"2001:db8::1", false},
	} {
		if got := public(netip.MustParseAddr(test.address)); got != test.public {
			t.Errorf("%s: public=%v", test.address, got)
		}
	}
}

func TestWhichAddressesAHostAllows(t *testing.T) {
	for _, test := range []struct {
		host    string
		private bool
		address string
		want    bool
	}{
		{"api.example", false, "8.8.8.8", true},
		{"api.example", false, "127.0.0.1", false},
		{"api.example", false, "169.254.169.254", false},
		{"api.example", true, "10.0.0.1", true},
		{"localhost", false, "127.0.0.1", true},
		{"localhost", false, "::1", true},
		{"LocalHost.", false, "127.0.0.1", true},
		{"localhost", false, "10.0.0.1", false},
		{"notlocalhost", false, "127.0.0.1", false},
		{"10.0.0.1", false, "10.0.0.1", true},
		{"10.0.0.1", false, "10.0.0.2", false},
		{"10.0.0.1", false, "127.0.0.1", false},
		{"::1", false, "::1", true},
	} {
		address := net.JoinHostPort(test.address, "443")
		err := ruleFor(test.host, test.private).control("tcp", address, nil)
		if (err == nil) != test.want {
			t.Errorf("%s (allow_private=%v) to %s: %v", test.host, test.private, test.address, err)
		}
	}
}

func TestANameThatResolvesToLoopbackIsRefusedWithoutRetries(t *testing.T) {
	up := providertest.NewUpstream(t).Always(providertest.JSON(200, "inside"))
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The rule of a public host, on a request that ends up at loopback, as
	// after a change of its DNS record.
	c := newClient(t, "http://api.example:"+u.Port())
	ctx, budget := budget(t, 5)
	_, _, err = post(ctx, c, up.URL, "x")
	if _, ok := errors.AsType[*AddressError](err); !ok || len(up.Requests()) != 0 || budget.Tries() != 1 {
		t.Errorf("error %v, %d requests, %d repeats", err, len(up.Requests()), budget.Tries()-1)
	}
	c = newClient(t, "http://api.example:"+u.Port(), func(c *Config) { c.AllowPrivate = true })
	if status, _, err := post(t.Context(), c, up.URL, "x"); status != 200 {
		t.Errorf("with allow_private: status %d, error %v", status, err)
	}
}

func TestParseBaseURL(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{"https://api.example/v1", ""}, {"http://localhost:11434/v1", ""}, {"https://[::1]:8000", ""},
		{"", "must begin with"}, {"api.example/v1", "must begin with"}, {"ftp://api.example", "must begin with"},
		{"https://", "names no host"}, {"https://:80", "names no host"},
		{"https://user:hunter2@api.example", "user name"}, {"https://api.example/?key=hunter2", "query"},
		{"https://api.example/#hunter2", "fragment"}, {"https://api.example/?", "query"}, {"http://a b", "not a URL"},
		{"https://api.example/v1/chat/completions", "must end before /chat/completions"}, {"https://api.example/hunter2/Chat/Completions//", "must end before /chat/completions"},
		{"https://api.example/v1/completions", "before /completions"}, {"https://api.example/v1/responses", "before /responses"}, {"https://api.example/v1/messages", "before /messages"},
		{"https://api.example/v1/models/m:generateContent", "before /models/"}, {"https://api.example/v1/models/m:streamGenerateContent", "before /models/"},
		{"https://api.example/model/m/converse", "before /model/"}, {"https://api.example/model/m/converse-stream", "before /model/"}, {"https://api.example/model/m/invoke", "before /model/"},
		{"https://api.example/models", ""}, {"https://api.example/messages/v1", ""},
	} {
		_, err := ParseBaseURL(test.text)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %v, want %q", test.text, err, test.err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error repeats the secret: %v", test.text, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", " 7 ", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "0", 0},
		{"Retry-After", "-5", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "", 0},
		{"Retry-After", "1e12", 24 * time.Hour},
		{"Retry-After", "1e999", 24 * time.Hour},
		{"Retry-After", "9999999999999999999999", 24 * time.Hour},
		{"Retry-After", "Sat, 21 Nov 2026 12:00:30 GMT", 30 * time.Second},
		{"Retry-After", "Saturday, 21-Nov-26 12:00:30 GMT", 30 * time.Second},
		{"Retry-After", "Sat Nov 21 12:00:30 2026", 30 * time.Second},
		{"Retry-After", "Fri, 20 Nov 2026 12:00:00 GMT", 0},
		{"Retry-After", "Sat, 21 Nov 2099 12:00:00 GMT", 24 * time.Hour},
		{"Retry-After-Ms", "120", 120 * time.Millisecond},
		{"Retry-After-Ms", "-1", 0},
		{"X-Ms-Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		h := http.Header{}
		h.Set(test.name, test.value)
		if got := RetryAfter(h, now); got != test.want {
			t.Errorf("%s: %s gives %s, want %s", test.name, test.value, got, test.want)
		}
	}
	h := http.Header{"Retry-After": {"60"}, "Retry-After-Ms": {"100"}}
	if got := RetryAfter(h, now); got != 100*time.Millisecond {
		t.Errorf("both: %s", got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "0.1", "-1", "1e308", "inf", "NaN", "0x10", "Sat, 21 Nov 2026 12:00:30 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range []string{"Retry-After", "Retry-After-Ms"} {
			if d := RetryAfter(http.Header{name: {value}}, time.Now()); d < 0 || d > maxRetryAfter {
				t.Errorf("%s: %q gives %s", name, value, d)
			}
		}
	})
}

func TestRedact(t *testing.T) {
	secret.Remember("not-of-this-call/0001")
	for _, test := range []struct{ text, want string }{
		{"plain text", "plain text"},
		{"Incorrect API key provided: my-own-key.", "Incorrect API key provided: [redacted]."},
		{"key sk-proj-abcdefghijklmnop is bad", "key [redacted] is bad"},
		{"key sk-ab************wxyz", "key [redacted]"},
		{"AIzaSyA1234567890abcdefg", "[redacted]"},
		{"pk-1234567890ab pk_1234567890ab", "[redacted] [redacted]"},
		{"gsk_1234567890ab, xai-1234567890ab", "[redacted], [redacted]"},
		{"(pplx-1234567890ab) key-1234567890ab", "([redacted]) [redacted]"},
		{"header Authorization: Bearer abc.def", "header Authorization: [redacted]"},
		{"Get https://x.example/v1?key=1&b=2: no", "Get https://x.example/v1?[redacted] no"},
		{"no route to https://ada:pa@ss@proxy.example:8080/v1, https://ada@h", "no route to https://[redacted]@proxy.example:8080/v1, https://[redacted]@h"},
		{`{"url":"postgres:\/\/u:pw@h\/db"}`, `{"url":"postgres:\/\/[redacted]@h\/db"}`},
		{"https://host/@ada and ada@example.org", "https://host/@ada and ada@example.org"},
		{"a key that another call knows: not-of-this-call/0001", "a key that another call knows: [redacted]"},
		{"a key of which another is a part: with-not-of-this-call/0001-in-it", "a key of which another is a part: [redacted]"},
		{"two\r\nlines\x00\x1b[31m", "two lines [31m"},
		{"bad \xff utf-8", "bad utf-8"},
	} {
		if diff := cmp.Diff(test.want, Redact(test.text, "my-own-key", "with-not-of-this-call/0001-in-it", "")); diff != "" {
			t.Errorf("%q:\n%s", test.text, diff)
		}
	}
	long := Redact(strings.Repeat("ü", 5000))
	if len(long) > maxText+len("…") || !strings.HasSuffix(long, "ü…") {
		t.Errorf("%d bytes, ending %q", len(long), long[len(long)-6:])
	}
}

func TestAnExcerptCutsNoSecretInTwo(t *testing.T) {
	for n := maxExcerpt - 20; n < maxExcerpt; n++ {
		got := Excerpt([]byte(strings.Repeat("x", n)+" the-secret-key of the caller"+strings.Repeat(" more", 1000)), "the-secret-key")
		if strings.Contains(got, "the-") || len(got) > maxExcerpt+len("…") {
			t.Errorf("after %d bytes: %q", n, got[n:])
		}
	}
	if got := Excerpt([]byte("short")); got != "short" {
		t.Errorf("%q", got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Incorrect API key provided: the-secret-key")
	f.Add("https://x?the-secret-key=1")
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "the-secret-key"
		got := Redact(text, secret)
		if len(got) > maxText+len("…") || strings.Contains(got, "\n") || strings.Contains(got, secret) {
			t.Errorf("%q", got)
		}
	})
}

func TestAdvice(t *testing.T) {
	for value, want := range map[string]providers.Advice{"true": providers.Retry, "false": providers.DoNotRetry, "": providers.NoAdvice, "yes": providers.NoAdvice} {
		if got := Advice(http.Header{"X-Should-Retry": {value}}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	up := providertest.NewUpstream(b).Always(providertest.JSON(200, "{}"))
	c := newClient(b, up.URL)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := post(b.Context(), c, up.URL, "{}"); err != nil {
			b.Fatal(err)
		}
	}
}

// heedless is a transport whose bodies know nothing of contexts.
type heedless struct {
	status int
	body   *io.PipeReader
}

func (h heedless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: h.status, Body: h.body}, nil
}

func TestABodyEndsWithTheContext(t *testing.T) {
	for _, status := range []int{200, 206, 400, 500} {
		body, upstream := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := limiter{heedless{status, body}}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Millisecond, cancel)
		watch := time.AfterFunc(time.Minute, func() {
			t.Errorf("status %d: the body is read on although the context ended", status)
			upstream.Close()
		})
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("status %d: a body that was cut is read as whole", status)
		}
		watch.Stop()
		resp.Body.Close()
	}
}

func TestNoOtherProtocolIsSwitchedTo(t *testing.T) {
	body, upstream := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := limiter{heedless{101, body}}.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("still open")
	defer time.AfterFunc(time.Minute, func() { body.CloseWithError(late) }).Stop()
	if _, err := upstream.Write([]byte("?")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is still open: %v", err)
	}
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("body %q, %v", rest, err)
	}
}
