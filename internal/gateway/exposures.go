package gateway

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/trace"
)

// exposed says which trace an answer is counted on, or under which key its own trace becomes
// one that others are counted on.
type exposed struct {
	on     *exposure.Exposure // nil: the answer has a trace of its own
	hash   exposure.Key
	enters bool
}

// exposures are those of a request's answers, until the request has succeeded.
type exposures struct {
	counted  []*exposure.Exposure
	entering []entering
	sum      uint64 // of the keys of counted, which stands for what was asked
}

// entering is an exposure whose trace is to be recorded.
type entering struct {
	key    exposure.Key
	id     trace.ID
	record int // index into the request's records
}

// expose looks for the trace that stands for an answer of a definition within a window. If
// there is one, the answer makes no trace.
func (e *evaluation) expose(p *picked, window time.Duration) {
	d := p.definition
	if e.logs(d) == definition.LogNone {
		return
	}
	store := e.workspace.Store
	if retention := e.workspace.Limits.Retention; retention > 0 {
		window = min(window, retention) // then the trace is deleted
	}
	since := e.began.Add(-window)
	if gone := store.evictedUntil(); since.Before(gone) {
		since = gone
	}
	text := binary.BigEndian.AppendUint64(e.scratch[:0], store.Recorder.Epoch())
	text = append(text, e.workspace.ids.Load().sealer.KeyName()...) // reports refuse ids of a key before the last
	text = cache.AppendKey(text, e.key.name, d.Version, d.Kind.Trace, d.Key)
	text, hasUnit := d.Table().AppendExposure(text, p.decision, &e.binding)
	if d.Rendered() != nil {
		// What the prompt says differs with the configurations that its variables are from.
		for _, read := range e.values.Read() {
			text = append(text, e.snapshot.RemoteConfigs[read.Key].Version...)
			text, _ = read.Table().AppendExposure(text, read.Table().Evaluate(&e.binding), &e.binding)
		}
	}
	if !hasUnit {
		text = binary.BigEndian.AppendUint32(text, exposure.MinuteOf(e.began))
	}
	e.scratch = text
	memory := e.workspace.Memory.exposures
	p.hash, p.enters = memory.Key(text), true
	if p.on = memory.Find(p.hash, since); p.on != nil {
		x := &e.next.exposures
		x.counted = append(x.counted, p.on)
		x.sum += p.hash[0]
	}
}

// named returns the decision that an answer names: a report on it must be one on each of the
// answers. If some of them are counted on earlier traces, these must be all of the answers
// to an earlier request for the same. asked is how many answers there are.
func (a *answers) named(asked int) trace.ID {
	counted := a.exposures.counted
	if len(counted) == 0 {
		return a.decisionID
	}
	first := counted[0].Request
	other := func(e *exposure.Exposure) bool { return e.Request != first }
	if len(counted) < asked || first.Keys != a.exposures.sum || slices.ContainsFunc(counted, other) {
		return trace.ID{}
	}
	return first.Decision
}

// countOn answers with the trace that stands for an answer.
func (a *answers) countOn(e *exposure.Exposure) {
	a.answered++
	a.lastTrace = e.Trace
}

// enterExposures has the request's traces stand for further answers, as far as the recorder
// took them.
func (a *answers) enterExposures(records []*trace.Record) {
	x := &a.exposures
	request := &exposure.Request{Workspace: a.workspace.Name, Decision: a.decisionID, Began: a.began}
	whole := len(x.entering) == a.answered
	for i := range x.entering {
		n := &x.entering[i]
		whole = whole && records[n.record] != nil
		request.Keys += n.key[0]
	}
	if !whole {
		request.Keys = 0 // no request asks for just what its traces are of
	}
	for i := range x.entering {
		if n := &x.entering[i]; records[n.record] != nil {
			a.workspace.Memory.exposures.Enter(n.key, &exposure.Exposure{Request: request, Trace: n.id})
		}
	}
}
