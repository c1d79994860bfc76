package prompt

import "github.com/cadenza-gateway/cadenza/internal/jsontext"

// Answer is JSON text with holes for rendered templates, compiled once so that
// an answer is a few copies. Build it with Literal and Template; after that it
// is immutable and safe for concurrent use.
type Answer struct {
	parts []hole
	fixed int   // bytes of literal JSON
	text  int   // bytes of literal text in templates, before they are escaped
	uses  []int // of each variable, by slot
}

// hole is literal JSON followed by an escaped variable, unless slot is negative.
type hole struct {
	json string
	slot int
}

// Literal adds JSON text unchanged.
func (a *Answer) Literal(json string) {
	a.fixed += len(json)
	if n := len(a.parts); n > 0 && a.parts[n-1].slot < 0 {
		a.parts[n-1].json += json
		return
	}
	a.parts = append(a.parts, hole{json, -1})
}

// Template adds a template's text as the inside of a JSON string.
func (a *Answer) Template(t *Template) {
	a.text += t.fixed
	for i := range t.parts {
		a.Literal(t.parts[i].escaped)
		slot := t.parts[i].slot
		a.parts[len(a.parts)-1].slot = slot
		if slot >= 0 {
			if missing := slot + 1 - len(a.uses); missing > 0 {
				a.uses = append(a.uses, make([]int, missing)...)
			}
			a.uses[slot]++
		}
	}
}

// reads reports whether a template reads a variable.
func (a *Answer) reads(slot int) bool { return slot < len(a.uses) && a.uses[slot] > 0 }

// TextSize returns how many bytes all rendered templates have before they are escaped.
// Like Size, it renders nothing.
func (a *Answer) TextSize(v *Values) int {
	n := a.text
	for slot, uses := range a.uses {
		n += uses * len(v.text[slot])
	}
	return n
}

// Size returns how many bytes Append appends. It renders nothing, so a template that
// repeats a variable a thousand times costs no more than one that has it once.
func (a *Answer) Size(v *Values) int {
	n := a.fixed
	for slot, uses := range a.uses {
		if uses > 0 {
			n += uses * v.escapedLen(slot)
		}
	}
	return n
}

// Append appends the answer. The values must be bound to the variables that the
// templates were compiled with.
func (a *Answer) Append(dst []byte, v *Values) []byte {
	for i := range a.parts {
		p := &a.parts[i]
		dst = append(dst, p.json...)
		if p.slot >= 0 {
			dst = jsontext.AppendEscaped(dst, v.text[p.slot])
		}
	}
	return dst
}
