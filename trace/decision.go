package trace

import (
	"encoding/binary"
	"fmt"
	"time"
)

// MaxDecisionTraces is the maximum number of traces of one decision.
const MaxDecisionTraces = 1000

// Decision makes the ids of one request: the decision's own id and the ids of its
// traces. They have the same millisecond and successive counters:
//
//	decision      prompt        prompt        remoteconfig
//	… 5 … 4711    … 1 … 4712    … 1 … 4713    … 3 … 4714
//
// So a query finds the traces of a decision by the id ranges of [TracesOf], and
// needs no index of decisions.
type Decision struct {
	authority *Authority
	millis    int64
	counter   uint64 // of the decision
	traces    int    // the maximum number of its traces
}

// Decide returns a decision with up to the given number of traces. It panics if
// traces is negative or greater than MaxDecisionTraces.
func (a *Authority) Decide(now time.Time, traces int) Decision {
	if traces < 0 || traces > MaxDecisionTraces {
		panic(fmt.Sprintf("trace: a decision with %d traces", traces))
	}
	millis, counter := a.reserve(now, uint64(traces)+1)
	return Decision{authority: a, millis: millis, counter: counter, traces: traces}
}

// ID returns the decision's id.
func (d Decision) ID() ID { return d.authority.sign(newID(d.millis, KindDecision, d.counter)) }

// Trace returns the id of the decision's trace i, counted from 0 over all kinds.
// It panics if i is not less than the number of traces given to Decide.
func (d Decision) Trace(kind Kind, i int) ID {
	if i < 0 || i >= d.traces {
		panic(fmt.Sprintf("trace: the trace %d of a decision with %d", i, d.traces))
	}
	return d.authority.sign(newID(d.millis, kind, d.counter+1+uint64(i)))
}

// TracesOf returns the lowest and the highest id that a trace of the decision can
// have, if the trace is of the kind. Traces of other decisions of the same
// millisecond can have ids between them.
func TracesOf(decision ID, kind Kind) (first, last ID) {
	millis, counter := decision.millis(), decision.counter()
	first = newID(millis, kind, counter+1)
	last = newID(millis, kind, min(counter+MaxDecisionTraces, counterMask))
	binary.BigEndian.PutUint32(last[12:], 1<<32-1)
	return first, last
}
