package caddymodule

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// readyDelay delays the log line about the start, so that it follows the lines that Caddy
// logs after the event.
const readyDelay = 50 * time.Millisecond

// readyHandler reacts to Caddy's "started" event.
type readyHandler struct{ app *App }

// Handle logs the addresses of the gateway once in a process, not at each reload.
func (h readyHandler) Handle(context.Context, caddy.Event) error {
	if cadenzaRuns() { // the former configuration
		return nil
	}
	urls := urlsOf(h.app.guarded)
	if len(urls) == 0 {
		return nil // no site has a handler of this package
	}
	time.AfterFunc(readyDelay, func() {
		if h.app.stopping.Err() == nil {
			fields := []zap.Field{zap.Strings("address", urls)}
			if consoles := urlsOf(h.app.consoles); len(consoles) > 0 {
				fields = append(fields, zap.String("console", consoles[0]+"console/"))
			}
			h.app.logger.Info("ready: open the address in a browser, or run `caddy cadenza status`", fields...)
		}
	})
	return nil
}

// urlsOf returns the URLs of servers' listening addresses, each once.
func urlsOf(servers []*caddyhttp.Server) (urls []string) {
	for _, server := range servers {
		for _, listen := range server.Listen {
			if url := urlOf(server, listen); !slices.Contains(urls, url) {
				urls = append(urls, url)
			}
		}
	}
	return urls
}

// urlOf returns the URL of a server's listening address for a user of this machine.
func urlOf(server *caddyhttp.Server, listen string) string {
	address, err := caddy.ParseNetworkAddress(listen)
	if err != nil || !strings.HasPrefix(address.Network, "tcp") {
		return listen
	}
	scheme, usual := "http", uint(caddyhttp.DefaultHTTPPort)
	if len(server.TLSConnPolicies) > 0 {
		scheme, usual = "https", caddyhttp.DefaultHTTPSPort
	}
	host := address.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	if address.StartPort == usual {
		return scheme + "://" + host + "/"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(address.StartPort))) + "/"
}
