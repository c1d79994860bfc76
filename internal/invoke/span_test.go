package invoke

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/cadenza-gateway/cadenza/providers"
)

// parents is a provider that notes the traceparent of each of its tries.
type parents struct {
	*fake
	seen []string
}

func (p *parents) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	parent, _ := providers.TraceContext(ctx)
	p.seen = append(p.seen, parent)
	return p.fake.Invoke(ctx, req)
}

// numbered is a span with a number for its id.
type numbered struct {
	noop.Span
	id byte
}

func (s numbered) SpanContext() oteltrace.SpanContext {
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{1}, SpanID: oteltrace.SpanID{s.id}, TraceFlags: oteltrace.FlagsSampled})
}

// TestSpans: each attempt has the span that was started for it, also that of another
// lane, and its provider gets that span's id. The span begins after the wait.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &parents{fake: &fake{scripts: []script{fails(status(500)), {hang: true}}}}
		second := &parents{fake: &fake{scripts: []script{slowly(time.Second, "b")}}}
		c := hedged(2*time.Second, target("a", first), target("b", second))
		began := time.Now()
		var starts []time.Duration
		c.StartSpan = func(target int, a *Attempt, at time.Time) oteltrace.Span {
			if at.Sub(began) != a.Started || c.Targets[target].Name != a.Provider || a.Hedge != (target == 1) {
				t.Errorf("target %d of %+v at %s", target, a.Attempt, at.Sub(began))
			}
			starts = append(starts, at.Sub(began))
			return numbered{id: byte(len(starts))}
		}
		result, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error { return nil })
		if err != nil || len(result.Attempts) != 3 {
			t.Fatalf("%v, %+v", err, result.Attempts)
		}
		const prefix, suffix = "00-01000000000000000000000000000000-0", "00000000000000-01"
		if len(first.seen) != 2 || first.seen[0] != prefix+"1"+suffix || first.seen[1] != prefix+"2"+suffix || len(second.seen) != 1 || second.seen[0] != prefix+"3"+suffix {
			t.Errorf("the providers got %q and %q", first.seen, second.seen)
		}
		for n, a := range result.Attempts {
			if a.Span.(numbered).id != byte(n+1) || a.Started != starts[n] {
				t.Errorf("attempt %d has the span %v", n, a.Span)
			}
		}
	})
}

// TestNoSpan: if no attempt is traced, no provider gets a trace context.
func TestNoSpan(t *testing.T) {
	for _, start := range []StartSpan{nil, func(int, *Attempt, time.Time) oteltrace.Span { return nil }} {
		p := &parents{fake: &fake{scripts: []script{says("a")}}}
		c := &Call{Targets: []Target{target("a", p)}, StartSpan: start}
		if _, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error { return nil }); err != nil || len(p.seen) != 1 || p.seen[0] != "" {
			t.Errorf("%v, the provider got %q", err, p.seen)
		}
	}
}
