package caddymodule

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// The pools hold the state that outlives a configuration. Their keys identify
// the resource, not the configuration: a new configuration starts before the old
// one stops, and both must use the same open database and the same definitions.
var (
	sources  = caddy.NewUsagePool() // by the directory's absolute path, or all that decides a bundle's
	stores   = caddy.NewUsagePool() // by the database's absolute path
	memories = caddy.NewUsagePool() // by the workspace's name
)

// sharedSource is the definitions of a directory or of a bundle. Its snapshots are
// immutable and need no lease: a request keeps the snapshot that it began with.
type sharedSource struct {
	*definition.Source
	key      string    // in sources
	follower *follower // nil for a directory
}

// acquireSource returns the definitions that the directory has now, for a gateway with the
// configuration known, which uses them until it calls leave. It fails if they are invalid,
// unless anyway is set. The caller must release the source even after a failure, unless it
// is nil.
func acquireSource(dir string, known definition.Configuration, anyway bool) (source *sharedSource, leave func(), err error) {
	return acquire(dir, known, anyway, func() (*sharedSource, error) {
		if anyway {
			return &sharedSource{Source: definition.OpenAnyway(dir, known)}, nil
		}
		source, err := definition.Open(dir, known)
		return &sharedSource{Source: source}, err
	})
}

// acquire is acquireSource of the source with the key, which open makes.
func acquire(key string, known definition.Configuration, anyway bool, open func() (*sharedSource, error)) (source *sharedSource, leave func(), err error) {
	value, served, err := sources.LoadOrNew(key, func() (caddy.Destructor, error) {
		opened, err := open()
		if err != nil {
			return nil, err
		}
		opened.key = key
		return opened, nil
	})
	if err != nil {
		return nil, nil, err
	}
	source = value.(*sharedSource)
	leave = source.Use(known)
	if served && !anyway {
		// The watcher may not have seen the last edit yet.
		if err = source.Reload(); err == nil {
			err = source.Snapshot().CheckConfigured(known)
		}
	}
	return source, leave, err
}

// Destruct stops the watcher, or the following of a bundle's source.
func (s *sharedSource) Destruct() error {
	err := s.Close()
	if s.follower != nil {
		s.follower.end()
	}
	return err
}

// sharedMemory is the state that a workspace keeps over reloads.
type sharedMemory struct{ *gateway.Memory }

func acquireMemory(workspace string) (*sharedMemory, error) {
	value, _, err := memories.LoadOrNew(workspace, func() (caddy.Destructor, error) {
		memory, err := gateway.NewMemory()
		if err != nil {
			return nil, err
		}
		return &sharedMemory{memory}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedMemory), nil
}

// Destruct closes the caches when the last request that uses them has ended.
func (m *sharedMemory) Destruct() error {
	go m.Close()
	return nil
}

// sharedStore is an open database.
type sharedStore struct{ *gateway.Store }

func acquireStore(path string) (*sharedStore, error) {
	value, _, err := stores.LoadOrNew(path, func() (caddy.Destructor, error) {
		return &sharedStore{process.NewStore(path, currentLogger("cadenza.store", path))}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedStore), nil
}

// Destruct closes the store when the last request that uses it has ended. A
// reload does not wait for that; a process that exits does, within bounds.
func (s *sharedStore) Destruct() error {
	if caddy.Exiting() {
		return s.Close()
	}
	go func() {
		if err := s.Close(); err != nil {
			caddy.Log().Named("cadenza.store").Error("closing an unused store",
				zap.String("path", s.Path), zap.Error(err))
		}
	}()
	return nil
}

// release drops the workspace's references to shared state.
func (w *Workspace) release() error {
	var errs []error
	if w.leave != nil {
		w.leave()
	}
	if w.source != nil {
		_, err := sources.Delete(w.source.key)
		errs = append(errs, err)
	}
	if w.config.Memory != nil {
		_, err := memories.Delete(w.name)
		errs = append(errs, err)
	}
	if w.store != nil {
		// A process that exits waits here until everything is in the store.
		_, err := stores.Delete(w.store.Path)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
