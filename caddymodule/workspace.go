package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// providerNamespace is the namespace of providers: a module
// cadenza.providers.NAME must implement providers.Provider.
const providerNamespace = "cadenza.providers"

// maxMaxBodySize bounds max_body_size, in bytes.
const maxMaxBodySize = 64 << 20

// maxMaxMetadataSize bounds max_metadata_size, in bytes: each trace of a request has the
// request's metadata.
const maxMaxMetadataSize = 1 << 20

// maxMaxLargeRequests bounds max_large_requests, in bytes.
const maxMaxLargeRequests = 64 << 30

// maxMaxLimitMemory bounds max_limit_memory, in bytes: a start reads the whole file of the
// counters.
const maxMaxLimitMemory = 1 << 30

// maxMaxAnswerSize bounds max_answer_size, in bytes.
const maxMaxAnswerSize = 64 << 20

// maxMaxFlagStreams bounds max_flag_streams.
const maxMaxFlagStreams = 1_000_000

// maxBodyTimeout bounds body_timeout.
const maxBodyTimeout = 10 * time.Minute

// Workspace is one set of definitions with its API keys, providers and traces.
type Workspace struct {
	// The directory of the definitions: context.yaml and the folders prompts,
	// endpoints and remoteconfigs. It is watched; a change is served within a
	// second, without a reload of Caddy. Required. Placeholders are replaced. A
	// relative path is relative to the working directory, here and below; in a
	// Caddyfile it is relative to the folder of the file that it is written in.
	Definitions string `json:"definitions,omitempty"`

	// The source of signed bundles that the definitions come from, in the place of a
	// directory.
	DefinitionsBundle *Bundle `json:"definitions_bundle,omitempty"`

	// Makes `caddy run` and `caddy start` fail if the definitions are invalid.
	// Default: they serve the definitions that the store holds as the ones that were
	// served last, and fail if it holds none. `caddy validate` and reloads fail in
	// either case. Of a bundle: makes a start fail that finds no definitions, neither on
	// the disk nor at the source. Default: requests get 503 until there are some.
	StrictDefinitions bool `json:"strict_definitions,omitempty"`

	// Keeps traces and metrics. Default: a SQLite file named after
	// the workspace, in Caddy's data directory.
	Store *Store `json:"store,omitempty"`

	// Copies traces and metrics to sinks, each by a name of your choice.
	// Traces and metrics wait in the store until the sink has taken them.
	SinksRaw caddy.ModuleMap `json:"sinks,omitempty" caddy:"namespace=cadenza.sinks inline_key=module"`

	// The secret that trace ids are made under, as {env.NAME} or {file.PATH}:
	// at least 16 random characters, such as `openssl rand -hex 32` makes. A key
	// that can be guessed is refused. Default: a key that the store makes and
	// keeps. Gateways that serve the same workspace must share one key, so a sink
	// that several gateways may write to requires it.
	TraceKey secret.Reference `json:"trace_key,omitempty"`

	// The keys that callers authenticate with. Several may be active at once,
	// so that a key can be replaced without an interruption. At least one
	// usable key is required, here or in the keys file.
	APIKeys []gateway.APIKey `json:"api_keys,omitempty"`

	// A file of key digests: a JSON list of {"name", "sha256", "not_after",
	// "revoked", "context", "kind", "origins", "role", "loopback", "app"}, with at least one
	// entry. It is read again when it changes, like the definitions. While it can't be used,
	// its last list stays in use.
	// Placeholders are replaced.
	Keys string `json:"keys,omitempty"`

	// Sets the record of an answer whose definition does not set it: "none",
	// "metadata" or "content" (context, variables, messages and answers too).
	// Default: "metadata".
	Log string `json:"log,omitempty"`

	// Lists the data to redact from the records, in addition to text that is
	// shaped like a secret, which is always redacted: "email", "card". Default:
	// none of them.
	Redact []string `json:"redact,omitempty"`

	// Sets the prices of models, in US dollars per million tokens, by the model's
	// name or by PROVIDER/MODEL. Default: the prices that ship with the gateway,
	// and none for models that these lack.
	Prices map[string]*price.Price `json:"prices,omitempty"`

	// Files of prices, YAML or JSON, with the names of the prices above, which count
	// before theirs. They are read when the configuration is loaded. Placeholders are
	// replaced.
	PriceFiles []string `json:"price_files,omitempty"`

	// Leaves out the prices that ship with the gateway. Default: false.
	NoShippedPrices bool `json:"no_shipped_prices,omitempty"`

	// Opens /evaluate, the route of the clients that the Orquesta service had in 2022. They
	// may send the API key without "Bearer", and get values without trace ids. Default:
	// false.
	Legacy bool `json:"legacy,omitempty"`

	// The largest request body, in bytes. Default: 1048576 (1 MiB).
	MaxBodySize int64 `json:"max_body_size,omitempty"`

	// The time in which the whole body of a request must arrive, also a body that
	// keeps coming slowly. At most 10 minutes. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// The largest answer to one request for prompts or remote configurations, in
	// bytes, all keys together, and the largest part of these in an endpoint's answer.
	// The size is counted before anything is rendered; a request for more gets 400
	// invalid_request. Default: 8388608 (8 MiB).
	MaxAnswerSize int64 `json:"max_answer_size,omitempty"`

	// The largest "metadata" of a request or of a metrics report, in bytes of
	// compact JSON. Default: 16384 (16 KiB).
	MaxMetadataSize int64 `json:"max_metadata_size,omitempty"`

	// How many streams may be open at a time that tell web clients of changes of flags. Each
	// takes a descriptor and about 40 KB. Another one gets 503. Default: 20000, or half of
	// the descriptors if that is less.
	MaxFlagStreams int `json:"max_flag_streams,omitempty"`

	// Bounds the calls of the workspace in flight at a time.
	InFlight *InFlight `json:"in_flight,omitempty"`

	// Bounds the use by callers in a window of time: requests, tokens and money,
	// and requests under way. Default: unlimited.
	CallLimits []*Limit `json:"limits,omitempty"`

	// The LLM providers by the name that definitions use for them.
	ProvidersRaw caddy.ModuleMap `json:"providers,omitempty" caddy:"namespace=cadenza.providers inline_key=module"`

	name   string
	logger *zap.Logger
	source *sharedSource
	known  definition.Configuration // the configuration that the definitions may rely on
	leave  func()                   // ends the use of source for known
	store  *sharedStore
	config gateway.WorkspaceConfig
}

// storeModule is the only store.
const storeModule = "sqlite"

// Store keeps a workspace's traces and metrics.
type Store struct {
	// The kind of store: "sqlite", which is also the default.
	Module string `json:"module,omitempty"`
	// The SQLite database's file. It is made if it does not exist.
	// Workspaces may share one, with the same limits. Default: a file named
	// after the workspace in Caddy's data directory. Placeholders are replaced.
	Path string `json:"path,omitempty"`
	// The time for which traces are kept, with their metrics. Default: forever.
	Retention caddy.Duration `json:"retention,omitempty"`
	// Bounds the size of the database, in bytes; at least 1 MiB. Beyond this size
	// the oldest traces are deleted with the metrics of their age, even if no sink
	// has taken them yet. A tenth of the size is reserved for replies to
	// idempotency keys. Default: unlimited, and 1 GiB for replies.
	MaxSize int64 `json:"max_size,omitempty"`
}

// minMaxSize is the smallest max_size, in bytes: the empty tables and their
// indexes already take some of it.
const minMaxSize = 1 << 20

var legalName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// provision checks the options, loads the modules and fills w.config, from which
// the gateway makes its workspace.
func (w *Workspace) provision(ctx caddy.Context, name string) error {
	w.name, w.logger = name, ctx.Logger().With(zap.String("workspace", name))
	if !legalName.MatchString(name) {
		return fmt.Errorf("the name must be 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	if w.Definitions == "" && w.DefinitionsBundle == nil {
		return errors.New("definitions is required: the directory of the workspace's definitions")
	}
	if w.Definitions != "" && w.DefinitionsBundle != nil {
		return errTwoSources
	}
	if err := w.checkOptions(); err != nil {
		return err
	}
	policy, _ := definition.ParseLogPolicy(w.Log)
	detectors, err := detectors(w.Redact)
	if err != nil {
		return err
	}
	w.config = gateway.WorkspaceConfig{
		Name: name, Logger: w.logger, TraceKey: w.TraceKey, APIKeys: w.APIKeys, NoShippedPrices: w.NoShippedPrices, Log: policy, Redact: detectors, Legacy: w.Legacy,
		MaxBodySize: w.MaxBodySize, BodyTimeout: time.Duration(w.BodyTimeout),
		MaxAnswerSize: w.MaxAnswerSize, MaxMetadataSize: w.MaxMetadataSize, MaxFlagStreams: w.MaxFlagStreams,
	}
	if w.config.CallLimits, err = w.callLimits(); err != nil {
		return err
	}
	if w.config.Prices, err = w.allPrices(); err != nil {
		return err
	}
	if w.Keys != "" {
		if w.config.KeysFile, err = resolvePath(w.Keys); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	memory, err := acquireMemory(name)
	if err != nil {
		return err
	}
	w.config.Memory = memory.Memory
	if err := w.provisionProviders(ctx); err != nil {
		return err
	}
	if err := w.provisionStore(); err != nil {
		return err
	}
	if err := w.provisionSinks(ctx); err != nil {
		return err
	}
	return w.provisionDefinitions()
}

// checkOptions refuses options that are out of their bounds.
func (w *Workspace) checkOptions() error {
	if err := validateLog(w.Log); err != nil {
		return err
	}
	if w.BodyTimeout < 0 || time.Duration(w.BodyTimeout) > maxBodyTimeout {
		return fmt.Errorf("body_timeout %s: must be positive, and at most %s", time.Duration(w.BodyTimeout), maxBodyTimeout)
	}
	if w.MaxFlagStreams < 0 || w.MaxFlagStreams > maxMaxFlagStreams {
		return fmt.Errorf("max_flag_streams %d: must be between 1 and %d", w.MaxFlagStreams, maxMaxFlagStreams)
	}
	return cmp.Or(
		checkSize("max_body_size", w.MaxBodySize, maxMaxBodySize),
		checkSize("max_answer_size", w.MaxAnswerSize, maxMaxAnswerSize),
		checkSize("max_metadata_size", w.MaxMetadataSize, maxMaxMetadataSize),
	)
}

// checkSize refuses a number of bytes that is out of its bounds. 0 means the
// default.
func checkSize(option string, size int64, limit uint64) error {
	if size < 0 || uint64(size) > limit {
		return fmt.Errorf("%s %d: must be between 1 and %s", option, size, humanize.IBytes(limit))
	}
	return nil
}

// detectors returns the detectors of these names. Secrets are always detected
// and have no name.
func detectors(names []string) (redact.Detectors, error) {
	var all redact.Detectors
	for _, name := range names {
		d, known := redact.ParseDetector(name)
		if !known {
			return 0, errors.New(document.Unrecognized("detector", name, redact.Names()))
		}
		all |= d
	}
	return all, nil
}

// errTwoSources is the error of a workspace with a directory and a bundle.
var errTwoSources = errors.New("definitions come from a directory or from a bundle: take one of the two away")

func (w *Workspace) provisionDefinitions() error {
	w.config.Strict = w.StrictDefinitions || !startsAnyway()
	if err := w.openDefinitions(); err != nil {
		return err
	}
	w.config.Source = w.source.Source
	if s := w.source.Snapshot(); s != nil {
		prices := price.NewTable(w.config.Prices)
		if w.NoShippedPrices {
			prices = prices.WithoutShipped()
		}
		for _, warning := range s.CheckPrices(slices.Collect(maps.Keys(w.Prices)), w.known.Providers, prices.Check) {
			w.logger.Warn("the prices have a warning", zap.String("warning", visible.Line(warning)))
		}
	}
	return nil
}

// openDefinitions opens the source of the definitions.
func (w *Workspace) openDefinitions() (err error) {
	if w.DefinitionsBundle != nil {
		if w.source, w.leave, err = w.acquireBundle(!w.config.Strict); err != nil {
			return fmt.Errorf("definitions bundle: %w", visible.Error(err))
		}
		return nil
	}
	dir, err := resolvePath(w.Definitions)
	if err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	slow := time.AfterFunc(definition.SlowLoad, func() {
		w.logger.Error("the definitions load slowly: the gateway waits for them", zap.String("definitions", dir))
	})
	w.source, w.leave, err = acquireSource(dir, w.known, !w.config.Strict)
	slow.Stop()
	if err != nil {
		return fmt.Errorf("definitions %s:\n%w", w.Definitions, visible.Error(err))
	}
	return nil
}

// configuration returns the configuration that definitions may rely on.
func (w *Workspace) configuration() (definition.Configuration, error) {
	limits := make([]string, len(w.CallLimits))
	for i, l := range w.CallLimits {
		limits[i] = l.Name
	}
	known, err := definition.ParseConfiguration(w.ProvidersRaw, limits)
	known.Log, _ = definition.ParseLogPolicy(w.Log)
	return known, err
}

func (w *Workspace) provisionProviders(ctx caddy.Context) error {
	var err error
	if w.known, err = w.configuration(); err != nil {
		return err
	}
	if w.ProvidersRaw == nil {
		return nil
	}
	modules, err := ctx.LoadModule(w, "ProvidersRaw")
	if err != nil {
		return fmt.Errorf("loading providers: %w", err)
	}
	w.config.Providers, w.config.Modules = make(map[string]providers.Provider), make(map[string]string)
	loaded := modules.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(loaded)) {
		provider, ok := loaded[name].(providers.Provider)
		if !ok {
			return fmt.Errorf("provider %s: module %T is not a provider", name, loaded[name])
		}
		w.config.Providers[name], w.config.Modules[name] = provider, w.known.Providers[name].Module
	}
	return nil
}

func (w *Workspace) provisionStore() error {
	path := filepath.Join(caddy.AppDataDir(), "cadenza", w.name+".db")
	if w.Store != nil {
		if m := w.Store.Module; m != "" && m != storeModule {
			return fmt.Errorf("store %q is not known: the store is %s", m, storeModule)
		}
		limits := gateway.StoreLimits{Retention: time.Duration(w.Store.Retention), MaxSize: w.Store.MaxSize}
		if limits.Retention < 0 {
			return fmt.Errorf("store retention %s: must be positive", limits.Retention)
		}
		if limits.MaxSize != 0 && limits.MaxSize < minMaxSize {
			return fmt.Errorf("store max_size %d: must be at least %s", limits.MaxSize, humanize.IBytes(minMaxSize))
		}
		w.config.Limits = limits
		if w.Store.Path != "" {
			var err error
			if path, err = resolvePath(w.Store.Path); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	store, err := acquireStore(path)
	if err != nil {
		return err
	}
	w.store, w.config.Store = store, store.Store
	return nil
}

// resolvePath replaces placeholders and makes the path absolute: shared state is
// identified by its absolute path.
func resolvePath(path string) (string, error) {
	replaced, err := caddy.NewReplacer().ReplaceOrErr(path, true, true)
	if err != nil {
		return "", err
	}
	return filepath.Abs(replaced)
}

func validateLog(policy string) error {
	if _, known := definition.ParseLogPolicy(policy); policy != "" && !known {
		return errors.New(document.Unrecognized("log policy", policy, definition.LogPolicies()))
	}
	return nil
}
