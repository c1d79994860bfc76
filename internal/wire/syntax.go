package wire

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Ceilings of a request's JSON, in addition to its size in bytes.
const (
	// maxDepth is the nesting that fastjson parses; a value inside n
	// containers has depth n+1.
	maxDepth = 300
	// maxValues bounds the memory of a parsed body: fastjson takes 80 bytes
	// or more for each value, so 1 MiB of "0,0,0…" would become 100 MiB.
	maxValues = 100_000
)

// syntaxError describes a mistake in a text and its place.
type syntaxError struct {
	offset  int
	problem string
	// limit reports whether the text exceeds a ceiling. It may be JSON then.
	limit bool
}

// checkSyntax reads b once, front to back, and reports whether it is one JSON text
// (RFC 8259) within the ceilings, with every number finite as a float64 and every
// string free of raw control characters. It returns the number of values in b. b must
// be valid UTF-8.
//
// It runs before fastjson's Parse for three reasons. Parse accepts texts that are not
// JSON (NaN, 01, raw control characters). The strict Validate does not bound the
// depth. And each of the two quotes the remaining text in an error that every level
// of nesting copies, which takes a second of CPU for 1 MiB.
//
// An escape of half a surrogate pair, which no UTF-8 text can hold, is overwritten
// with the escape of U+FFFD. encoding/json reads it the same way, while fastjson
// would take the escape for literal text.
//
// cut, unless it is nil, takes the texts of a conversation out.
func checkSyntax(b []byte, cut *literals) (values int, err *syntaxError) {
	var open [maxDepth]byte
	var name []byte // of the member
	depth := 0
	i := skipSpace(b, 0)
	expectKey := false
	for {
		if expectKey {
			if i == len(b) || b[i] != '"' {
				return values, unexpected(b, i, "a member's name in double quotes")
			}
			from := i + 1
			if i, _, err = checkString(b, i); err != nil {
				return values, err
			}
			name = b[from : i-1]
			i = skipSpace(b, i)
			if i == len(b) || b[i] != ':' {
				return values, unexpected(b, i, "':' after a member's name")
			}
			i = skipSpace(b, i+1)
			expectKey = false
		}

		values++
		if values > maxValues {
			return values, &syntaxError{offset: i, problem: "more than " + strconv.Itoa(maxValues) + " values", limit: true}
		}
		if depth == maxDepth {
			return values, &syntaxError{offset: i, problem: "nested deeper than " + strconv.Itoa(maxDepth) + " levels", limit: true}
		}
		if i == len(b) {
			return values, unexpected(b, i, "a value")
		}
		switch c := b[i]; {
		case c == '{':
			i = skipSpace(b, i+1)
			if i == len(b) || b[i] != '}' {
				cut.enter(open[:depth], name)
				open[depth] = '}'
				depth++
				expectKey = true
				continue
			}
			i++
		case c == '[':
			i = skipSpace(b, i+1)
			if i == len(b) || b[i] != ']' {
				cut.enter(open[:depth], name)
				open[depth] = ']'
				depth++
				continue
			}
			i++
		case c == '"':
			from, normal := i+1, false
			if i, normal, err = checkString(b, i); err == nil && cut.takes(open[:depth], name) {
				cut.take(b, from, i-1, normal)
			}
		case c == '-' || c >= '0' && c <= '9':
			i, err = checkNumber(b, i)
		case strings.HasPrefix(jsontext.View(b[i:]), "true"), strings.HasPrefix(jsontext.View(b[i:]), "null"):
			i += 4
		case strings.HasPrefix(jsontext.View(b[i:]), "false"):
			i += 5
		default:
			err = unexpected(b, i, "a value")
		}
		if err != nil {
			return values, err
		}

		// A value has ended. Close the containers that end with it, up to the
		// next comma.
		for {
			i = skipSpace(b, i)
			if depth == 0 {
				if i < len(b) {
					return values, unexpected(b, i, "nothing after the end of the JSON text")
				}
				return values, nil
			}
			closing := open[depth-1]
			if i < len(b) && b[i] == closing {
				depth--
				cut.leave(depth)
				i++
				continue
			}
			if i == len(b) || b[i] != ',' {
				return values, unexpected(b, i, "',' or '"+string(closing)+"'")
			}
			i = skipSpace(b, i+1)
			expectKey = closing == '}'
			break
		}
	}
}

// checkString checks the string whose opening quote is at i and returns the
// index after its closing quote. normal reports that only characters that need it are
// escaped.
func checkString(b []byte, i int) (end int, normal bool, err *syntaxError) {
	normal = true
	for i = skipPlain(b, i+1); i < len(b); i = skipPlain(b, i) {
		switch b[i] {
		case '"':
			return i + 1, normal, nil
		case '\\':
			i++
		default:
			return i, normal, &syntaxError{offset: i, problem: "control characters must be escaped inside a string"}
		}
		if i == len(b) {
			return i, normal, unexpected(b, i, "the rest of an escape")
		}
		switch c := b[i]; {
		case shortEscapes[c]:
			i++
		case c == '/':
			i, normal = i+1, false
		case c == 'u':
			end, err := checkUnicodeEscape(b, i)
			if err != nil {
				return i, normal, err
			}
			normal = normal && b[i+1] == '0' && b[i+2] == '0' && b[i+3] < '2' // control characters
			i = end
		default:
			return i, normal, &syntaxError{offset: i - 1, problem: "there is no such escape in JSON"}
		}
	}
	return i, normal, unexpected(b, i, "the closing '\"' of a string")
}

// shortEscapes marks what follows the backslash of most escapes. A switch would guess
// wrong at most of them.
var shortEscapes = [256]bool{'"': true, '\\': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// skipPlain returns the index of the first byte from i on that ends a string, begins an
// escape or is a control character, or len(b). It reads 32 bytes at a time, and chooses
// among them without a branch: where the next escape is nothing foretells.
func skipPlain(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		c := b[i : i+32 : i+32]
		w, x := special(binary.LittleEndian.Uint64(c)), special(binary.LittleEndian.Uint64(c[8:]))
		y, z := special(binary.LittleEndian.Uint64(c[16:])), special(binary.LittleEndian.Uint64(c[24:]))
		if w|x|y|z == 0 {
			continue
		}
		at := 24
		if y != 0 {
			z, at = y, 16
		}
		if x != 0 {
			z, at = x, 8
		}
		if w != 0 {
			z, at = w, 0
		}
		return i + at + bits.TrailingZeros64(z)/8
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// special sets the highest bit of the first byte of x that skipPlain looks for. The bits
// of those behind it mean nothing: a borrow may set them.
func special(x uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// A quote changes places with a blank, so that it is below '!' like control characters.
	quotes, backslashes := x^('"'^' ')*ones, x^'\\'*ones
	return ((quotes - '!'*ones) | (backslashes - ones)) &^ x & highs
}

// checkUnicodeEscape checks the escape whose 'u' is at i, with its second half
// if it is a surrogate pair, and returns the index after it.
func checkUnicodeEscape(b []byte, i int) (int, *syntaxError) {
	r, ok := hex4(b, i+1)
	if !ok {
		return i, &syntaxError{offset: i - 1, problem: `\u must be followed by four hexadecimal digits`}
	}
	if r < 0xD800 || r > 0xDFFF {
		return i + 5, nil
	}
	if r < 0xDC00 && i+6 < len(b) && b[i+5] == '\\' && b[i+6] == 'u' {
		if low, ok := hex4(b, i+7); ok && low >= 0xDC00 && low <= 0xDFFF {
			return i + 11, nil
		}
	}
	copy(b[i+1:i+5], "fffd")
	return i + 5, nil
}

func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// checkNumber checks the number that begins at i and returns the index after
// it.
func checkNumber(b []byte, i int) (int, *syntaxError) {
	start := i
	if b[i] == '-' {
		i++
	}
	switch {
	case i == len(b) || b[i] < '0' || b[i] > '9':
		return i, unexpected(b, i, "a digit")
	case b[i] == '0':
		i++
		if i < len(b) && b[i] >= '0' && b[i] <= '9' {
			return i, &syntaxError{offset: start, problem: "a number must not begin with 0"}
		}
	default:
		i = skipDigits(b, i)
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = skipDigits(b, fraction); i == fraction {
			return i, unexpected(b, i, "a digit after the decimal point")
		}
	}
	exponent := i < len(b) && b[i]|0x20 == 'e'
	if exponent {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		digits := i
		if i = skipDigits(b, digits); i == digits {
			return i, unexpected(b, i, "a digit in the exponent")
		}
	}
	// Without an exponent a number needs over 300 digits to leave float64's range.
	if exponent || i-start > 300 {
		if _, err := strconv.ParseFloat(jsontext.View(b[start:i]), 64); err != nil {
			return i, &syntaxError{offset: start, problem: "the number is too large for a 64-bit float"}
		}
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// unexpected reports the character at i instead of want.
func unexpected(b []byte, i int, want string) *syntaxError {
	found := "the end"
	if i < len(b) {
		r, _ := utf8.DecodeRune(b[i:])
		found = strconv.QuoteRune(r)
	}
	return &syntaxError{offset: i, problem: "expected " + want + ", found " + found}
}
