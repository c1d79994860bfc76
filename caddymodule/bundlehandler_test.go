package caddymodule_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/bundle/serve"
	"github.com/cadenza-gateway/cadenza/trace"
)

const bundleToken = "cadenza-bundle-token-0001"

// bundleKeys writes a signing key to the gateway's directory, and returns the public one.
func (g *gateway) bundleKeys(name string) bundle.PublicKey {
	g.t.Helper()
	private, public, err := bundle.MakeKeys()
	if err != nil {
		g.t.Fatal(err)
	}
	g.write(name, string(private))
	key, err := bundle.ParsePublicKey(public)
	if err != nil {
		g.t.Fatal(err)
	}
	return key
}

// bundleSite returns the Caddyfile of a gateway that serves a bundle.
func (g *gateway) bundleSite(block string) string {
	site := "\tcadenza_bundle /bundle.tar.gz {\n" + strings.ReplaceAll(block, "{dir}", g.dir) + "\n\t}\n\tcadenza\n}\n"
	return strings.Replace(g.caddyfile(options), "\tcadenza\n}\n", site, 1)
}

// bundle reads the bundle, which must be signed by the key.
func (g *gateway) bundle(key bundle.PublicKey, scope string, header http.Header) *bundle.Bundle {
	g.t.Helper()
	a := g.do(http.MethodGet, "/bundle.tar.gz", "", header).ok(g.t, "the bundle")
	b, err := bundle.Read(a.body, []bundle.PublicKey{key}, scope)
	if err != nil {
		g.t.Fatal(err)
	}
	if a.header.Get("ETag") != b.Tag() || a.header.Get("Content-Type") != bundle.MediaType {
		g.t.Errorf("the headers are %v", a.header)
	}
	return b
}

// poll waits for another bundle than the one with the tag. What comes of it is in the
// channel.
func (g *gateway) poll(tag string, header http.Header) <-chan answer {
	header = header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Set("If-None-Match", tag)
	header.Set("Prefer", "wait=300")
	done := make(chan answer, 1)
	go func() {
		defer close(done)
		response, err := g.send(context.Background(), http.MethodGet, "/bundle.tar.gz", "", header)
		if err != nil {
			done <- answer{body: []byte(err.Error())}
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		done <- answer{response.StatusCode, response.Header, body}
	}()
	return done
}

// soon returns what comes of a poll.
func soon(t *testing.T, polled <-chan answer) answer {
	t.Helper()
	select {
	case a := <-polled:
		return a
	case <-time.After(60 * time.Second):
		t.Fatal("a poll is not answered")
		panic("unreachable")
	}
}

// waiting waits until so many polls wait.
func waiting(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the polls wait", func() bool { return goroutines("serve.(*Handler).await") == n })
}

// TestBundleHandler serves the bundle of a folder from edit to edit, over reloads and a restart of
// the gateway.
func TestBundleHandler(t *testing.T) {
	t.Setenv("CADENZA_TEST_BUNDLE_TOKEN", bundleToken)
	g := startGateway(t, workspace, options)
	key := g.bundleKeys("signing.key")
	const block = "bearer {env.CADENZA_TEST_BUNDLE_TOKEN}\nsign {file.{dir}/signing.key}\nscope production"
	if err := g.loadText(g.bundleSite(block)); err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]http.Header{"none": nil, "an API key": bearer(testKey)} {
		if a := g.do(http.MethodGet, "/bundle.tar.gz", "", header); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		} else {
			checkError(t, a, "invalid_api_key", "")
		}
	}
	first := g.bundle(key, "production", bearer(bundleToken))
	served := func() string {
		return g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).ok(t).header.Get("Cadenza-Revision")
	}
	if first.Revision != served() || len(first.Files) != len(workspace) {
		t.Errorf("%+v with %d files, %s is served", first.Manifest, len(first.Files), served())
	}
	known := bearer(bundleToken)
	known.Set("If-None-Match", first.Tag())
	if a := g.do(http.MethodGet, "/bundle.tar.gz", "", known); a.status != http.StatusNotModified || len(a.body) > 0 {
		t.Errorf("%d with %d bytes", a.status, len(a.body))
	}

	// An edit wakes all who wait.
	var polls []<-chan answer
	for range 5 {
		polls = append(polls, g.poll(first.Tag(), bearer(bundleToken)))
	}
	waiting(t, len(polls))
	g.write("definitions/remoteconfigs/added.yaml", flagFile(true))
	var second *bundle.Bundle
	for _, polled := range polls {
		b, err := bundle.Read(soon(t, polled).ok(t, "a poll").body, []bundle.PublicKey{key}, "production")
		if err != nil {
			t.Fatal(err)
		}
		if second != nil && b.Tag() != second.Tag() {
			t.Error("two polls got two bundles of one edit")
		}
		second = b
	}
	if err := second.Check(first, false); err != nil || second.Serial <= first.Serial || second.Revision != served() {
		t.Errorf("%+v after %+v: %v", second.Manifest, first.Manifest, err)
	}

	// A mistake wakes nobody, and a reload everyone. The next configuration has the same
	// bytes, and signs on.
	polled := g.poll(second.Tag(), bearer(bundleToken))
	waiting(t, 1)
	g.write("definitions/remoteconfigs/added.yaml", "type: boolean\n")
	if err := g.loadText(strings.Replace(g.bundleSite(block), "level DEBUG", "level INFO", 1)); err == nil {
		t.Error("a mistake does not refuse a reload")
	}
	g.write("definitions/remoteconfigs/added.yaml", flagFile(true))
	if err := g.loadText(strings.Replace(g.bundleSite(block), "level DEBUG", "level INFO", 1)); err != nil {
		t.Fatal(err)
	}
	if a := soon(t, polled); a.status != http.StatusNotModified {
		t.Errorf("a reload ends a poll with %d %s", a.status, a.body)
	}
	if b := g.bundle(key, "production", bearer(bundleToken)); b.Tag() != second.Tag() {
		t.Errorf("a reload makes %+v of %+v", b.Manifest, second.Manifest)
	}
	polled = g.poll(second.Tag(), bearer(bundleToken))
	waiting(t, 1)
	g.write("definitions/remoteconfigs/added.yaml", flagFile(false))
	if a := soon(t, polled).ok(t, "a poll after a reload"); a.header.Get("Cadenza-Revision") != served() {
		t.Errorf("the bundle has %s", a.header.Get("Cadenza-Revision"))
	}
	third := g.bundle(key, "production", bearer(bundleToken))

	// Another start has the same bytes, too.
	g.stopCaddy()
	if err := g.loadText(g.bundleSite(block)); err != nil {
		t.Fatal(err)
	}
	if b := g.bundle(key, "production", bearer(bundleToken)); b.Tag() != third.Tag() {
		t.Errorf("a restart makes %+v of %+v", b.Manifest, third.Manifest)
	}

	// Another key signs the same definitions again.
	next := g.bundleKeys("next.key")
	if err := g.loadText(g.bundleSite(strings.Replace(block, "signing.key", "next.key", 1))); err != nil {
		t.Fatal(err)
	}
	if b := g.bundle(next, "production", bearer(bundleToken)); b.Serial <= third.Serial || b.Contents() != third.Contents() {
		t.Errorf("another key makes %+v of %+v", b.Manifest, third.Manifest)
	}

	// The former one signs no more.
	polled = g.poll(g.bundle(next, "production", bearer(bundleToken)).Tag(), bearer(bundleToken))
	g.write("definitions/remoteconfigs/added.yaml", "type: number\ndefault: 1\n")
	revision := soon(t, polled).ok(t, "a poll").header.Get("Cadenza-Revision")
	signed := 0
	for line := range strings.Lines(g.log()) {
		if strings.Contains(line, `"bundle signed"`) && strings.Contains(line, revision) {
			signed++
		}
	}
	if signed != 1 {
		t.Errorf("an edit is signed %d times", signed)
	}

	// Open, for everyone.
	if err := g.loadText(g.bundleSite("open\nsign {file.{dir}/next.key}")); err != nil {
		t.Fatal(err)
	}
	g.bundle(next, "", nil)

	// A stop of the gateway ends what waits.
	polled = g.poll(g.bundle(next, "", nil).Tag(), nil)
	waiting(t, 1)
	g.stopCaddy()
	if a := soon(t, polled); a.status != http.StatusNotModified {
		t.Errorf("a stop ends a poll with %d %s", a.status, a.body)
	}
	if n := goroutines("serve.(*Handler).ServeHTTP"); n > 0 {
		t.Errorf("%d polls wait on", n)
	}
}

// TestBundleHandlerMistakes loads blocks that are refused.
func TestBundleHandlerMistakes(t *testing.T) {
	t.Setenv("CADENZA_TEST_BUNDLE_TOKEN", bundleToken)
	t.Setenv("CADENZA_TEST_SHORT", "short")
	g := startGateway(t, workspace, options)
	g.bundleKeys("signing.key")
	const sign = "\nsign {file.{dir}/signing.key}"
	for _, test := range []struct{ block, want string }{
		{sign, "needs bearer {env.NAME} or client_certificate, or open"},
		{"open\nbearer {env.CADENZA_TEST_BUNDLE_TOKEN}" + sign, "leave out one or the other"},
		{"open\nclient_certificate" + sign, "leave out one or the other"},
		{"open yes" + sign, "open takes no argument"},
		{"open", "add sign {file.PATH}"},
		{"open\nscope production", "scope goes with sign"},
		{"open\nsign literal", "sign: a secret must be a reference"},
		{"open\nsign {file.{dir}/signing.key}\nsign {file.{dir}/signing.key}", "sign is configured twice"},
		{"open\nsign {file.{dir}/none.key}", "does not exist"},
		{"open\nsign {env.CADENZA_TEST_BUNDLE_TOKEN}", "sign: {env.CADENZA_TEST_BUNDLE_TOKEN}: there is no PEM block"},
		{"bearer" + sign, "bearer takes {env.NAME} or {file.PATH}"},
		{"bearer " + bundleToken + sign, "bearer: a secret must be a reference"},
		{"bearer {env.CADENZA_TEST_NOTHING}" + sign, "bearer: {env.CADENZA_TEST_NOTHING} is empty"},
		{"bearer {env.CADENZA_TEST_SHORT}" + sign, "bearer: {env.CADENZA_TEST_SHORT} must be 16 to 512 visible ASCII characters, it has 5 bytes"},
		{"open\nworkspace other" + sign, `cadenza_bundle: the workspace must be one of default, this is "other"`},
		{"open\nworkspace" + sign, "workspace takes its name"},
		{"open\nbaerer {env.X}" + sign, `did you mean "bearer"?`},
	} {
		err := g.loadText(g.bundleSite(test.block))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v\nwant %s", test.block, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), bundleToken) {
			t.Errorf("the error has the token: %v", err)
		}
	}
	// Two sites may have the same bundle.
	if err := g.loadText(g.bundleSite("open" + sign + "\n}\ncadenza_bundle /other.tar.gz {\nworkspace default\nbearer {env.CADENZA_TEST_BUNDLE_TOKEN}" + sign)); err != nil {
		t.Error(err)
	}
	a, b := g.do("GET", "/bundle.tar.gz", "", nil).ok(t), g.do("GET", "/other.tar.gz", "", bearer(bundleToken)).ok(t)
	if !bytes.Equal(a.body, b.body) {
		t.Error("two sites have two bundles of one workspace")
	}
}

// TestRelay follows a bundle and serves it on: with the same bytes and without a key.
func TestRelay(t *testing.T) {
	private, public, err := bundle.MakeKeys()
	if err != nil {
		t.Fatal(err)
	}
	signing, err := bundle.ParseSigningKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := signing.Public()
	var latest bundle.Latest
	sign := func(serial int64, value string) *bundle.Bundle {
		b, err := bundle.Build([]trace.File{{Path: "remoteconfigs/flag.yaml", Content: value}}, bundle.Manifest{Revision: "one", Serial: serial}, signing)
		if err != nil {
			t.Fatal(err)
		}
		latest.Set(b)
		return b
	}
	first := sign(1, "type: boolean\ndefault: true\n")
	control := httptest.NewServer(&serve.Handler{Latest: &latest, Open: true})
	defer control.Close()

	g := startGateway(t, workspace, options)
	g.write("signing.pub", string(public))
	g.write("signing.key", string(private))
	text := func(block string) string {
		from := "definitions bundle " + control.URL + "/bundle.tar.gz {\npublic_key " + g.dir + "/signing.pub\n}"
		return strings.Replace(g.bundleSite(block), "definitions "+g.dir+"/definitions", from, 1)
	}
	if err := g.loadText(text("open\nsign {file.{dir}/signing.key}")); err == nil || !strings.Contains(err.Error(), "leave out sign") {
		t.Errorf("a bundle is signed again: %v", err)
	}
	if err := g.loadText(text("open")); err != nil {
		t.Fatal(err)
	}
	if b := g.bundle(key, "", nil); !bytes.Equal(b.Packed, first.Packed) {
		t.Errorf("%+v is relayed for %+v", b.Manifest, first.Manifest)
	}
	polled := g.poll(first.Tag(), nil)
	waiting(t, 2) // here and at the control
	second := sign(2, "type: boolean\ndefault: false\n")
	if a := soon(t, polled).ok(t, "a poll at the relay"); !bytes.Equal(a.body, second.Packed) {
		t.Errorf("%d bytes are relayed for %+v", len(a.body), second.Manifest)
	}
	if a := g.post("/v1/remoteconfigs", `{"keys":["flag"]}`).ok(t); !strings.Contains(string(a.body), "false") {
		t.Errorf("%s is served", a.body)
	}

	// What was refused is not relayed.
	sign(3, "type: no type\n")
	eventually(t, "the bundle is refused", func() bool { return strings.Contains(g.log(), "refused") })
	if b := g.bundle(key, "", nil); !bytes.Equal(b.Packed, second.Packed) {
		t.Errorf("%+v is relayed", b.Manifest)
	}
}

// TestBundleHandlerByCertificate serves a bundle to callers whose certificate the site's TLS has
// verified.
func TestBundleHandlerByCertificate(t *testing.T) {
	g := startGateway(t, workspace, options)
	key := g.bundleKeys("signing.key")
	authority, authorityKey := certificate(t, nil, nil)
	server, serverKey := certificate(t, authority, authorityKey)
	g.write("ca.pem", pemOf("CERTIFICATE", authority.Raw))
	g.write("server.pem", pemOf("CERTIFICATE", server.Raw))
	g.write("server.key", pemOf("EC PRIVATE KEY", ecKey(t, serverKey)))
	text := strings.Replace(g.bundleSite("client_certificate\nsign {file.{dir}/signing.key}"), "http:// {", fmt.Sprintf(`https://gateway {
		tls %[1]s/server.pem %[1]s/server.key {
			client_auth {
				mode verify_if_given
				trust_pool file %[1]s/ca.pem
			}
		}`, g.dir), 1)
	text = strings.Replace(text, "auto_https off", "auto_https disable_redirects", 1)
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	transport := g.client.Transport.(*http.Transport)
	get := func(certificates ...tls.Certificate) answer {
		transport.CloseIdleConnections()
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, Certificates: certificates, ServerName: "gateway"}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://gateway/bundle.tar.gz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := g.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{response.StatusCode, response.Header, body}
	}
	a := get()
	if a.status != http.StatusForbidden {
		t.Errorf("without a certificate: %d %s", a.status, a.body)
	}
	checkError(t, a, "key_not_allowed", "")
	client, clientKey := certificate(t, authority, authorityKey)
	a = get(tls.Certificate{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey}).ok(t, "with a certificate")
	if _, err := bundle.Read(a.body, []bundle.PublicKey{key}, ""); err != nil {
		t.Error(err)
	}
}

// certificate makes a certificate for the host gateway: an authority's without parent.
func certificate(t *testing.T, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		IsCA: parent == nil, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, parentKey = template, key
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func ecKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// goroutines returns how many goroutines are in a function.
func goroutines(name string) int {
	stacks := make([]byte, 8<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(name+"("))
}

// stopCaddy stops Caddy, as a process does that ends.
func (g *gateway) stopCaddy() {
	g.t.Helper()
	if err := caddy.Stop(); err != nil {
		g.t.Fatal(err)
	}
	g.client.CloseIdleConnections()
}

// log returns what the gateway has logged.
func (g *gateway) log() string {
	g.t.Helper()
	text, err := os.ReadFile(g.logs)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}
