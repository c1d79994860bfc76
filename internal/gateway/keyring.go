package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// digest is the SHA-256 of an API key. Keys are random, so a plain hash keeps
// them secret; a password hash would only slow down every request.
type digest [sha256.Size]byte

// digestOf returns the digest of a key of legal form.
func digestOf(key string) digest {
	// Sum256 only reads. A conversion of the string would allocate.
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(key), len(key)))
}

// principal is the caller that a key identifies.
type principal struct {
	digest    digest
	name      string
	workspace *Workspace
	notAfter  time.Time // zero: never expires
	revoked   bool
	bound     *bound // nil: to nothing
}

// validAt reports whether the key is neither revoked nor expired.
func (p *principal) validAt(now time.Time) bool {
	return !p.revoked && (p.notAfter.IsZero() || !now.After(p.notAfter))
}

// keyring holds the keys of all workspaces. Lookups take no lock; a change
// replaces the whole map.
//
// A key selects one workspace. If two workspaces list the same key:
//   - The workspace that already has it keeps it.
//   - A key of the configuration wins over those of files.
//   - If a gateway that starts finds it in two files, neither workspace gets it:
//     the gateway can't know which of them is the thief.
//
// A refused key stays refused until its own file changes or Caddy reloads: an edit
// of another workspace's file makes no key valid.
type keyring struct {
	mu      sync.Mutex // of held
	held    map[*Workspace]*heldKeys
	current atomic.Pointer[map[digest]*principal]
}

// heldKeys are the keys of one workspace.
type heldKeys struct {
	keys []*principal
	file []*principal      // of keys, those of the keys file
	has  map[digest]string // their names
	// claims are the names of all keys that the workspace lists, also of those that
	// were refused. No other workspace gets one of them by an edit of its own file.
	claims map[digest]string
}

// usable counts the keys of the file that callers may use now.
func (h *heldKeys) usable(now time.Time) int {
	n := 0
	for _, p := range h.file {
		if p.validAt(now) {
			n++
		}
	}
	return n
}

// errNoUsableKey refuses a keys file in which no key can be used, and errNoneLeft
// says that of one that was taken, at a start or before its last key expired.
var (
	errNoUsableKey = errors.New("it has no usable key: all are revoked, expired or refused")
	errNoneLeft    = errors.New("it has no usable key left: all are revoked, expired or refused")
)

// begin takes the keys of all workspaces, and returns why keys of files are
// refused. It fails if the configuration itself gives two workspaces the same key.
func (k *keyring) begin(workspaces map[string]*Workspace) (map[*Workspace][]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owners := make(map[digest]*principal) // by the configuration
	k.held = make(map[*Workspace]*heldKeys)
	for _, name := range slices.Sorted(maps.Keys(workspaces)) {
		w := workspaces[name]
		for _, p := range w.inline {
			if other, taken := owners[p.digest]; taken {
				return nil, fmt.Errorf("the API key %q of workspace %s is also %q of workspace %s: a key selects one workspace",
					p.name, w.Name, other.name, other.workspace.Name)
			}
			owners[p.digest] = p
		}
		k.held[w] = &heldKeys{has: make(map[digest]string), claims: claimsOf(w.inline, w.listed)}
	}
	for w, held := range k.held {
		// The keys that it has under the configuration that still runs.
		if last := w.Memory.keys.Load(); last != nil {
			for sum, name := range last.has {
				if _, taken := owners[sum]; !taken {
					held.has[sum] = name
				}
			}
		}
		for _, p := range w.inline {
			held.has[p.digest] = p.name
		}
	}
	next := make(map[*Workspace]*heldKeys)
	problems := make(map[*Workspace][]string)
	for w := range k.held {
		next[w], problems[w] = k.resolve(w, w.listed)
	}
	k.held = next
	k.swap()
	return problems, nil
}

// update takes the keys that a workspace's file lists now, and returns why some of
// them are refused, and what is in use from now on. A list without a usable key
// replaces none: those of the last list that it does not mention stay in use, and
// errNoUsableKey is returned. What it says of keys by their digests holds all the
// same: a key that it revokes or lets expire is valid no longer, the last one
// included.
//
//	the last list   the file now      in use
//	a, b            a                 a
//	a, b            a (revoked)       a (revoked), b
//	a               a (revoked)       a (revoked)
func (k *keyring) update(w *Workspace, listed []fileKey, now time.Time) (problems []string, inUse []fileKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held, problems := k.resolve(w, listed)
	inUse = listed
	if held.usable(now) == 0 {
		err, inUse = errNoUsableKey, k.kept(w, held, listed)
		held, _ = k.resolve(w, inUse)
	}
	k.held[w] = held
	k.swap()
	return problems, inUse, err
}

// kept returns the keys that stay in use beside a list without a usable key, and the
// entries of that list which revoke keys or let them expire. next is what the list
// alone leads to.
func (k *keyring) kept(w *Workspace, next *heldKeys, listed []fileKey) []fileKey {
	ended := make(map[digest]bool)
	for _, p := range next.file {
		ended[p.digest] = true
	}
	var kept []fileKey
	for _, key := range listed {
		if key.revoked || ended[key.digest] {
			ended[key.digest] = true
			kept = append(kept, key)
		}
	}
	for _, p := range k.held[w].file {
		if !ended[p.digest] {
			kept = append(kept, fileKey{name: p.name, digest: p.digest, notAfter: p.notAfter, revoked: p.revoked, bound: p.bound})
		}
	}
	return kept
}

// usable counts the keys of a workspace's file that callers may use now.
func (k *keyring) usable(w *Workspace, now time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[w].usable(now)
}

func (k *keyring) swap() {
	all := make(map[digest]*principal)
	for _, held := range k.held {
		for _, p := range held.keys {
			all[p.digest] = p
		}
	}
	k.current.Store(&all)
}

// has returns the names of a workspace's keys. The map must not be changed.
func (k *keyring) has(w *Workspace) map[digest]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[w].has
}

func claimsOf(inline []*principal, listed []fileKey) map[digest]string {
	all := make(map[digest]string)
	for _, key := range listed {
		all[key.digest] = key.name
	}
	for _, p := range inline {
		all[p.digest] = p.name
	}
	return all
}

// resolve finds the keys that a workspace has. The second result has one reason
// for each key of listed that is not among them.
func (k *keyring) resolve(w *Workspace, listed []fileKey) (*heldKeys, []string) {
	held := &heldKeys{has: make(map[digest]string), claims: claimsOf(w.inline, listed)}
	// A key that one entry revokes is revoked in all other places, too.
	revoked := make(map[digest]string)
	for _, key := range listed {
		if key.revoked {
			revoked[key.digest] = key.name
		}
	}
	names := make(map[string]bool)
	for _, p := range w.inline {
		_, ended := revoked[p.digest]
		held.add(&principal{digest: p.digest, name: p.name, workspace: w, revoked: ended, bound: p.bound})
		names[p.name] = true
	}
	var problems []string
	refuse := func(key fileKey, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%q of workspace %s ", key.name, w.Name)+fmt.Sprintf(format, args...))
	}
	entries := make(map[digest]bool) // of the file, that were used
	for _, key := range k.knownFirst(w, listed) {
		rival, theirs := k.rival(w, key.digest)
		switch {
		case rival != nil:
			refuse(key, "is the key %q of workspace %s: a key selects one workspace", theirs, rival.Name)
		case !key.revoked && revoked[key.digest] != "":
			refuse(key, "is revoked by the entry %q", revoked[key.digest])
		case entries[key.digest] || !key.revoked && held.has[key.digest] != "":
			refuse(key, "is the key %q once more", held.has[key.digest])
		case key.revoked:
			entries[key.digest] = true
			if _, inline := held.has[key.digest]; !inline {
				held.addListed(&principal{digest: key.digest, name: key.name, workspace: w, revoked: true})
			}
		case names[key.name]:
			refuse(key, "has the name of another key")
		default:
			entries[key.digest], names[key.name] = true, true
			held.addListed(&principal{digest: key.digest, name: key.name, workspace: w, notAfter: key.notAfter, bound: key.bound})
		}
	}
	return held, problems
}

func (h *heldKeys) add(p *principal) {
	h.keys = append(h.keys, p)
	h.has[p.digest] = p.name
}

// addListed adds a key of the keys file.
func (h *heldKeys) addListed(p *principal) {
	h.add(p)
	h.file = append(h.file, p)
}

// knownFirst returns the entries with those of keys that the workspace already has
// first: a new entry that contradicts one of them does not take its place.
func (k *keyring) knownFirst(w *Workspace, listed []fileKey) []fileKey {
	var known, others []fileKey
	for _, key := range listed {
		if k.held[w].has[key.digest] == key.name {
			known = append(known, key)
		} else {
			others = append(others, key)
		}
	}
	return append(known, others...)
}

// rival returns the workspace because of which w does not get a key, and the key's
// name there. It is nil if there is none, and the first by name if there are
// several.
func (k *keyring) rival(w *Workspace, sum digest) (rival *Workspace, name string) {
	_, ours := k.held[w].has[sum]
	for other, held := range k.held {
		theirs, claimed := held.claims[sum]
		if _, has := held.has[sum]; other == w || !claimed || ours && !has {
			continue
		}
		if rival == nil || other.Name < rival.Name {
			rival, name = other, theirs
		}
	}
	return rival, name
}

// find returns the principal of a key of legal form, valid or not, or nil.
func (k *keyring) find(key string) *principal {
	keys := k.current.Load()
	if keys == nil {
		return nil
	}
	sum := digestOf(key)
	p, ok := (*keys)[sum]
	// The time of the map's lookup may depend on the digest. The comparison that
	// decides takes the same time wherever two digests differ.
	if !ok || subtle.ConstantTimeCompare(sum[:], p.digest[:]) != 1 {
		return nil
	}
	return p
}

// authenticate returns the principal of a valid key of legal form, as
// wire.BearerToken returns it, or nil.
func (k *keyring) authenticate(key string, now time.Time) *principal {
	p := k.find(key)
	if p == nil || !p.validAt(now) {
		return nil
	}
	return p
}
