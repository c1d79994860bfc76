package openai

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// MediaURL reads the address of an image or a file: a URL with the scheme https or
// http, or a data: URI, which is split into its type and its data.
func MediaURL(param, url string) (providers.Media, *wire.Error) {
	return mediaURL(&path{name: param}, url)
}

func mediaURL(at *path, url string) (providers.Media, *wire.Error) {
	switch {
	case hasPrefixFold(url, "data:"):
		return dataURI(at, url)
	case hasPrefixFold(url, "https://") && len(url) > len("https://"), hasPrefixFold(url, "http://") && len(url) > len("http://"):
		for i := range len(url) {
			if url[i] <= ' ' || url[i] == 0x7f {
				return providers.Media{}, at.errorf("is not a URL: it has a space or a control character at byte %d.", i)
			}
		}
		return providers.Media{URL: url}, nil
	}
	return providers.Media{}, at.errorf("must be a URL that begins with https:// or http://, or a data: URI such as data:image/png;base64,iVBORw0….")
}

// dataURI splits data:TYPE[;PARAMETERS];base64,DATA.
func dataURI(at *path, uri string) (providers.Media, *wire.Error) {
	// The head is short: data may have megabytes.
	head, _, ok := strings.Cut(uri[:min(len(uri), headSize)], ",")
	if !ok {
		return providers.Media{}, at.errorf("is a data: URI without a comma in its first %d bytes. Send data:TYPE;base64,DATA.", headSize)
	}
	data := uri[len(head)+1:]
	kind, _, _ := strings.Cut(head[len("data:"):], ";")
	if !strings.HasSuffix(head, ";base64") {
		return providers.Media{}, at.errorf("is a data: URI without ;base64. Send data:TYPE;base64,DATA.")
	}
	if !mediaType(kind) {
		return providers.Media{}, at.errorf("is a data: URI without a media type such as image/png. Send data:TYPE;base64,DATA.")
	}
	if err := base64(at, data); err != nil {
		return providers.Media{}, err
	}
	return providers.Media{Type: kind, Data: data}, nil
}

// headSize is how many bytes of a data: URI come before its comma.
const headSize = 256

// Base64 checks inline data without decoding it: base64 (RFC 4648, section 4) with
// padding, without line ends.
func Base64(param, data string) *wire.Error { return base64(&path{name: param}, data) }

func base64(at *path, data string) *wire.Error {
	if data == "" {
		return at.errorf("has no data.")
	}
	body := data
	for range 2 {
		body = strings.TrimSuffix(body, "=")
	}
	for i := range len(body) {
		if !base64Letter[body[i]] {
			return at.errorf("is not base64: byte %d of the data is none of A-Z a-z 0-9 + /.", i)
		}
	}
	if len(data)%4 != 0 {
		return at.errorf("is not base64: its data has %d characters, not a multiple of 4. Send it with its padding.", len(data))
	}
	return nil
}

var base64Letter = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = true
	}
	return t
}()

// mediaType reports whether s has the form TYPE/SUBTYPE of RFC 6838.
func mediaType(s string) bool {
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
