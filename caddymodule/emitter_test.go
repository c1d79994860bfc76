package caddymodule

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestEventsThatWait checks that a maximum of events waits before Caddy has started, and
// while a handler is slow, and that the log says that others are dropped.
func TestEventsThatWait(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	e := &emitter{app: &App{logger: zap.New(core)}}
	for n := range maxEvents + 3 {
		e.emit(fmt.Sprint(n), nil)
	}
	if len(e.waiting) != maxEvents || e.waiting[0].name != "0" || e.dropped != 3 || e.emitting || logs.Len() != 1 {
		t.Errorf("%d wait, %d were dropped, %v, the log has %v", len(e.waiting), e.dropped, e.emitting, logs.All())
	}
	e.stop() // no configuration handles them
	if e.emit("late", nil); len(e.waiting) != 0 {
		t.Errorf("%d wait", len(e.waiting))
	}
}
