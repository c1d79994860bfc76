package upstream

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// AddressError is a connection that was not made, because the host's name
// resolved to an address that is not on the public internet.
type AddressError struct {
	Address netip.Addr
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("the address %s is not public: allow_private has to be set to connect to it", e.Address)
}

// addressRule decides which addresses may be connected to. It is applied to
// every address that is dialled, after it was resolved, so that a name whose
// address changes between a check and its use gains nothing.
type addressRule struct {
	private  bool       // any address
	loopback bool       // the base URL says localhost
	literal  netip.Addr // the address that the base URL itself is
}

// ruleFor derives the rule from the host of a base URL: a host that is itself
// an address, or localhost, was meant and is allowed, and nothing else.
func ruleFor(host string, allowPrivate bool) addressRule {
	rule := addressRule{private: allowPrivate}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		rule.loopback = true
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		rule.literal = addr.Unmap()
	}
	return rule
}

// control is a net.Dialer's Control function.
func (r addressRule) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	if !r.allows(addr.Unmap()) {
		return &AddressError{addr.Unmap()}
	}
	return nil
}

func (r addressRule) allows(addr netip.Addr) bool {
	return r.private || r.loopback && addr.IsLoopback() || r.literal.IsValid() && r.literal == addr || public(addr)
}

// The addresses that the IANA special-purpose address registries (RFC 6890 and
// its updates) reserve and netip.Addr has no method for.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT, and some clouds' metadata
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), // IPv4-compatible
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"), // Teredo, ORCHID, benchmarking
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// translated is the prefix of IPv4 addresses that a NAT64 translates (RFC
// 6052): on networks without IPv4 every public name resolves into it.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// public reports whether addr is a unicast address of the public internet.
func public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if translated.Contains(addr) {
		b := addr.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}
