package wire

import (
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// literals are the texts of a conversation in a body: nearly all of a large one. They are
// not parsed. In their place the parser gets marks, so that it neither copies nor
// unescapes them, and Literal finds them in the body. For example,
//
//	{"messages":[{"role":"user","content":"a\nb"}]}
//
// is parsed as the same with "\xff0" as the content, and Literal returns a\nb.
type literals struct {
	list []literal
	text []byte // the body with marks, up to from
	from int    // what of the body is in text
	left int    // literals that nobody has read
	// inside is how many of the open containers hold texts of a conversation.
	inside int
}

// literal is a text in the body, between its quotes.
type literal struct {
	start, end   int
	normal, read bool // normal: as jsontext.Text.Normal returns it
}

// mark begins what stands for a literal. The body is UTF-8, so that no text begins with it.
const mark = 0xff

// enter enters a container within open ones, as the member with a name, or as an element.
func (l *literals) enter(open []byte, name []byte) {
	if l == nil || l.inside != len(open) {
		return
	}
	if n := len(open); n > 0 && open[n-1] == '}' {
		switch string(name) {
		case "messages", "input", "system":
			if n > 1 {
				return
			}
		case "content", "output":
			if n == 1 {
				return
			}
		default:
			return
		}
	}
	l.inside++
}

// leave leaves a container within so many others.
func (l *literals) leave(depth int) {
	if l != nil && l.inside > depth {
		l.inside = depth
	}
}

// takes reports whether the string of a member is a text.
func (l *literals) takes(open []byte, name []byte) bool {
	if l == nil || l.inside != len(open) || len(open) == 0 || open[len(open)-1] != '}' {
		return false
	}
	switch string(name) {
	case "content", "text", "output":
		return len(open) > 1
	case "input", "system":
		return len(open) == 1
	}
	return false
}

// take takes a text of the body out.
func (l *literals) take(body []byte, start, end int, normal bool) {
	l.text = append(append(l.text, body[l.from:start]...), mark)
	l.text = strconv.AppendInt(l.text, int64(len(l.list)), 10)
	l.list = append(l.list, literal{start: start, end: end, normal: normal})
	l.from = end
	l.left++
}

// reset forgets the literals of a body.
func (l *literals) reset() {
	if cap(l.text) > keepBodyBytes {
		l.text = nil
	}
	if cap(l.list) > keepValues {
		l.list = nil
	}
	*l = literals{list: l.list[:0], text: l.text[:0]}
}

// Conversation is Object for a request with a conversation, whose texts Literal reads:
// messages, input and system with their content, output and text.
// Other strings, and texts in other members, are as everywhere. Once all is read, the
// caller asks Unread.
func (r *Request) Conversation() (*fastjson.Object, *Error) { return r.object(!r.plain) }

// Literal returns a string of the body as it stands there, but for escapes of characters
// that need none, see jsontext.Text.
func (r *Request) Literal(v *fastjson.Value) jsontext.Text {
	s := v.GetStringBytes()
	if len(s) == 0 || s[0] != mark {
		return jsontext.Escape(jsontext.View(s))
	}
	i, _ := strconv.Atoi(jsontext.View(s[1:]))
	l := &r.literals.list[i]
	if !l.read {
		l.read = true
		r.literals.left--
	}
	text := jsontext.Text(jsontext.View(r.body[l.start:l.end]))
	if !l.normal {
		text = text.Normal()
		r.size += len(text)
		buffers.Count(len(text))
	}
	return text
}

// Unread reports whether the request has to be read once more, because of an error, which
// may quote a mark, or because a text was read by something else than Literal, which
// would keep the mark. Then Conversation has all texts in their places.
func (r *Request) Unread(failed bool) bool {
	if l := &r.literals; len(l.list) == 0 || l.left == 0 && !failed {
		return false
	}
	r.literals.reset()
	r.plain = true
	return true
}
