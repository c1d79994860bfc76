package openai

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// MediaURL reads the address of an image or a file: a URL with the scheme https or
// http, or a data: URI, which is split into its type and its data.
func MediaURL(at *Path, url string) (providers.Media, *wire.Error) {
	m, problem := providers.ParseMedia(url)
	if problem != "" {
		return m, at.Wrong("%s.", problem)
	}
	return m, nil
}

// Base64 checks inline data without decoding it: base64 (RFC 4648, section 4) with
// padding, without line ends.
func Base64(at *Path, data string) *wire.Error {
	if problem := providers.CheckBase64(data); problem != "" {
		return at.Wrong("%s.", problem)
	}
	return nil
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
