// Package jsontext writes JSON text where encoding/json would allocate, or would
// write escapes that only HTML needs.
package jsontext

import (
	"math/bits"
	"unicode/utf8"
)

// plain holds which bytes need no escape in a JSON string. Bytes above ASCII are
// decoded to characters first.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// AppendString appends text as a JSON string with its quotes. The result is always
// valid UTF-8.
func AppendString[T []byte | string](dst []byte, text T) []byte {
	return append(AppendEscaped(append(dst, '"'), text), '"')
}

// AppendEscaped appends text as the inside of a JSON string (RFC 8259, section
// 7), without the quotes around it. Control characters and the line separators
// U+2028 and U+2029, which JavaScript once took for line ends, are escaped;
// bytes that are not UTF-8 become U+FFFD.
func AppendEscaped[T []byte | string](dst []byte, text T) []byte {
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if plain[c] {
			if i++; i-start >= longRun && len(text)-i >= 8 {
				i = pastPlain(text, i)
			}
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := decodeRune(text[i:])
			if (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
			dst = append(dst, text[start:i]...)
			switch r {
			case '\u2028':
				dst = append(dst, `\u2028`...)
			case '\u2029':
				dst = append(dst, `\u2029`...)
			default:
				dst = append(dst, "\uFFFD"...)
			}
			i += size
			start = i
			continue
		}
		dst = append(dst, text[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(dst, text[start:]...)
}

// EscapedLen returns how many bytes AppendEscaped appends.
func EscapedLen[T []byte | string](text T) int {
	n := len(text)
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if plain[c] {
			if i++; i-start >= longRun && len(text)-i >= 8 {
				i = pastPlain(text, i)
			}
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := decodeRune(text[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				n += len("\uFFFD") - 1
			case r == '\u2028' || r == '\u2029':
				n += len(`\u2028`) - size
			}
			i += size
			continue
		}
		switch c {
		case '"', '\\', '\n', '\r', '\t':
			n++
		default:
			n += len(`\u0000`) - 1
		}
		i++
		start = i
	}
	return n
}

// longRun is after how many bytes without an escape a text is looked at by eights: where
// escapes are close together that costs more than it saves.
const longRun = 16

// pastPlain returns where the first byte from i on is that may need an escape: most
// texts have few of them, and images in base64 have none. It looks at eight bytes at a
// time, the last seven it leaves to its caller.
func pastPlain[T []byte | string](text T, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		b := text[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// The high bit of a byte is set where the byte is above ASCII, or where taking
		// something from it borrowed: it was less than a blank, or zero after a quote, a
		// backslash or DEL was taken out of it. A borrow may reach the bytes behind, never
		// those before, so the first one that is set is right.
		quote, backslash, del := x^ones*'"', x^ones*'\\', x^ones*0x7f
		if special := (x | (x - ones*' ') | (quote - ones) | (backslash - ones) | (del - ones)) & highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	return i
}

// decodeRune decodes the first character of a string or byte slice without copying
// the text.
func decodeRune[T []byte | string](text T) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], text[:min(len(text), utf8.UTFMax)])])
}
