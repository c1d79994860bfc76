package invoke

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// StartSpan starts the span of an attempt at the target, by its index in Call.Targets,
// which begins at the time, after its wait. It returns nil for an attempt that gets
// none. Its caller holds the lock of the call, and gives what is known of the attempt
// by then. The two lanes of a hedged call use it one after the other.
//
// The span is the attempt's in the result, and the caller of Invoke ends it there. A
// span that is in no result is that of an attempt that was not made after all, or of a
// call that panicked.
type StartSpan func(target int, a *Attempt, began time.Time) oteltrace.Span

// openSpan starts the span of the attempt whose record was opened last. It holds
// call.mu.
func (a *attempt) openSpan() {
	if a.StartSpan == nil {
		return
	}
	r := &a.records[len(a.records)-1]
	r.Span = a.StartSpan(a.index, r, a.beganAt)
}

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
