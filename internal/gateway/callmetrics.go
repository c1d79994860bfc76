package gateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// callSeries are the metrics of a workspace's calls with their labels applied:
// looking labels up costs more than counting.
type callSeries struct {
	inFlight  prometheus.Gauge
	streams   onDemand[prometheus.Gauge]
	providers map[string]*providerSeries // by name
}

// providerSeries are the metrics that most calls of a provider count.
type providerSeries struct {
	answered   onDemand[prometheus.Counter] // attempts
	firstToken onDemand[prometheus.Observer]
}

// onDemand is a series that is made when it is first counted: before, it is not
// exposed.
type onDemand[T any] struct {
	once   sync.Once
	series T
}

func (o *onDemand[T]) get(make func() T) T {
	o.once.Do(func() { o.series = make() })
	return o.series
}

func (w *Workspace) newCallSeries() *callSeries {
	s := &callSeries{
		inFlight:  w.gateway.metrics.inFlight.WithLabelValues(w.Name),
		providers: make(map[string]*providerSeries, len(w.Providers)),
	}
	for name := range w.Providers {
		s.providers[name] = new(providerSeries)
	}
	return s
}

// streams returns the number of the workspace's streams.
func (w *Workspace) streams() prometheus.Gauge {
	return w.calls.streams.get(func() prometheus.Gauge { return w.gateway.metrics.streams.WithLabelValues(w.Name) })
}

// answered returns the number of a provider's attempts without a failure.
func (w *Workspace) answered(provider string) prometheus.Counter {
	return w.calls.providers[provider].answered.get(func() prometheus.Counter {
		return w.gateway.metrics.attempts.WithLabelValues(w.Name, provider, "ok")
	})
}

// firstToken returns the times until a provider's first content.
func (w *Workspace) firstToken(provider string) prometheus.Observer {
	return w.calls.providers[provider].firstToken.get(func() prometheus.Observer {
		return w.gateway.metrics.firstToken.WithLabelValues(w.Name, provider)
	})
}
