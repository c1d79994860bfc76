package caddymodule

import (
	"net"
	"os"
	"strings"
)

// The variables of the example's site. A Caddyfile needs the port in the site's address and
// the host in its bind. With a host in its address, the site would answer requests for that
// host only, on all interfaces and with its own certificate.
const (
	listenVariable     = "CADENZA_ADDRESS"
	listenHostVariable = "CADENZA_HOST"
	listenPortVariable = "CADENZA_PORT"
)

// init splits CADENZA_ADDRESS before Caddy reads the Caddyfile, which can't split it.
func init() {
	host, port := splitListenAddress(os.Getenv(listenVariable))
	for name, value := range map[string]string{listenHostVariable: host, listenPortVariable: port} {
		if value != "" {
			_ = os.Setenv(name, value) // can't fail for these names
		}
	}
}

// noListenAddress replaces an invalid port, so that Caddy's error about the port explains
// the mistake.
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
