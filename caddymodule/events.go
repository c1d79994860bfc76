package caddymodule

import (
	"context"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

// maxEvents is the number of events that wait for the handlers of earlier ones.
// Further ones are dropped and counted in the log.
const maxEvents = 256

// emitter brings the app's events to Caddy's events app. Caddy runs the handlers of an
// event in the goroutine that emits it, and a handler may take seconds, such as one
// that runs a program. Events happen in requests, so the emitter queues them and emits
// them in another goroutine, one after the other.
//
// Events that happen before Caddy has started the configuration wait, because handlers
// subscribe during the start. A request may outlive its configuration: its later events go
// to the emitter of the running configuration.
type emitter struct {
	app    *App
	events *caddyevents.App

	mu       sync.Mutex
	started  bool
	stopped  bool
	emitting bool // a goroutine runs emitAll
	waiting  []queuedEvent
	dropped  int
}

type queuedEvent struct {
	name string
	data map[string]any
}

// newEmitter subscribes to the start and the end of the configuration.
func newEmitter(app *App, events *caddyevents.App) (*emitter, error) {
	e := &emitter{app: app, events: events}
	if err := events.On("started", startHandler{e}); err != nil {
		return nil, err
	}
	return e, nil
}

type startHandler struct{ emitter *emitter }

// Handle reacts to Caddy's "started" event.
func (h startHandler) Handle(context.Context, caddy.Event) error {
	e := h.emitter
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = true
	e.run()
	return nil
}

// stop passes on the waiting events, and later ones, to the configuration that
// runs now.
func (e *emitter) stop() {
	e.mu.Lock()
	e.stopped = true
	waiting := e.waiting
	e.waiting = nil
	e.mu.Unlock()
	for _, event := range waiting {
		e.emit(event.name, event.data)
	}
}

// emit queues an event. It never waits for a handler.
func (e *emitter) emit(name string, data map[string]any) {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		if next := runningApp(); next != nil && next != e.app {
			next.emitter.emit(name, data)
		}
		return
	}
	defer e.mu.Unlock()
	if len(e.waiting) >= maxEvents {
		if e.dropped++; e.dropped == 1 {
			e.app.logger.Error("events are dropped: a handler of events is slow", zap.String("event", name), zap.Int("waiting", maxEvents))
		}
		return
	}
	e.waiting = append(e.waiting, queuedEvent{name, data})
	e.run()
}

// runningApp returns the app of the running configuration, or nil.
func runningApp() *App {
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		return nil
	}
	running, _ := app.(*App)
	return running
}

// run starts a goroutine that emits the waiting events, unless one runs already. The caller
// holds e.mu.
func (e *emitter) run() {
	if e.started && !e.emitting && len(e.waiting) > 0 {
		e.emitting = true
		go e.emitAll()
	}
}

// emitAll emits until nothing waits.
func (e *emitter) emitAll() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			if e.dropped > 0 {
				e.app.logger.Error("events were dropped", zap.Int("dropped", e.dropped))
			}
			e.emitting, e.dropped, e.waiting = false, 0, nil
			e.mu.Unlock()
			return
		}
		next := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.mu.Unlock()
		e.emitOne(next)
	}
}

// emitOne emits an event. It recovers from a panic of a handler, which must not end the
// process.
func (e *emitter) emitOne(event queuedEvent) {
	defer func() {
		if problem := recover(); problem != nil {
			e.app.logger.Error("a handler of events panicked", zap.String("event", event.name), zap.Any("panic", problem), zap.Stack("stack"))
		}
	}()
	if e.app.ctx.Err() == nil {
		e.events.Emit(e.app.ctx, event.name, event.data)
	}
}

// Interface guard
var _ caddyevents.Handler = startHandler{}
