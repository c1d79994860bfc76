// Package cache holds two kinds of results in memory: the decisions of tables
// (Cache) and the answers of models (Answers). Each can be worked out or asked
// for again, so that a cache may forget or refuse any entry at any time.
package cache

import (
	"bytes"
	"errors"
	"hash/maphash"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2"
)

// Value is a cached answer.
type Value struct {
	// Bytes are the answer as JSON; empty if Outcome is all of it. They are
	// shared by all readers of the entry and must not be changed.
	Bytes []byte
	// Row and Outcome say which row of the table answered and with which of
	// its outcomes, -1 for the default.
	Row, Outcome int
}

// entry keeps the whole key with the value. Keys are made of callers' data, and
// two keys can have the same hash: only equal keys get the value.
type entry struct {
	key   []byte
	value Value
}

// entryOverhead estimates the bytes of an entry without its key and value:
// itself, its places in the maps of values and of costs, and the rounding of
// allocations. ristretto adds its own 56 bytes to the cost.
const entryOverhead = 192

// Cache maps keys built with AppendKey to values within a bound of bytes. It
// is safe for concurrent use.
type Cache struct {
	entries *ristretto.Cache[[]byte, *entry]
	close   sync.Once
}

// New makes a cache that holds about maxBytes, which must be positive; keys and
// bookkeeping are included. It runs goroutines until Close.
func New(maxBytes int64) (*Cache, error) {
	entries, err := newEntries[*entry](maxBytes, 512)
	return &Cache{entries: entries}, err
}

// newEntries makes a memory of about maxBytes for entries that usually have so many
// bytes.
func newEntries[V any](maxBytes, usual int64) (*ristretto.Cache[[]byte, V], error) {
	if maxBytes <= 0 {
		return nil, errors.New("the size of a cache must be positive")
	}
	seed := maphash.MakeSeed()
	return ristretto.NewCache(&ristretto.Config[[]byte, V]{
		// Ten counters for each entry of a usual size, as ristretto advises.
		NumCounters: max(10*maxBytes/usual, 1000),
		MaxCost:     maxBytes,
		BufferItems: 64,
		// The seed keeps callers from choosing keys that collide.
		KeyToHash: func(key []byte) (uint64, uint64) {
			return maphash.Bytes(seed, key), xxhash.Sum64(key)
		},
	})
}

// Get returns the value of a key. It does not allocate.
func (c *Cache) Get(key []byte) (Value, bool) {
	if e, ok := c.entries.Get(key); ok && bytes.Equal(e.key, key) {
		return e.value, true
	}
	return Value{}, false
}

// Set offers a value to the cache, which takes it a moment later. It refuses the
// value if it is busy or if other entries are asked for more often. The key and
// the bytes are copied.
func (c *Cache) Set(key []byte, v Value) {
	buffer := make([]byte, len(key)+len(v.Bytes))
	n := copy(buffer, key)
	copy(buffer[n:], v.Bytes)
	v.Bytes = buffer[n:]
	e := &entry{key: buffer[:n:n], value: v}
	c.entries.Set(e.key, e, int64(len(buffer)+entryOverhead))
}

// Close ends the cache's goroutines and frees its entries. No Get or Set may be
// under way; a later Get finds nothing, and a later Set does nothing. Close may
// be called more than once.
func (c *Cache) Close() { c.close.Do(c.entries.Close) }
