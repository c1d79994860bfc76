package upstream

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// Services cut texts at UTF-16 units, so that half a character (a surrogate,
// such as \ud83d) may be at a delta's end and its other half at the beginning of
// the next one. A half has no UTF-8. Between Parse and the place where texts
// are joined it is written as UTF-8 would write its number, in three bytes that
// no text holds otherwise: ED A0 80 to ED AF BF for the first half, ED B0 80 to
// ED BF BF for the second one.

// halfSize is the size of a half, in bytes.
const halfSize = 3

// replacement is written in place of invalid characters.
const replacement = "\ufffd"

var errEscape = errors.New("a bad escape in a JSON string")

// soundEscapes checks the escapes of JSON's strings, of which fastjson leaves
// escapes that it does not understand as they are. Halves at the edges of a
// string are kept for AppendText and Lookahead; others become U+FFFD. It returns
// data itself if there is nothing to replace.
func soundEscapes(data []byte) ([]byte, error) {
	var sound []byte
	from := 0  // data before it is in sound
	last := -1 // where the escape before ended
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\\')
		if n < 0 {
			break
		}
		i += n
		unit, size := escape(data[i:])
		if size == 0 {
			return nil, errEscape
		}
		if !utf16.IsSurrogate(unit) {
			i += size
			last = i
			continue
		}
		if r, second := escape(data[i+size:]); second > 2 && utf16.DecodeRune(unit, r) != utf8.RuneError {
			i += size + second
			last = i
			continue
		}
		sound = append(sound, data[from:i]...)
		begins, ends := i != last && i > 0 && data[i-1] == '"', i+size < len(data) && data[i+size] == '"'
		if first := unit < 0xdc00; first && ends || !first && begins {
			sound = append(sound, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
		} else {
			sound = append(sound, replacement...)
		}
		i += size
		from, last = i, i
	}
	if from == 0 {
		return data, nil
	}
	return append(sound, data[from:]...), nil
}

// escape reads the escape that text begins with. Its size is 0 if JSON has no
// such escape, and above 2 if it stands for a UTF-16 unit.
func escape(text []byte) (unit rune, size int) {
	if len(text) < 2 || text[0] != '\\' {
		return 0, 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 0, 2
	case 'u':
	default:
		return 0, 0
	}
	if len(text) < 6 {
		return 0, 0
	}
	for _, c := range text[2:6] {
		unit <<= 4
		switch {
		case '0' <= c && c <= '9':
			unit |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit |= rune(c|0x20-'a') + 10
		default:
			return 0, 0
		}
	}
	return unit, 6
}

// AppendText appends a piece of a text to the pieces before it. Where these end
// in one half of a character and the piece begins with the other one, they
// become the character. A half at the edge of all pieces is left as it is.
func AppendText[T []byte | string](text []byte, piece T) []byte {
	if len(text) == 0 || len(piece) == 0 {
		return append(text, piece...)
	}
	first, second := firstHalf(text), secondHalf(piece)
	if first == 0 && second == 0 {
		return append(text, piece...)
	}
	if first != 0 {
		text = text[:len(text)-halfSize]
	}
	r := rune(utf8.RuneError)
	if second != 0 {
		piece = piece[halfSize:]
		if first != 0 {
			r = utf16.DecodeRune(first, second)
		}
	}
	return append(utf8.AppendRune(text, r), piece...)
}

// firstHalf is the first half of a character at the end of text, else 0.
func firstHalf[T []byte | string](text T) rune {
	if n := len(text); n >= halfSize && text[n-3] == 0xed && text[n-2]&0xf0 == 0xa0 && text[n-1]&0xc0 == 0x80 {
		return half(text[n-2], text[n-1])
	}
	return 0
}

// secondHalf is the second half of a character at the beginning of text, else 0.
func secondHalf[T []byte | string](text T) rune {
	if len(text) >= halfSize && text[0] == 0xed && text[1]&0xf0 == 0xb0 && text[2]&0xc0 == 0x80 {
		return half(text[1], text[2])
	}
	return 0
}

func half(b, c byte) rune { return 0xd000 | rune(b&0x3f)<<6 | rune(c&0x3f) }

// halfRune returns how many bytes at the end of text are the beginning of a character:
// of one in UTF-8, or the first half of one.
func halfRune(text []byte) int {
	if firstHalf(text) != 0 {
		return halfSize
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(text[len(text)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// halves joins the characters that are split between the deltas of an answer.
// Its zero value is ready for use.
type halves struct {
	held [halfSize]byte // the first half at the end of the delta before
	some bool           // there is one
}

// join makes a delta's text whole: the held half goes before it, and a first
// half at its end is held.
func (h *halves) join(text string) string {
	if text == "" || !h.some && firstHalf(text) == 0 && secondHalf(text) == 0 {
		return text
	}
	var joined []byte
	switch {
	case h.some:
		joined = AppendText(append(joined, h.held[:]...), text)
		h.some = false
	case secondHalf(text) != 0:
		joined = append(append(joined, replacement...), text[halfSize:]...)
	default:
		joined = append(joined, text...)
	}
	if firstHalf(joined) != 0 {
		end := len(joined) - halfSize
		h.held, h.some = [halfSize]byte(joined[end:]), true
		joined = joined[:end]
	}
	return string(joined)
}

// rest returns the half that is left at the end of the answer, as nothing
// followed.
func (h *halves) rest() string {
	if !h.some {
		return ""
	}
	h.some = false
	return replacement
}
