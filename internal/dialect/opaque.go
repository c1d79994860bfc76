package dialect

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// sealed begins each sealed text: version 1.
const sealed = "cdz1_"

// sealLength is how many characters the proof of a sealed text has.
const sealLength = 16

// SummaryOrigin is the origin of sealed summaries, which no target is called. Any target
// understands them.
const SummaryOrigin = "*summary"

// Sealer appends a keyed hash of two texts: 16 characters. The one of trace.Hasher is a
// Sealer.
type Sealer func(dst []byte, field, text string) []byte

// proof appends the proof that a target gave data. No field of a data model begins so.
func (s Sealer) proof(dst []byte, origin, opaque string) []byte {
	return s(dst, "\x00sealed\x00"+origin, opaque)
}

// Seal returns a provider's opaque data as callers get it: with the target that made
// it, to which the next call goes, and a proof that the gateway has sealed it, so that no
// caller can choose a target. origin is the target's String.
//
// The form is cdz1_, the proof and, in base64url without padding, the origin, a NUL and
// the data.
func (s Sealer) Seal(origin, opaque string) string {
	if opaque == "" {
		return ""
	}
	text := s.proof([]byte(sealed), origin, opaque)
	return string(base64.RawURLEncoding.AppendEncode(text, []byte(origin+"\x00"+opaque)))
}

// Unseal returns the data that Seal has sealed. ok is false for any other text, such as the
// data that a provider gave a caller without the gateway, one that was made up, and one
// that was sealed under another key.
func (s Sealer) Unseal(text string) (origin, opaque string, ok bool) {
	rest, ok := strings.CutPrefix(text, sealed)
	if !ok || len(rest) < sealLength {
		return "", "", false
	}
	data, err := base64.RawURLEncoding.DecodeString(rest[sealLength:])
	if err != nil {
		return "", "", false
	}
	// Nothing else has data, which may be megabytes.
	origin, opaque, ok = strings.Cut(jsontext.View(data), "\x00")
	var room [sealLength]byte
	if !ok || subtle.ConstantTimeCompare(s.proof(room[:0], origin, opaque), []byte(rest[:sealLength])) == 0 {
		return "", "", false
	}
	return origin, opaque, true
}
