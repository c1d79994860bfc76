package buffers

import (
	"bytes"
	"slices"
	"sync"
)

const (
	// maxBeginnings bounds the texts that Beginnings keeps, in bytes.
	maxBeginnings = 8 << 20

	// beginningStep is what the lengths of beginnings are multiples of.
	beginningStep = 4 << 10
)

// Beginnings keeps what was computed over the beginnings of texts, such as the state of a
// hash, each by a key: what the state depends on beside the text. A caller sends a whole
// conversation with each turn: what was computed over the turn before is found by comparing
// bytes, at a tenth of the cost of a hash. The texts used last are kept. The zero value is
// ready for use, also concurrently.
type Beginnings[K comparable, S any] struct {
	mu   sync.Mutex
	kept []*Beginning[K, S] // the last used last
	size int
}

// Beginning is the beginning of a text. State belongs to all who found it: don't change it.
type Beginning[K comparable, S any] struct {
	State S
	Size  int // in bytes; 0: nothing is known

	key   K
	text  []byte
	found *Beginning[K, S] // that this is a copy of
}

// Longest returns the longest beginning of a text that was kept with the key.
func (b *Beginnings[K, S]) Longest(key K, text []byte) (longest Beginning[K, S]) {
	if len(text) < Smallest {
		return longest
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.kept {
		if k.Size > longest.Size && k.key == key && k.begins(text) {
			longest = Beginning[K, S]{State: k.State, Size: k.Size, found: k}
		}
	}
	if longest.found != nil {
		b.remove(longest.found)
		b.add(longest.found)
	}
	return longest
}

// begins reports whether text begins so. Others mostly differ in the last bytes.
func (k *Beginning[K, S]) begins(text []byte) bool {
	last := k.Size - 64
	return k.Size <= len(text) && bytes.Equal(text[last:k.Size], k.text[last:]) && bytes.Equal(text[:last], k.text[:last])
}

// Cut returns the length of the beginning of a text that is worth keeping: the last bytes
// of a conversation change with its next turn. It is 0 for a short text.
func Cut(text []byte) int {
	if len(text) < Smallest || len(text) > maxBeginnings {
		return 0
	}
	return (len(text) - 1) / beginningStep * beginningStep
}

// Keep keeps the state of a text. after is the beginning of it that Longest found, which it
// replaces.
func (b *Beginnings[K, S]) Keep(key K, text []byte, after Beginning[K, S], state S) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := after.found
	if k == nil || !slices.Contains(b.kept, k) || k.Size != after.Size { // or somebody went on from it
		if slices.ContainsFunc(b.kept, func(k *Beginning[K, S]) bool { return k.Size == len(text) && k.key == key && k.begins(text) }) {
			return
		}
		k = &Beginning[K, S]{key: key}
	} else {
		b.remove(k)
	}
	k.text = append(k.text, text[len(k.text):]...)
	k.State, k.Size = state, len(text)
	b.add(k)
	for b.size > maxBeginnings {
		b.remove(b.kept[0])
	}
}

func (b *Beginnings[K, S]) add(k *Beginning[K, S]) {
	b.kept = append(b.kept, k)
	b.size += k.Size
}

func (b *Beginnings[K, S]) remove(k *Beginning[K, S]) {
	b.kept = slices.DeleteFunc(b.kept, func(other *Beginning[K, S]) bool { return other == k })
	b.size -= k.Size
}
