// Package redact takes secrets out of text before it is stored: keys of this
// gateway and of providers, tokens, private keys, passwords in URLs and, where
// configured, data that identifies people.
//
// It finds the gateway's own secrets by their values, and others by shapes and by
// labels. So it misses secrets that look like any other word: a short password, or
// a key without a prefix and without a name before it. It is a net under careful
// callers, not a reason to log secrets.
//
// Each finding becomes "[redacted:<name>]". JSON text stays JSON text: no finding
// crosses the end of a string or begins within an escape.
package redact

import (
	"cmp"
	"slices"
	"unsafe"
)

// Detectors are the optional detectors. The detectors of secrets are always on.
type Detectors uint8

// The optional detectors.
const (
	// Email finds e-mail addresses of ASCII letters, with a dotted domain.
	Email Detectors = 1 << iota
	// Card finds numbers of payment cards: with a known prefix, a length that the
	// prefix allows, a right check digit, and digits without separators or in the
	// groups that are printed on cards.
	Card
)

// names are the detectors' names in a configuration.
var names = []struct {
	name     string
	detector Detectors
}{{"card", Card}, {"email", Email}}

// Names returns the names of the optional detectors, sorted.
func Names() []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.name
	}
	return list
}

// ParseDetector returns the optional detector with the name.
func ParseDetector(name string) (Detectors, bool) {
	for _, n := range names {
		if n.name == name {
			return n.detector, true
		}
	}
	return 0, false
}

// Redactor takes secrets out of text. It is safe for concurrent use where its isKey
// is.
type Redactor struct {
	detectors Detectors
	isKey     func(token []byte) bool
	values    func() *Values
}

// New returns a redactor. values, which may be nil, returns the known secrets. isKey,
// which may be nil, reports whether a token is one of the gateway's own API keys.
// It is called with tokens of 16 to 512 of the characters A-Z, a-z, 0-9 and
// -_.~+/=, and must not keep or change them.
func New(detectors Detectors, isKey func(token []byte) bool, values func() *Values) *Redactor {
	if values == nil {
		values = func() *Values { return nil }
	}
	return &Redactor{detectors, isKey, values}
}

// Text redacts plain text. It returns the text, or a copy where findings were
// replaced, and how many. Without findings it does not allocate. It never changes
// text, which the answer to the caller may share.
func (r *Redactor) Text(text []byte) ([]byte, int) { return r.redact(finder{r: r, text: text}) }

// JSON redacts JSON text as Text does. Valid JSON stays valid: a number that is
// a finding becomes a string.
func (r *Redactor) JSON(text []byte) ([]byte, int) {
	return r.redact(finder{r: r, text: text, isJSON: true})
}

// Inputs redacts the inputs of a decision as JSON does. It passes over the hashes that
// stand for values, {"hash":"…"}: they are made with a secret key, so none of them
// is an API key, and no other finding has 16 characters without a label. A caller
// can't write one, because no value of an input is an object.
func (r *Redactor) Inputs(text []byte) ([]byte, int) {
	return r.redact(finder{r: r, text: text, isJSON: true, hasHashes: true})
}

// String redacts plain text.
func (r *Redactor) String(text string) string {
	// Text does not change its argument, so the string is not copied.
	redacted, n := r.Text(unsafe.Slice(unsafe.StringData(text), len(text)))
	if n == 0 {
		return text
	}
	return string(redacted)
}

// maxRounds bounds how often a text is searched. The text next to a finding may
// become a finding once the first is replaced ("a@b.co" after a key), so a text with
// findings is searched until there are none, mostly twice.
const maxRounds = 8

// redact searches the text of a new finder.
func (r *Redactor) redact(begin finder) ([]byte, int) {
	text, total := begin.text, 0
	if len(text) == 0 {
		return text, 0
	}
	for range maxRounds {
		f := begin
		f.text = text
		f.find()
		if len(f.spans) == 0 {
			break
		}
		var n int
		text, n = f.replace()
		total += n
	}
	return text, total
}

// span is a finding.
type span struct {
	start, end int
	name       string
}

// finder searches one text.
type finder struct {
	r      *Redactor
	text   []byte
	isJSON bool
	spans  []span // in the order they were found

	hasHashes bool // of values, as [Redactor.Inputs] describes them

	accessKeyAt, secretKeyAt int // offset of the last of each of AWS's, plus one
}

func (f *finder) add(start, end int, name string) {
	f.spans = append(f.spans, span{start, end, name})
}

// find fills the findings. Every detector reads the text once. It looks back and ahead
// by a bounded number of bytes, or over bytes that none of its other steps reads,
// so the time is linear.
func (f *finder) find() {
	f.findTokens()
	f.findPrivateKeys()
	f.findAuthorization()
	f.findAddresses()
	if f.r.detectors&Card != 0 {
		f.findCards()
	}
	f.findValues(f.r.values())
}

// replace returns a copy of the text with the findings replaced. Findings that
// overlap become one, named like the first.
func (f *finder) replace() ([]byte, int) {
	slices.SortStableFunc(f.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	dst := make([]byte, 0, len(f.text)+32)
	done, n := 0, 0
	var where place
	for i := 0; i < len(f.spans); {
		s := f.spans[i]
		bare := f.isJSON && where.outside(f.text, s.start)
		if bare {
			s.start, s.end = literal(f.text, done, s)
		}
		for i++; i < len(f.spans) && f.spans[i].start < s.end; i++ {
			s.end = max(s.end, f.spans[i].end)
		}
		dst = append(dst, f.text[done:s.start]...)
		if bare {
			dst = append(dst, '"')
		}
		dst = append(dst, "[redacted:"...)
		dst = append(dst, s.name...)
		dst = append(dst, ']')
		if bare {
			dst = append(dst, '"')
		}
		done = s.end
		n++
	}
	return append(dst, f.text[done:]...), n
}

// place is a place in JSON text.
type place struct {
	at       int
	inString bool
}

// outside moves ahead to i and reports whether that is outside of strings.
func (p *place) outside(text []byte, i int) bool {
	for ; p.at < i; p.at++ {
		switch {
		case text[p.at] == '"':
			p.inString = !p.inString
		case p.inString && text[p.at] == '\\':
			p.at++
		}
	}
	return !p.inString
}

// literal returns the whole number that a finding is part of.
func literal(text []byte, from int, s span) (start, end int) {
	start, end = s.start, s.end
	for start > from && keyChar[text[start-1]] {
		start--
	}
	for end < len(text) && keyChar[text[end]] {
		end++
	}
	return start, end
}
