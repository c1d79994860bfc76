package caddymodule

import (
	"net"
	"testing"
)

func TestListenersThatMeet(t *testing.T) {
	for _, test := range []struct {
		other, mine string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"0.0.0.0", "127.0.0.1", true},
		{"127.0.0.1", "0.0.0.0", true},
		{"::", "127.0.0.1", true},
		{"127.0.0.1", "::", true},
		{"::", "0.0.0.0", true},
		{"0.0.0.0", "::1", false},
		{"::1", "0.0.0.0", false},
		{"::1", "127.0.0.1", false},
		{"::", "::1", true},
	} {
		l := listener{ip: net.ParseIP(test.other), port: 80}
		if got := l.meets(net.ParseIP(test.mine), 80); got != test.want {
			t.Errorf("%s and %s: %t", test.other, test.mine, got)
		}
		if l.meets(net.ParseIP(test.mine), 81) {
			t.Errorf("%s: of another port", test.other)
		}
	}
}
