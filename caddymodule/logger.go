package caddymodule

import (
	"context"
	"log/slog"
	"math"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"
)

// currentLogger is a logger for what outlives a configuration: it writes to
// the logs that are configured when it is used, not when it was made. Every line
// names the path, so nobody else need do so.
func currentLogger(name, path string) *slog.Logger {
	return slog.New(currentHandler{name: name, wrap: func(h slog.Handler) slog.Handler {
		return h.WithAttrs([]slog.Attr{slog.String("path", path)})
	}})
}

// noStacktrace is beyond all levels: what goes wrong with a store or a sink comes
// from outside, and the way to the line that says so explains nothing.
const noStacktrace = slog.Level(math.MaxInt)

type currentHandler struct {
	name string
	wrap func(slog.Handler) slog.Handler // adds attributes and groups
}

func (h currentHandler) handler() slog.Handler {
	return h.wrap(zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName(h.name), zapslog.AddStacktraceAt(noStacktrace)))
}

// Enabled asks the present log.
func (h currentHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler().Enabled(ctx, level)
}

// Handle writes to the present log.
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
