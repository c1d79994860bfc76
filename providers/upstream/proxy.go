package upstream

import (
	"errors"
	"net/url"
)

// ParseProxy parses the URL of a proxy: http, https or socks5, without
// credentials. The error does not repeat the text.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil ||
		u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return nil, errors.New("proxy must be a URL such as http://host:port, without a user name or password")
	}
	return u, nil
}

// Unencrypted reports whether a key that is sent to u can be read on the way: it
// is plain HTTP, and not to this machine itself.
func Unencrypted(u *url.URL) bool {
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1":
		return false
	}
	return u.Scheme == "http"
}
