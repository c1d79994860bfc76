package caddymodule

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/procfs"
)

// tcpListen is the state LISTEN in /proc/net/tcp (include/net/tcp_states.h of Linux).
const tcpListen = 10

// listener is a TCP socket that takes connections.
type listener struct {
	ip   net.IP
	port int
	own  bool // of this process
}

// meets reports whether a connection to the address of one listener may reach the other.
func (l listener) meets(ip net.IP, port int) bool {
	return l.port == port && (l.ip.Equal(ip) || includes(l.ip, ip) || includes(ip, l.ip))
}

// includes reports whether a socket on one address also gets the connections to another:
// 0.0.0.0 gets the connections to all IPv4 addresses, and :: to all addresses.
func includes(ip, other net.IP) bool {
	return ip.IsUnspecified() && (ip.To4() == nil || other.To4() != nil)
}

func (l listener) String() string { return net.JoinHostPort(l.ip.String(), strconv.Itoa(l.port)) }

// listeners returns the listening TCP sockets of the machine that this process can see. If
// it can't read them, it returns nil.
func listeners() []listener {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	own := make(map[string]bool)
	if self, err := system.Self(); err == nil {
		targets, _ := self.FileDescriptorTargets() // it returns those that it could read
		for _, target := range targets {
			own[target] = true
		}
	}
	var all []listener
	//nolint:staticcheck // Its replacement would be another dependency.
	for _, read := range []func() (procfs.NetTCP, error){system.NetTCP, system.NetTCP6} {
		lines, _ := read() // a machine may have no IPv6
		for _, line := range lines {
			if line.St == tcpListen {
				all = append(all, listener{line.LocalAddr, int(line.LocalPort), own[fmt.Sprintf("socket:[%d]", line.Inode)]})
			}
		}
	}
	return all
}

// checkOtherListeners returns an error if another process listens at an address of a server
// of this process, or at the address of its admin API. Caddy shares ports with other
// processes (SO_REUSEPORT), so a forgotten gateway would still answer a part of the
// requests, with its own definitions.
func checkOtherListeners(addresses []string) error {
	all := listeners()
	for _, other := range all {
		if other.own {
			continue
		}
		for _, text := range addresses {
			// Caddy refuses an address that can't be read, or is no TCP port.
			address, err := caddy.ParseNetworkAddress(text)
			ip := ipOf(address.Host)
			if err != nil || ip == nil || !strings.HasPrefix(address.Network, "tcp") {
				continue
			}
			for port := address.StartPort; port <= address.EndPort; port++ {
				if other.meets(ip, int(port)) {
					return fmt.Errorf("another process listens on %s: stop it, or set another address (CADENZA_ADDRESS for the example, else the site's address and bind)", other)
				}
			}
		}
		for _, mine := range all {
			if mine.own && other.meets(mine.ip, mine.port) {
				return fmt.Errorf("another process listens on %s, where this one has its admin API: stop it, or set another address (CADENZA_ADMIN for the example, else the global option admin)", other)
			}
		}
	}
	return nil
}

// ipOf returns the IP address that a server with this host listens on. It is nil for a name
// that has to be looked up.
func ipOf(host string) net.IP {
	switch {
	case host == "":
		return net.IPv6zero
	case strings.EqualFold(host, "localhost"):
		return net.IPv4(127, 0, 0, 1)
	}
	return net.ParseIP(host)
}
