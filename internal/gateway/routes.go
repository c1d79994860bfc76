package gateway

import (
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// route is one of the gateway's routes.
type route struct {
	method string
	// path may name a trace, as {trace_id}.
	path string
	// name is the route's name in metrics, logs and placeholders.
	name  string
	serve func(*call) outcome
	// kind is the kind of the trace that the path names.
	kind trace.Kind

	index         int    // in routes
	before, after string // the path before and after {trace_id}; after is empty without it
}

// routes lists all routes, the most called ones first. The first entry is for
// paths that no other entry matches.
var routes = table(
	route{name: "none"},
	route{method: http.MethodPost, path: "/v1/prompts", name: "prompts", serve: allOrNothing((*call).prompts)},
	route{method: http.MethodPost, path: "/v1/endpoints", name: "endpoints", serve: (*call).endpoint},
	route{method: http.MethodPost, path: "/v1/remoteconfigs", name: "remoteconfigs", serve: allOrNothing((*call).remoteConfigs)},
	route{method: http.MethodPost, path: "/v1/decisions", name: "decisions", serve: allOrNothing((*call).decisions)},
	route{method: http.MethodPost, path: "/v1/metrics", name: "metrics", serve: allOrNothing((*call).report)},
	route{method: http.MethodPost, path: "/v2/prompts", name: "prompts", serve: allOrNothing((*call).prompts)},
	route{method: http.MethodPost, path: "/v2/remoteconfigs", name: "remoteconfigs", serve: allOrNothing((*call).remoteConfigs)},
	route{method: http.MethodPost, path: "/v2/prompts/{trace_id}/metrics", name: "metrics", kind: trace.KindPrompt, serve: allOrNothing((*call).report)},
	route{method: http.MethodPost, path: "/v2/remoteconfigs/{trace_id}/metrics", name: "metrics", kind: trace.KindRemoteConfig, serve: allOrNothing((*call).report)},
)

func table(rows ...route) []route {
	for i := range rows {
		rows[i].index = i
		rows[i].before, rows[i].after, _ = strings.Cut(rows[i].path, "{trace_id}")
	}
	return rows
}

// allOrNothing turns a function that writes its whole answer or nothing into a
// route's function.
func allOrNothing(serve func(*call) *wire.Error) func(*call) outcome {
	return func(c *call) outcome {
		if err := serve(c); err != nil {
			return refused(err)
		}
		return outcome{end: answered}
	}
}

// find returns the route of a path, with the trace id that the path names.
func find(path string) (to *route, traceID string) {
	for i := range routes {
		r := &routes[i]
		if r.after == "" {
			if r.before == path {
				return r, ""
			}
			continue
		}
		if rest, ok := strings.CutPrefix(path, r.before); ok {
			if id, ok := strings.CutSuffix(rest, r.after); ok && id != "" && !strings.Contains(id, "/") {
				return r, id
			}
		}
	}
	return &routes[0], ""
}

// HasRoute reports whether a path has a route.
func HasRoute(path string) bool {
	to, _ := find(path)
	return to.serve != nil
}

// documented lists the routes for a caller that asked for an unknown one, such as
// "POST /a, /b and GET /c".
func documented() string {
	var list []string
	method := ""
	for _, r := range routes[1:] {
		text := r.path
		if r.method != method {
			text = r.method + " " + text
			method = r.method
		}
		list = append(list, text)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
