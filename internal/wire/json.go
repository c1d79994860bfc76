package wire

import "unsafe"

// view is b as a string without a copy. It holds only as long as b is left
// alone.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
