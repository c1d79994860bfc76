package providers

import "context"

// TraceContext returns the headers of W3C Trace Context that a provider sends with the
// try that runs: traceparent, and tracestate unless that is empty. Both are empty where
// the request is not traced. An HTTP client asks for them before each try, since a
// repeat has a span of its own.
//
// They come from the context's [Budget], where that has a method TraceContext.
func TraceContext(ctx context.Context) (parent, state string) {
	if traced, ok := ctx.Value(budgetKey{}).(interface{ TraceContext() (parent, state string) }); ok {
		return traced.TraceContext()
	}
	return "", ""
}
