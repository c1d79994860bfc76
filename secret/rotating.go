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
	// stale is why the secret is no longer that of its file, since the time since.
	stale  error
	since  time.Time
	report func(stale error)
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
// secret anyway. See Stale.
func (s *Rotating) Value() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.value, s.err
}

// Stale returns why the secret's file cannot be used any more, and since when the
// last secret stays in use therefore. The error is nil while the secret is that of
// its file, and where there was none yet. The error names the reference and never
// has the secret.
func (s *Rotating) Stale() (since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.since, s.stale
}

// Report has f called whenever the error of Stale changes. The file is looked at by
// Value and Stale alone, so f is called during one of them, and must call neither.
// Report is called before the secret is used.
func (s *Rotating) Report(f func(stale error)) { s.report = f }

// refresh reads the secret's file if that is due.
func (s *Rotating) refresh() {
	if !strings.HasPrefix(string(s.reference), "{file.") || time.Since(s.read) < Refresh {
		return
	}
	s.read = time.Now()
	value, err := s.resolve()
	if err != nil && s.err == nil {
		s.setStale(err)
		return
	}
	s.take(value, err)
	s.setStale(nil)
}

// setStale notes and reports why the secret stays, or that it does no longer.
func (s *Rotating) setStale(err error) {
	if err == nil && s.stale == nil || err != nil && s.stale != nil && err.Error() == s.stale.Error() {
		return
	}
	switch {
	case err == nil:
		s.since = time.Time{}
	case s.stale == nil:
		s.since = s.read
	}
	s.stale = err
	if s.report != nil {
		s.report(err)
	}
}
