package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestClientIPBehindAProxy counts by the address that a trusted proxy names.
func TestClientIPBehindAProxy(t *testing.T) {
	g := startGateway(t, single(), options)
	text := strings.Replace(g.caddyfile(options+"limit visitors {\nby client_ip\nrequests 1/366d\nroutes remoteconfigs\n}\n"), "\tadmin off\n", "\tadmin off\n\tservers {\n\t\ttrusted_proxies_unix\n\t\ttrusted_proxies static 10.0.0.0/8\n\t}\n", 1)
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		forwarded string
		status    int
	}{{"192.0.2.1", 200}, {"192.0.2.1", 429}, {"2001:db8::1", 200}, {"2001:db8::2", 429}, {"2001:db8:1::1", 200}, {"", 200}, {"", 429}} {
		header := bearer(testKey)
		if step.forwarded != "" {
			header.Set("X-Forwarded-For", step.forwarded)
		}
		if a := g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["checkout"]}`, header); a.status != step.status {
			t.Errorf("%q: %d %s", step.forwarded, a.status, a.body)
		}
	}
}
