package sqlite

import (
	"runtime"
	"sync"
	"time"
)

// A query in Go keeps its processor for ten milliseconds before the runtime lets others
// run, and network events wait as long. On a machine with a single processor, callers of
// the gateway would notice each person who looks at traces. So there the readers of a
// gateway fetch rows one at a time, and rest often: they take twice as long, and callers
// wait a fourth of the time. With more processors, callers have others.
const (
	readerWorks = 500 * time.Microsecond
	readerRests = 500 * time.Microsecond
)

// pace is what the readers of this process share.
var pace struct {
	sync.Mutex
	worked time.Duration // since the last rest
}

// besideCallers reports whether a reader of the file shares a processor with callers.
func (s *shared) besideCallers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stores) > 0 && runtime.GOMAXPROCS(0) == 1
}

// gently fetches a row, in turn with other readers.
func gently(fetch func() error) error {
	pace.Lock()
	defer pace.Unlock()
	if pace.worked > readerWorks {
		time.Sleep(readerRests)
		pace.worked = 0
	}
	start := time.Now()
	err := fetch()
	pace.worked += time.Since(start)
	return err
}
