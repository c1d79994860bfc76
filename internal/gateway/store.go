package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// Store is an open database with its recorder, the idempotency keys that are in
// use, and the keys that trace ids are made under.
type Store struct {
	*leases
	Path     string
	process  *Process
	logger   *slog.Logger
	Recorder *recorder.Recorder
	claims   *claims
	limits   activeLimits
	sinks    activeSinks
	commits  commits
	limiter  atomic.Pointer[limit.Limiter] // nil: no workspace has had limits yet
	evicted  atomic.Int64                  // see evictedUntil: Unix time in milliseconds

	// kept is the key that the store keeps. Trace ids are made under it if the configuration
	// has no key. As long as the store can't be read they are made under temporary, and
	// are valid until the process ends.
	mu        sync.Mutex
	kept      []byte
	temporary []byte
	// unsaved is the time since when the limits' file fails; zero: it does not.
	unsaved time.Time
}

// StoreLimits bound what a store keeps. Zero means no limit.
type StoreLimits struct {
	Retention time.Duration
	MaxSize   int64 // bytes
}

// activeLimits are the limits of the running configurations: one, or two during a reload,
// when the newest counts. A refused configuration is never added, so it can't make a
// running one delete anything.
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

// NewStore makes a store of the database at an absolute path. The first workspace
// that starts opens the database. The caller closes the store.
func (p *Process) NewStore(path string, logger *slog.Logger) *Store {
	s := &Store{leases: newLeases(), Path: path, process: p, logger: logger, claims: newClaims()}
	s.Recorder = recorder.New(recorder.Options{
		Open: s.open, Calls: path, Logger: logger, OnCommit: s.commits.committed, OnStart: s.commits.wake,
	})
	p.metrics.recorders.add(path, s.Recorder)
	return s
}

func (s *Store) open(ctx context.Context) (recorder.Store, error) {
	return sqlite.Open(ctx, s.Config())
}

// Config returns the options that the database is opened with. They hold over
// reloads: their functions return the current limits.
func (s *Store) Config() sqlite.Config {
	m := s.process.metrics
	return sqlite.Config{
		Path: s.Path,
		// Called at each step of housekeeping, so that a reload can change the limits.
		CurrentRetention: func() time.Duration { return s.limits.current().Retention },
		CurrentMaxSize:   func() int64 { return s.limits.current().MaxSize },
		Sinks:            s.sinks.names,
		OnLoss:           m.sinks.lose,
		OnEvicted:        s.evict,
		OnSetAside:       func(string) { m.recorders.countAside(s.Path) },
		Logger:           s.logger,
	}
}

// evict counts rows that were deleted for the size. Traces go the oldest first.
func (s *Store) evict(table string, rows int64, newest time.Time) {
	s.process.metrics.recorders.countEvicted(s.Path, table, rows)
	if table == "traces" {
		s.evicted.Store(max(s.evicted.Load(), newest.UnixMilli()+1))
	}
}

// evictedUntil returns the time before which traces may have been deleted for the size.
func (s *Store) evictedUntil() time.Time { return time.UnixMilli(s.evicted.Load()) }

// Close closes the store when the last request that uses it has ended and all its
// records are written. It waits for at most drainTimeout for each of the two.
func (s *Store) Close() error {
	s.drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	defer s.process.metrics.recorders.remove(s.Path, s.Recorder)
	return errors.Join(s.Recorder.Close(ctx), s.closeLimits())
}

// keyTimeout is how long a workspace that starts waits for the key that the store
// keeps.
const keyTimeout = 3 * time.Second

// traceKeys returns the key that the store keeps, or nil if it can't be read within
// keyTimeout. temporary is the key that is or was used in its place, or nil.
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
