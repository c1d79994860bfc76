package cache

import (
	"encoding/binary"

	"github.com/cadenza-gateway/cadenza/trace"
)

// AppendKey appends the part of a key that names a definition: its workspace, the
// revision of its snapshot, its kind and its key. The caller appends the other
// values on which the answer depends: the fields of the context that the table
// reads (rules.Table.AppendKey), and, with AppendText, the values of variables.
//
// As the revision is part of the key, a new snapshot has new keys: the entries of
// the old one need not be deleted, and are evicted in time.
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
