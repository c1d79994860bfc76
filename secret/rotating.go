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
	// stale is the reason why the secret is not the file's, since the time since.
	stale  error
	since  time.Time
	report func(stale error)
}

// lasts has the last good value of each file, so that a configuration that takes
// another's place while a file is bad goes on with the key that was in use. Beyond
// maxKnown files the first one is forgotten.
var lasts struct {
	mu    sync.Mutex
	files map[Reference]*last
	order []Reference
}

// last is the last good value of a file.
type last struct {
	value    string
	since    time.Time // when the file went bad; zero while it is good
	reported string    // the error last reported; empty if the file was good
}

// news reports whether stale differs from the last report about the file. Several
// users of a file find the same error, and one line of it is enough.
func (r Reference) news(stale error) bool {
	lasts.mu.Lock()
	defer lasts.mu.Unlock()
	l, text := lasts.files[r], ""
	if stale != nil {
		text = stale.Error()
	}
	if l == nil || l.reported == text {
		return l == nil
	}
	l.reported = text
	return true
}

// keep notes a good value of the file.
func (r Reference) keep(value string) {
	lasts.mu.Lock()
	defer lasts.mu.Unlock()
	if lasts.files == nil {
		lasts.files = make(map[Reference]*last)
	}
	l := lasts.files[r]
	if l == nil {
		l = new(last)
		lasts.files[r] = l
		lasts.order = append(lasts.order, r)
		if len(lasts.order) > maxKnown {
			delete(lasts.files, lasts.order[0])
			lasts.order = lasts.order[1:]
		}
	}
	l.value, l.since = value, time.Time{}
}

// wentBad notes that the file can't be used now. It returns the file's last good
// value, empty if this process never read one, and the time since when the file
// is bad.
func (r Reference) wentBad(now time.Time) (value string, since time.Time) {
	lasts.mu.Lock()
	defer lasts.mu.Unlock()
	l := lasts.files[r]
	if l == nil {
		return "", now
	}
	if l.since.IsZero() {
		l.since = now
	}
	return l.value, l.since
}

// Rotating reads the secret for the first time. If the file can't be used any more, it
// takes the last one that the process read, and Value returns the error. check, unless it
// is nil, returns an error for a secret that cannot be used. A secret that was read is
// known from then on, see Known.
func (r Reference) Rotating(check func(string) error) *Rotating { return r.rotating(check, true) }

// RotatingText is Rotating for a text that holds a secret among other things, such
// as a connection string. The caller finds the secret in it and calls Remember.
func (r Reference) RotatingText(check func(string) error) *Rotating {
	return r.rotating(check, false)
}

func (r Reference) rotating(check func(string) error, whole bool) *Rotating {
	s := &Rotating{reference: r, check: check, whole: whole, read: time.Now()}
	value, err := s.resolve()
	if err != nil && s.isFile() {
		if last, since := r.wentBad(s.read); last != "" && (check == nil || check(last) == nil) {
			s.stale, s.since = err, since
			value, err = last, nil
		}
	}
	s.take(value, err)
	return s
}

func (s *Rotating) isFile() bool { return strings.HasPrefix(string(s.reference), "{file.") }

// take replaces the secret.
func (s *Rotating) take(value string, err error) {
	if s.whole && value != s.value {
		retire(s.value)
		Remember(value)
	}
	s.value, s.err = value, err
	if err == nil && s.stale == nil && s.isFile() {
		s.reference.keep(value)
	}
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
// last secret stays in use. The error is nil while the secret is the file's, and
// if there was none yet. The error names the reference and never has the secret.
func (s *Rotating) Stale() (since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.since, s.stale
}

// Report has f called whenever the error of Stale changes: at once if there is one, and
// with nil when a secret that could not be read at first can be. A report of another user
// of the same file is not repeated. Only Value and Stale look at the file, so f is called
// during one of them, and must call neither. Report is called before the secret is used.
func (s *Rotating) Report(f func(stale error)) {
	s.report = f
	if s.stale != nil && s.reference.news(s.stale) {
		f(s.stale)
	}
}

// refresh reads the secret's file if that is due.
func (s *Rotating) refresh() {
	if !s.isFile() || time.Since(s.read) < Refresh {
		return
	}
	s.read = time.Now()
	value, err := s.resolve()
	if err != nil && s.err == nil {
		s.setStale(err)
		return
	}
	if s.stale == nil && err == nil && s.err != nil && s.report != nil && s.reference.news(nil) {
		s.report(nil)
	}
	s.setStale(nil)
	s.take(value, err)
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
		_, s.since = s.reference.wentBad(s.read)
	}
	s.stale = err
	if s.report != nil && s.reference.news(err) {
		s.report(err)
	}
}
