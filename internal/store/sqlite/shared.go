package sqlite

import (
	"os"
	"slices"
	"sync"
)

// shared is what all connections of this process to the file of a path have in
// common.
type shared struct {
	path string

	// A connection takes turn before it writes. SQLite polls for its own lock,
	// which is between processes: beside a busy writer another connection would
	// hardly get it, and a writer that found it taken would sleep for longer than
	// it is held.
	turn sync.Mutex

	// moving keeps connections from being opened while the file and its log are
	// renamed: one that had the file, but not yet its log, would take that of the
	// next file for its own.
	moving sync.RWMutex

	mu     sync.Mutex
	stores []*Store // that are open
	damage *damage  // of the file at the path
}

// damage is what is wrong with a file.
type damage struct {
	file os.FileInfo
	err  error
}

var paths sync.Map // of *shared, by path

func sharedOf(path string) *shared {
	s, ok := paths.Load(path)
	if !ok {
		s, _ = paths.LoadOrStore(path, &shared{path: path})
	}
	return s.(*shared)
}

func turnOf(path string) *sync.Mutex { return &sharedOf(path).turn }

// found notes that file is damaged, and breaks the stores that write to it. It
// ignores a file that was moved away.
func (s *shared) found(file os.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damageOf(file) != nil || sameFile(s.path, file) != nil {
		return
	}
	s.damage = &damage{file, err}
	for _, store := range s.stores {
		if os.SameFile(store.file, file) {
			store.breakOff()
		}
	}
}

// damaged returns what is wrong with file, nil where nothing is known to be.
func (s *shared) damaged(file os.FileInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damageOf(file)
}

// replaced forgets the damage of the file that was at the path.
func (s *shared) replaced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage = nil
}

func (s *shared) damageOf(file os.FileInfo) error {
	if s.damage == nil || !os.SameFile(s.damage.file, file) {
		return nil
	}
	return s.damage.err
}

func (s *shared) add(store *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores = append(s.stores, store)
	if s.damageOf(store.file) != nil { // found while it was opened
		store.breakOff()
	}
}

func (s *shared) remove(store *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores = slices.DeleteFunc(s.stores, func(other *Store) bool { return other == store })
}
