package prompt

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Answer is JSON text with holes for rendered templates, compiled once so that
// an answer is a few copies. Build it with Literal and Template; after that it
// is immutable and safe for concurrent use.
type Answer struct {
	parts []hole
	fixed int   // bytes of literal JSON
	text  int   // bytes of literal text in templates, before they are escaped
	uses  []int // of each variable, by slot
	media []int // the ones of them that are no text
	items int   // how many of parts are items
}

// hole is literal JSON followed by an escaped variable, unless slot is negative.
type hole struct {
	json string
	slot int
	// render, unless it is nil, appends the variable in another form.
	render func(dst, text []byte) []byte
	// item, unless it is nil, follows the JSON in place of a variable: an element of a
	// list, which is left out if all its variables are empty, unless always is set.
	item   *Answer
	always bool
}

// Literal adds JSON text unchanged.
func (a *Answer) Literal(json string) {
	a.fixed += len(json)
	if n := len(a.parts); n > 0 && a.parts[n-1].slot < 0 && a.parts[n-1].item == nil {
		a.parts[n-1].json += json
		return
	}
	a.parts = append(a.parts, hole{json: json, slot: -1})
}

// Media adds a variable that is an address or data instead of text of the prompt: as
// the inside of a JSON string, or as render, if not nil, appends it: at most more
// bytes longer than the string.
func (a *Answer) Media(slot int, render func(dst, text []byte) []byte, more int) {
	a.Literal("")
	a.fixed += more
	last := &a.parts[len(a.parts)-1]
	last.slot, last.render = slot, render
	a.uses, a.media = count(a.uses, slot), count(a.media, slot)
}

// Item adds an element of a JSON list, after a comma if elements come before it.
// Unless always is set, it is left out if all variables that it reads are empty.
func (a *Answer) Item(item *Answer, always bool) {
	a.Literal("")
	last := &a.parts[len(a.parts)-1]
	last.item, last.always = item, always
	a.items++
}

// count counts a use of a variable.
func count(uses []int, slot int) []int {
	if missing := slot + 1 - len(uses); missing > 0 {
		uses = append(uses, make([]int, missing)...)
	}
	uses[slot]++
	return uses
}

// eachItem calls f for the items that are not left out.
func (a *Answer) eachItem(v *Values, f func(item *Answer)) {
	for i := range a.parts {
		if p := &a.parts[i]; p.item != nil && p.holds(v) {
			f(p.item)
		}
	}
}

// holds reports whether the item is not left out.
func (h *hole) holds(v *Values) bool { return h.always || h.item.filled(v) }

// filled reports whether one of the variables that the answer reads is not empty.
func (a *Answer) filled(v *Values) bool {
	for slot, uses := range a.uses {
		if uses > 0 && len(v.text[slot]) > 0 {
			return true
		}
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.item != nil && p.item.filled(v) {
			return true
		}
	}
	return false
}

// Template adds a template's text as the inside of a JSON string.
func (a *Answer) Template(t *Template) {
	a.text += t.fixed
	for i := range t.parts {
		a.Literal(string(t.parts[i].escaped))
		slot := t.parts[i].slot
		a.parts[len(a.parts)-1].slot = slot
		if slot >= 0 {
			a.uses = count(a.uses, slot)
		}
	}
}

// reads reports whether the answer reads a variable.
func (a *Answer) reads(slot int) bool {
	return slot < len(a.uses) && a.uses[slot] > 0 ||
		a.items > 0 && slices.ContainsFunc(a.parts, func(h hole) bool { return h.item != nil && h.item.reads(slot) })
}

// TextSize returns how many bytes all rendered templates have before they are escaped.
// Like Size, it renders nothing.
func (a *Answer) TextSize(v *Values) int {
	n := a.text
	for slot, uses := range a.uses {
		n += uses * len(v.text[slot])
	}
	if a.media != nil {
		for slot, uses := range a.media {
			n -= uses * len(v.text[slot])
		}
	}
	if a.items > 0 {
		a.eachItem(v, func(item *Answer) { n += item.TextSize(v) })
	}
	return n
}

// MediaSize returns how many bytes the addresses and data of variables have.
func (a *Answer) MediaSize(v *Values) int {
	n := 0
	for slot, uses := range a.media {
		n += uses * len(v.text[slot])
	}
	a.eachItem(v, func(item *Answer) { n += item.MediaSize(v) })
	return n
}

// Size returns how many bytes Append appends; with items and media, at most so many. It
// renders nothing, so a template that repeats a variable a thousand times costs no more
// than one that has it once.
func (a *Answer) Size(v *Values) int {
	n := a.fixed
	for slot, uses := range a.uses {
		if uses > 0 {
			n += uses * v.escapedLen(slot)
		}
	}
	if a.items > 0 {
		a.eachItem(v, func(item *Answer) { n += len(",") + item.Size(v) })
	}
	return n
}

// Append appends the answer. The values must be bound to the variables that the
// templates were compiled with.
func (a *Answer) Append(dst []byte, v *Values) []byte {
	for i := range a.parts {
		p := &a.parts[i]
		dst = append(dst, p.json...)
		switch {
		case p.slot >= 0 && p.render == nil:
			dst = jsontext.AppendEscaped(dst, v.text[p.slot])
		case p.slot >= 0:
			dst = p.render(dst, v.text[p.slot])
		case p.item != nil && p.holds(v):
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = p.item.Append(dst, v)
		}
	}
	return dst
}
