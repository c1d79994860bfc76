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
// replaced in its file, or a token that another program renews there. A secret in
// a variable never changes. Rotating is safe for concurrent use.
type Rotating struct {
	reference Reference
	check     func(string) error
	whole     bool // all of the value is secret

	mu    sync.Mutex
	value string
	err   error
	read  time.Time
}

// Rotating reads the secret for the first time; Value returns the error of that.
// check, unless it is nil, returns what is wrong with a secret that cannot be used.
// A secret that was read is known from then on, see Known.
func (r Reference) Rotating(check func(string) error) *Rotating { return r.rotating(check, true) }

// RotatingText is Rotating for a text that holds a secret among other things, such
// as a connection string. The caller finds the secret in it and calls Remember.
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

// Value returns the secret as it was at most ten seconds ago. After the first one
// that can be used, the last such one stays while the file cannot be read or holds
// none: another program may be writing it, and a service refuses an outdated
// secret anyway.
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
