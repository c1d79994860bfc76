package wire

import "net/http"

// maxIdempotencyKey is the length in bytes that an idempotency key may have.
const maxIdempotencyKey = 255

// IdempotencyKey returns the request's idempotency key
// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/),
// or an empty string. A key is 1 to 255 visible ASCII characters. None of them has
// a meaning, not even quotes.
func IdempotencyKey(h http.Header) (string, *Error) {
	values := h[HeaderIdempotencyKey]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", Errorf(InvalidRequest, HeaderIdempotencyKey, "There are %d %s headers. Send one.", len(values), HeaderIdempotencyKey)
	case values[0] == "" || len(values[0]) > maxIdempotencyKey || !visibleASCII(values[0]):
		return "", Errorf(InvalidRequest, HeaderIdempotencyKey, "The %s must be 1 to %d visible ASCII characters, without spaces. A random UUID is a good one.", HeaderIdempotencyKey, maxIdempotencyKey)
	}
	return values[0], nil
}
