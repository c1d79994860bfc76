package invoke

import (
	"hash/maphash"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// longestWord is the length of the longest word whose tokens are remembered, in bytes.
// The number of its tokens, of a byte at least, fits into a byte.
const longestWord = 128

// words caches the number of tokens of words by their hashes: the tokenizer takes a
// microsecond for a word, and most words come again. An entry is a hash with the number
// in its last byte, or 0. It holds no text. Of two words with the same place the later
// one stays.
var (
	words     [1 << 14]atomic.Uint64
	wordsSeed = maphash.MakeSeed()
)

// countWords returns the tokens of a text. It counts words apart, at which the tokenizer
// would part the text too, so the sum is the same. For example, "to be,  or\nnot" is
// "to", " be,", "  or\n" and "not".
func countWords(text string) (tokens int64) {
	begin := 0
	for i := 1; i < len(text); i++ {
		if wordBegins(text, i) {
			tokens += countWord(text[begin:i])
			begin = i
		}
	}
	return tokens + countWord(text[begin:])
}

// wordBegins reports whether a word begins at a place of a text: at a space that no
// white space is before, and after a line break that none follows.
func wordBegins(text string, i int) bool {
	switch before := text[i-1]; {
	case before == '\n' || before == '\r':
		b := text[i]
		return b < utf8.RuneSelf && b > ' ' && b != 0x7f
	case text[i] != ' ':
		return false
	case before < utf8.RuneSelf:
		return before != ' ' && before != '\t' && before != '\v' && before != '\f'
	}
	r, _ := utf8.DecodeLastRuneInString(text[:i])
	return !unicode.IsSpace(r)
}

func countWord(word string) int64 {
	if len(word) > longestWord {
		return tokenize(word)
	}
	hash := maphash.String(wordsSeed, word)
	entry := &words[hash>>(64-14)]
	if cached := entry.Load(); cached&^0xff == hash&^0xff && cached&0xff != 0 {
		return int64(cached & 0xff)
	}
	tokens := tokenize(word)
	entry.Store(hash&^0xff | uint64(tokens))
	return tokens
}

// tokenize returns the tokens of a text by the tokenizer. That returns no error: it has
// no limit of time, and takes any bytes.
func tokenize(text string) int64 {
	tokens, _ := cl100k().Count(text)
	return int64(tokens)
}
