package sqlite

import (
	"os"
	"slices"
	"sync"
)

// shared is the state that all connections of this process to the file of a path share.
type shared struct {
	path string

	// A connection locks turn before it writes. SQLite polls for its own lock, which is for
	// other processes: next to a busy writer another connection would hardly get it, and a
	// writer that found it taken would sleep longer than it is held.
	turn sync.Mutex

	// moving keeps connections from being opened while the file and its log are renamed:
	// one that had opened the file, but not yet its log, would open the log of the next
	// file.
	moving sync.RWMutex

	mu     sync.Mutex
	stores []*Store // the open ones
	damage *damage  // of the file at the path
}

// damage is an error that shows that a file is damaged.
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

// damaged returns the damage of file, nil if none is known.
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
