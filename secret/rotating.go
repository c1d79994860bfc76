package secret

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Refresh is how old a file's secret may be. Tests that write files shorten it.
var Refresh = 10 * time.Second

// Rotating is a secret that may change while the gateway runs: a key that is
// replaced, or a token that expires and that something else writes anew to its
// file. A variable never changes. It is safe for concurrent use.
type Rotating struct {
	reference Reference
	check     func(string) error
	whole     bool // all of the value is secret

	mu    sync.Mutex
	value string
	err   error
	read  time.Time
}

// Rotating reads the secret for the first time; Value reports whether that
// worked. Check, where it is not nil, tells what is wrong with a secret that
// cannot be used. What it reads is known from then on, see Known.
func (r Reference) Rotating(check func(string) error) *Rotating { return r.rotating(check, true) }

// RotatingText is Rotating for a text that holds a secret among other things,
// such as a connection string. Who finds the secret in it calls Remember.
func (r Reference) RotatingText(check func(string) error) *Rotating {
	return r.rotating(check, false)
}

func (r Reference) rotating(check func(string) error, whole bool) *Rotating {
	s := &Rotating{reference: r, check: check, whole: whole, read: time.Now()}
	value, err := s.resolve()
	s.take(value, err)
	return s
}

// take replaces the secret.
func (s *Rotating) take(value string, err error) {
	if s.whole && value != s.value {
		retire(s.value)
		Remember(value)
	}
	s.value, s.err = value, err
}

func (s *Rotating) resolve() (string, error) {
	value, err := s.reference.Resolve()
	if err == nil && s.check != nil {
		if err = s.check(value); err != nil {
			return "", fmt.Errorf("%s %w", s.reference, err)
		}
	}
	return value, err
}

// Value returns the secret as it was at most ten seconds ago. Once there was
// one that can be used, it stays while the file cannot be read or holds none:
// its writer may be at work, and whoever is sent an outdated secret refuses it.
func (s *Rotating) Value() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(string(s.reference), "{file.") && time.Since(s.read) >= Refresh {
		s.read = time.Now()
		if value, err := s.resolve(); err == nil || s.err != nil {
			s.take(value, err)
		}
	}
	return s.value, s.err
}
