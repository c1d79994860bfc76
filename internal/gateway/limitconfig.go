package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// RouteNames returns the names of all routes whose requests limits count, each once.
func RouteNames() []string {
	var names []string
	for i := range routes[1:] {
		if name := routes[1+i].name; routes[1+i].stream == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ValidateRoute refuses a name that no route has.
func ValidateRoute(name string) error {
	if names := RouteNames(); !slices.Contains(names, name) {
		return errors.New(document.Unrecognized("route", name, names))
	}
	return nil
}

// ValidateLimit refuses a limit with routes that it can't count, or with ceilings that its
// routes never use.
func ValidateLimit(l *limit.Limit) error {
	for _, name := range l.Routes {
		if err := ValidateRoute(name); err != nil {
			return err
		}
	}
	all := routesOf(l)
	for i := range routes {
		r := &routes[i]
		if all.has(r) && l.By == limit.ByEndpoint && !r.namesEndpoint() {
			return fmt.Errorf("by endpoint can't count the route %s, whose requests name none: leave it out of routes", r.name)
		}
		if all.has(r) && l.By == limit.ByMetadata && !r.hasMetadata() {
			return fmt.Errorf("by metadata.%s can't count the route %s, whose requests have no metadata: leave it out of routes", l.Member, r.name)
		}
	}
	calls := slices.ContainsFunc(routes, func(r route) bool { return r.calls && all.has(&r) })
	for _, c := range l.Ceilings {
		if limit.Measures[c.Measure].Metered && !calls {
			return fmt.Errorf("%s can't be used by the routes %s, which call no model: add endpoints, chat, responses, messages or embeddings, or leave routes out",
				c.Measure, strings.Join(l.Routes, ", "))
		}
	}
	return nil
}

// routeSet has a bit for each route, by its index.
type routeSet uint32

func (s routeSet) has(r *route) bool { return s>>r.index&1 != 0 }

// routesOf returns the routes whose requests a limit counts.
func routesOf(l *limit.Limit) routeSet {
	var set routeSet
	for i := range routes {
		r := &routes[i]
		if slices.Contains(l.Routes, r.name) || len(l.Routes) == 0 && r.calls {
			set |= 1 << r.index
		}
	}
	return set
}

// ByText returns the dimension that a limit counts by, in the configuration's words.
func ByText(l *limit.Limit) string {
	switch l.By {
	case limit.ByAPIKey:
		return "api_key"
	case limit.ByEndpoint:
		return "endpoint"
	case limit.ByWorkspace:
		return "workspace"
	case limit.ByClientIP:
		return "client_ip"
	}
	return "metadata." + l.Member
}
