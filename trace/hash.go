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

// HashLength is the number of characters in the hash of a value.
const HashLength = 16

// hashKeyInfo separates the derived key from other uses of the trace key.
const hashKeyInfo = "cadenza value hash v1\x00"

// Hasher makes the hashes that replace values of a context in the traces of one
// workspace. Hashers with the same trace key and workspace make the same hashes, on
// any node. The hashes of two workspaces differ, so their traces can't be joined by
// the hashes of a caller.
//
// A hash is the first 12 bytes, as 16 characters of base64url (RFC 4648), of
//
//	HMAC-SHA-256(key, field, 0x00, text)
//
// under a key that HKDF-SHA256 (RFC 5869) derives from the trace key and the
// workspace's name. The zero byte separates ("ab", "c") from ("a", "bc"). Without
// the trace key, a reader of traces can't find a value by trying candidates.
type Hasher struct {
	macs sync.Pool // *keyedHash
}

// keyedHash is the reusable state for one hash.
type keyedHash struct {
	mac   hash.Hash
	chunk [512]byte // a part of the text, as the bytes that mac requires
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

// write hashes a text.
func (k *keyedHash) write(text string) {
	for len(text) > 0 {
		n := copy(k.chunk[:], text)
		_, _ = k.mac.Write(k.chunk[:n]) // never fails
		text = text[n:]
	}
}
