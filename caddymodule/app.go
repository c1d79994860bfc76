// Package caddymodule joins Cadenza to Caddy: the cadenza app, the HTTP
// handlers, the Caddyfile syntax and what survives a reload. It is the one
// core package that knows Caddy.
package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is Cadenza, a gateway for prompts, answers of LLMs and remote
// configurations. It serves them from definitions: text files that are
// validated, watched and swapped while it runs. The app holds the workspaces.
// The HTTP handlers, `http.handlers.cadenza` and those of one route each, select
// a workspace by the API key of a request.
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
// The handlers set placeholders, such as for access logs
// (`log_append trace {cadenza.trace_id}`):
//
// Placeholder | Description
// ------------|---------------
// `{cadenza.workspace}` | The workspace of the request's API key
// `{cadenza.route}` | `prompts`, `endpoints`, `remoteconfigs` or `metrics`
// `{cadenza.trace_id}` | The trace id of an answer that has one
// `{http.auth.user.id}` | The name of the API key
type App struct {
	// The workspaces by name. Each has its own definitions, API keys,
	// providers and traces, and nothing crosses from one to another. A
	// Caddyfile without a workspace block writes one named "default".
	Workspaces map[string]*Workspace `json:"workspaces,omitempty"`

	// How many calls may be in flight at a time in all workspaces together.
	InFlight *ProcessInFlight `json:"in_flight,omitempty"`

	ctx     caddy.Context
	logger  *zap.Logger
	keys    keyring
	metrics *metrics
	guarded []*caddyhttp.Server // whose connections are counted
	// connections is how many of them may be open.
	connections int

	// started is closed by Start. Caddy starts apps in random order, so the
	// HTTP server may accept requests before.
	started   chan struct{}
	startOnce sync.Once

	// exiting is done shortly before the process's grace period ends, so
	// that streams can be ended by their error event and not by a cut.
	exiting    context.Context
	cancelExit context.CancelCauseFunc
}

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
	a.logger = ctx.Logger()
	a.started = make(chan struct{})
	a.exiting, a.cancelExit = context.WithCancelCause(context.Background())

	var err error
	if a.metrics, err = registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if len(a.Workspaces) == 0 {
		return errors.New("no workspace is configured: a cadenza block needs at least `definitions` and `api_key`")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Workspaces)) {
		w := a.Workspaces[name]
		if w == nil {
			return fmt.Errorf("workspace %s is null", name)
		}
		if err := w.provision(ctx, a, name); err != nil {
			return fmt.Errorf("workspace %s: %w", name, err)
		}
	}
	if err := a.provisionInFlight(); err != nil {
		return err
	}
	if err := a.checkSharedStores(); err != nil {
		return err
	}
	problems, err := a.keys.begin(a.Workspaces)
	if err != nil {
		return err
	}
	for w, list := range problems {
		w.beginKeys(list)
	}
	return a.subscribeShutdown(ctx)
}

// checkSharedStores makes sure that the workspaces that share a store agree on
// what it keeps.
func (a *App) checkSharedStores() error {
	first := make(map[*sharedStore]*Workspace)
	for _, name := range slices.Sorted(maps.Keys(a.Workspaces)) {
		w := a.Workspaces[name]
		other, shared := first[w.store]
		if !shared {
			first[w.store] = w
			continue
		}
		if other.limits != w.limits {
			return fmt.Errorf("the workspaces %s and %s share the store %s and differ in its retention or max_size: give them the same",
				other.name, w.name, w.store.path)
		}
	}
	return nil
}

// Start opens the stores and begins to watch the definitions.
func (a *App) Start() error {
	callers.SetLimit(a.connections)
	// All stores are told of all their sinks before any is opened, and deletes
	// what its sinks have taken.
	for _, w := range a.Workspaces {
		w.startSinks()
	}
	for _, w := range a.Workspaces {
		w.start()
	}
	a.startOnce.Do(func() { close(a.started) })
	return nil
}

// Stop frees nothing: requests may still be running on this configuration.
func (*App) Stop() error { return nil }

// Cleanup drops this configuration's references to shared state. It also runs
// where Provision failed half-way, and while requests of this configuration
// are still being served; those hold leases of their own.
func (a *App) Cleanup() error {
	var errs []error
	for _, w := range a.Workspaces {
		if w != nil {
			errs = append(errs, w.cleanup())
		}
	}
	// A process that exits has everything in its stores by now.
	a.stopSinks()
	return errors.Join(errs...)
}

// startTimeout is how long a request waits for Start.
const startTimeout = 5 * time.Second

// waitStarted waits until the app has started, for at most startTimeout.
func (a *App) waitStarted(ctx context.Context) bool {
	select {
	case <-a.started:
		return true
	default:
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-a.started:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
