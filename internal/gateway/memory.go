package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
)

// The sizes of a workspace's caches, in bytes.
const (
	decisionsSize = 32 << 20
	answersSize   = 64 << 20
)

// Memory is the state that a workspace keeps over reloads, in memory only: the
// health of its targets, the decisions of costly tables, answers of models, its
// keys, since when it is degraded, which answers stand for others, the streams that tell of
// its flags, the rows of its rollouts, and the bytes that its large requests and answers hold.
type Memory struct {
	*leases
	keys          atomic.Pointer[lastKeys]  // nil: none yet
	badKeys       atomic.Pointer[Condition] // nil: all keys are in use
	uses          sync.Map                  // of keys: *atomic.Int64 by name, see useOf
	definitions   atomic.Pointer[string]    // the state in the last event; nil: no event yet
	engine        *invoke.Engine
	decisions     *cache.Cache
	answers       *cache.Answers
	largeRequests room
	largeAnswers  room
	flags         *flagEvents
	exposures     *exposure.Memory
	rollouts      rolloutRows

	mu          sync.Mutex
	unavailable map[string]time.Time // since when, by the provider
}

// lastKeys are the keys of a workspace that runs.
type lastKeys struct {
	path   string // of the keys file
	listed []fileKey
	has    map[digest]string
}

// NewMemory makes the memory of a new workspace. The caller closes it.
func NewMemory() (*Memory, error) {
	decisions, err := cache.New(decisionsSize)
	if err != nil {
		return nil, err
	}
	answers, err := cache.NewAnswers(answersSize)
	if err != nil {
		decisions.Close()
		return nil, err
	}
	return &Memory{
		leases: newLeases(), engine: invoke.NewEngine(), decisions: decisions, answers: answers,
		flags: newFlagEvents(), exposures: exposure.NewMemory(), unavailable: make(map[string]time.Time),
	}, nil
}

// Close ends the streams, and closes the caches when the last request that uses them has
// ended.
func (m *Memory) Close() {
	m.flags.end()
	m.drain()
	m.decisions.Close()
	m.answers.Close()
}
