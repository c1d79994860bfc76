package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Store is an open database with its recorder, the idempotency keys that
// are in use, and the keys of the trace ids made under it.
type Store struct {
	*leases
	Path     string
	process  *Process
	logger   *slog.Logger
	Recorder *recorder.Recorder
	claims   *claims
	limits   activeLimits
	sinks    activeSinks

	// What trace ids are made under where the configuration gives no key: the
	// key that the store keeps, or, as long as the store could not be read, a
	// temporary one. Ids made under that are known until the process ends.
	mu        sync.Mutex
	kept      []byte
	temporary []byte
}

// StoreLimits are what a store may keep; zero is without a limit.
type StoreLimits struct {
	Retention time.Duration
	MaxSize   int64 // bytes
}

// activeLimits are those of the configurations that run: one, but for the moment
// of a reload. The newest holds. A configuration that is refused has none: it
// must not decide what a running one deletes.
type activeLimits struct {
	mu  sync.Mutex
	all []*StoreLimits
}

func (a *activeLimits) add(limits *StoreLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, limits)
}

func (a *activeLimits) remove(limits *StoreLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = slices.DeleteFunc(a.all, func(other *StoreLimits) bool { return other == limits })
}

func (a *activeLimits) current() StoreLimits {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return StoreLimits{}
	}
	return *a.all[len(a.all)-1]
}

// NewStore makes a store of the database at an absolute path, which a workspace
// that starts opens. Its owner closes it.
func (p *Process) NewStore(path string, logger *slog.Logger) *Store {
	s := &Store{leases: newLeases(), Path: path, process: p, logger: logger, claims: newClaims()}
	s.Recorder = recorder.New(recorder.Options{Open: s.open, Logger: logger})
	p.metrics.recorders.add(path, s.Recorder)
	return s
}

func (s *Store) open(ctx context.Context) (recorder.Store, error) {
	return sqlite.Open(ctx, s.Config())
}

// Config returns what the database is opened with. It stays good over reloads:
// it asks for the limits whenever they matter.
func (s *Store) Config() sqlite.Config {
	m := s.process.metrics
	return sqlite.Config{
		Path: s.Path,
		// Asked at each step of housekeeping, so that a reload can change it.
		CurrentRetention: func() time.Duration { return s.limits.current().Retention },
		CurrentMaxSize:   func() int64 { return s.limits.current().MaxSize },
		Sinks:            s.sinks.names,
		OnLoss:           m.sinks.lose,
		OnEvicted:        func(table string, rows int64) { m.recorders.countEvicted(s.Path, table, rows) },
		OnSetAside:       func(string) { m.recorders.countAside(s.Path) },
		Logger:           s.logger,
	}
}

// Close closes the store when the last request that uses it has ended, and all
// that it was given is written, within bounds.
func (s *Store) Close() error {
	s.drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	defer s.process.metrics.recorders.remove(s.Path, s.Recorder)
	return s.Recorder.Close(ctx)
}

// keyTimeout is how long a start waits for the key that the store keeps.
const keyTimeout = 3 * time.Second

// traceKeys returns the key that the store keeps, nil where it can't be read
// within keyTimeout, and the temporary key that stands or stood in for it.
func (s *Store) traceKeys(ctx context.Context) (kept, temporary []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		timeout := keyTimeout
		if s.temporary != nil {
			timeout = 0 // an earlier configuration has waited
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if s.kept, err = s.Recorder.TraceKey(ctx); err != nil && s.temporary == nil {
			s.temporary = make([]byte, 32)
			rand.Read(s.temporary)
		}
	}
	return s.kept, s.temporary, err
}
