package caddymodule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/sinks"
)

// sinkNamespace is the namespace of sinks: a module cadenza.sinks.NAME must
// implement sinks.Sink.
const sinkNamespace = "cadenza.sinks"

func (w *Workspace) provisionSinks(ctx caddy.Context) error {
	if w.SinksRaw == nil {
		return nil
	}
	modules, err := ctx.LoadModule(w, "SinksRaw")
	if err != nil {
		return fmt.Errorf("loading sinks: %w", err)
	}
	loaded := modules.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(loaded)) {
		if !legalName.MatchString(name) {
			return fmt.Errorf("sink %q: the name must be 1 to 64 of A-Z a-z 0-9 . _ -", name)
		}
		sink, ok := loaded[name].(sinks.Sink)
		if !ok {
			return fmt.Errorf("sink %s: module %T is not a sink", name, loaded[name])
		}
		if sink.Shared() && w.TraceKey == "" {
			return fmt.Errorf("sink %s needs a trace_key: the gateways that share it must make their trace ids under one key, such as trace_key {env.CADENZA_TRACE_KEY}", name)
		}
		w.config.Sinks = append(w.config.Sinks, gateway.Sink{Name: name, Sink: sink, Logger: currentLogger("cadenza.sinks", w.store.Path)})
	}
	return nil
}
