package secret

import (
	"strings"
	"sync"
	"time"
)

// refresh is how old a file's secret may be.
const refresh = 10 * time.Second

// Rotating is a secret that may change while the gateway runs, such as a
// token that expires and that something else writes anew to its file. A
// variable never changes. It is safe for concurrent use.
type Rotating struct {
	reference Reference

	mu    sync.Mutex
	value string
	err   error
	read  time.Time
}

// Rotating reads the secret for the first time; Value tells whether that
// worked.
func (r Reference) Rotating() *Rotating {
	s := &Rotating{reference: r, read: time.Now()}
	s.value, s.err = r.Resolve()
	return s
}

// Value returns the secret as it was at most ten seconds ago. Once there was
// one, it stays while the file cannot be read or is empty: its writer may be
// at work, and whoever is sent an outdated secret refuses it.
func (s *Rotating) Value() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(string(s.reference), "{file.") && time.Since(s.read) >= refresh {
		s.read = time.Now()
		if value, err := s.reference.Resolve(); err == nil || s.err != nil {
			s.value, s.err = value, err
		}
	}
	return s.value, s.err
}
