package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// RouteNames returns the names of all routes, each once.
func RouteNames() []string {
	var names []string
	for i := range routes[1:] {
		if name := routes[1+i].name; !slices.Contains(names, name) {
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

// ValidateLimit refuses a limit that could never count what it bounds.
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
		if (c.Measure == limit.Tokens || c.Measure == limit.Money) && !calls {
			return fmt.Errorf("%s can't be used by the routes %s, which call no model: add endpoints, chat, responses or messages, or leave routes out",
				MeasureName(c.Measure), strings.Join(l.Routes, ", "))
		}
	}
	return nil
}

// routeSet has a bit for each route, by its index.
type routeSet uint32

func (s routeSet) has(r *route) bool { return s>>r.index&1 != 0 }

// routesOf returns the routes whose requests count for a limit.
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

// MeasureName returns what a measure is called in the configuration.
func MeasureName(m limit.Measure) string {
	switch m {
	case limit.Requests:
		return "requests"
	case limit.Tokens:
		return "tokens"
	case limit.Money:
		return "money"
	}
	return "in_flight"
}

// WindowText returns a window as the configuration has it.
func WindowText(w limit.Window) string {
	if w.Length == 0 {
		return "1mo"
	}
	for _, unit := range [...]struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if w.Length%unit.length == 0 {
			return strconv.FormatInt(int64(w.Length/unit.length), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(w.Length/time.Second), 10) + "s"
}

// CeilingText returns a ceiling as the configuration has it, such as 100/1m.
func CeilingText(c limit.Ceiling) string {
	switch c.Measure {
	case limit.InFlight:
		return strconv.FormatInt(c.Most, 10)
	case limit.Money:
		return dollarsText(c.Most) + "usd/" + WindowText(c.Window)
	}
	return strconv.FormatInt(c.Most, 10) + "/" + WindowText(c.Window)
}

// dollarsText returns an amount of money in US dollars, in no more digits than it needs.
func dollarsText(nanodollars int64) string {
	text := strconv.FormatInt(nanodollars/limit.Dollar, 10)
	if rest := nanodollars % limit.Dollar; rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	}
	return text
}

// ByText returns what a limit counts by, as the configuration has it.
func ByText(l *limit.Limit) string {
	switch l.By {
	case limit.ByAPIKey:
		return "api_key"
	case limit.ByEndpoint:
		return "endpoint"
	case limit.ByWorkspace:
		return "workspace"
	}
	return "metadata." + l.Member
}
