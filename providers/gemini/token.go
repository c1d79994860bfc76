package gemini

import (
	"fmt"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

// tokenAge is how long an access token is used before its reference is read
// again. Google's tokens live for an hour, and whoever renews the file does so
// minutes before the end.
const tokenAge = 30 * time.Second

// tokenSource gives the access token that a reference leads to. A token in a
// file is renewed from outside while the gateway runs, so the reference is read
// again now and then, by the call that finds it old.
type tokenSource struct {
	reference secret.Reference

	mu    sync.Mutex
	token string
	err   error
	read  time.Time
}

// get returns the token, or why there is none. A token that was there stays in
// use while its reference leads nowhere: a file may be caught being replaced.
func (t *tokenSource) get() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.read.IsZero() || now.Sub(t.read) >= tokenAge {
		t.read = now
		token, err := t.reference.Resolve()
		if err == nil && !upstream.ValidHeaderValue(token) {
			err = fmt.Errorf("%s holds a character that a header cannot carry", t.reference)
		}
		if err == nil {
			t.token, t.err = token, nil
		} else if t.token == "" {
			t.err = err
		}
	}
	return t.token, t.err
}
