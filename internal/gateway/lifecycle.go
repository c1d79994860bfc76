package gateway

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// start opens the store and begins to follow the files. The sinks have started.
func (w *Workspace) start() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.calls = w.gateway.metrics.newWorkspaceSeries(w)
	w.gateway.metrics.names.begin(w)
	w.Store.limits.add(&w.Limits)
	w.Store.Recorder.Join(w.Name)
	w.Store.Recorder.Open()
	w.startLimits()
	w.makeIDs(ctx)
	if limiter := w.Store.Limiter(); limiter != nil {
		limiter.SetHash(w.Name, w.hashSubject)
	}
	w.unsubscribe = w.Source.Subscribe(w.definitionsChanged, w.recordFiles)
	if err := w.Source.Watch(); err != nil {
		w.Logger.Error("the definitions can't be watched: edits need a reload of Caddy", zap.Error(err))
	}
	snapshot, err := w.Source.Snapshot(), w.Source.LastError()
	w.definitionsChanged(snapshot, err)
	if err != nil {
		w.serves(snapshot)
	}
	w.background.Go(func() { w.rollouts.run(ctx) })
	w.startKeys(ctx)
	if len(w.CallLimits) > 0 {
		w.background.Go(func() { w.followPeaks(ctx) })
	}
	w.Memory.engine.Reconsider()
}

// end ends what start began. It is called once, even if the workspace was not started.
func (w *Workspace) end() {
	if w.stop == nil {
		return // the workspace was not started
	}
	w.stop()
	w.background.Wait()
	w.unsubscribe()
	w.gateway.metrics.names.end(w)
	w.Store.limits.remove(&w.Limits)
	w.Store.Recorder.Leave(w.Name)
}

// definitionsChanged is called after every load of the definitions.
func (w *Workspace) definitionsChanged(snapshot *definition.Snapshot, err error) {
	m := w.gateway.metrics
	if slow, ok := errors.AsType[*definition.SlowLoadError](err); ok {
		m.valid.WithLabelValues(w.Name).Set(0)
		w.Logger.Error("the definitions load slowly, the last good ones are served",
			zap.String("revision", snapshot.Revision), zap.String("loading_since", timestamp(slow.Since)))
		return
	}
	if snapshot.Awaited && err == nil {
		m.valid.WithLabelValues(w.Name).Set(0)
		w.Logger.Warn("there are no definitions yet: requests are refused until the source has given some", zap.String("source", w.Source.Dir()))
		w.serves(snapshot)
		return
	}
	w.emitDefinitions(snapshot, err)
	if err != nil {
		m.reloads.WithLabelValues(w.Name, "error").Inc()
		m.valid.WithLabelValues(w.Name).Set(0)
		if since := w.Source.State().Restored; w.Bundle != nil {
			w.logMistakes("a bundle of definitions is refused, the last good ones are served", err, zap.String("revision", snapshot.Revision))
		} else if !since.IsZero() {
			w.logMistakes("the definitions on disk are invalid, those that were served before the start are served from the store", err,
				zap.String("revision", snapshot.Revision), zap.String("served_since", timestamp(since)))
		} else {
			w.logMistakes("the definitions on disk are invalid, the last good ones are served", err, zap.String("revision", snapshot.Revision))
		}
		return
	}
	m.reloads.WithLabelValues(w.Name, "ok").Inc()
	m.valid.WithLabelValues(w.Name).Set(1)
	m.loaded.WithLabelValues(w.Name).SetToCurrentTime()
	fields := []zap.Field{zap.String("revision", snapshot.Revision)}
	counts := snapshot.Counts()
	for _, k := range kind.All {
		fields = append(fields, zap.Int(k.Folder, counts[k]))
	}
	if n := counts[kind.Experiment]; n > 0 {
		fields = append(fields, zap.Int(kind.Experiment.Folder, n))
	}
	fields = append(fields, zap.Int("warnings", definition.CountWarnings(snapshot.Warnings)))
	w.Logger.Info("definitions loaded", append(fields, changes(w.last, snapshot)...)...)
	for _, warning := range snapshot.Warnings {
		w.Logger.Warn("the definitions have a warning", warningFields(warning)...)
	}
	w.serves(snapshot)
}

// serves is called with each snapshot when the workspace begins to serve it.
func (w *Workspace) serves(snapshot *definition.Snapshot) {
	w.last = snapshot
	w.gateway.metrics.names.follow(w, snapshot)
	w.checkProviders(snapshot)
	w.checkParameters(snapshot)
	w.checkLimited(snapshot)
	w.callTargets(snapshot)
	w.unavailable()
	w.rollouts.follow(snapshot)
	w.recordServed(snapshot)
	w.Memory.flags.changed()
}

// warningFields returns a warning as fields: its place and its message.
func warningFields(warning definition.Warning) []zap.Field {
	return append(placeFields(warning.Pos), zap.String("warning", visible.Line(warning.Message)))
}

// placeFields returns the place of a finding as fields. A finding about a whole file or a
// folder has no line and column.
func placeFields(pos document.Position) []zap.Field {
	fields := []zap.Field{zap.String("file", visible.Line(pos.File))}
	if pos.Line > 0 {
		fields = append(fields, zap.Int("line", pos.Line), zap.Int("column", pos.Column))
	}
	return fields
}

// checkProviders warns of endpoints whose targets name providers that are not
// configured: these targets are skipped, and the cause is probably a misspelled
// name. One goroutine calls it at a time.
func (w *Workspace) checkProviders(snapshot *definition.Snapshot) {
	missing := make(map[string][]string) // endpoints by provider
	for _, t := range targetsOf(snapshot) {
		if _, configured := w.Providers[t.Provider]; !configured {
			missing[t.Provider] = append(missing[t.Provider], t.Endpoints...)
		}
	}
	for provider, endpoints := range missing {
		slices.Sort(endpoints)
		endpoints = slices.Compact(endpoints)
		missing[provider] = endpoints
		// An unrelated edit must not repeat the warning.
		if !slices.Equal(w.warned[provider], endpoints) {
			w.Logger.Warn("a provider is not configured: its targets are skipped",
				zap.String("provider", visible.Line(provider)), zap.Strings("endpoints", endpoints))
		}
	}
	w.warned = missing
}
