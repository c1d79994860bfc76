package caddymodule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/caddymodule"
)

// TestCallersConnectionsAreBounded keeps more connections open than the maximum:
// for each new one, the server closes the one that has been idle longest.
func TestCallersConnectionsAreBounded(t *testing.T) {
	const limit = 5
	g := startGateway(t, workspace, options)
	g.client.CloseIdleConnections()
	eventually(t, "no connection is open", func() bool { return caddymodule.OpenConnections() == 0 })
	t.Cleanup(caddymodule.SetMaxConnections(limit))
	for range 4 * limit {
		client := &http.Client{Transport: g.client.Transport.(*http.Transport).Clone()}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/remoteconfigs", strings.NewReader(`{"keys":["checkout"]}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+testKey)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		t.Cleanup(client.CloseIdleConnections)
		if n := caddymodule.OpenConnections(); n > limit {
			t.Fatalf("%d connections are open", n)
		}
	}
	if n := caddymodule.OpenConnections(); n != limit {
		t.Errorf("%d connections are open, want %d: those that idle", n, limit)
	}
}
