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
	bound     *bound // nil: the key is bound to no fields
	used      *atomic.Int64
	token     atomic.Pointer[flagToken] // nil: none yet
	// contextSecret is what the key's contexts are signed under; nil: they are plain.
	contextSecret []byte
	Access
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
//   - A key in the configuration wins over a key in a file.
//   - If a gateway finds the key in two files when it starts, neither workspace gets it:
//     the gateway can't know which of them is the thief.
//
// A refused key stays refused until its own file changes or Caddy reloads: an edit
// of another workspace's file makes no key valid.
type keyring struct {
	mu      sync.Mutex // of held
	held    map[*Workspace]*heldKeys
	current atomic.Pointer[map[digest]*principal]
	// names has the keys that are not revoked, by workspace and name.
	names atomic.Pointer[map[[2]string]*principal]
	// pages are the origins whose pages may read answers: those of cors, and of keys that
	// are not revoked. It is nil if there are none.
	pages atomic.Pointer[pages]
	cors  []string
}

// heldKeys are the keys of one workspace.
type heldKeys struct {
	keys []*principal
	file []*principal      // the part of keys that the keys file lists
	has  map[digest]string // the names of keys
	// claims has the names of all keys that the workspace lists, including refused keys.
	// Another workspace can't get such a key by an edit of its file.
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

// errNoUsableKey refuses an edited keys file without a usable key. errNoneLeft reports that
// an accepted file has no usable key left, at a start or after its last key expired.
var (
	errNoUsableKey = errors.New("it has no usable key: all are revoked, expired or refused")
	errNoneLeft    = errors.New("it has no usable key left: all are revoked, expired or refused")
)

// begin takes the keys of all workspaces, and returns why keys of files are
// refused. It fails if the configuration itself gives two workspaces the same key.
func (k *keyring) begin(workspaces map[string]*Workspace) (map[*Workspace][]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owners := make(map[digest]*principal) // of the keys in the configuration
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
		// The keys that the workspace has in the configuration that still runs.
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

// update takes the keys that a workspace's file lists now. It returns why it refuses some
// of them, and the list that is in use from now on. If the list has no usable key, update
// returns errNoUsableKey, and the keys of the last list stay in use unless the new list
// mentions them. A key that the new list revokes, or gives an expiry in the past, becomes
// invalid in any case, even if it is the last one.
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

// kept returns the list to use after an edit without a usable key: the entries of listed
// that revoke keys or have expired, and the keys in use that listed does not mention. next
// is the result of listed alone.
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
			kept = append(kept, fileKey{name: p.name, digest: p.digest, notAfter: p.notAfter, revoked: p.revoked, bound: p.bound, Access: p.Access})
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
	all, names := make(map[digest]*principal), make(map[[2]string]*principal)
	origins := slices.Clone(k.cors)
	for w, held := range k.held {
		for _, p := range held.keys {
			all[p.digest] = p
			if !p.revoked {
				names[[2]string{w.Name, p.name}] = p
				origins = append(origins, p.Origins...)
			}
		}
	}
	k.current.Store(&all)
	k.names.Store(&names)
	k.pages.Store(newPages(origins))
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
	// An entry that revokes a key also revokes the other entries of the same key.
	revoked := make(map[digest]string)
	for _, key := range listed {
		if key.revoked {
			revoked[key.digest] = key.name
		}
	}
	names := make(map[string]bool)
	for _, p := range w.inline {
		_, ended := revoked[p.digest]
		held.add(&principal{digest: p.digest, name: p.name, workspace: w, revoked: ended, bound: p.bound, contextSecret: p.contextSecret, Access: p.Access})
		names[p.name] = true
	}
	var problems []string
	refuse := func(key fileKey, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%q of workspace %s ", key.name, w.Name)+fmt.Sprintf(format, args...))
	}
	entries := make(map[digest]bool) // the keys of used entries of the file
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
				held.addListed(&principal{digest: key.digest, name: key.name, workspace: w, revoked: true, Access: key.Access})
			}
		case names[key.name]:
			refuse(key, "has the name of another key")
		default:
			entries[key.digest], names[key.name] = true, true
			held.addListed(&principal{digest: key.digest, name: key.name, workspace: w, notAfter: key.notAfter, bound: key.bound, Access: key.Access})
		}
	}
	return held, problems
}

func (h *heldKeys) add(p *principal) {
	p.used = p.workspace.Memory.useOf(p.name)
	h.keys = append(h.keys, p)
	h.has[p.digest] = p.name
}

// addListed adds a key of the keys file.
func (h *heldKeys) addListed(p *principal) {
	h.add(p)
	h.file = append(h.file, p)
}

// knownFirst sorts the entries of keys that the workspace already has before the others,
// so that a new entry that contradicts one of them is the one to be refused.
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

// rival returns the workspace that keeps w from getting a key, and the key's name there.
// It returns nil if no workspace does, and the first by name if several do.
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

// named returns the key of a workspace by its name, if it is not revoked.
func (k *keyring) named(workspace, name string) *principal {
	keys := k.names.Load()
	if keys == nil {
		return nil
	}
	return (*keys)[[2]string{workspace, name}]
}

// authenticate returns the principal of a valid key of legal form, as
// wire.BearerToken returns it, or nil.
func (k *keyring) authenticate(key string, now time.Time) *principal {
	p := k.find(key)
	if p == nil || !p.validAt(now) {
		return nil
	}
	p.use(now)
	return p
}
