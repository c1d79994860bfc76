// Package gateway answers requests for prompts, endpoints and remote
// configurations, and takes reports about the answers. It serves plain
// http.ResponseWriter and *http.Request. Its caller, such as package caddymodule,
// reads the configuration and brings the state that outlives a configuration.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Process holds what the gateways of a process share: a reload replaces the
// gateway, and the calls and counters of the old one go on.
type Process struct {
	metrics *metrics
	// calls are in flight.
	calls inflight.Calls
	// largeAnswers counts the bytes of large answers that are sent whole, in all
	// workspaces, from before they are rendered until they are sent: as long as
	// slow readers take. Each workspace also counts its own.
	largeAnswers room
	// largeRequests counts the bytes that large requests and their copies hold in all
	// workspaces: a body while it arrives and is answered, and a call's messages as long
	// as its provider takes.
	largeRequests room
	// slowed are the refused callers that wait for their answers, maxSlowed at most.
	slowed    atomic.Int64
	maxSlowed int64
	// okSince is when the first gateway started or, if that is later, when something
	// was last found to be degraded.
	okSince   atomic.Pointer[time.Time]
	strangers strangers
}

// NewProcess makes the Process that the gateways of a process share.
func NewProcess() *Process {
	// Each waiting caller holds a connection, which takes a descriptor.
	return &Process{metrics: newMetrics(), maxSlowed: min(maxSlowed, int64(inflight.Descriptors()/4))}
}

// Config is what a gateway is made from.
type Config struct {
	Process *Process
	Logger  *zap.Logger
	// Describe is called once for each request. Its second argument
	// looks up placeholders of the request, now and after the answer. Optional.
	Describe func(r *http.Request, placeholder func(name string) (value any, known bool))
	// OriginalURL returns the URL that the caller asked for, where the site has changed
	// that of the request. Optional.
	OriginalURL func(*http.Request) *url.URL
	// Emit emits an event. The name is one of Events. Emit must return soon. Optional.
	Emit func(name string, data map[string]any)
	// ClientIP returns the address of a request's client, or "". Optional.
	ClientIP func(*http.Request) string
	// CORS are the origins whose pages may read answers, beside those of API keys; "*": of
	// all pages.
	CORS []string
	// Scarce reports whether few connections are left. Then a caller that is refused
	// because the gateway is full loses its connection at once. Optional.
	Scarce func() bool
	// KeysInterval is the time between two reads of a keys file. It bounds how long
	// a revoked key still works. Default: 1s.
	KeysInterval time.Duration
	// MaxLargeRequests bounds all large requests and their copies together, in bytes.
	// Default: DefaultMaxLargeRequests.
	MaxLargeRequests int64
	// MaxLimitMemory bounds the memory of the counters of a store's limits, in bytes.
	// Default: limit.MaxMemory.
	MaxLimitMemory int64
	// Workspaces have different names.
	Workspaces []WorkspaceConfig
}

// Gateway answers the requests of its workspaces.
type Gateway struct {
	process      *Process
	metrics      *metrics // of the process
	logger       *zap.Logger
	describeTo   func(*http.Request, func(string) (any, bool))
	originalURL  func(*http.Request) *url.URL
	emit         func(string, map[string]any)
	scarce       func() bool
	clientIP     func(*http.Request) string
	keysInterval time.Duration

	maxLargeRequests, maxLimitMemory int64

	workspaces map[string]*Workspace
	keys       keyring

	// started is closed by Start.
	started   chan struct{}
	startOnce sync.Once

	// exiting is done shortly before the process ends, so that streams end by their
	// error event and not by a cut.
	exiting    context.Context
	cancelExit context.CancelCauseFunc
}

// New makes a gateway. Its only I/O is reading secrets and keys files.
func New(config Config) (*Gateway, error) {
	g := &Gateway{
		process: config.Process, metrics: config.Process.metrics, logger: config.Logger,
		describeTo: config.Describe, originalURL: config.OriginalURL, emit: config.Emit, scarce: config.Scarce, clientIP: config.ClientIP, keysInterval: config.KeysInterval,
		workspaces: make(map[string]*Workspace), started: make(chan struct{}),
	}
	g.maxLargeRequests = cmp.Or(config.MaxLargeRequests, DefaultMaxLargeRequests)
	g.maxLimitMemory = cmp.Or(config.MaxLimitMemory, limit.MaxMemory)
	if g.scarce == nil {
		g.scarce = func() bool { return false }
	}
	if g.keysInterval == 0 {
		g.keysInterval = defaultKeysInterval
	}
	if g.clientIP == nil {
		g.clientIP = func(*http.Request) string { return "" }
	}
	g.keys.cors = config.CORS
	g.exiting, g.cancelExit = context.WithCancelCause(context.Background())
	for _, c := range config.Workspaces {
		w, err := g.newWorkspace(c)
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", c.Name, err)
		}
		g.workspaces[c.Name] = w
	}
	if err := g.checkSharedStores(); err != nil {
		return nil, err
	}
	problems, err := g.keys.begin(g.workspaces)
	if err != nil {
		return nil, err
	}
	for w, list := range problems {
		w.beginKeys(list)
	}
	return g, nil
}

// checkSharedStores refuses workspaces that share a store but differ in its retention or
// size.
func (g *Gateway) checkSharedStores() error {
	first := make(map[*Store]*Workspace)
	for _, name := range slices.Sorted(maps.Keys(g.workspaces)) {
		w := g.workspaces[name]
		other, shared := first[w.Store]
		if !shared {
			first[w.Store] = w
			continue
		}
		if other.Limits != w.Limits {
			return fmt.Errorf("the workspaces %s and %s share the store %s and differ in its retention or max_size: give them the same",
				other.Name, w.Name, w.Store.Path)
		}
	}
	return nil
}

// Start opens the stores and begins to watch the definitions. Requests that arrive
// before Start wait for it. It fails, and has begun nothing, where the definitions of
// a workspace are invalid and its store holds none to serve in their place.
func (g *Gateway) Start() error {
	for _, name := range slices.Sorted(maps.Keys(g.workspaces)) {
		if err := g.workspaces[name].settle(); err != nil {
			return err
		}
	}
	// A store deletes what all its sinks have taken as soon as it is open. So it
	// must know all of them before any store is opened.
	for _, w := range g.workspaces {
		w.startSinks()
	}
	for _, w := range g.workspaces {
		w.start()
	}
	g.process.okSince.CompareAndSwap(nil, new(time.Now()))
	g.startOnce.Do(func() { close(g.started) })
	return nil
}

// Stop ends everything that Start began except the sinks. Requests may still be
// running: they hold leases of the stores and memories that they use.
func (g *Gateway) Stop() {
	for _, w := range g.workspaces {
		w.end()
	}
}

// errShutdown is the cause that ends calls when the process is about to exit.
var errShutdown = errors.New("the gateway is shutting down")

// EndCalls ends all calls of providers. Streams end by their error event.
func (g *Gateway) EndCalls() { g.cancelExit(errShutdown) }

// startTimeout is how long a request waits for Start.
const startTimeout = 5 * time.Second

// notStarted waits until the gateway has started, for at most startTimeout, and returns an
// error if it has not.
func (g *Gateway) notStarted(ctx context.Context) *wire.Error {
	select {
	case <-g.started:
		return nil
	default:
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-g.started:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	err := wire.Errorf(wire.Overloaded, "", "The gateway is starting. Try again.")
	err.RetryAfter = startTimeout
	return err
}

// Workspace returns the workspace with the given name, or nil.
func (g *Gateway) Workspace(name string) *Workspace { return g.workspaces[name] }
