package caddymodule

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

type stopHandler struct{ app *App }

// Handle reacts to Caddy's "stopping" event. On a reload, streams run to their end on the
// old configuration. On exit with a grace period, Caddy cuts the remaining streams when the
// period ends. So the gateway ends them a little earlier, with their error event. Streams
// without an end of their own, which tell of changes of flags, end at once: without a grace
// period Caddy would wait for them forever.
func (h stopHandler) Handle(context.Context, caddy.Event) error {
	h.app.stop()
	h.app.emitter.stop()
	if !caddy.Exiting() {
		return nil
	}
	h.app.gateway.EndFlagStreams()
	// The http app provisions this module's handlers: during Provision it would
	// be returned half-provisioned.
	httpApp, err := h.app.ctx.AppIfConfigured("http")
	if err != nil {
		return nil
	}
	grace := time.Duration(httpApp.(*caddyhttp.App).GracePeriod)
	if grace <= 0 {
		return nil
	}
	h.app.logger.Info("shutting down: streams end before the grace period",
		zap.Duration("grace_period", grace))
	time.AfterFunc(streamGrace(grace), h.app.gateway.EndCalls)
	return nil
}

// streamGrace returns the part of the grace period that streams may use: all but
// a quarter of it, but at most all but two seconds.
func streamGrace(grace time.Duration) time.Duration {
	return grace - min(grace/4, 2*time.Second)
}

// Interface guard
var _ caddyevents.Handler = stopHandler{}
