package redact

import (
	"bytes"
)

const (
	minToken = 16
	maxToken = 512
	// maxRun bounds the length of a run of key characters whose parts are given to
	// isKey. A longer run is data, and each of its parts would be hashed.
	maxRun = 4 * maxToken
)

// findTokens finds tokens in runs of at least minToken key characters. It checks the
// last characters of each place where a run could be, and skips past a character
// that is none, so it crosses ordinary text a word or two at a time.
func (f *finder) findTokens() {
	text := f.text
	for start := 0; start+minToken <= len(text); {
		window := text[start : start+minToken]
		i := minToken - 1
		for i >= 0 && keyChar[window[i]] {
			i--
		}
		if i >= 0 {
			start += i + 1
			continue
		}
		end := start + minToken
		for end < len(text) && keyChar[text[end]] {
			end++
		}
		if !f.isHash(start, end) {
			f.run(start, end)
		}
		start = end + 1
	}
}

// isHash reports whether a run of key characters is the hash of an input.
func (f *finder) isHash(start, end int) bool {
	const before, length, after = `:{"hash":"`, 16, `"}`
	return f.hasHashes && end-start == length && start >= len(before) && string(f.text[start-len(before):start]) == before &&
		bytes.HasPrefix(f.text[end:], []byte(after))
}

// run searches a run of key characters, which is as long as it can be.
func (f *finder) run(start, end int) {
	other := start // where a token may begin as well
	if start > 0 {
		switch f.text[start-1] {
		case '\\':
			n := escapeLength(f.text[start:end])
			if backslashes(f.text, start)%2 == 1 {
				start += n
				other = start
			} else {
				other = start + n // an escape of JSON within a JSON string
			}
		case '%':
			if stretch(f.text[start:min(start+2, end)], hex) == 2 {
				other = start + 2
			}
		}
	}
	if f.wholeKey(start, end) || other != start && f.wholeKey(other, end) {
		return
	}
	found := len(f.spans)
	f.words(start, end)
	if other != start && found == len(f.spans) {
		f.words(other, end)
	}
	f.values(other, end)
}

// own reports whether a token is one of the gateway's keys.
func (f *finder) own(start, end int) bool {
	n := end - start
	return f.r.isKey != nil && n >= minToken && n <= maxToken && f.r.isKey(f.text[start:end])
}

// wholeKey takes a run that is one of the gateway's keys, also where full stops follow
// the key, which may end a sentence.
func (f *finder) wholeKey(start, end int) bool {
	bare := start + len(bytes.TrimRight(f.text[start:end], "."))
	if !f.own(start, end) && (bare == end || !f.own(start, bare)) {
		return false
	}
	f.add(start, end, "api_key")
	return true
}

// words searches the parts of a run that are separated by one of ".~+/=".
func (f *finder) words(start, end int) {
	whole := true
	for i := start; i < end; {
		if !wordChar[f.text[i]] {
			i++
			whole = false
			continue
		}
		next := i + stretch(f.text[i:end], wordChar)
		whole = whole && next == end // isKey was called with it already
		// Without a hyphen or an underscore before it, such as markup.
		word := i
		for word < next && !alnum[f.text[word]] {
			word++
		}
		stop, name := f.shaped(word, next, end)
		if stop == 0 && !whole && end-start <= maxRun && f.own(word, next) {
			stop, name = next, "api_key"
		}
		if stop > 0 {
			f.add(word, stop, name)
			next = stop
		}
		i = next
	}
}

// nearby is how far apart the two parts of AWS credentials may be.
const nearby = 256

// values takes a value that is after a label or a scheme: the run, or its part after
// an equals sign.
func (f *finder) values(start, end int) {
	for start < end {
		next := start
		for next < end && f.text[next] != '=' {
			next++
		}
		stop := next
		for next < end && f.text[next] == '=' {
			next++ // padding, or the separator of a name and its value
		}
		if next == end {
			stop = end
		}
		for stop > start && f.text[stop-1] == '.' {
			stop--
		}
		f.value(start, stop)
		start = next
	}
}

func (f *finder) value(start, end int) {
	if end-start < minToken {
		return
	}
	value := f.text[start:end]
	switch {
	case end-start <= maxToken && start > 0 && f.text[start-1] == '=' && f.own(start, end):
		f.add(start, end, "api_key")
	case f.behindScheme(start, "bearer") && random(value), f.behindScheme(start, "basic") && isBasic(value):
		f.add(start, end, "credentials")
	case end < len(f.text) && (f.text[end] == '(' || f.text[end] == '{'):
		// A name in a program: token := newToken(…
	case f.labelled(start) && random(value):
		f.add(start, end, "secret")
	case isSecretAccessKey(value):
		if f.accessKeyAt > 0 && start-f.accessKeyAt < nearby {
			f.add(start, end, "secret")
		}
		f.secretKeyAt = start + 1
	}
}

// isSecretAccessKey reports whether a token has the form of the secret part of AWS
// credentials, which many other texts have, too.
func isSecretAccessKey(token []byte) bool {
	if len(token) != 40 || stretch(token, base64Char) != 40 || bytes.IndexByte(token, '=') >= 0 {
		return false
	}
	return bytes.ContainsFunc(token, func(r rune) bool { return upper[byte(r)] }) &&
		bytes.ContainsFunc(token, func(r rune) bool { return lower[byte(r)] }) &&
		bytes.ContainsFunc(token, func(r rune) bool { return digit[byte(r)] })
}
