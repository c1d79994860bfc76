package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("cadenza", parseHandler(new(Handler)))
}

// Handler answers all of the gateway's routes: `POST` requests to
// `/v1/prompts`, `/v1/endpoints`, `/v1/remoteconfigs`, `/v1/decisions` and
// `/v1/metrics`, the routes of `/v2/`, and `/evaluate`. Endpoints also answer OpenAI's
// APIs, at `/v1/chat/completions`, `/v1/responses` and `/v1/models`, and remote
// configurations OpenFeature's protocol, below `/ofrep/v1/`. The handler answers every
// request that its route matches: an unknown path is a 404 with a JSON body. It has no
// options; the app `cadenza` has them.
//
// In a Caddyfile it is the directive `cadenza`, which is ordered after
// `respond` and `metrics` and before `reverse_proxy`:
//
//	gateway.example.com {
//		cadenza_health
//		metrics /metrics
//		cadenza
//	}
//
// ### Placeholders
//
// `{cadenza.key}`, `{cadenza.variant}`, `{cadenza.model}`, `{cadenza.cost}`,
// `{cadenza.trace_id}` and others, as the app `cadenza` describes them. All in one field
// of the access log:
//
//	gateway.example.com {
//		log
//		log_append cadenza {cadenza}
//		cadenza
//	}
//
// ### Response headers
//
// Header | Description
// -------|---------------
// `Cadenza-Trace-Id` | The trace id of an answer that has exactly one
// `Cadenza-Decision-Id` | The id that all traces of one request share
// `Cadenza-Revision` | The revision of the definitions that answered
// `Cadenza-Unknown-Keys` | The requested keys that do not exist
// `Cadenza-Served-By` | The provider and the model that answered
// `Cadenza-Attempts` | How many upstream calls an answer took
// `Cadenza-Ignored` | The members of the request that have no effect
// `Cadenza-Usage` | `estimated` if the provider counted no tokens
// `X-Request-Id` | The trace id, or an id of its own, on the routes of OpenAI's APIs
// `Cache-Status` | Whether an answer is from the cache, as in RFC 9211
// `Deprecation`, `Sunset` | Since when it is known that all models of an endpoint end, and when the last of them does
// `Idempotent-Replayed` | `true` on an answer that is given again for its `Idempotency-Key`
type Handler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza", New: func() caddy.Module { return new(Handler) }}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if r.URL.Path == gateway.FlagEventsPath {
		// The address has a token, and an access log would have the address.
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	cut := true
	defer func() {
		if cut {
			logCut(r)
		}
	}()
	h.app.gateway.Serve(w, r, r.URL.Path)
	cut = false
	return nil
}

// logCut adds the known fields of a request to its line of the access log. The gateway cuts
// a connection with a panic, after which log_append does not run.
func logCut(r *http.Request) {
	fields, logged := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	replacer, named := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !logged || !named {
		return
	}
	if all, known := replacer.Get("cadenza"); known {
		fields.Add(zap.Any("cadenza", all))
	}
}

// appModule connects a handler to the app.
type appModule struct {
	app *App
}

// Provision finds the app.
func (m *appModule) Provision(ctx caddy.Context) error {
	app, err := ctx.App("cadenza")
	if err != nil {
		return err
	}
	m.app = app.(*App)
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		return m.app.guard(server)
	}
	return nil
}

// Interface guard
var _ caddy.Provisioner = (*appModule)(nil)
