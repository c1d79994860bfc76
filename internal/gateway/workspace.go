package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// defaultMaxAnswerSize is the default of max_answer_size, in bytes: as much as four
// of the largest prompts.
const defaultMaxAnswerSize = 8 << 20

// WorkspaceConfig is what a workspace is made from. The caller owns Source, Store
// and Memory, and closes them after the gateway has stopped.
type WorkspaceConfig struct {
	Name   string
	Logger *zap.Logger

	Source *definition.Source
	// Strict makes a start with invalid definitions fail, where it would serve those
	// that the store holds.
	Strict bool
	Store  *Store
	Limits StoreLimits // of the store, while the workspace runs
	Memory *Memory

	// TraceKey is the secret that trace ids are made under. Default: a key that the
	// store makes and keeps.
	TraceKey secret.Reference
	APIKeys  []APIKey
	// KeysFile is the path of a file of key digests. Optional.
	KeysFile string

	Providers map[string]providers.Provider // by the name that definitions use
	Modules   map[string]string             // of Providers, by the same name
	Sinks     []Sink
	InFlight  inflight.Limits
	Prices    map[string]*price.Price // by the model's name or by PROVIDER/MODEL
	// NoShippedPrices leaves out the prices that ship.
	NoShippedPrices bool
	// CallLimits bound what callers use. They have different names.
	CallLimits []*limit.Limit

	// Log is what is recorded of an answer whose definition does not set it.
	// Default: LogMetadata.
	Log definition.LogPolicy
	// Redact is what is redacted from records, beside secrets.
	Redact redact.Detectors

	MaxBodySize     int64         // in bytes; 0: wire.DefaultBodyLimit
	BodyTimeout     time.Duration // 0: wire.DefaultBodyTimeout
	MaxAnswerSize   int64         // in bytes; 0: defaultMaxAnswerSize
	MaxMetadataSize int64         // in bytes; 0: wire.DefaultMetadataLimit
}

// APIKey is a key of a workspace.
type APIKey struct {
	// The key's name in traces and logs.
	Name string `json:"name"`
	// The key as {env.NAME} or {file.PATH}: 16 to 512 visible ASCII characters.
	Key secret.Reference `json:"key"`
	// What the key is bound to, by fields of the data model: a field that the
	// context of a request lacks is filled in, and another value is refused.
	// Default: nothing.
	Context map[string]string `json:"context,omitempty"`
}

// Workspace is one set of definitions with its API keys, providers and traces.
type Workspace struct {
	WorkspaceConfig
	gateway *Gateway
	calls   *workspaceSeries // since start
	series  atomic.Pointer[servedSeries]

	prices      *price.Table
	hosts       map[string]string // the hosts that providers call, by the provider's name
	redactor    *redact.Redactor
	inline      []*principal // of APIKeys
	fileKeys    *keysFile
	listed      []fileKey // what fileKeys listed at first
	refusedKeys []string  // why some of listed were refused
	callLimits  callLimits
	refusals    refusals
	keyOfIDs    []byte // the configured trace key
	ids         atomic.Pointer[authorities]
	served      atomic.Pointer[served] // nil: not looked at yet
	called      atomic.Pointer[callTargets]

	// start begins what these hold, and end ends it.
	background  sync.WaitGroup
	stop        context.CancelFunc // nil: the workspace was not started
	unsubscribe func()
	warned      map[string][]string  // endpoints by the missing provider that they name
	lacks       map[lack][]string    // endpoints by what a target of theirs lacks
	unlimited   map[lack][]string    // the same, of what limits need
	last        *definition.Snapshot // that was served; nil: none yet
}

// served is what the endpoints of a snapshot name.
type served struct {
	snapshot *definition.Snapshot
	targets  []servedTarget
}

func (g *Gateway) newWorkspace(config WorkspaceConfig) (*Workspace, error) {
	w := &Workspace{WorkspaceConfig: config, gateway: g, hosts: make(map[string]string)}
	w.Log = cmp.Or(w.Log, definition.LogMetadata)
	w.MaxBodySize = cmp.Or(w.MaxBodySize, wire.DefaultBodyLimit)
	w.BodyTimeout = cmp.Or(w.BodyTimeout, wire.DefaultBodyTimeout)
	w.MaxAnswerSize = cmp.Or(w.MaxAnswerSize, defaultMaxAnswerSize)
	if err := w.resolveKeys(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(w.Providers)) {
		provider := w.Providers[name]
		w.hosts[name] = hostOf(w.Name, name, provider)
		if err := providers.Availability(provider); err != nil {
			w.Logger.Warn("a provider is not available: its targets are skipped",
				zap.String("provider", name), zap.Error(err))
		}
	}
	w.redactor = redact.New(w.Redact, g.keys.contains, secret.Known)
	if err := ValidatePrices(w.Prices); err != nil {
		return nil, err
	}
	w.prices = price.NewTable(w.Prices)
	if w.NoShippedPrices {
		w.prices = w.prices.WithoutShipped()
	}
	w.callLimits = newCallLimits(w.CallLimits)
	w.refusals = newRefusals(&w.InFlight)
	if w.TraceKey != "" {
		value, err := w.TraceKey.Resolve()
		if err != nil {
			return nil, fmt.Errorf("trace_key: %w", err)
		}
		if err := checkTraceKey(value); err != nil {
			return nil, fmt.Errorf("trace_key: %s %w", w.TraceKey, err)
		}
		secret.Remember(value)
		w.keyOfIDs = []byte(value)
	}
	return w, nil
}
