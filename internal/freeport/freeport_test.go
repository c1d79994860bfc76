package freeport

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestAddress takes many ports: each can be listened on, none comes twice, and none is one that
// this system gives to outgoing connections.
func TestAddress(t *testing.T) {
	outgoing := 1 << 16
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		outgoing, _ = strconv.Atoi(strings.Fields(string(text))[0])
	}
	seen := make(map[string]bool)
	for range 100 {
		address := Address(t)
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if seen[address] {
			t.Errorf("%s comes twice", address)
		}
		seen[address] = true
		if port := l.Addr().(*net.TCPAddr).Port; port >= outgoing {
			t.Errorf("port %d may be that of an outgoing connection, which are from %d", port, outgoing)
		}
	}
	for address := range seen {
		if free(address) == nil {
			t.Errorf("%s counts as free", address)
		}
	}
	if Port(t) < least {
		t.Error("a port is too small")
	}
}
