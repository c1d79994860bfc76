package cache

import (
	"encoding/binary"

	"github.com/cadenza-gateway/cadenza/trace"
)

// AppendKey appends the part of a key that names a definition: the workspace
// it belongs to, the revision of the snapshot it is from, its kind and its key.
// What the answer depends on beside it follows: the projection of the context
// as the table appends it, and, with AppendText, the values of variables.
//
// With the revision in the key a new snapshot needs no purge, which could not
// be atomic anyway: its answers are new keys and the old ones fade away.
func AppendKey(dst []byte, workspace, revision string, kind trace.Kind, key string) []byte {
	dst = AppendText(dst, workspace)
	dst = AppendText(dst, revision)
	dst = append(dst, byte(kind))
	return AppendText(dst, key)
}

// AppendText appends text with its length before it, so that no two sequences
// of texts make the same key.
func AppendText[T string | []byte](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}
