package caddymodule

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
)

// What outlives a configuration stands in these pools by the identity of the
// resource, not of the configuration: a new configuration starts before the
// old one stops, and both must use the one open database and the one set of
// definitions.
var (
	sources = caddy.NewUsagePool() // by the directory's absolute path
	stores  = caddy.NewUsagePool() // by the database's absolute path
)

// drainTimeout bounds how long a shared resource waits for the requests that
// still use it.
const drainTimeout = 10 * time.Second

// leases counts the requests that use a shared resource. Caddy cleans a
// configuration up while its requests still run; the resource is closed when
// the last of them has ended.
type leases struct {
	count atomic.Int64 // one of them is the owner's
	idle  chan struct{}
	once  sync.Once
}

func newLeases() *leases {
	l := &leases{idle: make(chan struct{})}
	l.count.Store(1)
	return l
}

func (l *leases) acquire() { l.count.Add(1) }

func (l *leases) release() {
	if l.count.Add(-1) == 0 {
		l.once.Do(func() { close(l.idle) })
	}
}

// drain gives the owner's lease back and waits for the others, for at most
// drainTimeout.
func (l *leases) drain() {
	l.release()
	select {
	case <-l.idle:
	case <-time.After(drainTimeout):
	}
}

// sharedSource is the definitions of a directory. Its snapshots are immutable
// and need no lease: a request keeps the one that it began with.
type sharedSource struct{ *definition.Source }

func acquireSource(dir string) (*sharedSource, error) {
	value, _, err := sources.LoadOrNew(dir, func() (caddy.Destructor, error) {
		source, err := definition.Open(dir)
		if err != nil {
			return nil, err
		}
		return &sharedSource{source}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedSource), nil
}

// Destruct stops the watcher.
func (s *sharedSource) Destruct() error { return s.Close() }

// memories are by the workspace's name.
var memories = caddy.NewUsagePool()

// What a workspace's caches may take, in bytes.
const (
	decisionsSize = 32 << 20
	answersSize   = 64 << 20
)

// sharedMemory is what a workspace remembers over reloads without keeping it
// anywhere: the health of its targets, the decisions of costly tables, answers of
// models, which keys it has, and how much is being sent.
type sharedMemory struct {
	*leases
	keys          atomic.Pointer[lastKeys] // nil: none yet
	engine        *invoke.Engine
	decisions     *cache.Cache
	answers       *cache.Answers
	largeRequests room
	largeAnswers  room
}

// lastKeys are the keys of a workspace that runs.
type lastKeys struct {
	path   string // of the keys file
	listed []fileKey
	has    map[digest]string
}

func acquireMemory(workspace string) (*sharedMemory, error) {
	value, _, err := memories.LoadOrNew(workspace, func() (caddy.Destructor, error) {
		decisions, err := cache.New(decisionsSize)
		if err != nil {
			return nil, err
		}
		answers, err := cache.NewAnswers(answersSize)
		if err != nil {
			decisions.Close()
			return nil, err
		}
		return &sharedMemory{
			leases: newLeases(), engine: invoke.NewEngine(), decisions: decisions, answers: answers,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedMemory), nil
}

// Destruct closes the caches when the last request that uses it has ended.
func (m *sharedMemory) Destruct() error {
	go func() {
		m.drain()
		m.decisions.Close()
		m.answers.Close()
	}()
	return nil
}
