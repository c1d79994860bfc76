package caddymodule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// TestConnectionsLeftByTheProcess holds that the ceiling of connections is what the
// process's descriptors leave beside its calls.
func TestConnectionsLeftByTheProcess(t *testing.T) {
	g := startGateway(t, single(), options+"\nin_flight {\nprocess 321\n}\n")
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`"connections":%d,`, inflight.MaxConnections(inflight.Descriptors(), 321))
	if !strings.Contains(string(logs), `"process":321,`) || !strings.Contains(string(logs), want) {
		t.Errorf("want %s in the log:\n%s", want, logs)
	}
}
