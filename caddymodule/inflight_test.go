package caddymodule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// TestMoreCallsThanConnections checks that a ceiling of calls above the ceiling of
// connections is logged.
func TestMoreCallsThanConnections(t *testing.T) {
	descriptors := inflight.Descriptors()
	process := descriptors / 2
	for ; inflight.MaxConnections(descriptors, process) >= process; process += descriptors / 100 {
	}
	for n, want := range map[int]bool{process: true, 100: false} {
		g := startGateway(t, single(), options+fmt.Sprintf("\nin_flight {\nprocess %d\n}\n", n))
		logs, err := os.ReadFile(g.logs)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(logs), "in_flight process is above the ceiling of connections"); got != want {
			t.Errorf("process %d of %d descriptors: told %v", n, descriptors, got)
		}
	}
}

// TestConnectionsLeftByTheProcess checks that the ceiling of connections is the
// number of descriptors minus the process's calls.
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
