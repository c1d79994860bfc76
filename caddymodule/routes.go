package caddymodule

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func init() {
	// Caddy's documentation tool runs no code: it reads these lines as they are.
	caddy.RegisterModule(new(PromptsHandler))
	caddy.RegisterModule(new(EndpointsHandler))
	caddy.RegisterModule(new(RemoteConfigsHandler))
	caddy.RegisterModule(new(DecisionsHandler))
	caddy.RegisterModule(new(MetricsHandler))
	caddy.RegisterModule(new(EvaluateHandler))
	httpcaddyfile.RegisterHandlerDirective("cadenza_prompts", parseHandler(new(PromptsHandler)))
	httpcaddyfile.RegisterHandlerDirective("cadenza_endpoints", parseHandler(new(EndpointsHandler)))
	httpcaddyfile.RegisterHandlerDirective("cadenza_remoteconfigs", parseHandler(new(RemoteConfigsHandler)))
	httpcaddyfile.RegisterHandlerDirective("cadenza_decisions", parseHandler(new(DecisionsHandler)))
	httpcaddyfile.RegisterHandlerDirective("cadenza_metrics", parseHandler(new(MetricsHandler)))
	httpcaddyfile.RegisterHandlerDirective("cadenza_evaluate", parseHandler(new(EvaluateHandler)))
}

// PromptsHandler answers requests for prompts on the path that its route
// matches. It sets the placeholders and response headers of
// `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_prompts /llm/prompts
//	}
type PromptsHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*PromptsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_prompts", New: func() caddy.Module { return new(PromptsHandler) }}
}

func (h *PromptsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.app.gateway.Serve(w, r, "/v1/prompts")
	return nil
}

// EndpointsHandler has endpoints answer, whole or as a stream, on the path that
// its route matches. It sets the placeholders and response headers of
// `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_endpoints /llm/chat
//	}
type EndpointsHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*EndpointsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_endpoints", New: func() caddy.Module { return new(EndpointsHandler) }}
}

func (h *EndpointsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.app.gateway.Serve(w, r, "/v1/endpoints")
	return nil
}

// RemoteConfigsHandler evaluates remote configurations on the path that its
// route matches. It sets the placeholders and response headers of
// `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_remoteconfigs /flags
//	}
type RemoteConfigsHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*RemoteConfigsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_remoteconfigs", New: func() caddy.Module { return new(RemoteConfigsHandler) }}
}

func (h *RemoteConfigsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.app.gateway.Serve(w, r, "/v1/remoteconfigs")
	return nil
}

// DecisionsHandler answers requests for prompts and remote configurations in one,
// on the path that its route matches. It sets the placeholders and response headers
// of `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_decisions /page
//	}
type DecisionsHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*DecisionsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_decisions", New: func() caddy.Module { return new(DecisionsHandler) }}
}

func (h *DecisionsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.app.gateway.Serve(w, r, "/v1/decisions")
	return nil
}

// MetricsHandler takes metrics on the path that its route matches. The trace id
// is that of the body or, if the path ends in `/prompts/{trace_id}/metrics`,
// `/remoteconfigs/{trace_id}/metrics` or `/rules/{trace_id}/metrics`, that of the path. It sets the
// placeholders and response headers of `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_metrics /feedback*
//	}
type MetricsHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*MetricsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_metrics", New: func() caddy.Module { return new(MetricsHandler) }}
}

func (h *MetricsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	path := "/v1/metrics"
	// The last three segments, wherever the site puts them.
	if segments := strings.Split(r.URL.Path, "/"); len(segments) > 3 {
		if own := "/v2/" + strings.Join(segments[len(segments)-3:], "/"); gateway.HasRoute(own) {
			path = own
		}
	}
	h.app.gateway.Serve(w, r, path)
	return nil
}

// EvaluateHandler answers the clients that the Orquesta service had in 2022 on the path
// that its route matches, in workspaces with the option legacy. It sets the placeholders
// and response headers of `http.handlers.cadenza`. In a Caddyfile:
//
//	gateway.example.com {
//		cadenza_evaluate /flags/evaluate
//	}
type EvaluateHandler struct{ appModule }

// CaddyModule returns the Caddy module information.
func (*EvaluateHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_evaluate", New: func() caddy.Module { return new(EvaluateHandler) }}
}

func (h *EvaluateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.app.gateway.Serve(w, r, "/evaluate")
	return nil
}
