package caddymodule

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// sharedStore is an open database with its recorder, the idempotency keys that
// are in use, and the keys of the trace ids made under it.
type sharedStore struct {
	*leases
	path     string
	recorder *recorder.Recorder
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

// storeLimits are what a store may keep; zero is without a limit.
type storeLimits struct {
	retention time.Duration
	maxSize   int64 // bytes
}

// activeLimits are those of the configurations that run: one, but for the moment
// of a reload. The newest holds. A configuration that is refused has none: it
// must not decide what a running one deletes.
type activeLimits struct {
	mu  sync.Mutex
	all []*storeLimits
}

func (a *activeLimits) add(limits *storeLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, limits)
}

func (a *activeLimits) remove(limits *storeLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = slices.DeleteFunc(a.all, func(other *storeLimits) bool { return other == limits })
}

func (a *activeLimits) current() storeLimits {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return storeLimits{}
	}
	return *a.all[len(a.all)-1]
}

func acquireStore(path string) (*sharedStore, error) {
	value, _, err := stores.LoadOrNew(path, func() (caddy.Destructor, error) {
		s := &sharedStore{leases: newLeases(), path: path, claims: newClaims()}
		s.recorder = recorder.New(recorder.Options{
			Open:   s.open,
			Logger: currentLogger("cadenza.store", path),
		})
		collectors().recorders.add(path, s.recorder)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedStore), nil
}

func (s *sharedStore) open(ctx context.Context) (recorder.Store, error) {
	return sqlite.Open(ctx, s.config())
}

func (s *sharedStore) config() sqlite.Config {
	return sqlite.Config{
		Path: s.path,
		// Asked at each step of housekeeping, so that a reload can change it.
		CurrentRetention: func() time.Duration { return s.limits.current().retention },
		CurrentMaxSize:   func() int64 { return s.limits.current().maxSize },
		Sinks:            s.sinks.names,
		OnLoss:           collectors().sinks.lose,
		OnEvicted:        func(table string, rows int64) { collectors().recorders.countEvicted(s.path, table, rows) },
		OnSetAside:       func(string) { collectors().recorders.countAside(s.path) },
		Logger:           currentLogger("cadenza.store", s.path),
	}
}

// Destruct closes the store when the last request that uses it has ended. On a
// reload nobody waits for that; on exit the process does, within bounds.
func (s *sharedStore) Destruct() error {
	if !caddy.Exiting() {
		go func() {
			if err := s.close(); err != nil {
				caddy.Log().Named("cadenza.store").Error("closing a store that is no longer used",
					zap.String("path", s.path), zap.Error(err))
			}
		}()
		return nil
	}
	return s.close()
}

func (s *sharedStore) close() error {
	s.drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	defer collectors().recorders.remove(s.path, s.recorder)
	return s.recorder.Close(ctx)
}

// keyTimeout is how long a start waits for the key that the store keeps.
const keyTimeout = 3 * time.Second

// traceKeys returns the key that the store keeps, nil where it can't be read
// within keyTimeout, and the temporary key that stands or stood in for it.
func (s *sharedStore) traceKeys(ctx context.Context) (kept, temporary []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		timeout := keyTimeout
		if s.temporary != nil {
			timeout = 0 // an earlier configuration has waited
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if s.kept, err = s.recorder.TraceKey(ctx); err != nil && s.temporary == nil {
			s.temporary = make([]byte, 32)
			rand.Read(s.temporary)
		}
	}
	return s.kept, s.temporary, err
}
