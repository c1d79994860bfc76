package wire

import "unsafe"

// view returns b as a string without a copy. The string is valid only while b does
// not change.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
