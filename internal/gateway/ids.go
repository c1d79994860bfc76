package gateway

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/trace"
)

// authorities make and verify a workspace's trace ids, the seals of its traces, the
// console's sessions and the tokens of streams, and make the hashes that stand for values of contexts in traces. A
// hash that was made under a former key stays as it is.
type authorities struct {
	current *trace.Authority
	hasher  *trace.Hasher // of the same key as current
	sealer  *trace.Sealer // and this
	seals   *sealKeys     // derived from the same key
	// former verifies ids that were made under the previous key, formerSealer the seals, and
	// formerSeals the sessions and tokens. The previous key is the store's key if trace_key is
	// configured, otherwise the temporary key that was in use before the store could be
	// read. Nil: no previous key.
	former       *trace.Authority
	formerSealer *trace.Sealer
	formerSeals  *sealKeys
}

// makeIDs finds the key of the trace ids: the configured key, or else the store's.
func (w *Workspace) makeIDs(ctx context.Context) {
	if w.keyOfIDs != nil {
		w.setIDs(w.keyOfIDs, nil)
		// Ids that were made before trace_key was configured stay valid.
		w.background.Go(func() {
			if kept, err := w.Store.Recorder.TraceKey(ctx); err == nil {
				w.setIDs(w.keyOfIDs, kept)
			}
		})
		return
	}
	kept, temporary, err := w.Store.traceKeys(ctx)
	if kept != nil {
		w.setIDs(kept, temporary)
		return
	}
	// No trace_key is configured, and the store can't be opened.
	w.Logger.Error("trace ids are made under a temporary key: a restart forgets them",
		zap.String("path", w.Store.Path), zap.Error(err))
	w.setIDs(temporary, nil)
	w.background.Go(func() {
		kept, err := w.Store.Recorder.TraceKey(ctx)
		if err != nil {
			return
		}
		w.setIDs(kept, temporary)
		w.Logger.Info("trace ids are made under the store's key", zap.String("path", w.Store.Path))
	})
}

func (w *Workspace) setIDs(key, former []byte) {
	ids := &authorities{
		current: made(trace.NewAuthority(key, w.Name)), hasher: made(trace.NewHasher(key, w.Name)), sealer: made(trace.NewSealer(key, w.Name)),
		seals: newSealKeys(key, w.Name),
	}
	if former != nil {
		ids.former, ids.formerSealer = made(trace.NewAuthority(former, w.Name)), made(trace.NewSealer(former, w.Name))
		ids.formerSeals = newSealKeys(former, w.Name)
	}
	w.ids.Store(ids)
}

// made returns what was made of a trace key. The length of a configured key was
// checked, and the gateway made the others.
func made[T any](of T, err error) T {
	if err != nil {
		panic(err)
	}
	return of
}

func (w *Workspace) newID(kind trace.Kind, now time.Time) trace.ID {
	return w.ids.Load().current.New(kind, now)
}

// begin makes the ids of the request's decision and of its traces, if there are any. It is
// called once in a request, when the number of its traces is known.
func (e *evaluation) begin(traces int) *answers {
	a, ids := e.next, e.workspace.ids.Load()
	a.hasher = ids.hasher
	if traces > 0 {
		a.decision = ids.current.Decide(e.began, traces)
		a.decisionID = a.decision.ID()
	}
	return a
}

// verifyID reports whether the workspace made an id, and returns the kind of its
// trace.
func (w *Workspace) verifyID(id trace.ID) (trace.Kind, bool) {
	ids := w.ids.Load()
	kind, ok := ids.current.Verify(id)
	if !ok && ids.former != nil {
		return ids.former.Verify(id)
	}
	return kind, ok
}

// HasKeyOf reports whether the present trace key made an id, and with it the hashes of its
// trace.
func (w *Workspace) HasKeyOf(id trace.ID) bool {
	_, ok := w.ids.Load().current.Verify(id)
	return ok
}

// verifyDecision reports whether the workspace made id for a decision.
func (w *Workspace) verifyDecision(id trace.ID) bool {
	ids := w.ids.Load()
	return ids.current.VerifyDecision(id) || ids.former != nil && ids.former.VerifyDecision(id)
}

// VerifySeal says whether a trace that was read from the store is what was recorded.
func (w *Workspace) VerifySeal(record *trace.Record) trace.Verification {
	ids := w.ids.Load()
	v := ids.sealer.Verify(record)
	if v.Result == trace.SealOtherKey && ids.formerSealer != nil {
		return ids.formerSealer.Verify(record)
	}
	return v
}
