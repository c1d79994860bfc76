package wire

import (
	"unicode/utf8"
	"unsafe"

	"github.com/valyala/fastjson"
)

const hexDigits = "0123456789abcdef"

// plain marks the ASCII bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string, quotes included. The result is
// valid UTF-8 whatever s holds: invalid bytes become U+FFFD. U+2028 and
// U+2029 are escaped, so that the text is valid JavaScript too.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			case r == '\u2028':
				dst = append(append(dst, s[start:i]...), `\u2028`...)
			case r == '\u2029':
				dst = append(append(dst, s[start:i]...), `\u2029`...)
			default:
				i += size
				continue
			}
			i += size
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
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
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// AppendValue appends v as compact JSON: no white space, strings escaped the
// one way AppendString does, numbers and the order of members as they were
// sent. v must come from a Request of this package; nil is null.
//
// fastjson's own MarshalTo is not used because it repeats unread strings as
// they were sent and writes read ones with Go's escapes, which are not JSON's.
func AppendValue(dst []byte, v *fastjson.Value) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	switch v.Type() {
	case fastjson.TypeObject:
		dst = append(dst, '{')
		first := true
		v.GetObject().Visit(func(key []byte, member *fastjson.Value) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = AppendString(dst, view(key))
			dst = append(dst, ':')
			dst = AppendValue(dst, member)
		})
		return append(dst, '}')
	case fastjson.TypeArray:
		dst = append(dst, '[')
		for i, element := range v.GetArray() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendValue(dst, element)
		}
		return append(dst, ']')
	case fastjson.TypeString:
		return AppendString(dst, view(v.GetStringBytes()))
	default:
		// Numbers, true, false and null have one spelling: their own.
		return v.MarshalTo(dst)
	}
}

// view is b as a string without a copy. It holds only as long as b is left
// alone.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
