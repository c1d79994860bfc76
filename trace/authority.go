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

// MinKeyLength is the least length of a trace key, in bytes.
const MinKeyLength = 16

// checkKeyInfo keeps the derived key apart from any other use of the trace key.
const checkKeyInfo = "cadenza trace id check v1\x00"

// Authority makes and verifies the trace ids of one workspace. Authorities of
// the same trace key and workspace verify each other's ids, on any node. The ids
// of another workspace are forgeries to them.
//
// An id's check is the first 32 bits of the AES-128 encryption of the rest of
// the id (its check taken as zero), under a key that HKDF-SHA256 (RFC 5869)
// derives from the trace key and the workspace's name. A guess is right once in
// 2^32 tries.
type Authority struct {
	block   cipher.Block
	scratch sync.Pool // *ID: what is given to block escapes

	mu      sync.Mutex
	millis  int64  // of the last id: ids ascend even when the clock does not
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

// New returns the id of a trace of the time now. It may be called concurrently.
// Ids never descend: when the clock stops or goes back, they keep the latest time
// seen until the clock has passed it.
//
// The counter starts at random in each millisecond. It makes ids differ, and two
// ids do not say how many were made between them. Ids that two nodes make in one
// millisecond are equal once in 2^39 pairs of one kind.
func (a *Authority) New(kind Kind, now time.Time) ID {
	millis, counter := a.reserve(now, 1)
	return a.sign(newID(millis, kind&0b111, counter))
}

// reserve takes n successive counters, of which it returns the first.
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

// sign completes an id with its check.
func (a *Authority) sign(id ID) ID {
	binary.BigEndian.PutUint32(id[12:], a.check(id))
	return id
}

// Verify reports whether the workspace made id, and of which kind its trace is.
// It takes the same time for every forgery. The id of a decision is none of a
// trace: see [Authority.VerifyDecision].
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
