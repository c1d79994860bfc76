package caddymodule

import (
	"context"
	"log/slog"
	"math"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"
)

// currentLogger returns a logger for state that outlives a configuration: it writes to the
// logs that are configured when it logs, not when it was made. It adds the path to every
// line.
func currentLogger(name, path string) *slog.Logger {
	return slog.New(currentHandler{name: name, wrap: func(h slog.Handler) slog.Handler {
		return h.WithAttrs([]slog.Attr{slog.String("path", path)})
	}})
}

// noStacktrace is above all levels, so no line has a stack trace. The errors of a store or
// a sink come from outside, and a stack trace would not explain them.
const noStacktrace = slog.Level(math.MaxInt)

type currentHandler struct {
	name string
	wrap func(slog.Handler) slog.Handler // adds attributes and groups
}

func (h currentHandler) handler() slog.Handler {
	return h.wrap(zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName(h.name), zapslog.AddStacktraceAt(noStacktrace)))
}

// Enabled asks the current log.
func (h currentHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler().Enabled(ctx, level)
}

// Handle writes to the current log.
func (h currentHandler) Handle(ctx context.Context, record slog.Record) error {
	return h.handler().Handle(ctx, record)
}

// WithAttrs adds attributes.
func (h currentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	wrap := h.wrap
	h.wrap = func(next slog.Handler) slog.Handler { return wrap(next).WithAttrs(attrs) }
	return h
}

// WithGroup opens a group.
func (h currentHandler) WithGroup(name string) slog.Handler {
	wrap := h.wrap
	h.wrap = func(next slog.Handler) slog.Handler { return wrap(next).WithGroup(name) }
	return h
}
