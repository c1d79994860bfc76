package secret

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// maxKnown bounds how many values are known. It is far more than a configuration
// names, so the values that are forgotten were replaced long ago.
const maxKnown = 1024

// known are the secrets that this process has, so that they can be removed from
// its records. They are plain values, as their users keep them. API keys of
// callers are not among them: the gateway keeps only their digests.
var known struct {
	mu     sync.Mutex
	values []value                               // the oldest first
	search atomic.Pointer[func() *redact.Values] // finds them in a text; built on first use
}

type value struct {
	text    string
	retired bool // another one took its place
}

// Remember has a secret removed from the gateway's records and logs. A Rotating
// does so itself. A value stays known after it was replaced, because a text with
// it may arrive later.
func Remember(secret string) {
	if !redact.CanBeFound(secret) {
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	i := slices.IndexFunc(known.values, func(v value) bool { return v.text == secret })
	if i >= 0 {
		known.values[i].retired = false
		return
	}
	known.values = append(known.values, value{text: secret})
	if len(known.values) > maxKnown {
		oldest := max(0, slices.IndexFunc(known.values, func(v value) bool { return v.retired }))
		known.values = slices.Delete(known.values, oldest, oldest+1)
	}
	texts := make([]string, len(known.values))
	for i, v := range known.values {
		texts[i] = v.text
	}
	search := sync.OnceValue(func() *redact.Values { return redact.NewValues(texts) })
	known.search.Store(&search)
}

// retire records that another secret replaced this one.
func retire(secret string) {
	known.mu.Lock()
	defer known.mu.Unlock()
	for i := range known.values {
		if known.values[i].text == secret {
			known.values[i].retired = true
		}
	}
}

// Known returns the secrets that this process has or had lately.
func Known() *redact.Values {
	search := known.search.Load()
	if search == nil {
		return nil
	}
	return (*search)()
}
