// Package caddymodule joins Cadenza to Caddy: the cadenza app, the HTTP
// handlers, the Caddyfile syntax and the state that survives a reload. It is the
// one core package that knows Caddy.
package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/bundle/serve"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is Cadenza, a gateway for prompts, answers of LLMs and remote
// configurations. It serves them from definitions: text files that are
// validated, watched and swapped while it runs. The app holds the workspaces.
// The HTTP handlers, `http.handlers.cadenza` and the handlers of one route each,
// select a workspace by the API key of a request.
//
// In a Caddyfile the app is the global option `cadenza`:
//
//	{
//		cadenza {
//			definitions ./definitions
//			store sqlite ./data/cadenza.db {
//				retention 30d
//			}
//			api_key app {env.CADENZA_API_KEY}
//			provider openai {
//				api_key {env.OPENAI_API_KEY}
//			}
//		}
//	}
//
//	gateway.example.com {
//		cadenza
//	}
//
// Secrets are references, `{env.NAME}` or `{file.PATH}`: a literal is refused.
//
// ### Placeholders
//
// The handlers set placeholders. `{cadenza}` is all of them in one object, for access
// logs: `log_append cadenza {cadenza}`. The placeholders of a call of an endpoint are
// complete when its answer has ended.
//
// Placeholder | Description
// ------------|---------------
// `{cadenza.workspace}` | The workspace of the request's API key
// `{cadenza.code}` | The error code of a request that failed, or `client_gone`
// `{cadenza.route}` | `prompts`, `endpoints`, `remoteconfigs` or `metrics`, for example
// `{cadenza.key}` | The key of the definition, or of all of them, separated by commas
// `{cadenza.kind}` | `prompt`, `endpoint` or `remoteconfig`
// `{cadenza.variant}`, `{cadenza.arm}`, `{cadenza.row}` | What its table decided
// `{cadenza.endpoint_variant}`, `{cadenza.endpoint_row}` | What the endpoint's own table decided
// `{cadenza.trace_id}` | The trace id of an answer that has one
// `{cadenza.decision_id}` | The id that all traces of the request share
// `{cadenza.revision}` | The revision of the definitions
// `{cadenza.cache}` | `hit` or `miss` if a cache was asked
// `{cadenza.provider}`, `{cadenza.model}` | The target that answered
// `{cadenza.attempts}` | How many attempts a call took
// `{cadenza.finish_reason}` | Why the model stopped
// `{cadenza.tokens.*}` | `prompt`, `completion`, `total`, `cached`, `cache_write` and `reasoning` tokens of all attempts, and whether they are `estimated`
// `{cadenza.cost}` | What all attempts cost, in US dollars
// `{http.auth.user.id}` | The name of the API key
//
// ### Events
//
// The app emits `cadenza.definitions_changed`, `cadenza.definitions_invalid`,
// `cadenza.target_ejected`, `cadenza.target_restored`, `cadenza.limit_reached` and
// `cadenza.budget_80` to the app `events`.
//
// ### Tracing
//
// Requests that `http.handlers.tracing` traces have spans for decisions and for attempts
// at models.
type App struct {
	// The workspaces by name. Each has its own definitions, API keys,
	// providers and traces, and nothing crosses from one to another. A
	// Caddyfile without a workspace block writes one named "default".
	Workspaces map[string]*Workspace `json:"workspaces,omitempty"`

	// Bounds the calls in flight at a time in all workspaces together.
	InFlight *ProcessInFlight `json:"in_flight,omitempty"`

	// Bounds the bytes that all large requests and their copies may hold together,
	// in all workspaces: bodies beyond 64 KiB, as they came, parsed, sent to a
	// provider and recorded. A workspace may have seven eighths of it. Default: 168
	// MiB.
	MaxLargeRequests int64 `json:"max_large_requests,omitempty"`

	// Bounds the memory of the limits' counters, in bytes, of all workspaces of a store
	// together. Beyond it new API keys, endpoints and values of the metadata share one
	// counter of their limit. Default: 64 MiB.
	MaxLimitMemory int64 `json:"max_limit_memory,omitempty"`

	// The origins whose pages may call and read answers, errors too, such as
	// "https://app.example.com", or "*" for all pages. The origins of API keys count beside
	// them. Preflight requests need no API key. Default: none.
	CORS []string `json:"cors,omitempty"`

	ctx caddy.Context
	// stopping is done when Caddy begins to stop this configuration.
	stopping context.Context
	stop     context.CancelFunc
	logger   *zap.Logger
	gateway  *gateway.Gateway
	emitter  *emitter
	guarded  []*caddyhttp.Server // the servers whose connections are counted
	consoles []*caddyhttp.Server // the servers with a console
	signers  []*serve.Signer     // of the bundles that handlers sign
	// connections is the largest number of their open connections.
	connections int
}

// process holds the state that the gateways of all configurations share.
var process = gateway.NewProcess()

// keysInterval is the time between two reads of a keys file. Tests shorten it.
var keysInterval = time.Second

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision reads the definitions and resolves keys and providers. It does no
// other I/O: `caddy validate` and every failed reload provision without ever
// starting, so stores are opened in Start.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx = ctx
	a.stopping, a.stop = context.WithCancel(ctx)
	a.logger = ctx.Logger()
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if len(a.Workspaces) == 0 {
		return errors.New("no workspace is configured: a cadenza block needs at least `definitions` and `api_key`")
	}
	eventsApp, err := ctx.App("events")
	if err != nil {
		return err
	}
	events := eventsApp.(*caddyevents.App)
	if a.emitter, err = newEmitter(a, events); err != nil {
		return err
	}
	config := gateway.Config{
		Process: process, Logger: a.logger, Describe: describe, OriginalURL: originalURL, Emit: a.emitter.emit, Scarce: callers.Scarce, ClientIP: clientIP,
		CORS: a.CORS, KeysInterval: keysInterval, MaxLargeRequests: a.MaxLargeRequests, MaxLimitMemory: a.MaxLimitMemory,
	}
	if err := checkCORS(a.CORS); err != nil {
		return err
	}
	if err := checkSize("max_large_requests", a.MaxLargeRequests, maxMaxLargeRequests); err != nil {
		return err
	}
	if err := checkSize("max_limit_memory", a.MaxLimitMemory, maxMaxLimitMemory); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(a.Workspaces))
	for _, name := range names {
		w := a.Workspaces[name]
		if w == nil {
			return fmt.Errorf("workspace %s is null", name)
		}
		if err := w.provision(ctx, name); err != nil {
			return fmt.Errorf("workspace %s: %w", name, err)
		}
	}
	if err := a.provisionInFlight(); err != nil {
		return err
	}
	for _, name := range names {
		config.Workspaces = append(config.Workspaces, a.Workspaces[name].config)
	}
	if a.gateway, err = gateway.New(config); err != nil {
		return err
	}
	return cmp.Or(events.On("stopping", stopHandler{a}), events.On("started", readyHandler{a}))
}

// describe makes the placeholders of a request available. The access log looks
// them up after the handler has returned.
func describe(r *http.Request, placeholder func(string) (any, bool)) {
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(placeholder)
	}
}

// originalURL returns the URL of a request before handlers such as handle_path changed it.
func originalURL(r *http.Request) *url.URL {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.URL
	}
	return r.URL
}

// clientIP returns the address of the client, as the server's trusted_proxies tell it.
func clientIP(r *http.Request) string {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return text
}

// registerMetrics registers the process's metrics with a configuration's
// registry, which may be nil.
func registerMetrics(registry *prometheus.Registry) error {
	if registry == nil {
		return nil
	}
	for _, collector := range append(process.Collectors(), connectionCollectors(&callers)...) {
		if err := registry.Register(collector); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return err
		}
	}
	return nil
}

// Start opens the stores and begins to watch the definitions. Caddy starts apps
// in random order: requests that the HTTP server accepts before Start wait for it.
func (a *App) Start() error {
	// First of all: callers may come while the stores are opened.
	before := callers.SetLimit(a.connections)
	err := a.startBundles()
	if err == nil {
		err = a.gateway.Start()
	}
	if err != nil {
		callers.SetLimit(before)
		return err
	}
	for _, signer := range a.signers {
		signer.Start()
	}
	return nil
}

// startBundles begins to follow the sources of bundles.
func (a *App) startBundles() error {
	for _, name := range slices.Sorted(maps.Keys(a.Workspaces)) {
		if err := a.Workspaces[name].startBundle(a.stopping); err != nil {
			return err
		}
	}
	return nil
}

// SignIn returns the visitor of a valid API key with a role: see gateway.Gateway.
func (a *App) SignIn(key string, now time.Time) (gateway.Visitor, bool) {
	return a.gateway.SignIn(key, now)
}

// NewSession returns the sealed text of a visitor's session: see gateway.Gateway.
func (a *App) NewSession(v gateway.Visitor, until time.Time) (string, bool) {
	return a.gateway.NewSession(v, until)
}

// Session returns the visitor of a session: see gateway.Gateway.
func (a *App) Session(sealed string, now time.Time) (gateway.Visitor, bool) {
	return a.gateway.Session(sealed, now)
}

// WorkspaceNamed returns the name of a workspace: the only one, if the name is empty.
func (a *App) WorkspaceNamed(name string) (string, error) {
	names := slices.Sorted(maps.Keys(a.Workspaces))
	if name == "" && len(names) == 1 {
		return names[0], nil
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("the workspace must be one of %s, this is %q", strings.Join(names, ", "), name)
	}
	return name, nil
}

// ServeConsole has the log's line about the start name a console of a server.
func (a *App) ServeConsole(server *caddyhttp.Server) { a.consoles = append(a.consoles, server) }

// Stop frees nothing: requests may still be running on this configuration.
func (*App) Stop() error { return nil }

// Cleanup drops this configuration's references to shared state. Caddy also calls
// it after a Provision that failed half-way, and while requests of this
// configuration are still being served: they hold leases of their own.
func (a *App) Cleanup() error {
	if a.gateway != nil {
		a.gateway.Stop()
	}
	for _, signer := range a.signers {
		signer.Stop()
	}
	var errs []error
	for _, w := range a.Workspaces {
		if w != nil {
			errs = append(errs, w.release())
		}
	}
	// A process that exits has everything in its stores by now.
	if a.gateway != nil {
		a.gateway.StopSinks(caddy.Exiting())
	}
	return errors.Join(errs...)
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
