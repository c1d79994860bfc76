package invoke

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// StartSpan starts the span of an attempt at the target, by its index in Call.Targets.
// The span begins at the time began, after the attempt's wait. StartSpan returns nil
// for an attempt without a span. Its caller holds the lock of the call; the attempt
// has the members known by then. The two lanes of a hedged call use it one after the
// other.
//
// The result's attempts hold their spans, and the caller of Invoke ends them. A span
// that is in no result belongs to an attempt that was not made after all, or to a call
// that panicked.
type StartSpan func(target int, a *Attempt, began time.Time) oteltrace.Span

// TraceContext returns the headers of the attempt that runs: see
// providers.TraceContext. A repeat of the provider's HTTP client is an attempt of its
// own.
func (a *attempt) TraceContext() (parent, state string) {
	if a.StartSpan == nil {
		return "", ""
	}
	a.mu.Lock()
	span := a.records[len(a.records)-1].Span
	a.mu.Unlock()
	if span == nil {
		return "", ""
	}
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(oteltrace.ContextWithSpan(context.Background(), span), headers)
	return headers["traceparent"], headers["tracestate"]
}
