package trace

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// sealKeyInfo and keyNameInfo separate the derived keys and name from other uses of the
// trace key.
const (
	sealKeyInfo = "cadenza trace seal v1\x00"
	keyNameInfo = "cadenza trace key name v1"
)

// The lengths, in bytes, of the parts of a seal: the name of a key, in hexadecimal, the
// MAC of the record and the hash of a part of its content, in base64url (RFC 4648).
const (
	keyNameSize  = 4
	sealSize     = 16
	partHashSize = 8
)

// Sealer makes and verifies the seals of one workspace's records. Without the trace key,
// a person who changes a stored record can't make a valid seal for it. Sealers with the
// same trace key and workspace make the same seals, on any node.
//
// A seal has the name of the trace key, the MAC, and a hash of each part of the content:
//
//	9c2f1a0b.x3Jk0OQxUe7H1mBv9a8T5g.messages=Qm4hT0Zx1pU.response=9sK2b7Lw0eE
//
// The MAC is the first 16 bytes of
//
//	HMAC-SHA-256(key, length, parts, record)
//
// where parts is the text after the MAC in the seal and length its length in four bytes.
// The record is each member that is not absent, except the seal, answers and the content, in the
// order of [RecordFields]. A member is the length of its name in one byte, the name, the
// length of its value in four bytes, and the value: times in milliseconds, durations in
// microseconds and JSON on one line, as in a store. The hash of a part is 8 bytes of
//
//	SHA-256(partKey, name, 0x00, part)
//
// So Verify can distinguish removed content from changed content, and nobody can find
// removed content by trying candidates. HKDF-SHA256 (RFC 5869) derives both keys from the
// trace key and the workspace's name, and the name of the trace key from this key alone.
type Sealer struct {
	keyName string
	partKey [sha256.Size]byte
	macs    sync.Pool // *sealing
}

// hashed has the hashes of long beginnings of parts, for all sealers: what they keep must
// not grow with the number of workspaces.
var hashed large.Beginnings[hashedPart, hash.Hash]

// hashedPart is what the hash of a part depends on beside its text.
type hashedPart struct {
	partKey [sha256.Size]byte
	name    string
}

// sealing is the reusable state for one seal.
type sealing struct {
	mac   hash.Hash
	part  hash.Hash
	shown Record // a record with its shared members
	notes []string
	text  []byte
	parts []byte
	sum   [sha256.Size]byte
}

// sealedFields are the members that the MAC covers; contentFields are the members with
// their own hashes.
var (
	sealedFields = slices.DeleteFunc(slices.Clone(RecordFields), func(f Field[Record]) bool {
		return f.Content || f.Name == "seal" || f.IsCounted()
	})
	contentFields = slices.DeleteFunc(slices.Clone(RecordFields), func(f Field[Record]) bool { return !f.Content })
)

// NewSealer returns the sealer of a workspace.
func NewSealer(traceKey []byte, workspace string) (*Sealer, error) {
	if len(traceKey) < MinKeyLength {
		return nil, fmt.Errorf("the trace key must have at least %d bytes, it has %d", MinKeyLength, len(traceKey))
	}
	if workspace == "" {
		return nil, errors.New("seals need the name of a workspace")
	}
	keys, err := hkdf.Key(sha256.New, traceKey, nil, sealKeyInfo+workspace, 2*sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the keys of seals: %w", err)
	}
	key := keys[:sha256.Size]
	name, err := hkdf.Key(sha256.New, traceKey, nil, keyNameInfo, keyNameSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the name of the trace key: %w", err)
	}
	return &Sealer{keyName: hex.EncodeToString(name), partKey: [sha256.Size]byte(keys[sha256.Size:]), macs: sync.Pool{New: func() any {
		return &sealing{mac: hmac.New(sha256.New, key), part: sha256.New()}
	}}}, nil
}

// KeyName returns the name of the trace key, as seals have it. It tells keys apart.
func (s *Sealer) KeyName() string { return s.keyName }

// SealAs sets the record's seal, made as if the record had the given state. Without a
// Sealer it does nothing.
func (r *Record) SealAs(state State) {
	if r.Sealer == nil {
		return
	}
	own := r.State
	r.State = state
	r.Seal = r.Sealer.seal(r)
	r.State = own
}

func (s *Sealer) seal(r *Record) string {
	k := s.macs.Get().(*sealing)
	defer k.release(&s.macs)
	r = k.show(r)
	k.parts = k.parts[:0]
	for i := range contentFields {
		f := &contentFields[i]
		if part := *f.bytes(r); len(part) > 0 {
			k.parts = append(append(append(k.parts, '.'), f.Name...), '=')
			k.parts = k.appendHash(k.parts, s, f.Name, part)
		}
	}
	var buffer [256]byte
	seal := append(append(buffer[:0], s.keyName...), '.')
	seal = k.appendMAC(seal, r, k.parts)
	return string(append(seal, k.parts...))
}

// show returns a record as a store shows it: with the shared members as its own.
func (k *sealing) show(r *Record) *Record {
	shared := r.Shared
	if shared == nil {
		return r
	}
	k.shown = *r
	if len(shared.Notes) > 0 {
		k.notes = append(append(k.notes[:0], shared.Notes...), r.Notes...)
		k.shown.Notes = k.notes
	}
	k.shown.Metadata, k.shown.Context, k.shown.Variables = shared.Metadata, nil, nil
	if r.SharesContent {
		k.shown.Context, k.shown.Variables = shared.Context, shared.Variables
	}
	return &k.shown
}

// release puts k into the pool, without references to a record.
func (k *sealing) release(pool *sync.Pool) {
	if k.shown.Shared != nil {
		clear(k.notes)
		k.shown = Record{}
	}
	k.text = kept(k.text)
	pool.Put(k)
}

// appendMAC appends the MAC of a record that show returned.
func (k *sealing) appendMAC(dst []byte, r *Record, parts []byte) []byte {
	// The length separates the parts from the members. Without it, an attacker could move
	// the boundary, because a record's seal contains the parts.
	k.text = append(binary.BigEndian.AppendUint32(k.text[:0], uint32(len(parts))), parts...)
	for i := range sealedFields {
		k.text = appendSealed(k.text, &sealedFields[i], r)
	}
	k.mac.Reset()
	_, _ = k.mac.Write(k.text) // never fails
	return base64.RawURLEncoding.AppendEncode(dst, k.mac.Sum(k.sum[:0])[:sealSize])
}

// appendHash appends the hash of a part of the content.
func (k *sealing) appendHash(dst []byte, s *Sealer, name string, part []byte) []byte {
	k.text = append(append(append(k.text[:0], s.partKey[:]...), name...), 0)
	sum, part := k.part, oneLine(part)
	sum.Reset()
	_, _ = sum.Write(k.text)
	if len(part) >= large.Smallest {
		sum, part = goOn(sum, hashedPart{s.partKey, name}, part)
	}
	_, _ = sum.Write(part)
	return base64.RawURLEncoding.AppendEncode(dst, sum.Sum(k.sum[:0])[:partHashSize])
}

// goOn returns a hash of the beginning of a part, and the rest. It goes on from a long
// beginning that was hashed before: of the start of the call, or of the conversation's last
// turn.
func goOn(sum hash.Hash, key hashedPart, part []byte) (of hash.Hash, rest []byte) {
	known := hashed.Longest(key, part)
	if known.Size > 0 {
		sum = cloneHash(known.State)
	}
	hashedUpTo := known.Size
	if cut := large.Cut(part); cut > hashedUpTo {
		_, _ = sum.Write(part[hashedUpTo:cut])
		hashed.Keep(key, part[:cut], known, cloneHash(sum))
		hashedUpTo = cut
	}
	return sum, part[hashedUpTo:]
}

// cloneHash copies a hash of the standard library, which can't fail.
func cloneHash(h hash.Hash) hash.Hash {
	c, err := h.(hash.Cloner).Clone()
	if err != nil {
		panic(err)
	}
	return c
}

// appendSealed appends the sealed form of a member, unless it is absent.
func appendSealed(dst []byte, f *Field[Record], r *Record) []byte {
	if f.Known != nil && !*f.Known(r) {
		return dst
	}
	begin := len(dst)
	dst = append(append(append(dst, byte(len(f.Name))), f.Name...), 0, 0, 0, 0)
	value := len(dst)
	switch at := f.At(r).(type) {
	case *string:
		dst = append(dst, *at...)
	case *[]byte:
		dst = append(dst, oneLine(*at)...)
	case *ID:
		dst = append(dst, at[:]...)
	case *Kind:
		dst = append(dst, at.String()...)
	case *State:
		dst = append(dst, at.String()...)
	case *time.Time:
		dst = appendNumber(dst, at.UnixMilli(), !at.IsZero())
	case *time.Duration:
		dst = appendNumber(dst, at.Microseconds(), false)
	case *int:
		dst = appendNumber(dst, int64(*at), false)
	case *int64:
		dst = appendNumber(dst, *at, f.Known != nil)
	case *float64:
		if !math.IsNaN(*at) && !math.IsInf(*at, 0) { // JSON has neither
			dst = appendNumber(dst, int64(math.Float64bits(*at)), false)
		}
	case *bool:
		if *at {
			dst = append(dst, 1)
		}
	case *[]string:
		for _, text := range *at {
			dst = jsontext.AppendString(dst, text)
		}
	case *[]Attempt:
		if len(*at) > 0 {
			dst = AppendAttempts(dst, *at)
		}
	}
	if len(dst) == value {
		return dst[:begin]
	}
	binary.BigEndian.PutUint32(dst[value-4:], uint32(len(dst)-value))
	return dst
}

// appendNumber appends a number, unless it is zero and known is false.
func appendNumber(dst []byte, n int64, known bool) []byte {
	if n == 0 && !known {
		return dst
	}
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// The results of Verify.
const (
	SealValid    = "valid"     // the record is as it was recorded, except for Removed
	SealChanged  = "changed"   // the record was changed after it was recorded
	SealOtherKey = "other_key" // the seal is under another trace key: it can't be verified
	SealNone     = "none"      // the record has no seal
)

// Verification is the result of verifying a seal.
type Verification struct {
	Result string `json:"result"` // one of SealValid, SealChanged, SealOtherKey and SealNone
	// Key is the name of the seal's trace key.
	Key string `json:"key,omitempty"`
	// Changed and Removed are the parts of the content known to be changed or removed.
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Verify verifies the seal of a record as a store shows it. The seal covers neither later
// reports nor the deletion of the whole record.
func (s *Sealer) Verify(r *Record) Verification {
	if r.Seal == "" {
		return Verification{Result: SealNone}
	}
	keyName, rest, _ := strings.Cut(r.Seal, ".")
	v := Verification{Result: SealChanged, Key: keyName}
	switch raw, err := hex.DecodeString(keyName); {
	case err != nil || len(raw) != keyNameSize:
		return Verification{Result: SealChanged} // this is no key name
	case keyName != s.keyName:
		v.Result = SealOtherKey
		return v
	}
	end := base64.RawURLEncoding.EncodedLen(sealSize)
	if len(rest) < end {
		return v
	}
	k := s.macs.Get().(*sealing)
	defer k.release(&s.macs)
	r = k.show(r)
	mac, parts := rest[:end], rest[end:]
	var buffer [partHashSize + 2*sealSize]byte
	if subtle.ConstantTimeCompare(k.appendMAC(buffer[:0], r, []byte(parts)), []byte(mac)) == 0 {
		return v
	}
	for i := range contentFields {
		f := &contentFields[i]
		_, sealed, there := strings.Cut(parts, "."+f.Name+"=")
		part := *f.bytes(r)
		switch {
		case there && len(part) == 0:
			v.Removed = append(v.Removed, f.Name)
		case len(part) == 0:
		case !there || !strings.HasPrefix(sealed, string(k.appendHash(buffer[:0], s, f.Name, part))):
			v.Changed = append(v.Changed, f.Name)
		}
	}
	if len(v.Changed) == 0 {
		v.Result = SealValid
	}
	return v
}
