package trace

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"sync"
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
type Hasher struct {
	macs sync.Pool // *keyedHash
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
	return &Hasher{macs: sync.Pool{New: func() any { return &keyedHash{mac: hmac.New(sha256.New, key)} }}}, nil
}

// Append appends the hash of a field's value to dst: HashLength characters. It may
// be called concurrently.
func (h *Hasher) Append(dst []byte, field, text string) []byte {
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
