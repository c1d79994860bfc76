package caddymodule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/sinks"
)

// sinkNamespace is where sinks are registered: a module cadenza.sinks.NAME must
// satisfy sinks.Sink.
const sinkNamespace = "cadenza.sinks"

const (
	// finishTimeout bounds how long a process that exits goes on copying to its
	// sinks. What is left then waits in the store for the next start.
	finishTimeout = 5 * time.Second

	// stopTimeout is how long a delivery may go on that a reload interrupts.
	stopTimeout = 5 * time.Second
)

// workspaceSink is a sink of a workspace, and what copies to it once started.
type workspaceSink struct {
	name  string
	sink  sinks.Sink
	drain *sinks.Drain
}

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
		w.sinks = append(w.sinks, &workspaceSink{name: name, sink: sink})
	}
	return nil
}

// startSinks begins to copy, after what an earlier configuration copies.
func (w *Workspace) startSinks() {
	for _, s := range w.sinks {
		cursor := sinks.CursorName(w.name, s.name)
		w.store.sinks.add(cursor)
		s.drain = sinks.Start(sinks.Config{
			Path: w.store.path, Workspace: w.name, Name: s.name, Sink: s.sink,
			Logger: currentLogger("cadenza.sinks", w.store.path),
		})
		collectors().sinks.add(w.name, s.name, s.drain)
	}
}

// stopSinks ends the sinks of all workspaces, together. On a reload nobody waits
// for that. A process that exits copies what the stores have been given by then:
// their disk may not be there at the next start.
func (a *App) stopSinks() {
	end, timeout := (*sinks.Drain).Stop, stopTimeout
	if caddy.Exiting() {
		end, timeout = (*sinks.Drain).Finish, finishTimeout
	}
	var ending sync.WaitGroup
	for _, w := range a.Workspaces {
		if w == nil {
			continue
		}
		for _, s := range w.sinks {
			if s.drain == nil {
				continue // it was not started
			}
			ending.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				if err := end(s.drain, ctx); err != nil {
					w.logger.Error("a sink has not taken everything: what is left waits in the store",
						zap.String("sink", s.name), zap.Error(err))
				}
				collectors().sinks.remove(w.name, s.name, s.drain)
				w.store.sinks.remove(sinks.CursorName(w.name, s.name))
			})
		}
	}
	if caddy.Exiting() {
		ending.Wait()
	}
}

// activeSinks are the sinks that a store must keep rows for, by the names of
// their cursors. A reload has each of them twice for a moment.
type activeSinks struct {
	mu    sync.Mutex
	count map[string]int
}

func (a *activeSinks) add(cursor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil {
		a.count = make(map[string]int)
	}
	a.count[cursor]++
}

func (a *activeSinks) remove(cursor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count[cursor]--; a.count[cursor] <= 0 {
		delete(a.count, cursor)
	}
}

func (a *activeSinks) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.count))
}
