package caddymodule

import (
	"net"
	"os"
	"strings"
)

// The variables of the example's site. A Caddyfile takes the port of a site's address and
// the host of its bind apart: a host in the address would have the site answer that host
// alone, on all interfaces, with a certificate of its own.
const (
	listenVariable     = "CADENZA_ADDRESS"
	listenHostVariable = "CADENZA_HOST"
	listenPortVariable = "CADENZA_PORT"
)

// init splits CADENZA_ADDRESS before Caddy reads a Caddyfile, which can't.
func init() {
	host, port := splitListenAddress(os.Getenv(listenVariable))
	for name, value := range map[string]string{listenHostVariable: host, listenPortVariable: port} {
		if value != "" {
			_ = os.Setenv(name, value) // fails for no name of ours
		}
	}
}

// noListenAddress stands in for a port, so that Caddy's error about the port says what
// is wrong.
const noListenAddress = listenVariable + " is no address to listen on"

// splitListenAddress returns the host and the port of HOST:PORT, [IPv6]:PORT, :PORT, PORT
// or HOST, also behind http://.
func splitListenAddress(address string) (host, port string) {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	host, port, err := net.SplitHostPort(address)
	switch {
	case strings.ContainsAny(address, "/, \t\n\"{}"):
		return "", noListenAddress
	case err == nil:
		return host, port
	case strings.Trim(address, "0123456789") == "":
		return "", address
	case strings.Contains(address, ":"):
		return "", noListenAddress
	}
	return address, ""
}
