package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// providerNamespace is where providers are registered: a module
// cadenza.providers.NAME must satisfy providers.Provider.
const providerNamespace = "cadenza.providers"

// maxMaxBodySize bounds what max_body_size may allow, in bytes.
const maxMaxBodySize = 64 << 20

// maxMaxMetadataSize bounds what max_metadata_size may allow, in bytes: every
// trace of a request has its metadata, whatever is logged.
const maxMaxMetadataSize = 1 << 20

// defaultMaxAnswerSize is max_answer_size where it isn't set: as much as four
// of the largest prompts. maxMaxAnswerSize bounds what it may be. Both in bytes.
const (
	defaultMaxAnswerSize = 8 << 20
	maxMaxAnswerSize     = 64 << 20
)

// maxBodyTimeout bounds what body_timeout may allow.
const maxBodyTimeout = 10 * time.Minute

// Workspace is one set of definitions with its API keys, providers and traces.
type Workspace struct {
	// The directory of the definitions: context.yaml and the folders prompts,
	// endpoints and remoteconfigs. It is watched; a change is served within a
	// second, without a reload of Caddy. Required. Placeholders are replaced.
	Definitions string `json:"definitions,omitempty"`

	// Where traces and metrics are kept. Default: a SQLite file named after
	// the workspace, in Caddy's data directory.
	Store *Store `json:"store,omitempty"`

	// Where traces and metrics are copied to, by a name of the sink's own. They
	// wait in the store until the sink has taken them.
	SinksRaw caddy.ModuleMap `json:"sinks,omitempty" caddy:"namespace=cadenza.sinks inline_key=module"`

	// The secret that trace ids are made under, as {env.NAME} or {file.PATH}:
	// at least 16 characters, at random, such as `openssl rand -hex 32` makes.
	// What can be guessed is refused. Default: one that the store makes and keeps.
	// Gateways that serve the same workspace must share one, so a sink that
	// several gateways may write to requires it.
	TraceKey secret.Reference `json:"trace_key,omitempty"`

	// The keys that callers authenticate with. Several may be active at once,
	// so that a key can be replaced without an interruption. At least one
	// usable key is required, here or in the keys file.
	APIKeys []APIKey `json:"api_keys,omitempty"`

	// A file of key digests, a JSON list of {"name", "sha256", "not_after",
	// "revoked"}, at least one. It is watched like the definitions are. While it
	// can't be used, its last list stays. Placeholders are replaced.
	Keys string `json:"keys,omitempty"`

	// What is recorded of an answer where its definition does not say: "none",
	// "metadata" or "content" (context, variables, messages and answers too).
	// Default: "metadata".
	Log string `json:"log,omitempty"`

	// What is redacted from what is recorded, beside what is shaped like a
	// secret, which always is: "email", "phone", "card".
	Redact []string `json:"redact,omitempty"`

	// What models cost, by the model's name or by PROVIDER/MODEL. Default:
	// unknown, and no costs are recorded.
	Prices map[string]Price `json:"prices,omitempty"`

	// The largest request body, in bytes. Default: 1048576 (1 MiB).
	MaxBodySize int64 `json:"max_body_size,omitempty"`

	// The time in which the whole body of a request must have come, however
	// steadily it drips. At most 10 minutes. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How many bytes the answer to one request for prompts or remote
	// configurations may have, all keys together. It is counted before anything
	// is rendered; a larger answer is 400 invalid_request. Default: 8388608
	// (8 MiB).
	MaxAnswerSize int64 `json:"max_answer_size,omitempty"`

	// The largest "metadata" of a request or of a metrics report, in bytes of
	// compact JSON. Default: 16384 (16 KiB).
	MaxMetadataSize int64 `json:"max_metadata_size,omitempty"`

	// How many calls of the workspace may be in flight at a time.
	InFlight *InFlight `json:"in_flight,omitempty"`

	// The LLM providers by the name that definitions call them.
	ProvidersRaw caddy.ModuleMap `json:"providers,omitempty" caddy:"namespace=cadenza.providers inline_key=module"`

	name      string
	app       *App
	logger    *zap.Logger
	logPolicy definition.LogPolicy
	providers map[string]providers.Provider
	hosts     map[string]string // that providers call, by the provider's name
	ceilings  inflight.Limits
	inline    []*principal // of APIKeys
	fileKeys  *keysFile
	listed    []fileKey // by fileKeys, at first
	// Some of listed were refused.
	keysRefused bool
	redactor    *redact.Redactor
	source      *sharedSource
	store       *sharedStore
	limits      storeLimits
	sinks       []*workspaceSink

	memory   *sharedMemory
	keyOfIDs []byte // the configured trace key
	ids      atomic.Pointer[authorities]

	// What start began, for cleanup to end.
	background  sync.WaitGroup
	stop        context.CancelFunc
	unsubscribe func()
	warned      map[string][]string // of providers that are not configured
}

// APIKey is a key of a workspace.
type APIKey struct {
	// The key's name in traces and logs.
	Name string `json:"name"`
	// The key as {env.NAME} or {file.PATH}: 16 to 512 visible ASCII characters.
	Key secret.Reference `json:"key"`
}

// storeModule is the one store that there is.
const storeModule = "sqlite"

// Store is where a workspace's traces and metrics are kept.
type Store struct {
	// The kind of store: "sqlite", which is also the default.
	Module string `json:"module,omitempty"`
	// The SQLite database's file. It is made where it does not exist.
	// Workspaces may share one, with the same limits. Default: a file named
	// after the workspace in Caddy's data directory. Placeholders are replaced.
	Path string `json:"path,omitempty"`
	// How long traces are kept, with their metrics. Default: forever.
	Retention caddy.Duration `json:"retention,omitempty"`
	// How large the database may be, in bytes; at least 1 MiB. Beyond it the
	// oldest traces are deleted with the metrics of their age, also those that no
	// sink has taken yet. Replies to idempotency keys have a tenth of it to
	// themselves. Default: unlimited, and 1 GiB for replies.
	MaxSize int64 `json:"max_size,omitempty"`
}

// minMaxSize is the least that max_size may allow, in bytes: the tables and
// their indexes alone take some of it.
const minMaxSize = 1 << 20

var legalName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (w *Workspace) provision(ctx caddy.Context, app *App, name string) error {
	w.name, w.app = name, app
	w.logger = ctx.Logger().With(zap.String("workspace", name))
	if !legalName.MatchString(name) {
		return fmt.Errorf("the name must be 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	if w.Definitions == "" {
		return errors.New("definitions is required: the directory of the workspace's definitions")
	}
	if err := validateLog(w.Log); err != nil {
		return err
	}
	w.logPolicy = definition.LogMetadata
	if w.Log != "" {
		w.logPolicy = logPolicies[w.Log]
	}
	if w.MaxBodySize < 0 || w.MaxBodySize > maxMaxBodySize {
		return fmt.Errorf("max_body_size %d: must be between 1 and %s", w.MaxBodySize, humanize.IBytes(maxMaxBodySize))
	}
	if w.MaxBodySize == 0 {
		w.MaxBodySize = wire.DefaultBodyLimit
	}
	if w.BodyTimeout < 0 || time.Duration(w.BodyTimeout) > maxBodyTimeout {
		return fmt.Errorf("body_timeout %s: must be positive, and at most %s", time.Duration(w.BodyTimeout), maxBodyTimeout)
	}
	if w.BodyTimeout == 0 {
		w.BodyTimeout = caddy.Duration(wire.DefaultBodyTimeout)
	}
	if w.MaxAnswerSize < 0 || w.MaxAnswerSize > maxMaxAnswerSize {
		return fmt.Errorf("max_answer_size %d: must be between 1 and %s", w.MaxAnswerSize, humanize.IBytes(maxMaxAnswerSize))
	}
	if w.MaxAnswerSize == 0 {
		w.MaxAnswerSize = defaultMaxAnswerSize
	}
	var err error
	if w.memory, err = acquireMemory(name); err != nil {
		return err
	}
	if w.MaxMetadataSize < 0 || w.MaxMetadataSize > maxMaxMetadataSize {
		return fmt.Errorf("max_metadata_size %d: must be between 1 and %s", w.MaxMetadataSize, humanize.IBytes(maxMaxMetadataSize))
	}
	if err := w.provisionKeys(); err != nil {
		return err
	}
	if err := w.provisionProviders(ctx); err != nil {
		return err
	}
	if err := w.provisionRedaction(); err != nil {
		return err
	}
	if err := validatePrices(w.Prices); err != nil {
		return err
	}
	if err := w.provisionStore(); err != nil {
		return err
	}
	if err := w.provisionSinks(ctx); err != nil {
		return err
	}
	dir, err := resolvePath(w.Definitions)
	if err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	slow := time.AfterFunc(definition.SlowLoad, func() {
		w.logger.Error("loading the definitions takes long, and nothing is served before it has ended", zap.String("definitions", dir))
	})
	w.source, err = acquireSource(dir)
	slow.Stop()
	if err != nil {
		return fmt.Errorf("definitions %s:\n%w", w.Definitions, visible.Error(err))
	}
	return nil
}

func (w *Workspace) provisionProviders(ctx caddy.Context) error {
	w.providers, w.hosts = make(map[string]providers.Provider), make(map[string]string)
	if w.ProvidersRaw == nil {
		return nil
	}
	modules, err := ctx.LoadModule(w, "ProvidersRaw")
	if err != nil {
		return fmt.Errorf("loading providers: %w", err)
	}
	loaded := modules.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(loaded)) {
		provider, ok := loaded[name].(providers.Provider)
		if !ok {
			return fmt.Errorf("provider %s: module %T is not a provider", name, loaded[name])
		}
		w.providers[name], w.hosts[name] = provider, w.hostOf(name, provider)
		if err := providers.Availability(provider); err != nil {
			w.logger.Warn("a provider is not available: its targets are skipped",
				zap.String("provider", name), zap.Error(err))
		}
	}
	return nil
}

func (w *Workspace) provisionStore() error {
	path := filepath.Join(caddy.AppDataDir(), "cadenza", w.name+".db")
	limits := &w.limits
	if w.Store != nil {
		if m := w.Store.Module; m != "" && m != storeModule {
			return fmt.Errorf("store %q is not known: the store is %s", m, storeModule)
		}
		*limits = storeLimits{retention: time.Duration(w.Store.Retention), maxSize: w.Store.MaxSize}
		if limits.retention < 0 {
			return fmt.Errorf("store retention %s: must be positive", limits.retention)
		}
		if limits.maxSize != 0 && limits.maxSize < minMaxSize {
			return fmt.Errorf("store max_size %d: must be at least %s", limits.maxSize, humanize.IBytes(minMaxSize))
		}
		if w.Store.Path != "" {
			var err error
			if path, err = resolvePath(w.Store.Path); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	if w.TraceKey != "" {
		value, err := w.TraceKey.Resolve()
		if err != nil {
			return fmt.Errorf("trace_key: %w", err)
		}
		if err := checkTraceKey(value); err != nil {
			return fmt.Errorf("trace_key: %s %w", w.TraceKey, err)
		}
		secret.Remember(value)
		w.keyOfIDs = []byte(value)
	}
	store, err := acquireStore(path)
	if err != nil {
		return err
	}
	w.store = store
	return nil
}

// resolvePath replaces placeholders and makes the path absolute, as the
// identity of what it names.
func resolvePath(path string) (string, error) {
	replaced, err := caddy.NewReplacer().ReplaceOrErr(path, true, true)
	if err != nil {
		return "", err
	}
	return filepath.Abs(replaced)
}

// logPolicies are the log policies by their words.
var logPolicies = map[string]definition.LogPolicy{
	definition.LogNone.String():     definition.LogNone,
	definition.LogMetadata.String(): definition.LogMetadata,
	definition.LogContent.String():  definition.LogContent,
}

// logPolicyNames are the words in ascending order.
var logPolicyNames = []string{
	definition.LogNone.String(), definition.LogMetadata.String(), definition.LogContent.String(),
}

func validateLog(policy string) error {
	if _, known := logPolicies[policy]; policy != "" && !known {
		return errors.New(document.Unrecognized("log policy", policy, logPolicyNames))
	}
	return nil
}
