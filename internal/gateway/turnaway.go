package gateway

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// A caller that is refused because the gateway is full waits that long for its answer
	// over HTTP/1, so that one that asks again at once leaves the processor to the calls
	// that were let in. maxSlowed wait at a time; others are answered at once.
	leastSlowed, mostSlowed       = 700 * time.Millisecond, time.Second
	maxSlowed               int64 = 8192

	// retrySpread is how many seconds Retry-After differs by.
	retrySpread = 3
)

// slow has a refused caller wait for its answer, unless it leaves or the process exits.
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

// refusals are a workspace's refusals by the ceilings of calls in flight.
type refusals [len(inflight.Ceilings) + 1]refusal

// refusal is an error with its answers, which are made once.
type refusal struct {
	err     wire.Error
	answers []prepared // by the index of the route; empty where it calls nothing
}

// prepared is an error's body, in two parts where it repeats the id of its header.
type prepared struct{ body, rest []byte }

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
		r[by] = refusal{err: *err, answers: make([]prepared, len(routes))}
		for i := range routes {
			if routes[i].calls {
				r[by].answers[i] = routes[i].prepare(*err)
			}
		}
	}
	return r
}

// prepare makes the answer of an error.
func (to *route) prepare(err wire.Error) prepared {
	if to.requestID != "" {
		err.RequestID = newRequestID()
	}
	p := prepared{body: to.appendError(nil, &err)}
	if err.RequestID != "" {
		p.body, p.rest, _ = bytes.Cut(p.body, []byte(err.RequestID))
	}
	return p
}

// writePrepared answers with a refusal as writeErrorOnly does, with another Retry-After
// each time: when one of the calls in flight ends is unknown, and those that were refused
// together should not come back together.
func (to *route) writePrepared(w http.ResponseWriter, by *refusal) {
	p := &by.answers[to.index]
	body := p.body
	if to.requestID != "" {
		id := newRequestID()
		w.Header()[to.requestID] = []string{id}
		if len(p.rest) > 0 {
			body = append(append(append(make([]byte, 0, 512), body...), id...), p.rest...)
		}
	}
	told := by.err
	told.RetryAfter += time.Duration(rand.IntN(retrySpread)) * time.Second
	wire.WriteErrorBody(w, &told, body)
}

// turnedAway is a call's refusal by a ceiling that needs nothing of its body, nil where it
// may be let in: so it is where the answer may be one that needs no call.
func (g *Gateway) turnedAway(r *http.Request, to *route, key *principal, info *requestInfo) *wire.Error {
	w := key.workspace
	if !to.calls || len(r.Header[wire.HeaderIdempotencyKey]) > 0 || w.Source.Snapshot().Remembers {
		return nil
	}
	by := g.process.calls.Full(w.Name, inflight.Key(key.digest), &w.InFlight)
	if by == inflight.None {
		return nil
	}
	return w.refuse(by, info)
}

// refuse counts and returns a refusal.
func (w *Workspace) refuse(by inflight.Ceiling, info *requestInfo) *wire.Error {
	if w.counting() != nil {
		w.gateway.metrics.refused.WithLabelValues(w.Name, by.String()).Inc()
	}
	info.refusal = &w.refusals[by]
	return &info.refusal.err
}
