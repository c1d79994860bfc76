package secret

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// maxKnown bounds how many values are known, in number: far more than a
// configuration names, so what goes is what rotated away long ago.
const maxKnown = 1024

// known are the secrets that this process has, so that they can be taken out of
// what it records. They are kept by their values, as those who use them keep
// them; API keys, which nobody needs to have, are not among them.
var known struct {
	mu     sync.Mutex
	values []value                               // the oldest first
	search atomic.Pointer[func() *redact.Values] // for them, made when it is needed
}

type value struct {
	text    string
	retired bool // another one took its place
}

// Remember makes a secret one of those that are taken out of what the gateway
// records and logs. A Rotating does so itself. A value stays known when it is
// replaced, because what holds it may come in later.
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

// retire notes that another secret took this one's place.
func retire(secret string) {
	known.mu.Lock()
	defer known.mu.Unlock()
	for i := range known.values {
		if known.values[i].text == secret {
			known.values[i].retired = true
		}
	}
}

// Known are the secrets that this process has, or had lately.
func Known() *redact.Values {
	search := known.search.Load()
	if search == nil {
		return nil
	}
	return (*search)()
}
