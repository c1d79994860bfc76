package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/chat"
	"github.com/cadenza-gateway/cadenza/internal/dialect/embeddings"
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/dialect/responses"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// route is one of the gateway's routes.
type route struct {
	method string
	// path may name a trace, as {trace_id}, or end in {model} or {key}, which may hold slashes.
	path string
	// name is the route's name in metrics, logs and placeholders.
	name  string
	serve func(*call) outcome
	// stream is in place of serve for a request that stays open and holds nothing that others
	// need: neither a call nor a lease. It also checks the caller.
	stream func(*Gateway, http.ResponseWriter, *http.Request, time.Time, *requestInfo) outcome
	// calls reports that the route calls models.
	calls bool
	// client reports that keys of the kind client open the route.
	client bool
	// kind is the kind of the definition whose trace the path names; nil: any.
	kind *kind.Kind
	// dialect is the API that the route speaks, also in its errors; nil: no API of models.
	dialect dialect.Dialect
	// requestID is a second header for the id of each answer, beside HeaderTraceID. Optional.
	requestID string
	// keyHeader is a header that may hold the API key without "Bearer". Optional.
	keyHeader string
	// ofrep reports that the route is one of OpenFeature's protocol, also in its errors.
	ofrep bool
	// legacy is set on the route of the oldest clients: they may send the key without
	// "Bearer" in Authorization, and its errors have members of their own.
	legacy bool
	// anthropic is the route for requests with headerAnthropic on the same path. Optional.
	anthropic *route

	index         int    // in routes
	before, after string // the path before and after {trace_id}; after is empty without it
	open          bool   // the path ends in {model} or {key}
}

// openaiRequestID is the header by which OpenAI's libraries know an answer.
const openaiRequestID = "X-Request-Id"

// headerAPIKey is the header of an API key in Anthropic's API, and in OpenFeature's protocol.
const headerAPIKey = "X-Api-Key"

// The headers of Anthropic's API: headerAnthropic is on each request of its libraries.
const (
	headerAnthropic    = "Anthropic-Version"
	anthropicRequestID = "Request-Id"
)

// routes lists all routes, the most called ones first. The first entry is for
// paths that no other entry matches.
var routes = table(
	route{name: "none"},
	route{method: http.MethodPost, path: "/v1/prompts", name: "prompts", serve: evaluates(kind.Prompt, (*wire.Request).Prompts)},
	route{method: http.MethodPost, path: "/v1/endpoints", name: "endpoints", serve: (*call).endpoint, calls: true, dialect: native.Dialect},
	route{method: http.MethodPost, path: "/v1/chat/completions", name: "chat", serve: (*call).endpoint, calls: true, dialect: chat.Dialect, requestID: openaiRequestID},
	route{method: http.MethodPost, path: "/v1/responses", name: "responses", serve: (*call).endpoint, calls: true, dialect: responses.Dialect, requestID: openaiRequestID},
	route{method: http.MethodPost, path: "/v1/responses/compact", name: "responses", serve: (*call).endpoint, calls: true, dialect: responses.Compact, requestID: openaiRequestID},
	route{method: http.MethodPost, path: "/v1/messages", name: "messages", serve: (*call).endpoint, calls: true, dialect: messages.Dialect, requestID: anthropicRequestID, keyHeader: headerAPIKey},
	route{method: http.MethodPost, path: "/v1/messages/count_tokens", name: "count_tokens", serve: (*call).countTokens, dialect: messages.Dialect, requestID: anthropicRequestID, keyHeader: headerAPIKey},
	route{method: http.MethodPost, path: "/v1/embeddings", name: "embeddings", serve: (*call).endpoint, calls: true, dialect: embeddings.Dialect, requestID: openaiRequestID},
	route{method: http.MethodPost, path: "/v1/remoteconfigs", name: "remoteconfigs", client: true, serve: evaluates(kind.RemoteConfig, (*wire.Request).RemoteConfigs)},
	route{method: http.MethodPost, path: "/v1/decisions", name: "decisions", serve: allOrNothing((*call).decisions)},
	route{method: http.MethodPost, path: "/v1/metrics", name: "metrics", serve: (*call).reports},
	route{method: http.MethodPost, path: "/v2/prompts", name: "prompts", serve: evaluatesFlat(kind.Prompt, "prompts", true)},
	route{method: http.MethodPost, path: "/v2/remoteconfigs", name: "remoteconfigs", client: true, serve: evaluates(kind.RemoteConfig, (*wire.Request).RemoteConfigs)},
	route{method: http.MethodPost, path: "/v2/prompts/{trace_id}/metrics", name: "metrics", kind: kind.Prompt, serve: allOrNothing((*call).report)},
	route{method: http.MethodPost, path: "/v2/remoteconfigs/{trace_id}/metrics", name: "metrics", kind: kind.RemoteConfig, serve: allOrNothing((*call).report)},
	route{method: http.MethodPost, path: wire.FlagsPath, name: "remoteconfigs", serve: allOrNothing((*call).flags), ofrep: true, client: true, keyHeader: headerAPIKey},
	route{method: http.MethodPost, path: wire.FlagsPath + "/{key}", name: "remoteconfigs", serve: allOrNothing((*call).flag), ofrep: true, client: true, keyHeader: headerAPIKey},
	route{method: http.MethodPost, path: "/v2/rules", name: "remoteconfigs", serve: evaluatesFlat(kind.RemoteConfig, "rules", false)},
	route{method: http.MethodPost, path: "/v2/rules/{trace_id}/metrics", name: "metrics", kind: kind.RemoteConfig, serve: allOrNothing((*call).report)},
	route{method: http.MethodPost, path: "/evaluate", name: "evaluate", serve: allOrNothing((*call).rule), legacy: true},
	route{method: http.MethodPost, path: "/evaluate/", name: "evaluate", serve: allOrNothing((*call).rule), legacy: true},
	route{method: http.MethodGet, path: "/v1/models", name: "models", serve: (*call).models, dialect: chat.Dialect, requestID: openaiRequestID, anthropic: &route{serve: (*call).anthropicModels}},
	route{method: http.MethodGet, path: "/v1/models/{model}", name: "models", serve: (*call).model, dialect: chat.Dialect, requestID: openaiRequestID, anthropic: &route{serve: (*call).anthropicModel}},
	route{method: http.MethodGet, path: FlagEventsPath, name: "flag_events", stream: (*Gateway).streamFlagEvents},
)

func table(rows ...route) []route {
	for i := range rows {
		rows[i].index = i
		rows[i].before, rows[i].after, _ = strings.Cut(rows[i].path, "{trace_id}")
		for _, end := range []string{"{model}", "{key}"} {
			if before, open := strings.CutSuffix(rows[i].before, end); open {
				rows[i].before, rows[i].open = before, true
			}
		}
		if other := rows[i].anthropic; other != nil {
			serve := other.serve
			*other = rows[i]
			other.serve, other.dialect, other.requestID, other.keyHeader = serve, messages.Dialect, anthropicRequestID, headerAPIKey
		}
	}
	return rows
}

// allOrNothing turns a function that writes its whole answer or nothing into a
// route's function.
func allOrNothing(serve func(*call) *wire.Error) func(*call) outcome {
	return func(c *call) outcome {
		if err := serve(c); err != nil {
			return refused(err)
		}
		return outcome{end: answered}
	}
}

// spoken returns the route in the API that a request speaks.
func (to *route) spoken(h http.Header) *route {
	if to.anthropic != nil && len(h[headerAnthropic]) > 0 {
		return to.anthropic
	}
	return to
}

// token returns the API key of a request, as wire.BearerToken does.
func (to *route) token(h http.Header) (token string, sent, ok bool) {
	if to.legacy {
		if values := h["Authorization"]; len(values) == 1 && wire.LegalToken(values[0]) {
			return values[0], true, true
		}
	}
	if to.keyHeader != "" && len(h["Authorization"]) == 0 {
		if values := h[to.keyHeader]; len(values) > 0 {
			return values[0], true, len(values) == 1 && wire.LegalToken(values[0])
		}
	}
	return wire.BearerToken(h)
}

// asOFREP adds to the error of a route of OpenFeature's protocol what its clients read. key
// is the flag in the path; empty: none.
func (to *route) asOFREP(err *wire.Error, key string) *wire.Error {
	if to.ofrep {
		if !wire.LegalKey(key) {
			key = printable(key)
		}
		err.OFREP, err.FlagKey = true, key
	}
	return err
}

// find returns the route of a path, and the trace id, the model or the key in the path.
func find(path string) (to *route, id string) {
	for i := range routes {
		r := &routes[i]
		if r.open {
			if id, ok := strings.CutPrefix(path, r.before); ok && id != "" {
				return r, id
			}
			continue
		}
		if r.after == "" {
			if r.before == path {
				return r, ""
			}
			continue
		}
		if rest, ok := strings.CutPrefix(path, r.before); ok {
			if id, ok := strings.CutSuffix(rest, r.after); ok && id != "" && !strings.Contains(id, "/") {
				return r, id
			}
		}
	}
	return &routes[0], ""
}

// namesEndpoint reports whether the route's requests name an endpoint in their body.
func (to *route) namesEndpoint() bool { return to.calls || to.name == "count_tokens" }

// hasMetadata reports whether the route's requests may have metadata of the caller. The
// metadata of a report does not count: it is about the reported answer.
func (to *route) hasMetadata() bool {
	return to.method == http.MethodPost && to.name != "metrics" && !to.legacy
}

// HasRoute reports whether a path has a route.
func HasRoute(path string) bool {
	to, _ := find(path)
	return to.index != 0
}

// documented lists the routes for a caller that asked for an unknown one, such as
// "POST /a, /b and GET /c".
func documented() string {
	var list []string
	method := ""
	for _, r := range routes[1:] {
		if r.legacy {
			continue
		}
		text := r.path
		if r.method != method {
			text = r.method + " " + text
			method = r.method
		}
		list = append(list, text)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
