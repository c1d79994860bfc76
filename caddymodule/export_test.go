package caddymodule

import (
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
		config = value.(*sharedStore).Config()
		return false
	})
	return config
}

// StoreStats is the account of the only store that is open.
func StoreStats() (stats recorder.Stats) {
	stores.Range(func(_, value any) bool {
		stats = value.(*sharedStore).Recorder.Stats()
		return false
	})
	return stats
}

// CountLeases returns functions that count the leases of requests on the only
// store that is open, and on the only workspace's memory.
func CountLeases() (ofStore, ofMemory func() int64) {
	stores.Range(func(_, value any) bool {
		ofStore = value.(*sharedStore).Leases
		return false
	})
	memories.Range(func(_, value any) bool {
		ofMemory = value.(*sharedMemory).Leases
		return false
	})
	return ofStore, ofMemory
}

func memoryOf(workspace string) (memory *sharedMemory) {
	memories.Range(func(name, value any) bool {
		if name == workspace {
			memory = value.(*sharedMemory)
		}
		return true
	})
	return memory
}

// HeldByRequests is how many bytes large requests hold in all workspaces, and in
// one.
func HeldByRequests(workspace string) (all, own int64) {
	return process.HeldByRequests(memoryOf(workspace).Memory)
}

// FillRequests takes all the room that a workspace's large requests have. The
// function that it returns gives it back.
func FillRequests(workspace string) (give func()) { return memoryOf(workspace).FillRequests() }
