package trace

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
)

// HashLength is how many characters the hash of a value has.
const HashLength = 16

// hashKeyInfo keeps the derived key apart from any other use of the trace key.
const hashKeyInfo = "cadenza value hash v1\x00"

// Hasher makes the hashes that stand for values of a context in the traces of one
// workspace. Hashers of the same trace key and workspace agree, on any node. Those
// of another workspace do not, so traces of two workspaces can't be joined by
// what they have of a caller.
//
// A hash is the first 12 bytes, as 16 characters of base64url (RFC 4648), of
//
//	HMAC-SHA-256(key, field, 0x00, text)
//
// under a key that HKDF-SHA256 (RFC 5869) derives from the trace key and the
// workspace's name. The zero byte keeps ("ab", "c") and ("a", "bc") apart. A
// reader of traces without the trace key can't try values until one fits.
//
// Most values come again: a locale, a number of seats, the customer of the last
// page. A hasher remembers the hashes of short values that it was asked for twice
// in a row, as far as they share a place. One look there costs a tenth of a hash.
type Hasher struct {
	macs sync.Pool // *keyedHash
	seed maphash.Seed
	// known are the hashes that are remembered, by the place of their value. seen
	// is of which value a hash was made last for the place, as a part of its
	// maphash: a value that does not come again costs no memory.
	known [rememberedHashes]atomic.Pointer[knownHash]
	seen  [rememberedHashes]atomic.Uint32
}

const (
	// rememberedHashes is how many hashes a hasher remembers at most.
	rememberedHashes = 512
	// maxRemembered bounds the field and the text of a remembered hash together,
	// in bytes.
	maxRemembered = 64
)

// knownHash is a remembered hash.
type knownHash struct {
	value string // the field and the text
	field int    // length of the field
	hash  [HashLength]byte
}

// is reports whether the hash is that of a field's value.
func (k *knownHash) is(field, text string) bool {
	return k != nil && k.field == len(field) && len(k.value) == len(field)+len(text) &&
		k.value[:k.field] == field && k.value[k.field:] == text
}

// keyedHash is what one hash is made with.
type keyedHash struct {
	mac   hash.Hash
	chunk [512]byte // of the text, which mac takes as bytes only
	sum   [sha256.Size]byte
}

// NewHasher returns the hasher of a workspace.
func NewHasher(traceKey []byte, workspace string) (*Hasher, error) {
	if len(traceKey) < MinKeyLength {
		return nil, fmt.Errorf("the trace key must have at least %d bytes, it has %d", MinKeyLength, len(traceKey))
	}
	if workspace == "" {
		return nil, errors.New("hashes of values need the name of a workspace")
	}
	key, err := hkdf.Key(sha256.New, traceKey, nil, hashKeyInfo+workspace, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of hashes: %w", err)
	}
	return &Hasher{seed: maphash.MakeSeed(), macs: sync.Pool{New: func() any { return &keyedHash{mac: hmac.New(sha256.New, key)} }}}, nil
}

// Append appends the hash of a field's value to dst: HashLength characters. It may
// be called concurrently.
func (h *Hasher) Append(dst []byte, field, text string) []byte {
	if len(field)+len(text) > maxRemembered {
		return h.append(dst, field, text)
	}
	sum := maphash.String(h.seed, text) ^ bits.RotateLeft64(maphash.String(h.seed, field), 32)
	place, tag := sum%rememberedHashes, uint32(sum>>32)
	if k := h.known[place].Load(); k.is(field, text) {
		return append(dst, k.hash[:]...)
	}
	from := len(dst)
	dst = h.append(dst, field, text)
	if h.seen[place].Swap(tag) == tag {
		k := &knownHash{value: field + text, field: len(field)}
		copy(k.hash[:], dst[from:])
		h.known[place].Store(k)
	}
	return dst
}

// append makes a hash and appends it.
func (h *Hasher) append(dst []byte, field, text string) []byte {
	k := h.macs.Get().(*keyedHash)
	k.mac.Reset()
	k.write(field)
	k.write("\x00")
	k.write(text)
	sum := k.mac.Sum(k.sum[:0])
	dst = base64.RawURLEncoding.AppendEncode(dst, sum[:HashLength/4*3])
	h.macs.Put(k)
	return dst
}

// write adds a text to what is hashed.
func (k *keyedHash) write(text string) {
	for len(text) > 0 {
		n := copy(k.chunk[:], text)
		_, _ = k.mac.Write(k.chunk[:n]) // never fails
		text = text[n:]
	}
}
