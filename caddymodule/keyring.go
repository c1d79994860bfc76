package caddymodule

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/wire"
)

// digest is the SHA-256 of an API key. Keys are random, so a plain hash keeps
// them secret; a password hash would only slow every request down.
type digest [sha256.Size]byte

// digestOf is the digest of a key of legal form.
func digestOf(key string) digest {
	// On the stack: a conversion of the string would allocate.
	var buffer [wire.MaxTokenLength]byte
	return sha256.Sum256(buffer[:copy(buffer[:], key)])
}

// principal is who a valid key stands for.
type principal struct {
	digest    digest
	name      string
	workspace *Workspace
	notAfter  time.Time // zero: never expires
}

// keyring is the keys of all workspaces. Lookups take no lock; a change
// replaces the whole map.
type keyring struct {
	mu      sync.Mutex // serialises rebuilds
	current atomic.Pointer[map[digest]*principal]
}

// rebuild takes the keys of all workspaces anew.
func (k *keyring) rebuild(workspaces map[string]*Workspace) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[digest]*principal)
	for _, name := range slices.Sorted(maps.Keys(workspaces)) {
		for _, p := range workspaces[name].principals() {
			if other, taken := all[p.digest]; taken {
				if other.workspace == p.workspace {
					continue
				}
				return fmt.Errorf("the API key %q of workspace %s is also %q of workspace %s: a key selects one workspace",
					p.name, p.workspace.name, other.name, other.workspace.name)
			}
			all[p.digest] = p
		}
	}
	k.current.Store(&all)
	return nil
}

// authenticate returns the principal of a key of legal form, as
// wire.BearerToken returns it, or nil.
func (k *keyring) authenticate(key string, now time.Time) *principal {
	keys := k.current.Load()
	if keys == nil {
		return nil
	}
	sum := digestOf(key)
	p, ok := (*keys)[sum]
	// The map finds by parts of the digest; what decides takes the same time
	// wherever two digests differ.
	if !ok || subtle.ConstantTimeCompare(sum[:], p.digest[:]) != 1 {
		return nil
	}
	if !p.notAfter.IsZero() && now.After(p.notAfter) {
		return nil
	}
	return p
}
