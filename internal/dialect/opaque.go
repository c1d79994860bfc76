package dialect

import (
	"encoding/base64"
	"strings"
	"unsafe"
)

// sealed begins each sealed text: version 1.
const sealed = "cdz1_"

// Seal returns a provider's opaque data as callers get it: with the target that made
// it, to which the next call goes. origin is the target's String. It is no secret and
// no proof: an origin that is no target of the endpoint has no effect.
//
// The form is cdz1_ and, in base64url without padding, the origin, a NUL and the data.
func Seal(origin, opaque string) string {
	if opaque == "" {
		return ""
	}
	return sealed + base64.RawURLEncoding.EncodeToString([]byte(origin+"\x00"+opaque))
}

// Unseal returns what Seal has sealed. ok is false for any other text, such as the
// data that a provider gave a caller without the gateway.
func Unseal(text string) (origin, opaque string, ok bool) {
	rest, ok := strings.CutPrefix(text, sealed)
	if !ok {
		return "", "", false
	}
	data, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return "", "", false
	}
	// Nothing else has data, which may be megabytes.
	return strings.Cut(unsafe.String(unsafe.SliceData(data), len(data)), "\x00")
}
