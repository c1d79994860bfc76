package gateway

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/trace"
)

// authorities make and verify a workspace's trace ids.
type authorities struct {
	current *trace.Authority
	// former is of the key of the store where one is configured, or of the
	// temporary key that current's stood in for; nil without.
	former *trace.Authority
}

// makeIDs finds the key of the trace ids: the configured one, or the store's.
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
	w.Logger.Error("the store can't be opened and no trace_key is configured: a temporary key makes the trace ids, and those made now will be unknown after a restart",
		zap.String("path", w.Store.Path), zap.Error(err))
	w.setIDs(temporary, nil)
	w.background.Go(func() {
		kept, err := w.Store.Recorder.TraceKey(ctx)
		if err != nil {
			return
		}
		w.setIDs(kept, temporary)
		w.Logger.Info("the store is open: its key makes the trace ids from now on", zap.String("path", w.Store.Path))
	})
}

func (w *Workspace) setIDs(key, former []byte) {
	ids := &authorities{current: w.authority(key)}
	if former != nil {
		ids.former = w.authority(former)
	}
	w.ids.Store(ids)
}

func (w *Workspace) authority(key []byte) *trace.Authority {
	authority, err := trace.NewAuthority(key, w.Name)
	if err != nil {
		// The length of a configured key was checked, the others are ours.
		panic(err)
	}
	return authority
}

func (w *Workspace) newID(kind trace.Kind, now time.Time) trace.ID {
	return w.ids.Load().current.New(kind, now)
}

// verifyID reports whether the workspace made an id, and of what kind.
func (w *Workspace) verifyID(id trace.ID) (trace.Kind, bool) {
	ids := w.ids.Load()
	kind, ok := ids.current.Verify(id)
	if !ok && ids.former != nil {
		return ids.former.Verify(id)
	}
	return kind, ok
}
