package trace

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// MinKeyLength is the minimum length of a trace key, in bytes.
const MinKeyLength = 16

// checkKeyInfo separates the derived key from other uses of the trace key.
const checkKeyInfo = "cadenza trace id check v1\x00"

// Authority makes and verifies the trace ids of one workspace. Authorities with
// the same trace key and workspace verify each other's ids, on any node. They
// reject the ids of other workspaces.
//
// An id's check is the first 32 bits of the AES-128 encryption of the id with a
// check of zero, under a key that HKDF-SHA256 derives from the trace key and the
// workspace's name: https://www.rfc-editor.org/rfc/rfc5869. A guess is right once
// in 2^32 tries.
type Authority struct {
	block   cipher.Block
	scratch sync.Pool // *ID: arguments of block escape to the heap

	mu      sync.Mutex
	millis  int64  // of the last id: ids ascend even if the clock does not
	counter uint64 // of the last id
}

// NewAuthority returns the authority of a workspace.
func NewAuthority(traceKey []byte, workspace string) (*Authority, error) {
	if len(traceKey) < MinKeyLength {
		return nil, fmt.Errorf("the trace key must have at least %d bytes, it has %d", MinKeyLength, len(traceKey))
	}
	if workspace == "" {
		return nil, errors.New("trace ids need the name of a workspace")
	}
	key, err := hkdf.Key(sha256.New, traceKey, nil, checkKeyInfo+workspace, 16)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of trace ids: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of trace ids: %w", err)
	}
	return &Authority{
		block:   block,
		scratch: sync.Pool{New: func() any { return new(ID) }},
		millis:  -1, // no id yet
	}, nil
}

// New returns the id of a trace at the time now. It may be called concurrently.
// Ids never descend: if the clock stops or goes back, they keep the latest time
// seen until the clock has passed it.
//
// The counter starts at a random number in each millisecond. It makes ids unique,
// and two ids do not reveal how many were made between them. Two ids of one kind
// that two nodes make in one millisecond are equal with a chance of 1 in 2^39.
func (a *Authority) New(kind Kind, now time.Time) ID {
	millis, counter := a.reserve(now, 1)
	return a.sign(newID(millis, kind&0b111, counter))
}

// reserve reserves n successive counters, and returns the first.
func (a *Authority) reserve(now time.Time, n uint64) (millis int64, first uint64) {
	millis = clampMillis(now.UnixMilli())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counter > counterMask-n {
		millis = max(millis, clampMillis(a.millis+1)) // or the wrapped counter would descend
	}
	if millis > a.millis {
		a.millis, first = millis, min(rand.Uint64()&counterMask, counterMask+1-n)
	} else {
		first = a.counter + 1
	}
	a.counter = first + n - 1
	return a.millis, first
}

// sign sets the check of an id.
func (a *Authority) sign(id ID) ID {
	binary.BigEndian.PutUint32(id[12:], a.check(id))
	return id
}

// Verify reports whether the workspace made id, and returns the kind of its trace.
// It takes the same time for every forgery. It rejects the id of a decision, which
// is no trace id: see [Authority.VerifyDecision].
func (a *Authority) Verify(id ID) (Kind, bool) {
	kind := id.Kind()
	if !a.genuine(id) || !kind.valid() {
		return 0, false
	}
	return kind, true
}

// VerifyDecision reports whether the workspace made id for a decision. It takes
// the same time for every forgery.
func (a *Authority) VerifyDecision(id ID) bool {
	return a.genuine(id) && id.Kind() == KindDecision
}

func (a *Authority) genuine(id ID) bool {
	return subtle.ConstantTimeEq(int32(a.check(id)), int32(binary.BigEndian.Uint32(id[12:]))) == 1 && id.isForm()
}

func (a *Authority) check(id ID) uint32 {
	buffer := a.scratch.Get().(*ID)
	*buffer = id
	clear(buffer[12:])
	a.block.Encrypt(buffer[:], buffer[:])
	sum := binary.BigEndian.Uint32(buffer[:4])
	a.scratch.Put(buffer)
	return sum
}
