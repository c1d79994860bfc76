package redact

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strings"
)

const (
	// minValue is the least length of a value that is searched for, in bytes.
	// Shorter ones occur in other words.
	minValue = 8
	// minWord is the least length of a value of small letters alone. Shorter ones
	// are words, which occur in texts.
	minWord = 16
	// maxWindow bounds the bytes of a value that decide the places where one
	// may be.
	maxWindow = 32
	// pairBits is the size of the table of pairs of bytes.
	pairBits = 12
)

// Values finds known secrets everywhere in a text: within words, in JSON text and in
// URLs, where some of their characters are escaped. It is immutable. The nil
// pointer finds none.
type Values struct {
	forms []form
	// The search of Wu and Manber: the last two of window bytes of text say how far
	// the next place is at which a value may begin; 0 is this place. So most of a
	// text is skipped. For example, where window is 4 and no value has the pair
	// "xy" in its first 4 bytes, a window that ends with "xy" is skipped by 3.
	window int
	shift  [1 << pairBits]uint8
	first  [1 << pairBits]uint16 // of the forms whose window ends with the pair, plus one
	next   []uint16              // of each form, plus one
}

// form is one way to write a value.
type form struct {
	text string
	// bare reports whether the text has a character that is always escaped in
	// strings of JSON, so that it occurs in none.
	bare bool
	// escapes reports whether it has a backslash.
	escapes bool
	// number reports whether it may be a number.
	number bool
}

// CanBeFound reports whether a value is searched for. Values that are short or a plain
// word are not, because they occur in all kinds of texts.
func CanBeFound(value string) bool {
	return len(value) >= minWord || len(value) >= minValue && stretch([]byte(value), lower) < len(value)
}

// NewValues returns the search for values, or nil where none of them can be found.
func NewValues(values []string) *Values {
	v := &Values{window: maxWindow}
	for _, value := range values {
		if CanBeFound(value) {
			v.add(value)
		}
	}
	if len(v.forms) == 0 {
		return nil
	}
	// The table holds no more. Escaped forms come after their values.
	v.forms = v.forms[:min(len(v.forms), math.MaxUint16)]
	for _, f := range v.forms {
		v.window = min(v.window, len(f.text))
	}
	for i := range v.shift {
		v.shift[i] = uint8(v.window - 1)
	}
	v.next = make([]uint16, len(v.forms))
	for n, f := range v.forms {
		for i := range v.window - 1 {
			p := pair(f.text[i], f.text[i+1])
			v.shift[p] = min(v.shift[p], uint8(v.window-2-i))
		}
		p := pair(f.text[v.window-2], f.text[v.window-1])
		v.next[n], v.first[p] = v.first[p], uint16(n+1)
	}
	return v
}

func pair(a, b byte) int { return (int(a)<<4 ^ int(b)) & (1<<pairBits - 1) }

// add adds a value in the forms that it may have.
func (v *Values) add(value string) {
	begin := len(v.forms)
	once, html := escaped(value, false), escaped(value, true)
	for _, text := range [...]string{
		value,
		once, html, // as JSON has it
		escaped(once, false), escaped(html, false), // and JSON in JSON
		url.PathEscape(value), url.QueryEscape(value),
		strings.TrimPrefix(url.UserPassword("", value).String(), ":"),
	} {
		if !slices.ContainsFunc(v.forms[begin:], func(f form) bool { return f.text == text }) {
			v.forms = append(v.forms, form{
				text:    text,
				bare:    text == value && once != value,
				escapes: strings.Contains(text, `\`),
				number:  strings.Trim(text, "0123456789+-.eE") == "",
			})
		}
	}
}

// escaped returns a text as it is in a string of JSON.
func escaped(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(text) // of a string it does not fail
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// find returns the next offset, from at on, of a form, and the longest form
// there. A start below 0 means that there is none.
func (v *Values) find(text []byte, at int, isJSON bool) (start int, found *form) {
	for i := at + v.window - 2; i+1 < len(text); {
		p := pair(text[i], text[i+1])
		if s := v.shift[p]; s > 0 {
			i += int(s)
			continue
		}
		start := i - (v.window - 2)
		for n := v.first[p]; n > 0; n = v.next[n-1] {
			f := &v.forms[n-1]
			if (found == nil || len(f.text) > len(found.text)) && !(isJSON && f.bare) &&
				len(text)-start >= len(f.text) && string(text[start:start+len(f.text)]) == f.text {
				found = f
			}
		}
		if found != nil {
			return start, found
		}
		i++
	}
	return -1, nil
}

// Replace replaces the values in a text that is not JSON.
func (v *Values) Replace(text, with string) string {
	if v == nil {
		return text
	}
	f := finder{text: []byte(text)}
	f.findValues(v)
	if len(f.spans) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for _, s := range f.spans {
		b.WriteString(text[done:s.start])
		b.WriteString(with)
		done = s.end
	}
	b.WriteString(text[done:])
	return b.String()
}

// findValues finds the known values. Overlapping ones become one finding.
func (f *finder) findValues(v *Values) {
	if v == nil {
		return
	}
	begin := len(f.spans)
	var where place
	for at := 0; ; {
		start, found := v.find(f.text, at, f.isJSON)
		if start < 0 {
			return
		}
		at = start + 1
		end := start + len(found.text)
		if f.isJSON {
			if !found.number && where.outside(f.text, start) {
				continue // it is JSON's own text
			}
			// A match that begins within an escape is another text. It is
			// replaced too, because it may be the value in a text within
			// this one.
			if out := outOfEscape(f.text, start); out > start {
				if found.escapes {
					continue
				}
				start = out
			}
		}
		if n := len(f.spans); n > begin && start <= f.spans[n-1].end {
			f.spans[n-1].end = max(f.spans[n-1].end, end)
		} else if start < end {
			f.add(start, end, "secret")
		}
	}
}

// outOfEscape moves start past the escape of JSON that it is within, if any.
func outOfEscape(text []byte, start int) int {
	for n := 1; n <= 5 && n <= start; n++ {
		if i := start - n; text[i] == '\\' && backslashes(text, i+1)%2 == 1 {
			return max(start, i+1+escapeLength(text[i+1:]))
		}
	}
	return start
}
