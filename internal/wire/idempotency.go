package wire

import "net/http"

// maxIdempotencyKey is the length in bytes that an idempotency key may have.
const maxIdempotencyKey = 255

// IdempotencyKey returns the request's idempotency key, empty where it has none. A
// key is 1 to 255 visible ASCII characters. None of them has a meaning, not even
// quotes.
func IdempotencyKey(h http.Header) (string, *Error) {
	values := h[HeaderIdempotencyKey]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", Errorf(InvalidRequest, HeaderIdempotencyKey, "There are %d %s headers. Send one.", len(values), HeaderIdempotencyKey)
	case !isIdempotencyKey(values[0]):
		return "", Errorf(InvalidRequest, HeaderIdempotencyKey, "The %s must be 1 to %d visible ASCII characters, without spaces. A random UUID is a good one.", HeaderIdempotencyKey, maxIdempotencyKey)
	}
	return values[0], nil
}

func isIdempotencyKey(key string) bool {
	if key == "" || len(key) > maxIdempotencyKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}
