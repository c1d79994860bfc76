package providers

import (
	"cmp"
	"fmt"
	"strings"
)

// IsMedia reports whether the part is an image, a sound or a file.
func (p *Part) IsMedia() bool {
	return p.Kind == PartImage || p.Kind == PartAudio || p.Kind == PartFile
}

// Describe returns the kind, the name and the type of an image, a sound or a file, and its
// URL or its size: image image/png, 1234 bytes.
func (p *Part) Describe() string {
	m := &p.Media
	text := p.Kind.String()
	for _, word := range [...]string{m.Name, m.Type} {
		if word != "" {
			text += " " + word
		}
	}
	if m.URL != "" {
		return text + " at " + m.URL
	}
	padding := len(m.Data) - len(strings.TrimRight(m.Data, "="))
	return fmt.Sprintf("%s, %d bytes", text, len(m.Data)/4*3-padding)
}

// Attached returns the text in a tool's result in place of media that follow the results.
func (p *Part) Attached() Text { return Escape("[" + p.Describe() + ": it follows the results]") }

// Unshown returns the text in place of media of a tool's result that a provider takes
// nowhere. To refuse them would end the conversation, because its history keeps them. The
// message is named in Result.LeftOut, see LeftOutMedia.
func (p *Part) Unshown() Text {
	return Escape("[" + p.Describe() + ": it can't be shown to the model]")
}

// Attachment returns the text before the media of a result that follow the results.
func (r *ToolResult) Attachment() Text {
	return Escape("From the result of " + cmp.Or(r.Name, "a tool") + ":")
}

// ParseMedia reads the address of an image, a sound or a file: a URL with the scheme
// https or http, or a data: URI, which is split into its type and its data. It neither
// decodes nor copies the data. problem describes the mistake, as the end of a
// sentence; "": nothing.
func ParseMedia(address string) (m Media, problem string) {
	switch {
	case hasPrefixFold(address, "data:"):
		return parseDataURI(address)
	case hasPrefixFold(address, "https://") && len(address) > len("https://"), hasPrefixFold(address, "http://") && len(address) > len("http://"):
		for i := range len(address) {
			if address[i] <= ' ' || address[i] == 0x7f {
				return Media{}, fmt.Sprintf("is not a URL: it has a space or a control character at byte %d", i)
			}
		}
		return Media{URL: address}, ""
	}
	return Media{}, "must be a URL that begins with https:// or http://, or a data: URI such as data:image/png;base64,iVBORw0…"
}

// maxDataHead is how many bytes of a data: URI come before its comma.
const maxDataHead = 256

// parseDataURI splits data:TYPE[;PARAMETERS];base64,DATA.
func parseDataURI(uri string) (Media, string) {
	// The head is short: data may have megabytes.
	head, _, ok := strings.Cut(uri[:min(len(uri), maxDataHead)], ",")
	if !ok {
		return Media{}, fmt.Sprintf("is a data: URI without a comma in its first %d bytes. Send data:TYPE;base64,DATA", maxDataHead)
	}
	kind, _, _ := strings.Cut(head[len("data:"):], ";")
	if !strings.HasSuffix(head, ";base64") {
		return Media{}, "is a data: URI without ;base64. Send data:TYPE;base64,DATA"
	}
	if !ValidMediaType(kind) {
		return Media{}, "is a data: URI without a media type such as image/png. Send data:TYPE;base64,DATA"
	}
	data := uri[len(head)+1:]
	if problem := CheckBase64(data); problem != "" {
		return Media{}, problem
	}
	return Media{Type: kind, Data: data}, ""
}

// CheckBase64 checks inline data without decoding it: base64 (RFC 4648, section 4) with
// padding, without line ends. problem is as in ParseMedia.
func CheckBase64(data string) (problem string) {
	if data == "" {
		return "has no data"
	}
	body := strings.TrimSuffix(strings.TrimSuffix(data, "="), "=")
	for i := range len(body) {
		if !base64Letter[body[i]] {
			return fmt.Sprintf("is not base64: byte %d of the data is none of A-Z a-z 0-9 + /", i)
		}
	}
	if len(data)%4 != 0 {
		return fmt.Sprintf("is not base64: its data has %d characters, not a multiple of 4. Send it with its padding", len(data))
	}
	return ""
}

var base64Letter = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = true
	}
	return t
}()

// ValidMediaType reports whether s has the form TYPE/SUBTYPE of RFC 6838.
func ValidMediaType(s string) bool {
	kind, sub, ok := strings.Cut(s, "/")
	if !ok || kind == "" || sub == "" {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$&-^_.+", c) >= 0, i == len(kind):
		default:
			return false
		}
	}
	return true
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
