package gateway

import "strings"

// Route is one of the gateway's routes.
type Route uint8

// The routes. Those of metrics that belong to a trace which the path names, with
// its kind, are told apart from RouteMetrics.
const (
	RouteNone Route = iota
	RoutePrompts
	RouteEndpoints
	RouteRemoteConfigs
	RouteMetrics
	RoutePromptMetrics
	RouteRemoteConfigMetrics
)

// routeNames are the routes' names in metrics, logs and placeholders.
var routeNames = [...]string{
	RouteNone:                "none",
	RoutePrompts:             "prompts",
	RouteEndpoints:           "endpoints",
	RouteRemoteConfigs:       "remoteconfigs",
	RouteMetrics:             "metrics",
	RoutePromptMetrics:       "metrics",
	RouteRemoteConfigMetrics: "metrics",
}

// String returns the route's name in metrics, logs and placeholders.
func (r Route) String() string { return routeNames[r] }

// RouteOf finds the route of a path, with the trace id that the path names.
func RouteOf(path string) (to Route, traceID string) {
	switch path {
	case "/v1/prompts", "/v2/prompts":
		return RoutePrompts, ""
	case "/v1/endpoints":
		return RouteEndpoints, ""
	case "/v1/remoteconfigs", "/v2/remoteconfigs":
		return RouteRemoteConfigs, ""
	case "/v1/metrics":
		return RouteMetrics, ""
	}
	if rest, ok := strings.CutPrefix(path, "/v2/"); ok {
		return TraceMetrics(rest)
	}
	return RouteNone, ""
}

// TraceMetrics finds the kind and the trace id in
// {prompts|remoteconfigs}/{trace_id}/metrics.
func TraceMetrics(path string) (to Route, traceID string) {
	path, ok := strings.CutSuffix(path, "/metrics")
	if !ok {
		return RouteNone, ""
	}
	entity, traceID, ok := strings.Cut(path, "/")
	if !ok || traceID == "" || strings.Contains(traceID, "/") {
		return RouteNone, ""
	}
	switch entity {
	case "prompts":
		return RoutePromptMetrics, traceID
	case "remoteconfigs":
		return RouteRemoteConfigMetrics, traceID
	}
	return RouteNone, ""
}
