package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

func checkBaseURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("a base URL is required")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("names no host")
	case u.User != nil:
		return errors.New("must not hold a user name or password: a secret in a URL ends up in logs")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "":
		return errors.New("must not have a query or a fragment")
	}
	return nil
}

// routes are the ends of URLs that clients add to a base URL, with where the base
// URL ends instead.
var routes = [...]struct{ end, before string }{
	{"/chat/completions", "/chat/completions"},
	{"/completions", "/completions"},
	{"/responses", "/responses"},
	{"/messages", "/messages"},
	{":generatecontent", "/models/"},
	{":streamgeneratecontent", "/models/"},
	{"/converse", "/model/"},
	{"/converse-stream", "/model/"},
	{"/invoke", "/model/"},
}

// checkNoRoute refuses a base URL that ends in the route of a service, as its
// documentation shows whole URLs: a request would go to
// /chat/completions/chat/completions.
func checkNoRoute(u *url.URL) error {
	path := strings.ToLower(strings.TrimRight(u.Path, "/"))
	for _, route := range routes {
		if strings.HasSuffix(path, route.end) {
			return fmt.Errorf("must end before %s: the gateway adds the rest itself", route.before)
		}
	}
	return nil
}

// ParseBaseURL parses a provider's base URL: http or https, a host, perhaps a
// path that is not yet that of a request, and nothing else. The error does not
// repeat the text, which may hold a secret.
func ParseBaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("base_url is not a URL")
	}
	err = checkBaseURL(u)
	if err == nil {
		err = checkNoRoute(u)
	}
	if err != nil {
		return nil, fmt.Errorf("base_url %w", err)
	}
	return u, nil
}
