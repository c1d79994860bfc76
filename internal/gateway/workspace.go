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
	// Bundle is where Source has its definitions from; nil: a directory.
	Bundle *Bundle
	// Strict makes a start with invalid definitions fail. Otherwise the workspace serves the
	// definitions that the store holds.
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
	// CallLimits bound the use by callers. They have different names.
	CallLimits []*limit.Limit

	// Log is the log policy of answers whose definition does not set one.
	// Default: LogMetadata.
	Log definition.LogPolicy
	// Redact is the data to redact from records, in addition to secrets.
	Redact redact.Detectors

	// Legacy opens /evaluate, the route of the oldest clients.
	Legacy bool

	MaxBodySize     int64         // in bytes; 0: wire.DefaultBodyLimit
	BodyTimeout     time.Duration // 0: wire.DefaultBodyTimeout
	MaxAnswerSize   int64         // in bytes; 0: defaultMaxAnswerSize
	MaxMetadataSize int64         // in bytes; 0: wire.DefaultMetadataLimit
	MaxFlagStreams  int           // open at a time; 0: defaultFlagStreams
}

// APIKey is a key of a workspace.
type APIKey struct {
	// The key's name in traces and logs.
	Name string `json:"name"`
	// The key as {env.NAME} or {file.PATH}: 16 to 512 visible ASCII characters.
	Key secret.Reference `json:"key"`
	// The values that the key is bound to, by fields of the data model: a field that the
	// context of a request lacks is filled in, and another value is refused.
	// Default: no values.
	Context map[string]string `json:"context,omitempty"`
	// The secret under which the app's server signs the contexts of a key of the kind
	// client, as {env.NAME} or {file.PATH}: at least 16 random characters. Without a valid
	// signature a context is refused. Default: contexts are not signed.
	SignedContext secret.Reference `json:"signed_context,omitempty"`
	Access
}

// Workspace is one set of definitions with its API keys, providers and traces.
type Workspace struct {
	WorkspaceConfig
	gateway *Gateway
	calls   *workspaceSeries // nil before start
	series  atomic.Pointer[servedSeries]

	prices      *price.Table
	hosts       map[string]string // the hosts that providers call, by the provider's name
	redactor    *redact.Redactor
	inline      []*principal // the keys of APIKeys
	fileKeys    *keysFile
	listed      []fileKey  // the entries of fileKeys at the start
	refusedKeys []string   // why some of listed are refused
	checking    sync.Mutex // of fileKeys
	callLimits  callLimits
	refusals    refusals
	keyOfIDs    []byte // the configured trace key
	ids         atomic.Pointer[authorities]
	called      atomic.Pointer[callTargets]
	rollouts    *rollouts
	telling     sync.Mutex // the store what to count

	// start sets these, and end uses them.
	background  sync.WaitGroup
	stop        context.CancelFunc // nil: the workspace was not started
	unsubscribe func()
	warned      map[string][]string  // the endpoints that name a missing provider, by its name
	lacks       map[lack][]string    // the endpoints of a target that lacks something
	unlimited   map[lack][]string    // the endpoints of a target that limits can't bound
	last        *definition.Snapshot // the last one that was served; nil: none yet
}

func (g *Gateway) newWorkspace(config WorkspaceConfig) (*Workspace, error) {
	w := &Workspace{WorkspaceConfig: config, gateway: g, hosts: make(map[string]string)}
	w.Log = cmp.Or(w.Log, definition.LogMetadata)
	w.MaxBodySize = cmp.Or(w.MaxBodySize, wire.DefaultBodyLimit)
	w.BodyTimeout = cmp.Or(w.BodyTimeout, wire.DefaultBodyTimeout)
	w.MaxAnswerSize = cmp.Or(w.MaxAnswerSize, defaultMaxAnswerSize)
	w.MaxFlagStreams = cmp.Or(w.MaxFlagStreams, defaultFlagStreams())
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
	w.rollouts = w.newRollouts()
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
