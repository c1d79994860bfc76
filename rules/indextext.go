package rules

import (
	"hash/maphash"
	"math/bits"
)

// textSeed is the seed of all hashes of texts. It differs from process to
// process, so that callers can't choose texts whose hashes collide.
var textSeed = maphash.MakeSeed()

// hashText returns the hash that a binding keeps of a text, made once per request
// and used by every table.
func hashText(s string) uint64 { return maphash.String(textSeed, s) }

// textClasses are the classes of the texts that the cells of a column name: a
// hash table with linear probing, at most half full, that never changes. It is
// used instead of a map because the hash is known already.
type textClasses []textClass

// textClass is a text and its class, or missingClass.
type textClass struct {
	hash  uint64
	text  string
	class uint32
}

func newTextClasses(classes map[string]uint32) textClasses {
	t := make(textClasses, 1<<bits.Len(uint(2*len(classes))))
	for text, class := range classes {
		entry := textClass{hashText(text), text, class}
		i := t.slot(entry.hash)
		for t[i].class != missingClass {
			i = t.slot(i + 1)
		}
		t[i] = entry
	}
	return t
}

// slot returns the index at which a hash belongs.
func (t textClasses) slot(hash uint64) uint64 { return hash & uint64(len(t)-1) }

// find returns the class of a text that has the given hash.
func (t textClasses) find(text string, hash uint64) uint32 {
	for i := t.slot(hash); t[i].class != missingClass; i = t.slot(i + 1) {
		if e := &t[i]; e.hash == hash && e.text == text {
			return e.class
		}
	}
	return otherClass
}
