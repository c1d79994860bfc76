package prompt

import "github.com/cadenza-gateway/cadenza/jsontext"

// Answer is JSON text with holes for rendered templates, compiled once so that
// an answer is a few copies. Build it with Literal and Template; after that it
// is immutable and safe for concurrent use.
type Answer struct {
	parts []hole
}

// hole is literal JSON and then, unless slot is negative, an escaped variable.
type hole struct {
	json string
	slot int
}

// Literal adds JSON text as it is.
func (a *Answer) Literal(json string) {
	if n := len(a.parts); n > 0 && a.parts[n-1].slot < 0 {
		a.parts[n-1].json += json
		return
	}
	a.parts = append(a.parts, hole{json, -1})
}

// Template adds a template's text as the inside of a JSON string.
func (a *Answer) Template(t *Template) {
	for i := range t.parts {
		a.Literal(t.parts[i].escaped)
		a.parts[len(a.parts)-1].slot = t.parts[i].slot
	}
}

// Append appends the answer. The values must be bound to the variables the
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
