package redact

import "bytes"

const (
	// minKeyLine is the least length of a line of a private key, except the last.
	// Prose about keys has no words that long.
	minKeyLine = 20
	maxPEMType = 64 // characters of "RSA PRIVATE KEY" and the like
)

var (
	pemBegin = []byte("-----BEGIN ")
	pemEnd   = []byte("-----END ")
	dashes   = []byte("-----")
)

// findPrivateKeys finds PEM blocks of private keys, whole or cut off at their
// end, with line breaks of any kind: real, escaped, or none.
func (f *finder) findPrivateKeys() {
	for i := 0; ; {
		n := bytes.Index(f.text[i:], pemBegin)
		if n < 0 {
			return
		}
		start := i + n
		i = start + len(pemBegin)
		label := f.text[i:min(i+maxPEMType, len(f.text))]
		label, _, ok := bytes.Cut(label, dashes)
		if !ok || !bytes.Contains(label, []byte("PRIVATE KEY")) || bytes.IndexByte(label, '"') >= 0 || bytes.IndexByte(label, '\\') >= 0 {
			continue
		}
		body := i + len(label) + len(dashes)
		if end := f.privateKey(body, label); end > 0 {
			f.add(start, end, "private_key")
			i = end
		} else {
			i = body
		}
	}
}

// privateKey returns the end of the private key with the body at start, or 0 if
// there is none.
func (f *finder) privateKey(start int, label []byte) int {
	text := f.text
	lines := 0
	last := 0 // end of the last line that certainly belongs to the key
	for i := start; i < len(text); {
		switch {
		case base64Char[text[i]]:
			n := stretch(text[i:], base64Char)
			// A short line is the key's last, or a part of it, if no prose
			// follows.
			if n >= minKeyLine || last > 0 && breaks(text[last:i]) && (i+n == len(text) || text[i+n] == '\\' || text[i+n] == '\n' || text[i+n] == '\r' || text[i+n] == '"') {
				if n >= minKeyLine {
					lines++
				}
				last = i + n
			}
			i += n
		case text[i] == '\\':
			i = min(i+1+escapeLength(text[i+1:]), len(text))
		case text[i] == '"':
			return last
		case bytes.HasPrefix(text[i:], dashes):
			if lines == 0 || !bytes.HasPrefix(text[i:], pemEnd) {
				return last
			}
			end := i + len(pemEnd)
			if !bytes.HasPrefix(text[end:], label) {
				return last
			}
			if end += len(label); bytes.HasPrefix(text[end:], dashes) {
				end += len(dashes)
			}
			return end
		default:
			i++
		}
	}
	return last
}

// breaks reports whether the text between two lines is one line break.
func breaks(gap []byte) bool {
	switch string(gap) {
	case "\n", "\r\n", `\n`, `\r\n`, `\\n`, `\\r\\n`:
		return true
	}
	return false
}
