package caddymodule

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

func init() { keysInterval = 20 * time.Millisecond }

// NewTestHandler makes the handler of all routes for an app that runs.
func NewTestHandler(app *App) *Handler { return &Handler{appModule{app}} }

// StoreConfig is what the only store that is open runs with. It is asked for
// its limits whenever they matter, so it stays good over reloads.
func StoreConfig() (config sqlite.Config) {
	stores.Range(func(_, value any) bool {
		config = value.(*sharedStore).config()
		return false
	})
	return config
}

// StoreStats is the account of the only store that is open.
func StoreStats() (stats recorder.Stats) {
	stores.Range(func(_, value any) bool {
		stats = value.(*sharedStore).recorder.Stats()
		return false
	})
	return stats
}

// CountLeases returns functions that count the leases of requests on the only
// store that is open, and on the only workspace's memory.
func CountLeases() (ofStore, ofMemory func() int64) {
	// One is the owner's.
	count := func(n *atomic.Int64) func() int64 { return func() int64 { return n.Load() - 1 } }
	stores.Range(func(_, value any) bool {
		ofStore = count(&value.(*sharedStore).leases.count)
		return false
	})
	memories.Range(func(_, value any) bool {
		ofMemory = count(&value.(*sharedMemory).leases.count)
		return false
	})
	return ofStore, ofMemory
}

// HeldByRequests is how many bytes large requests hold in all workspaces, and in
// one.
func HeldByRequests(workspace string) (all, own int64) {
	memories.Range(func(name, value any) bool {
		if name == workspace {
			own = value.(*sharedMemory).largeRequests.taken.Load()
		}
		return true
	})
	return largeRequests.taken.Load(), own
}

// FillRequests takes all the room that a workspace's large requests have. The
// function that it returns gives it back.
func FillRequests(workspace string) (give func()) {
	memories.Range(func(name, value any) bool {
		if name == workspace {
			r := &value.(*sharedMemory).largeRequests
			r.taken.Add(maxLargeRequests / 2)
			give = func() { r.taken.Add(-maxLargeRequests / 2) }
		}
		return true
	})
	return give
}
