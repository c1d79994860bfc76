package gateway

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/sinks"
)

const (
	// finishTimeout bounds how long a process that exits goes on copying to its
	// sinks. The remaining rows wait in the store for the next start.
	finishTimeout = 5 * time.Second

	// stopTimeout bounds how long a delivery goes on that a reload interrupts.
	stopTimeout = 5 * time.Second
)

// Sink is a sink of a workspace.
type Sink struct {
	Name   string
	Sink   sinks.Sink
	Logger *slog.Logger

	drain *sinks.Drain // copies to the sink; nil before startSinks
}

// startSinks begins to copy to the sinks. Each continues after the rows that an
// earlier configuration copies.
func (w *Workspace) startSinks() {
	for i := range w.Sinks {
		s := &w.Sinks[i]
		w.Store.sinks.add(sinks.CursorName(w.Name, s.Name))
		s.drain = sinks.Start(sinks.Config{
			Path: w.Store.Path, Workspace: w.Name, Name: s.Name, Sink: s.Sink, Logger: s.Logger,
		})
		w.gateway.metrics.sinks.add(w.Name, s.Name, s.drain)
	}
}

// StopSinks ends the sinks of all workspaces at the same time. On a reload it does
// not wait for their end. A process that exits waits, and copies all rows that are
// in the stores by then: their disk may be gone at the next start.
func (g *Gateway) StopSinks(exiting bool) {
	end, timeout := (*sinks.Drain).Stop, stopTimeout
	if exiting {
		end, timeout = (*sinks.Drain).Finish, finishTimeout
	}
	var ending sync.WaitGroup
	for _, w := range g.workspaces {
		for i := range w.Sinks {
			s := &w.Sinks[i]
			if s.drain == nil {
				continue // the workspace was not started
			}
			ending.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				if err := end(s.drain, ctx); err != nil {
					w.Logger.Error("a sink has not taken everything: the rest waits in the store",
						zap.String("sink", s.Name), zap.Error(err))
				}
				g.metrics.sinks.remove(w.Name, s.Name, s.drain)
				w.Store.sinks.remove(sinks.CursorName(w.Name, s.Name))
			})
		}
	}
	if exiting {
		ending.Wait()
	}
}

// activeSinks are the sinks that a store must keep rows for, by the names of their
// cursors. During a reload a sink may be there twice.
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
