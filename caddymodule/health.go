package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(new(HealthHandler))
	httpcaddyfile.RegisterHandlerDirective("cadenza_health", parseHandler(new(HealthHandler)))
}

// HealthHandler answers `GET /healthz` and `GET /readyz`, both without an API key
// and with a JSON body. It passes all other requests on. It has no options.
//
// `/healthz` is 200 as long as the process serves. `/readyz` is 200 while prompts
// and configurations can be answered, and 503 before the app `cadenza` has started
// and while the server or the process stops. Its `status` is `ok`, or `degraded`
// where something is not as it is configured, such as a provider that is skipped;
// `degraded` then lists the conditions with their subjects. Both are names of the
// configuration: give the directive a matcher where callers must not read them.
//
// In a Caddyfile it is the directive `cadenza_health`, which is ordered before
// `respond` and `cadenza`:
//
//	gateway.example.com {
//		cadenza_health
//		cadenza
//	}
//
// Or it is on a site of its own:
//
//	http://:9090 {
//		cadenza_health
//	}
type HealthHandler struct{ app *App }

// CaddyModule returns the Caddy module information.
func (*HealthHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_health", New: func() caddy.Module { return new(HealthHandler) }}
}

// Provision finds the app. It does not count the server's connections, so that a probe is
// answered even if callers hold as many connections as they may.
func (h *HealthHandler) Provision(ctx caddy.Context) error {
	app, err := ctx.App("cadenza")
	if err != nil {
		return err
	}
	h.app = app.(*App)
	return nil
}

// ServeHTTP answers the two paths, and passes all other requests on.
func (h *HealthHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.app.gateway.ServeHealth(w, r, caddy.Exiting() || shuttingDown(r)) {
		return nil
	}
	return next.ServeHTTP(w, r)
}

// shuttingDown reports whether the request's server only waits for the end of its
// shutdown_delay.
func shuttingDown(r *http.Request) bool {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return false
	}
	soon, _ := replacer.Get("http.shutting_down")
	return soon == true
}

// Interface guards
var (
	_ caddy.Module                = (*HealthHandler)(nil)
	_ caddy.Provisioner           = (*HealthHandler)(nil)
	_ caddyhttp.MiddlewareHandler = (*HealthHandler)(nil)
)
