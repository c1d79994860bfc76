package jsontext

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/valyala/fastjson"
)

// Text is a text as it is inside a JSON string: valid UTF-8, escaped, without quotes
// around it. So a text of a request goes into the provider's request, and into the
// record, without being unescaped and escaped again. A constant without quotes,
// backslashes and control characters is its own Text; others are made by Escape.
type Text string

// Escape returns a text as AppendEscaped writes it. It copies nothing where nothing has
// to be escaped.
func Escape(text string) Text {
	size := EscapedLen(text)
	if size == len(text) {
		return Text(text)
	}
	b := AppendEscaped(make([]byte, 0, size), text)
	return Text(unsafe.String(unsafe.SliceData(b), len(b)))
}

// Plain returns the text without escapes. It copies the text only if there are any.
func (t Text) Plain() string {
	if strings.IndexByte(string(t), '\\') < 0 {
		return string(t)
	}
	v, err := fastjson.Parse(`"` + string(t) + `"`)
	if err != nil {
		return string(t)
	}
	return string(v.GetStringBytes())
}

// Blank reports whether the text has white space alone.
func (t Text) Blank() bool {
	if t != "" && t[0] > ' ' && t[0] < utf8.RuneSelf && t[0] != '\\' {
		return false // as most texts begin
	}
	return strings.TrimSpace(t.Plain()) == ""
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return t.Append(nil), nil }

// Append appends the text as a JSON string with its quotes.
func (t Text) Append(dst []byte) []byte {
	return append(append(append(dst, '"'), t...), '"')
}
