package sqlite

import "sync"

// turns holds a lock for each file, by its path, that the connections of this
// process take before they begin to write. SQLite's own lock, which is between
// processes, is polled for: beside a busy writer it would hardly be had, and a
// writer that found it taken would sleep for longer than it is held.
var turns sync.Map // of *sync.Mutex

func turnOf(path string) *sync.Mutex {
	turn, ok := turns.Load(path)
	if !ok {
		turn, _ = turns.LoadOrStore(path, new(sync.Mutex))
	}
	return turn.(*sync.Mutex)
}
