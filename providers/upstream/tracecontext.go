package upstream

import (
	"net/http"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The headers of W3C Trace Context. Baggage, a third one of OpenTelemetry, is never
// sent: callers fill it.
const (
	headerParent = "Traceparent"
	headerState  = "Tracestate"
)

// traced returns the request with the headers of the try that runs, as a copy: a
// RoundTripper must not change its request. Without tracing it returns the request.
func traced(req *http.Request) *http.Request {
	parent, state := providers.TraceContext(req.Context())
	if parent == "" {
		return req
	}
	again := *req
	again.Header = req.Header.Clone()
	again.Header[headerParent] = []string{parent}
	if delete(again.Header, headerState); state != "" {
		again.Header[headerState] = []string{state}
	}
	return &again
}
