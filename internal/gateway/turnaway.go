package gateway

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// A caller over HTTP/1 that is refused because the gateway is full waits for its answer
	// between leastSlowed and mostSlowed. So callers that ask again at once leave the
	// processor to the admitted calls. At most maxSlowed callers wait at a time; the gateway
	// answers others at once.
	leastSlowed, mostSlowed       = 700 * time.Millisecond, time.Second
	maxSlowed               int64 = 8192

	// retrySpread is the number of different values of Retry-After, in seconds.
	retrySpread = 3
)

// slow makes a refused caller wait for its answer, until it leaves or the process exits.
func (g *Gateway) slow(caller context.Context) {
	slowed := &g.process.slowed
	defer slowed.Add(-1)
	if slowed.Add(1) > g.process.maxSlowed {
		return
	}
	timer := time.NewTimer(leastSlowed + rand.N(mostSlowed-leastSlowed))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-caller.Done():
	case <-g.exiting.Done():
	}
}

// refusals are a workspace's errors of the ceilings of calls in flight, by the ceiling.
type refusals [len(inflight.Ceilings) + 1]wire.Error

// newRefusals makes the refusals of a workspace.
func newRefusals(limits *inflight.Limits) (r refusals) {
	host := wire.Errorf(wire.Overloaded, "", "The model provider's host has %d calls in flight, as many as it may have (in_flight: host). Send the request again.", limits.Host)
	if limits.Adaptive {
		host = wire.Errorf(wire.Overloaded, "", "The model provider's host is overloaded: it has as many calls in flight as it bears at present, at most %d (in_flight: host, adaptive). Send the request again.", limits.Host)
	}
	for by, err := range map[inflight.Ceiling]*wire.Error{
		inflight.OfKey:       wire.Errorf(wire.RateLimited, "", "The API key has %d calls in flight, as many as it may have (in_flight: key). Send the request again when one of them has ended.", limits.Key),
		inflight.OfWorkspace: wire.Errorf(wire.Overloaded, "", "The workspace has %d calls in flight, as many as it may have (in_flight: workspace). Send the request again.", limits.Workspace),
		inflight.OfProcess:   wire.Errorf(wire.Overloaded, "", "The gateway has %d calls in flight, as many as it may have (in_flight: process). Send the request again.", limits.Process),
		inflight.OfHost:      host,
		inflight.OfShare:     wire.Errorf(wire.Overloaded, "", "The API key has its share of the calls that the gateway, the workspace or the model provider's host bears at present: other keys need theirs (in_flight). Send the request again."),
	} {
		err.RetryAfter = retryInFlight
		r[by] = *err
	}
	return r
}

// error returns the error of a ceiling, with another Retry-After each time: nobody knows
// when one of the calls in flight ends, and those that were refused together should not
// come back together.
func (r *refusals) error(by inflight.Ceiling) *wire.Error {
	err := r[by]
	err.RetryAfter += time.Duration(rand.IntN(retrySpread)) * time.Second
	return &err
}

// turnedAway returns the error of a call that a ceiling refuses before its body is read. It
// returns nil if the call may be admitted, or if it may be answered without a provider.
func (g *Gateway) turnedAway(r *http.Request, to *route, key *principal) *wire.Error {
	w := key.workspace
	if !to.calls || len(r.Header[wire.HeaderIdempotencyKey]) > 0 || w.Source.Snapshot().Remembers {
		return nil
	}
	by := g.process.calls.Full(w.Name, inflight.Key(key.digest), &w.InFlight)
	if by == inflight.None {
		return nil
	}
	return w.refuse(by)
}

// refuse counts a refusal and returns its error.
func (w *Workspace) refuse(by inflight.Ceiling) *wire.Error {
	if w.counting() != nil {
		w.gateway.metrics.refused.WithLabelValues(w.Name, by.String()).Inc()
	}
	return w.refusals.error(by)
}
