package gateway

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// minTraceKeyBits is the number of bits of a trace key that must be unguessable, by the
// estimate of unguessableBits. An attacker with a few ids can test keys offline, and each
// test is cheap. 16 random bytes are far above this bound in every notation.
const minTraceKeyBits = 40

// checkTraceKey refuses a key that can be guessed. The error does not quote it.
func checkTraceKey(key string) error {
	const mend = "`openssl rand -hex 32` makes a good one"
	if len(key) < trace.MinKeyLength {
		return fmt.Errorf("must have at least %d characters, it has %d: %s", trace.MinKeyLength, len(key), mend)
	}
	if unguessableBits(key) < minTraceKeyBits {
		return fmt.Errorf("can be guessed, it must be random: %s", mend)
	}
	return nil
}

// unguessableBits returns a low estimate of how many bits of a text are
// unguessable. Lower-case letters that may form a word, four or more in a row,
// count 2 bits each. A character that continues a sequence or repeats an earlier part
// counts nothing: in "abcdef" only the first two letters count.
func unguessableBits(text string) (bits float64) {
	for start := 0; start < len(text); {
		kind := kindOfChar(text[start])
		end := start + 1
		for end < len(text) && kindOfChar(text[end]) == kind {
			end++
		}
		each := kind.bits
		if kind.word && end-start >= 4 {
			each = 2
		}
		for i := start; i < end; i++ {
			if !foreseen(text, i) {
				bits += each
			}
		}
		start = end
	}
	return bits
}

// charKind is a class of characters.
type charKind struct {
	bits float64 // of one character
	word bool    // may be part of a word
}

func kindOfChar(c byte) charKind {
	switch {
	case '0' <= c && c <= '9':
		return charKind{bits: 3.3}
	case 'a' <= c && c <= 'z':
		return charKind{bits: 4.7, word: true}
	case 'A' <= c && c <= 'Z':
		return charKind{bits: 4.6}
	case ' ' <= c && c <= '~':
		return charKind{bits: 1} // between words
	}
	return charKind{bits: 7}
}

// foreseen reports whether the character at i follows from those before it: it
// repeats the last one, continues a sequence such as "abc" or "321", or ends three
// characters that the text before already has.
func foreseen(text string, i int) bool {
	if i == 0 {
		return false
	}
	step := int(text[i]) - int(text[i-1])
	if step == 0 {
		return true
	}
	if i == 1 {
		return false
	}
	if (step == 1 || step == -1) && step == int(text[i-1])-int(text[i-2]) {
		return true
	}
	return strings.Contains(text[:i], text[i-2:i+1])
}
